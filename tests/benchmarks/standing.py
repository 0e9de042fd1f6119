"""How a contestant did among its peers, and the table of all."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from kstoolkit.units import format_bytes
from tests.benchmarks.table import aligned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.benchmarks.measuring import Measured
    from tests.benchmarks.table import Row


@dataclass(frozen=True, slots=True)
class Totals:
    """By window: how many counters came out, and what they come to."""

    counters: dict[str, int]
    events: dict[str, int]

    @classmethod
    def of(cls, measured: Measured) -> Totals:
        told = measured.marked("told")[0].facts
        return cls(dict(told["counters"]), dict(told["totals"]))

    def beside(self, truth: Totals) -> str:
        """Return by how much these are off, in a few words.

        >>> truth = Totals({"1 minute": 3}, {"1 minute": 9})
        >>> truth.beside(truth), Totals({"1 minute": 2}, {"1 minute": 5}).beside(truth)
        ('exact', '1 minute: -4 events, -1 counters')
        """
        parts = []
        for label, events in truth.events.items():
            more = self.events[label] - events
            counters = self.counters[label] - truth.counters[label]
            if more or counters:
                parts.append(f"{label}: {more:+,} events, {counters:+,} counters")
        return "; ".join(parts) or "exact"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What a contestant came to.

    Parameters
    ----------
    row
        Its time, its CPU, its memory.
    totals, after_kill
        What came out, and what came out of a run that was killed midway.
    broker_cpu_seconds_per_million
        What the broker took meanwhile, if it was asked.
    disk_bytes, topic_bytes
        The most that its state took on disk; what the topics hold that it wrote.
    killed_at, back_seconds
        How many events it had counted when it was killed; and how long it took from its next start
        until it had counted more than that.
    others_cores
        How many cores the machine's other work took meanwhile.
    is_lost
        Whether its state did not open any more after the kill, and had to be deleted.
    """

    row: Row
    totals: Totals
    broker_cpu_seconds_per_million: float | None
    disk_bytes: int | None
    topic_bytes: int
    others_cores: float
    killed_at: int | None = None
    back_seconds: float | None = None
    after_kill: Totals | None = None
    is_lost: bool = False

    def to_dict(self, truth: Totals) -> dict[str, Any]:
        after = self.after_kill and self.after_kill.beside(truth)
        return asdict(self) | {"beside": self.totals.beside(truth), "beside_after_kill": after}


_HEADS = (
    "",
    "totals",
    "events/s",
    "CPU-s/M",
    "with its start",
    "broker CPU-s/M",
    "peak memory",
    "state on disk",
    "topics written",
    "back after `kill -9`",
    "totals then",
    "other work, cores",
)


def markdown(standings: Sequence[Standing], truth: Totals) -> str:
    """Return the table, in Markdown."""
    return aligned(_HEADS, [_cells(each, truth) for each in standings])


def _cells(standing: Standing, truth: Totals) -> tuple[str, ...]:
    row, back, after = standing.row, standing.back_seconds, standing.after_kill
    broker = standing.broker_cpu_seconds_per_million
    dropped = row.facts.get("dropped")
    rate, cpu = row.steady_events_per_second, row.steady_cpu_seconds_per_million
    return (
        row.name,
        standing.totals.beside(truth) + (f" ({dropped:,} dropped)" if dropped else ""),
        "-" if rate is None else f"{rate:,.0f}",
        "-" if cpu is None else f"{cpu:.2f}",
        f"{row.cpu_seconds_per_million:.2f}",
        "-" if broker is None else f"{broker:.2f}",
        format_bytes(row.peak_bytes),
        "-" if standing.disk_bytes is None else format_bytes(standing.disk_bytes),
        format_bytes(standing.topic_bytes) if standing.topic_bytes else "-",
        "-" if back is None else f"{back:.1f} s" + ", its state deleted" * standing.is_lost,
        "-" if after is None else after.beside(truth),
        f"{standing.others_cores:.1f}",
    )
