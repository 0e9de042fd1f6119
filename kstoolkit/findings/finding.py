"""What was found: one record a finding, and many of them as a sequence over a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.findings.evidence import finding_html, findings_html, in_short
from kstoolkit.findings.sentence import expected, sentence
from kstoolkit.records import Viewed
from kstoolkit.units import format_count

if TYPE_CHECKING:
    import pandas as pd


FINDINGS_SCHEMA = pa.schema(
    [
        pa.field("rule", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("user", pa.string(), nullable=False),
        pa.field("action", pa.string(), nullable=False),
        pa.field("window", pa.string(), nullable=False),
        pa.field("window_ms", pa.int64(), nullable=False),
        pa.field("window_start_ms", pa.int64(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("ceiling", pa.int64()),
        pa.field("expected_low", pa.int64()),
        pa.field("expected_high", pa.int64()),
        pa.field("baseline_windows", pa.int64()),
        pa.field("peers", pa.int64()),
        pa.field("log10_probability", pa.float64()),
        pa.field("first_seen_ms", pa.int64(), nullable=False),
        pa.field("first_seen_window", pa.string()),
        pa.field("other_levels", pa.map_(pa.string(), pa.int64())),
    ]
)
"""The table of findings, as it is stored: the fields of :class:`Finding`, one row each."""

SHOWN = 20
_RECORDS_AT_ONCE = 10_000
_TOO_FEW = "unknown (too few peers with history yet)"
_NO_BASELINE = "unknown (no baseline)"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Finding(Viewed):
    """One user, one action, one window: what was seen, what was expected, and on what evidence.

    Parameters
    ----------
    rule, kind
        The rule's name, and which kind of rule it is.
    user, action
        Who, and what.
    window, window_ms, window_start_ms
        Label, length and start (epoch ms UTC) of the window.
    count
        How often.
    ceiling
        The limit that the count exceeds, if the rule is one.
    expected_low, expected_high
        Where 95 % of such counts lie; ``None`` is unknown.
    baseline_windows, peers
        How many windows of its own history and how many peers that rests on; ``None`` is unknown.
    log10_probability
        Decimal logarithm of the probability of this count or more, if the rule is about it.
    first_seen_ms
        When the finding first appeared, epoch ms UTC.
    first_seen_window
        Label of the finer window that told the same story first, if one did.
    other_levels
        What the other levels of the cascade counted at that time, by label: the window around this
        one, or the busiest of those inside.
    """

    rule: str
    kind: str
    user: str
    action: str
    window: str
    window_ms: int
    window_start_ms: int
    count: int
    ceiling: int | None = None
    expected_low: int | None = None
    expected_high: int | None = None
    baseline_windows: int | None = None
    peers: int | None = None
    log10_probability: float | None = None
    first_seen_ms: int = 0
    first_seen_window: str | None = None
    other_levels: dict[str, int] = field(default_factory=dict)

    @property
    def window_start(self) -> datetime:
        """Start of the window, UTC."""
        return _time(self.window_start_ms)

    @property
    def window_end_ms(self) -> int:
        """End of the window, epoch ms UTC."""
        return self.window_start_ms + self.window_ms

    @property
    def window_end(self) -> datetime:
        """End of the window, UTC."""
        return _time(self.window_end_ms)

    @property
    def probability(self) -> float | None:
        """The probability of this count or more; 0.0 where only its logarithm still tells."""
        return None if self.log10_probability is None else 10.0**self.log10_probability

    @property
    def expected(self) -> str:
        """The expected range for people: ``"2-14"`` with a dash, or why it is unknown."""
        why = _NO_BASELINE if self.ceiling is not None else _TOO_FEW
        return expected(self.expected_low, self.expected_high) or why

    @property
    def sentence(self) -> str:
        """The finding as one plain sentence."""
        return sentence(self)

    def to_pandas(self) -> pd.DataFrame:
        """Return a table of one row, with the columns of :meth:`Findings.to_pandas`."""
        row = asdict(self) | {"other_levels": list(self.other_levels.items())}
        return Findings(pa.Table.from_pylist([row], schema=FINDINGS_SCHEMA)).to_pandas()

    def __repr__(self) -> str:
        return f"Finding({in_short(self)})"

    def _repr_html_(self) -> str:
        return finding_html(self)


class Findings(Viewed, Sequence[Finding]):
    """Findings in the order of the table they come from.

    Parameters
    ----------
    table
        Of :data:`FINDINGS_SCHEMA`.

    Examples
    --------
    >>> Findings(FINDINGS_SCHEMA.empty_table())
    Findings(none)
    """

    def __init__(self, table: pa.Table) -> None:
        self.table = table.select(FINDINGS_SCHEMA.names).cast(FINDINGS_SCHEMA)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> Findings: ...
    def __getitem__(self, index: int | slice) -> Finding | Findings:
        if isinstance(index, slice):
            return Findings(self.table.take(pa.array(range(len(self))[index], pa.int64())))
        return _record(self.table.slice(range(len(self))[index], 1).to_pylist()[0])

    def __iter__(self) -> Iterator[Finding]:
        for batch in self.table.to_batches(max_chunksize=_RECORDS_AT_ONCE):
            yield from map(_record, batch.to_pylist())

    def top(self, n: int = SHOWN) -> Findings:
        """Return the ``n`` that most deserve a look: the best of each kind of rule in turn.

        Ceilings go by how far they are exceeded, the others by how improbable they are.
        """
        over = self._column("count") / np.maximum(self._column("ceiling"), 1)
        severity = np.where(np.isnan(over), -self._column("log10_probability"), over)
        kinds = np.asarray(self.table["kind"].to_pylist(), dtype=object)
        turn = np.zeros(len(self), np.int64)
        for kind in set(kinds.tolist()):
            of_kind = np.flatnonzero(kinds == kind)
            turn[of_kind[np.argsort(-severity[of_kind], kind="stable")]] = np.arange(len(of_kind))
        chosen = np.lexsort((np.arange(len(self)), kinds.astype(str), turn))[:n]
        return Findings(self.table.take(pa.array(chosen)))

    def to_pandas(self) -> pd.DataFrame:
        """Return a tidy table: one row a finding, times as UTC timestamps, with its sentence."""
        times = {"window_start_ms": "window_start", "first_seen_ms": "first_seen"}
        table = self.table.drop_columns(["other_levels", "window_ms"])
        for name, timestamp in times.items():
            at = table.schema.get_field_index(name)
            stamps = table[name].cast(pa.timestamp("ms", tz="UTC"))
            table = table.set_column(at, timestamp, stamps)
        rows = list(self)
        ends = pa.array([row.window_end for row in rows], pa.timestamp("ms", tz="UTC"))
        table = table.add_column(table.schema.get_field_index("count"), "window_end", ends)
        probability = pa.array([row.probability for row in rows], pa.float64())
        table = table.append_column("probability", probability)
        table = table.append_column("sentence", pa.array([r.sentence for r in rows], pa.string()))
        frame: pd.DataFrame = table.to_pandas(types_mapper={pa.int64(): _nullable_int()}.get)
        return frame

    def to_json_rows(self) -> list[dict[str, Any]]:
        """Return one plain dictionary a finding: its fields, probability, end and sentence."""
        derived = ("window_end_ms", "probability", "sentence")
        return [asdict(row) | {name: getattr(row, name) for name in derived} for row in self]

    def __repr__(self) -> str:
        return f"Findings({self._facts()})"

    def _repr_html_(self) -> str:
        shown = self.top()
        note = f"; the top {len(shown)} are shown" if len(shown) < len(self) else ""
        return findings_html(self._facts() + note, shown)

    def _facts(self) -> str:
        if not len(self):
            return "none"
        kinds = pc.value_counts(self.table["kind"].combine_chunks()).to_pylist()
        of = ", ".join(f"{k['counts']:,} {k['values']}" for k in sorted(kinds, key=str))
        distinct = pc.count_distinct(self.table["user"]).as_py()
        users, plural = format_count(distinct), "" if distinct == 1 else "s"
        return f"{format_count(len(self))} about {users} user{plural}: {of}"

    def _column(self, name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        filled = pc.fill_null(self.table[name].cast(pa.float64()), float("nan"))
        return np.asarray(filled.to_numpy(), np.float64)


def _record(row: dict[str, Any]) -> Finding:
    return Finding(**row | {"other_levels": dict(row["other_levels"] or ())})


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=milliseconds)


def _nullable_int() -> Any:
    import pandas as pd  # noqa: PLC0415 - only who asks for pandas pays for it

    return pd.Int64Dtype()
