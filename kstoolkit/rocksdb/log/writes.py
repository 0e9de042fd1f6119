"""How often a byte that was flushed has been written in all, over a span of a log."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from kstoolkit.errors import ConfigurationError
from kstoolkit.records import Record, Source, of_source
from kstoolkit.rocksdb.log.compactions import Compaction
from kstoolkit.rocksdb.log.flushes import Flush
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime


_NO_FLUSH = "no flush ended in the span"


@dataclass(frozen=True, slots=True, repr=False)
class WriteAmplification(Record):
    """What flushes and compactions wrote; those that were not finished are left out.

    Parameters
    ----------
    since, until
        When the first and the last of them ended, moves among them (UTC).
    num_flushes, flushed_bytes
        The flushes, and the SST files they wrote.
    num_compactions, compacted_bytes
        The compactions, and the SST files they wrote; trivial moves write nothing.
    write_amplification
        (flushed + compacted) / flushed, so 1 at the least. A span that is short against the time
        between large compactions says little.
    unknown
        Why a figure is unknown, by its name.
    """

    since: datetime | None = of_source(Source.LOG)
    until: datetime | None = of_source(Source.LOG)
    num_flushes: int | None = of_source(Source.LOG)
    flushed_bytes: int | None = of_source(Source.LOG)
    num_compactions: int | None = of_source(Source.LOG)
    compacted_bytes: int | None = of_source(Source.LOG)
    write_amplification: float | None = of_source(Source.LOG)
    unknown: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        if self.write_amplification is None:
            return f"WriteAmplification(unknown: {self.unknown['write_amplification']})"
        return (
            f"WriteAmplification({self.write_amplification:.2f}: "
            f"{format_bytes(self.flushed_bytes)} flushed, "
            f"{format_bytes(self.compacted_bytes)} written by compactions)"
        )


def write_amplification(
    done: Iterable[Flush | Compaction],
    untold: str | None = None,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
) -> WriteAmplification:
    """Return the write amplification of what ended in a span.

    Parameters
    ----------
    done
        Flushes and compactions.
    untold
        Why the log can't tell of any; then every figure is unknown.
    since, until
        Aware times; ``until`` is outside. None: no bound.

    Raises
    ------
    ConfigurationError
        If a time has no zone.

    Examples
    --------
    >>> write_amplification([]).unknown["write_amplification"]
    'no flush ended in the span'
    """
    _check_aware(since, until)
    figures = [each.name for each in fields(WriteAmplification) if each.name != "unknown"]
    if untold:
        nothing = dict.fromkeys(figures)
        return WriteAmplification(**nothing, unknown=dict.fromkeys(figures, untold))
    ended = [each for each in done if _ended_within(each, since, until)]
    flushes = [each for each in ended if isinstance(each, Flush)]
    merges = [each for each in ended if isinstance(each, Compaction) and not each.moved]
    flushed = sum(each.output_bytes or 0 for each in flushes)
    compacted = sum(each.output_bytes or 0 for each in merges)
    times = [each.finished_at for each in ended if each.finished_at]
    amplification = (flushed + compacted) / flushed if flushed else None
    first, last = min(times, default=None), max(times, default=None)
    values = (first, last, len(flushes), flushed, len(merges), compacted, amplification)
    unknown = {
        name: _NO_FLUSH for name, value in zip(figures, values, strict=True) if value is None
    }
    return WriteAmplification(*values, unknown=unknown)


def _check_aware(*times: datetime | None) -> None:
    for time in times:
        if time is not None and time.tzinfo is None:
            message = f"The time {time.isoformat()} has no zone."
            raise ConfigurationError(message, hint="Add tzinfo=datetime.UTC.")


def _ended_within(job: Flush | Compaction, since: datetime | None, until: datetime | None) -> bool:
    ended = job.finished_at
    if ended is None:
        return False
    return (since is None or ended >= since) and (until is None or ended < until)
