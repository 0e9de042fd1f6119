"""Records that could not be counted: kept with their raw text and why, never lost, never fatal."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import pyarrow as pa

from kstoolkit.records import Viewed
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd


LONGEST_RAW = 64 * 1024
"""Raw text beyond this many characters is cut, visibly."""

REASONS = {
    "unparseable": "the record could not be parsed",
    "no_user": "it has no user",
    "no_action": "it has no action",
    "no_time": "it has no time",
    "bad_time": "its time could not be read",
    "future_time": "its time lies further in the future than the clock allows",
    "long_user": "its user is longer than the limit",
    "long_action": "its action is longer than the limit",
    "marked_broken": "whoever made the row marked it as broken, for the reason in its detail",
    "poison": "counting it ended the process that did, time and again",
    "broken_file": "the file is damaged; nothing of it was counted",
}
"""Every reason code, and what it means."""

SCHEMA = pa.schema(
    [
        pa.field("reason", pa.string()),
        pa.field("raw", pa.string()),
        pa.field("file", pa.string()),
        pa.field("detail", pa.string()),
    ]
)


def letters(
    reasons: Sequence[str],
    raws: Sequence[str],
    *,
    file: Sequence[str | None] | str | None = None,
    details: Sequence[str | None] | str | None = None,
) -> pa.RecordBatch:
    """Return dead letters as columns of :data:`SCHEMA`, one a raw text.

    Examples
    --------
    >>> letters(["no_user"], ['{"time": 0}'], file="a.json").to_pylist()
    [{'reason': 'no_user', 'raw': '{"time": 0}', 'file': 'a.json', 'detail': None}]
    """
    number = len(raws)
    columns = [
        list(reasons),
        [_cut(raw) for raw in raws],
        [None if name is None else storable(name) for name in _for_each(file, number)],
        _for_each(details, number),
    ]
    return pa.record_batch(
        [pa.array(c, kind.type) for c, kind in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def _for_each(value: Sequence[str | None] | str | None, number: int) -> list[str | None]:
    """Return one value a letter, given one for all or one each."""
    return [value] * number if value is None or isinstance(value, str) else list(value)


def _cut(raw: str) -> str:
    raw = storable(raw)
    if len(raw) <= LONGEST_RAW:
        return raw
    return f"{raw[:LONGEST_RAW]}… (cut; {len(raw):,} characters in all)"


def storable(text: str) -> str:
    """Return text that has UTF-8: lone surrogates have none."""
    return text.encode("utf-8", "replace").decode()


@dataclass(frozen=True, slots=True)
class DeadLetters(Viewed):
    """The dead letters of a run.

    Parameters
    ----------
    table
        Columns of :data:`SCHEMA`, and the ``batch`` that met them: of very many, the first.
    counted
        How many there are of each reason, those that ``table`` leaves out included; by default
        just what is in ``table``.
    """

    table: pa.Table
    counted: Mapping[str, int] | None = None

    def __len__(self) -> int:
        """Return how many there are, those that ``table`` leaves out included."""
        return sum(self.by_reason.values())

    @property
    def by_reason(self) -> dict[str, int]:
        """How many of each reason, the most frequent first."""
        counted = count_reasons(self.table) if self.counted is None else self.counted
        return dict(sorted(counted.items(), key=lambda each: (-each[1], each[0])))

    def to_pandas(self) -> pd.DataFrame:
        """Return a pandas DataFrame, one dead letter a row."""
        return self.table.to_pandas()  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        told = ", ".join(f"{number:,} {reason}" for reason, number in self.by_reason.items())
        held = self.table.num_rows
        some = f"; the first {held:,} are held" if held < len(self) else ""
        return f"DeadLetters({len(self):,}{': ' if told else ''}{told}{some})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(reason)}</td><td>{format_count(number)}</td>"
            f"<td style='text-align:left'>{escape(REASONS.get(reason, ''))}</td></tr>"
            for reason, number in self.by_reason.items()
        )
        head = "".join(f"<th scope='col'>{name}</th>" for name in ("reason", "records", "meaning"))
        return (
            f"<table><caption>{escape(repr(self))}</caption>"
            f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        )


def count_reasons(table: pa.Table) -> dict[str, int]:
    """Return how many dead letters there are of each reason code.

    Examples
    --------
    >>> count_reasons(pa.table({"reason": ["no_user", "no_time", "no_user"]}))
    {'no_user': 2, 'no_time': 1}
    """
    counts = table.column("reason").combine_chunks().value_counts().to_pylist()
    return {each["values"]: each["counts"] for each in counts}
