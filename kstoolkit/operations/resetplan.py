"""What a reset does: from where to where, what is read again, and which counts that spoils."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from html import escape
from typing import TYPE_CHECKING, Any

from kstoolkit.records import counted
from kstoolkit.units import format_count

if TYPE_CHECKING:
    import pandas as pd

    from kstoolkit.kafka.cluster import Reach
    from kstoolkit.kafka.groups import Partition


HEADER = ("topic", "partition", "position", "new position", "read again", "skipped")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What a reset does to one partition.

    Parameters
    ----------
    topic, partition
        Which.
    position
        The offset of the next record to be read, before; ``None`` if there was none.
    target
        The same, after.
    again_records, skipped_records
        Records that were read before and are read again; that were not, and never will be. Offsets
        that compaction or transactions left empty count too.
    """

    topic: str
    partition: int
    position: int | None
    target: int
    again_records: int
    skipped_records: int

    @classmethod
    def of(cls, place: Partition, reach: Reach, position: int | None, target: int) -> Move:
        """Return the move of a partition, from where it is, if it is anywhere, to a target.

        Examples
        --------
        >>> from kstoolkit.kafka.cluster import Reach
        >>> from kstoolkit.kafka.groups import Partition
        >>> Move.of(Partition("actions", 0), Reach(20, 90), 50, 20).again_records
        30
        """
        began = reach.first if position is None else position
        return cls(
            topic=place.topic,
            partition=place.number,
            position=position,
            target=target,
            again_records=max(min(began, reach.end) - target, 0),
            skipped_records=max(target - max(began, reach.first), 0),
        )

    def cells(self) -> list[str]:
        """Return the figures for people, in the order of :data:`HEADER`."""
        position = "none" if self.position is None else format_count(self.position)
        figures = (self.target, self.again_records, self.skipped_records)
        return [self.topic, str(self.partition), position, *map(format_count, figures)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartWindows:
    """Windows of one kind that lie on both sides of where reading begins anew.

    Parameters
    ----------
    window
        Which kind: ``"1 hour"``.
    first_start_ms, last_end_ms
        When the first of them starts, and the last one ends: epoch ms UTC.
    """

    window: str
    first_start_ms: int
    last_end_ms: int

    def __str__(self) -> str:
        first, last = moment_text(self.first_start_ms), moment_text(self.last_end_ms)
        return f"{self.window}: from {first} to {last}"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ResetPlan:
    """What a reset does, or has done; made by :func:`kstoolkit.reset`.

    Parameters
    ----------
    reader
        Who is moved: ``"run 'out'"`` or ``"group 'billing'"``.
    to
        Where to, in words.
    done
        Whether it is done, or only planned.
    moves
        One for each partition.
    in_part
        Of a run, the windows of which just a part is read again, as far as records' timestamps
        tell; their counts become too low.
    warnings
        What this costs, each in a sentence.
    refusal
        Why it can't be done at present; ``None`` if it can.

    Examples
    --------
    >>> move = Move(topic="actions", partition=0, position=500, target=0, again_records=500,
    ...             skipped_records=0)
    >>> ResetPlan(reader="run 'out'", to="earliest", done=False, moves=(move,))
    ResetPlan(run 'out' to earliest, not done yet: 500 records read again, 0 skipped)
    """

    reader: str
    to: str
    done: bool
    moves: tuple[Move, ...]
    in_part: tuple[PartWindows, ...] = ()
    warnings: tuple[str, ...] = ()
    refusal: str | None = field(default=None)

    @property
    def again_records(self) -> int:
        """Records that are read again, of all partitions."""
        return sum(each.again_records for each in self.moves)

    @property
    def skipped_records(self) -> int:
        """Records that are skipped, of all partitions."""
        return sum(each.skipped_records for each in self.moves)

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as plain values, as ``--json`` prints them."""
        sums = {"again_records": self.again_records, "skipped_records": self.skipped_records}
        return {**asdict(self), **sums}

    def to_pandas(self) -> pd.DataFrame:
        """Return one row a partition: the fields of :class:`Move`."""
        import pandas as pd  # noqa: PLC0415 - only for whoever asks for a table

        return pd.DataFrame([asdict(each) for each in self.moves], columns=list(Move.__slots__))

    def sentence(self) -> str:
        """Return in a sentence what is moved, and what that comes to."""
        state = "done" if self.done else "not done yet"
        again, skipped = counted(self.again_records, "records"), format_count(self.skipped_records)
        return f"{self.reader} to {self.to}, {state}: {again} read again, {skipped} skipped"

    def remarks(self) -> list[str]:
        """Return what it costs, and why it can't be done if it can't, a sentence each."""
        return [*self.warnings, *([self.refusal] if self.refusal else [])]

    def __repr__(self) -> str:
        return f"ResetPlan({self.sentence()})"

    def _repr_html_(self) -> str:
        head = "".join(f"<th scope='col'>{name}</th>" for name in HEADER)
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in each.cells())}</tr>"
            for each in self.moves
        )
        told = "".join(f"<li>{escape(each)}</li>" for each in self.remarks())
        return (
            f"<table><caption>{escape(self.sentence())}</caption>"
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><ul>{told}</ul>"
        )


def moment_text(value_ms: int) -> str:
    """Return a moment as ISO 8601, which ``to`` takes.

    Examples
    --------
    >>> moment_text(1_740_787_200_000), moment_text(1_740_787_200_500)
    ('2025-03-01T00:00:00Z', '2025-03-01T00:00:00.500Z')
    """
    precision = "milliseconds" if value_ms % 1_000 else "seconds"
    moment = _EPOCH + timedelta(milliseconds=value_ms)
    return f"{moment.replace(tzinfo=None).isoformat(timespec=precision)}Z"
