"""The Java of the tests, which are many and short: it starts soon, and compiles little.

Loading classes is the most that a short run of Spark costs, and half of a broker's start. As they
lie in Java's memory they are written once, and mapped by each Spark and broker of the tests: a run
takes a third less CPU time. This is done by ``make test``, before the first tests;
``tests/conftest.py`` has them used if they are there::

    python -m tests.quickjava

Java maps classes only of the paths that it wrote them from, and says nothing of other paths. So
Spark needs a home that stays; what kstoolkit makes for each process, without Spark's zipped Python,
is as this one.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

HOME = Path(sys.prefix) / "spark"
CLASSES = HOME / "classes.jsa"
BROKER_CLASSES = HOME / "broker.jsa"
RUN = ("run", "data/sample", "--event-time", "time", "--user", "user", "--action", "action")
OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:MaxNewSize=128m"
"""No Java of a test lives to see its code made faster: two thirds of the CPU time of a session.

What is compiled has the room that it would have otherwise, or Java goes on sweeping it out. Room
for what is new is small: a Java that lives for many tests takes memory again in place of four GiB
of fresh one, which the system has to clear.
"""


def use() -> None:
    """Have each Java start so, and each Spark map the classes, if they were written."""
    os.environ.setdefault("JDK_JAVA_OPTIONS", _mapping(BROKER_CLASSES))
    if CLASSES.exists() and "SPARK_HOME" not in os.environ:
        os.environ["SPARK_HOME"] = str(HOME)
        os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:SharedArchiveFile={CLASSES}"


def of_spark() -> str:
    """Return the options for processes of Spark's that no session of ours starts."""
    return _mapping(CLASSES)


def _mapping(classes: Path) -> str:
    mapped = f' -Xlog:cds=off -Xlog:cds+dynamic=off -XX:SharedArchiveFile="{classes}"'
    return OPTIONS + mapped * classes.exists()


def make_for_brokers() -> None:
    """Start a broker, and write the classes that this took; a Java that can't writes none."""
    from kstoolkit.kafka.broker import Broker

    HOME.mkdir(exist_ok=True)
    BROKER_CLASSES.unlink(missing_ok=True)
    os.environ["JDK_JAVA_OPTIONS"] = f"{OPTIONS} -XX:ArchiveClassesAtExit={BROKER_CLASSES}"
    with TemporaryDirectory() as folder:
        Broker(folder).start().stop()


def make_for_spark() -> None:
    """Count the sample, and write the classes that this took; a Java that can't writes none."""
    import pyspark

    from kstoolkit.pipeline.session import spark_session
    from tests.cli.commands import given

    os.environ["JDK_JAVA_OPTIONS"] = OPTIONS
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
    make_for_brokers()
    make_for_spark()
