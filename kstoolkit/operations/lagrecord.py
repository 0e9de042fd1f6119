"""How far a reader of topics is behind, as records."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

from kstoolkit.records import Viewed, counted
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd


HEADER = (
    *("topic", "partition", "position", "end", "lag", "lag in time"),
    *("read a second", "arriving a second", "caught up in"),
)
_LENGTHS = (("days", 86_400), ("hours", 3_600), ("minutes", 60))


@dataclass(frozen=True, slots=True, kw_only=True)
class LagOfPartition:
    """How far a reader is behind the end of one partition.

    Parameters
    ----------
    topic, partition
        Which.
    end_offset
        The offset that the next record to arrive gets.
    position
        The offset of the next record to be read, as far as is committed.
    lag_records
        Records still to be read. Offsets that compaction or transactions left empty count too.
    gone_records
        Records that were removed before they were read.
    lag_seconds
        How much older the next record to be read is than the newest, by the records' timestamps.
    read_per_second, arriving_per_second
        The measured rates.
    catch_up_seconds
        How long it takes at these rates until nothing waits; ``None`` too if that is never.
    unknown
        Why a figure is ``None``, by its name.
    """

    topic: str
    partition: int
    end_offset: int | None = None
    position: int | None = None
    lag_records: int | None = None
    gone_records: int = 0
    lag_seconds: float | None = None
    read_per_second: float | None = None
    arriving_per_second: float | None = None
    catch_up_seconds: float | None = None
    unknown: dict[str, str] = field(default_factory=dict)

    def cells(self) -> list[str]:
        """Return the figures for people, in the order of :data:`HEADER`."""
        gone = f" ({counted(self.gone_records, 'records')} gone)" if self.gone_records else ""
        return [
            self.topic,
            str(self.partition),
            self._text("position", "{:,.0f}"),
            self._text("end_offset", "{:,.0f}"),
            self._text("lag_records", "{:,.0f}") + gone,
            self._text("lag_seconds"),
            self._text("read_per_second", "{:,.1f}"),
            self._text("arriving_per_second", "{:,.1f}"),
            self._text("catch_up_seconds"),
        ]

    def _text(self, name: str, shown: str | None = None) -> str:
        value = getattr(self, name)
        if value is None:
            why = self.unknown.get(name, "not told")
            return why if why.startswith("never") else f"unknown ({why})"
        return seconds_text(value) if shown is None else shown.format(value)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TopicLag(Viewed):
    """How far a run or a consumer group is behind; made by :func:`kstoolkit.lag`.

    Parameters
    ----------
    reader
        Who reads: ``"run 'out'"`` or ``"group 'billing'"``.
    state
        Whether it reads at present, in words.
    at_ms
        When this was seen, epoch ms UTC.
    measured_seconds
        How long rates of arrival were measured; ``None`` if they were not.
    partitions
        One for each partition.
    catch_up_seconds
        How long it takes until nothing waits anywhere; ``None`` if unknown, or never.
    why
        Why that is ``None``.

    Examples
    --------
    >>> one = LagOfPartition(topic="actions", partition=0, end_offset=500, position=380,
    ...                      lag_records=120, catch_up_seconds=4.0)
    >>> TopicLag(reader="run 'out'", state="counting", at_ms=0, partitions=(one,),
    ...          catch_up_seconds=4.0)
    TopicLag(run 'out', counting: 120 records behind in 1 partition, caught up in 4.0 s)
    """

    reader: str
    state: str
    at_ms: int
    partitions: tuple[LagOfPartition, ...]
    measured_seconds: float | None = None
    catch_up_seconds: float | None = None
    why: str | None = None

    @property
    def lag_records(self) -> int | None:
        """Records still to be read, of all partitions of which it is known; ``None`` if of none."""
        known = [each.lag_records for each in self.partitions if each.lag_records is not None]
        return sum(known) if known else None

    @property
    def lag_seconds(self) -> float | None:
        """The longest that any partition is behind; ``None`` if that of none is known."""
        known = [each.lag_seconds for each in self.partitions if each.lag_seconds is not None]
        return max(known, default=None)

    def __len__(self) -> int:
        return len(self.partitions)

    def __iter__(self) -> Iterator[LagOfPartition]:
        return iter(self.partitions)

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as plain values, as ``--json`` prints them."""
        sums = {"lag_records": self.lag_records, "lag_seconds": self.lag_seconds}
        return {**asdict(self), **sums, "partitions": [asdict(each) for each in self]}

    def to_pandas(self) -> pd.DataFrame:
        """Return one row a partition: the fields of :class:`LagOfPartition`, less the reasons."""
        import pandas as pd  # noqa: PLC0415 - only for whoever asks for a table

        columns = [name for name in LagOfPartition.__slots__ if name != "unknown"]
        rows = [[getattr(each, name) for name in columns] for each in self]
        return pd.DataFrame(rows, columns=columns)

    def sentence(self) -> str:
        """Return in a sentence how far it is behind, and how long that takes."""
        if self.lag_records is None:
            return f"{self.reader}, {self.state}: lag unknown ({self.why or 'not told'})"
        unknown = sum(each.lag_records is None for each in self)
        beside = f", unknown in {format_count(unknown)}" if unknown else ""
        behind = counted(self.lag_records, "records")
        since = "" if not self.lag_seconds else f" and {seconds_text(self.lag_seconds)}"
        where = counted(len(self) - unknown, "partitions")
        return (
            f"{self.reader}, {self.state}: {behind}{since} behind in {where}{beside}{self._end()}"
        )

    def _end(self) -> str:
        if self.lag_records == 0:
            return ""
        if self.catch_up_seconds is not None:
            return f", caught up in {seconds_text(self.catch_up_seconds)}"
        why = self.why or "not told"
        return f", caught up {why}" if why.startswith("never") else f", caught up: unknown ({why})"

    def __repr__(self) -> str:
        return f"TopicLag({self.sentence()})"

    def _repr_html_(self) -> str:
        head = "".join(f"<th scope='col'>{name}</th>" for name in HEADER)
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in each.cells())}</tr>"
            for each in self
        )
        return (
            f"<table><caption>{escape(self.sentence())}</caption>"
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )


def seconds_text(seconds: float) -> str:
    """Return a length of time for people.

    Examples
    --------
    >>> seconds_text(4), seconds_text(600), seconds_text(100_000)
    ('4.0 s', '10 minutes', '28 hours')
    """
    for name, length in _LENGTHS:
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {name}"
    return f"{seconds:,.1f} s"
