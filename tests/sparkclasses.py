"""Spark's classes as they lie in Java's memory, written once and mapped by each Spark of the tests.

Loading them is the most that a short run costs; mapped, a run takes a third less CPU time::

    python -m tests.sparkclasses

``make test`` does this before the first tests, and ``tests/conftest.py`` has them use what is
there. Java maps the classes only of the paths that it wrote them from, so that Spark needs a home
that stays; what kstoolkit makes for each process, without Spark's zipped Python, is as this one.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

HOME = Path(sys.prefix) / "spark"
CLASSES = HOME / "classes.jsa"
RUN = ("run", "data/sample", "--event-time", "time", "--user", "user", "--action", "action")


def use() -> None:
    """Have each Spark that is started map the classes, if they were written."""
    if CLASSES.exists() and "SPARK_HOME" not in os.environ:
        os.environ["SPARK_HOME"] = str(HOME)
        os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:SharedArchiveFile={CLASSES}"


def make() -> None:
    """Count the sample, and write the classes that this took; a Java that can't writes none."""
    import pyspark

    from kstoolkit.pipeline.session import spark_session
    from tests.cli.commands import given

    HOME.mkdir(exist_ok=True)
    CLASSES.unlink(missing_ok=True)
    for name in ("bin", "jars"):
        (HOME / name).unlink(missing_ok=True)
        (HOME / name).symlink_to(Path(pyspark.__file__).parent / name, target_is_directory=True)
    os.environ["SPARK_HOME"] = str(HOME)
    writing = f"-XX:ArchiveClassesAtExit={CLASSES}"
    session = spark_session("local[2]", extra={"spark.driver.extraJavaOptions": writing})
    with TemporaryDirectory() as out:
        assert given(*RUN, "--out", f"{out}/run").code == 0
    session.stop()
    java: Any = pyspark.SparkContext._gateway
    java.shutdown()
    java.proc.communicate()  # which ends Java: then it writes


if __name__ == "__main__":
    make()
