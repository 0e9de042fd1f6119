"""Where writes were delayed or stopped, and why, as the writer's log tells it.

The messages are those of ``ColumnFamilyData::RecalculateWriteStallConditions`` in RocksDB's
``db/column_family.cc``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kstoolkit.records import Record, Source, of_source
from kstoolkit.rocksdb.log.clock import NO_ZONE
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from datetime import datetime

    from kstoolkit.rocksdb.log.lines import LogLine


_ENDLESS = "RocksDB logs where a stall begins, not where it ends; stall_time() has their sum"
_NO_RATE = "a stopped write has no rate"
_NO_LIMIT = "the message doesn't tell it: see the store's options"
_CONDITION = {"Stopping": "stopped", "Stalling": "delayed"}
_CAUSES = (
    ("memtable limit", re.compile(r"we have ([0-9]{1,18}) immutable memtables")),
    ("L0 file count limit", re.compile(r"we have ([0-9]{1,18}) level-0 files")),
    (
        "pending compaction bytes",
        re.compile(r"of estimated pending compaction bytes ([0-9]{1,20})"),
    ),
)
_MESSAGE = re.compile(r"(Stopping|Stalling) writes because ")
_LIMIT = re.compile(r"max_write_buffer_number is set to ([0-9]{1,18})")
_RATE = re.compile(r" rate ([0-9]{1,20})")


@dataclass(frozen=True, slots=True, repr=False)
class Stall(Record):
    """The beginning of a stall.

    Parameters
    ----------
    at
        When (UTC).
    column_family
        Whose state was the cause; writes to all of the store's families wait.
    condition
        ``"delayed"`` or ``"stopped"``.
    cause
        ``"memtable limit"``, ``"L0 file count limit"`` or ``"pending compaction bytes"``; None if
        the message names another.
    amount
        How many memtables or level-0 files there were, or how many bytes were to be compacted.
    limit
        What ``max_write_buffer_number`` was, for memtables.
    rate_bytes
        What writers were slowed down to, in bytes a second.
    duration_ms
        How long it lasted: the log doesn't tell.
    written
        The local time of the line, as it was written.
    store
        Which of Spark's stores, in a log of Spark's that says it.
    unknown
        Why a figure is unknown, by its name.
    """

    at: datetime | None = of_source(Source.LOG)
    column_family: str | None = of_source(Source.LOG)
    condition: str | None = of_source(Source.LOG)
    cause: str | None = of_source(Source.LOG)
    amount: int | None = of_source(Source.LOG)
    limit: int | None = of_source(Source.LOG)
    rate_bytes: int | None = of_source(Source.LOG)
    duration_ms: float | None = of_source(Source.LOG)
    written: datetime | None = of_source(Source.LOG)
    store: str | None = None
    unknown: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of_line(cls, line: LogLine, at: datetime | None) -> Stall | None:
        """Return the stall that a line tells of; None if it tells of none.

        Examples
        --------
        >>> from kstoolkit.rocksdb.log.lines import LogLine
        >>> line = LogLine("Stalling writes because we have 3 level-0 files rate 16777216")
        >>> stall = Stall.of_line(line, None)
        >>> stall.condition, stall.cause, stall.amount, stall.rate_bytes
        ('delayed', 'L0 file count limit', 3, 16777216)
        """
        message = None if line.continued else _MESSAGE.match(line.text)
        if message is None:
            return None
        cause, amount = _cause(line.text)
        limit, rate = _LIMIT.search(line.text), _RATE.search(line.text)
        values = {
            "at": at,
            "column_family": line.column_family,
            "condition": _CONDITION[message[1]],
            "cause": cause,
            "amount": amount,
            "limit": int(limit[1]) if limit else None,
            "rate_bytes": int(rate[1]) if rate else None,
            "duration_ms": None,
            "written": line.written,
        }
        whys = _whys(stopped=values["condition"] == "stopped")
        unknown = {name: whys[name] for name, value in values.items() if value is None}
        return cls(**values, store=line.store, unknown=unknown)  # type: ignore[arg-type] # by name

    @property
    def kind(self) -> str:
        """What it is, in a word."""
        return "stall"

    @property
    def sentence(self) -> str:
        """What happened, for people."""
        in_bytes = self.cause == "pending compaction bytes"
        amount = format_bytes(self.amount) if in_bytes else format_count(self.amount)
        limit = "" if self.limit is None else f" of {self.limit}"
        rate = "" if self.rate_bytes is None else f", to {format_bytes(self.rate_bytes)}/s"
        return f"writes {self.condition}: {self.cause or 'another cause'}, {amount}{limit}{rate}"

    def __repr__(self) -> str:
        when = "at an unknown time" if self.at is None else f"{self.at:%F %T} UTC"
        return f"Stall({when}, {self.column_family!r}: {self.sentence})"


def _cause(text: str) -> tuple[str | None, int | None]:
    for cause, pattern in _CAUSES:
        match = pattern.search(text)
        if match:
            return cause, int(match[1])
    return None, None


def _whys(*, stopped: bool) -> dict[str, str]:
    other = "the message names a cause that is not known here"
    return {
        "at": NO_ZONE,
        "column_family": "the line doesn't name it",
        "cause": other,
        "amount": other,
        "limit": _NO_LIMIT,
        "rate_bytes": _NO_RATE if stopped else "the message doesn't tell it",
        "duration_ms": _ENDLESS,
        "written": "the line has no time",
    }
