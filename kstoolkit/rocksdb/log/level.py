"""How much a writer logs, and so what its log can't tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kstoolkit.rocksdb.log.header import LogFile


_ORDER = ("debug", "info", "warn", "error", "fatal", "header")
_SETTER = (
    "in Kafka Streams, a RocksDBConfigSetter with "
    "options.setInfoLogLevel(InfoLogLevel.INFO_LEVEL); changes that"
)
_SPARK = (
    "Spark hands on what the logger org.apache.spark.sql.execution.streaming.state takes: "
    "INFO for stalls, DEBUG for events"
)


def why_untold(needed: str, files: Sequence[LogFile], options_level: str | None) -> str | None:
    """Return why a log can't tell all that is logged at a level; None if it can.

    A line that is there proves the level; else the OPTIONS file beside the log says it.

    Parameters
    ----------
    needed
        ``"warn"`` for stalls, ``"info"`` for events.
    files
        The files of the log.
    options_level
        The level that the OPTIONS file says, if there is one.

    Examples
    --------
    >>> why_untold("warn", [], "error")[:33]
    'the writer logs at level ERROR, w'
    """
    silent = [file for file in files if not _reaches(file.level, needed)]
    if files and not silent:
        return None
    if len(silent) < len(files):
        names = ", ".join(file.path.rpartition("/")[2] for file in silent)
        return f"nothing in {names} shows that the writer's level was {needed.upper()} then"
    if any(file.forwarded for file in files):
        return f"no line of level {needed.upper()} was handed on; {_SPARK}"
    if options_level is None:
        return f"the log shows no line of level {needed.upper()}, nor its level; {_way(files)}"
    if _reaches(options_level, needed):
        return None
    return f"the writer logs at level {options_level.upper()}, which leaves them out; {_SETTER}"


def _reaches(level: str | None, needed: str) -> bool:
    return level in _ORDER and _ORDER.index(level) <= _ORDER.index(needed)


def _way(files: Sequence[LogFile]) -> str:
    told = any(file.rocksdb_version for file in files)
    return _SETTER if told or not any(file.size_bytes for file in files) else _SPARK
