"""A run in figures: what came in, what was late or could not be counted, what was saved."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from kstoolkit.events.event import REASONS
from kstoolkit.pipeline.statesizes import NOT_KEPT
from kstoolkit.records import Viewed
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from kstoolkit.pipeline.statesizes import StateSize
    from kstoolkit.pipeline.statistics import BatchStatistics


@dataclass(frozen=True, slots=True)
class Summary(Viewed):
    """A run in figures.

    Parameters
    ----------
    events
        Events that came in.
    late
        Events too late for a window, by window; they still count in the longer ones.
    dead_letters
        Records that could not be counted, by reason.
    batches
        Micro-batches written.
    findings
        Windows found abnormal; a window that grew counts each time that it was reported.
    counters_in
        Records into the shuffle; ``counters_in / events`` tells what the buffer saves.
    changelog_records, changelog_bytes
        What the changelog was given.
    left_out
        Records that ``min_count`` kept out of the changelog.
    backlog
        Counters that the newest batch held back, by window.
    state_bytes
        Size of the state in the checkpoint; ``None`` if it could not be read.
    state_rows, state_memory_bytes
        What the state stores held after the newest batch, by Spark's figures: see
        :class:`~kstoolkit.pipeline.statesizes.StateSize`; ``None`` if that was not kept.
    seconds, first_batch_seconds
        How long the batches took together, and the first one, which carries what starts up.
    """

    events: int
    late: dict[str, int]
    dead_letters: dict[str, int]
    batches: int
    findings: int
    counters_in: int
    changelog_records: int
    changelog_bytes: int
    left_out: int
    backlog: dict[str, int]
    state_bytes: int | None
    seconds: float
    first_batch_seconds: float | None
    steady_events_per_second: float | None
    state_rows: int | None = None
    state_memory_bytes: int | None = None

    @classmethod
    def of(
        cls,
        batches: Sequence[BatchStatistics],
        state_bytes: int | None,
        held: StateSize | None = None,
    ) -> Summary:
        """Add up batches, given in their order; ``held`` is the state after the last of them."""
        later = batches[1:]
        spent = sum(batch.seconds for batch in later)
        return cls(
            events=sum(batch.events for batch in batches),
            late=_added([batch.late for batch in batches]),
            dead_letters=_added([batch.dead_letters for batch in batches]),
            batches=len(batches),
            findings=sum(batch.findings for batch in batches),
            counters_in=sum(batch.counters_in for batch in batches),
            changelog_records=sum(batch.changelog_records for batch in batches),
            changelog_bytes=sum(batch.changelog_bytes for batch in batches),
            left_out=sum(sum(batch.left_out.values()) for batch in batches),
            backlog=batches[-1].backlog if batches else {},
            state_bytes=state_bytes,
            seconds=round(sum(batch.seconds for batch in batches), 3),
            first_batch_seconds=batches[0].seconds if batches else None,
            steady_events_per_second=sum(b.events for b in later) / spent if spent else None,
            state_rows=None if held is None else held.rows,
            state_memory_bytes=None if held is None else held.memory_bytes,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values, for JSON."""
        return {name: getattr(self, name) for name in self.__slots__}

    def to_pandas(self) -> pd.DataFrame:
        """Return one row a figure: ``figure``, ``of`` (a window or a reason) and ``value``."""
        import pandas as pd  # noqa: PLC0415 - only for whoever asks for a table

        rows = [
            (name, of, value)
            for name, told in self.to_dict().items()
            for of, value in (told.items() if isinstance(told, dict) else [(None, told)])
        ]
        return pd.DataFrame(rows, columns=["figure", "of", "value"])

    def rows(self) -> list[tuple[str, str]]:
        """Return (what, figure) for people, in the order of the text."""
        dead = [
            (f"dead letters: {REASONS.get(reason, reason)}", format_count(number))
            for reason, number in self.dead_letters.items()
        ]
        late = [
            (f"late for {window}", format_count(number)) for window, number in self.late.items()
        ]
        held = [(f"backlog of {window}", format_count(n)) for window, n in self.backlog.items()]
        return [
            ("events", format_count(self.events)),
            *late,
            *dead,
            ("findings reported", format_count(self.findings)),
            ("micro-batches", self._batches()),
            ("records into the shuffle", self._per_event(self.counters_in)),
            ("changelog", self._changelog()),
            *held,
            ("state", format_bytes(self.state_bytes)),
            ("state in memory", self._held()),
            ("speed", self._speed()),
        ]

    def _batches(self) -> str:
        return f"{self.batches:,} in {self.seconds:,.1f} s"

    def _per_event(self, records: int) -> str:
        share = f" ({records / self.events:.2f} an event)" if self.events else ""
        return f"{records:,}{share}"

    def _changelog(self) -> str:
        told = f"{self.changelog_records:,} records, {format_bytes(self.changelog_bytes)}"
        if not self.left_out:
            return told
        share = self.left_out / (self.left_out + self.changelog_records)
        each = self.changelog_bytes / max(self.changelog_records, 1)
        saved = format_bytes(each * self.left_out)
        return f"{told}; min_count saved {share:.0%} of the records, about {saved}"

    def _held(self) -> str:
        if self.state_rows is None:
            return f"unknown ({NOT_KEPT})"
        rows = format_count(self.state_rows)
        return f"{format_bytes(self.state_memory_bytes)} for {rows} rows after the last batch"

    def _speed(self) -> str:
        if self.steady_events_per_second is None:
            return "unknown (the first batch carries what starts up, and there was no other)"
        return f"{self.steady_events_per_second:,.0f} events/s after the first batch"

    def __str__(self) -> str:
        width = max(len(what) for what, _ in self.rows())
        return "\n".join(f"{what:<{width}}  {figure}" for what, figure in self.rows())

    def __repr__(self) -> str:
        dead = sum(self.dead_letters.values())
        late = sum(self.late.values())
        return (
            f"Summary({self.events:,} events, {late:,} late, {dead:,} dead letters, "
            f"{self.batches:,} batches, {self.findings:,} findings)"
        )

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(what)}</th><td>{escape(figure)}</td></tr>"
            for what, figure in self.rows()
        )
        return f"<table><caption>Summary of the run</caption>{rows}</table>"


def _added(counts: Sequence[dict[str, int]]) -> dict[str, int]:
    names = dict.fromkeys(name for each in counts for name in each)
    return {name: sum(each.get(name, 0) for each in counts) for name in names}
