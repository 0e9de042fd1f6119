"""What Spark's Java is told for a run, by what it has to do for it."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from kstoolkit.events.sources import is_plain
from kstoolkit.events.topics import Topic

if TYPE_CHECKING:
    from kstoolkit.events.sources import Files


_QUICK_JAVA = "-XX:TieredStopAtLevel=1"
"""Where files are read in Python, Java handles parcels of bytes only: its optimising compiler would
cost more than it saves, a third of the CPU of a run of some minutes."""

_QUICK_COLLECTOR = "-XX:+UseSerialGC"
"""Parcels are large and short-lived. Java's usual collector takes each of them for a reason to mark
all there is, beside the work: up to a tenth of the CPU of a run."""

_COLLECTOR = re.compile(r"-XX:\+Use\w*GC\b")
_JAVA_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")


def java_options(source: Files | Topic) -> list[str]:
    """Return what Java is told when it is started for a run."""
    if isinstance(source, Topic):
        return _collector()
    return [_QUICK_JAVA, *_collector()] if is_plain(source.columns) else []


def _collector() -> list[str]:
    given = " ".join(os.environ.get(name, "") for name in _JAVA_VARIABLES)
    # Java does not start if it is told two collectors.
    return [] if _COLLECTOR.search(given) else [_QUICK_COLLECTOR]
