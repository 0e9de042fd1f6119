"""Local workers start with what they need in memory: their daemon loads it, and they are forks.

Spark's own daemon loads none of it, so each worker would load pandas, Arrow and our operator for
itself, a second of CPU each, before it counts. Where workers are on this machine, Spark is told of
another by ``spark.python.daemon.module``, and runs it as its own, with what kind of workers it is
to have; what it does then is what Spark's does::

    python -m kstoolkit.pipeline.workers pyspark.worker
"""

from __future__ import annotations

import runpy
import sys
from importlib import import_module

LOADED = ("pandas", "kstoolkit.pipeline.feeds", "kstoolkit.pipeline.operator")


def main(kind: str) -> None:
    """Load what those need that count, if it is they; then fork them as Spark asks for them."""
    if kind == "pyspark.worker":  # others, for sources, live once and need less
        for name in LOADED:
            import_module(name)
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1])
