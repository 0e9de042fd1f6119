"""What an engine's metrics say of its stores: ratios, rates and sums, by the engine's own names.

Kafka Streams' names are those of KIP-471, KIP-607 and KIP-989 and of Kafka's consumer, less
``-total``, which exporters add or leave out; Spark's stand in ``stateOperators`` of its progress.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kstoolkit.errors import Option, naming
from kstoolkit.records import Figure, Record, Records, Source, counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

NO_METRICS = naming(
    "the writer's figures are not given: {metrics} takes what Kafka Streams tells Prometheus, best "
    "at metrics.recording.level=DEBUG, {progress} what a query of Spark's tells",
    metrics=Option("metrics", "..."),
    progress=Option("progress", "..."),
)
NOT_DEBUG = (
    "the metrics lack KIP-471's: set metrics.recording.level=DEBUG in Kafka Streams, and give them "
    "a minute later"
)
_NEARLY = 1.02


@dataclass(frozen=True, slots=True, repr=False)
class StoreMetrics(Record):
    """What an engine's metrics say of one store of a task, or of one operator of a query.

    Parameters
    ----------
    engine, task, store
        ``"Kafka Streams"`` or ``"Spark"``; whose store it is, and its name; of Spark the number and
        the name of an operator.
    values, read_at_ms
        The figures by the engine's names, those of its process among them; when they were told.
    """

    engine: str
    task: str
    store: str
    values: Mapping[str, float] = field(default_factory=dict)
    read_at_ms: int | None = None

    def figures(self) -> list[Figure]:
        """Return the figures."""
        return [self.figure(name) for name in self.values]

    def figure(self, name: str) -> Figure:
        """Return one figure; of one that there is not, the value is None."""
        value = self.values.get(name)
        whole = value is not None and value.is_integer()
        return Figure(name, int(value) if whole and value else value, Source.METRICS)

    def told(self, *names: str) -> tuple[Figure, ...]:
        """Return those of some figures that there are."""
        return tuple(self.figure(name) for name in names if name in self.values)

    @property
    def why_none(self) -> str:
        """Why a figure is not among them."""
        if self.engine != "Kafka Streams" or "memtable-hit-ratio" in self.values:
            return "it is not among the metrics that the engine has"
        return NOT_DEBUG

    def __repr__(self) -> str:
        return f"StoreMetrics({self.task} {self.store}, {counted(len(self.values), 'figures')})"


class EngineMetrics(Records[StoreMetrics]):
    """What an engine's metrics say of each of its stores.

    ``origin`` is where they were read.
    """

    def __init__(self, rows: Sequence[StoreMetrics], origin: str) -> None:
        super().__init__(rows, "stores")
        self.origin = origin

    def of(self, path: Path) -> tuple[StoreMetrics | None, str]:
        """Return those of the store in a folder, or why they are not there.

        A folder is known by the names of task and store in its path; where but one store has its
        name, or there is but one operator, by that.
        """
        parts = set(path.absolute().parts)
        named = [each for each in self if each.store in parts]
        exact = [each for each in named if each.task in parts]
        found = exact or named or ([*self] if {each.engine for each in self} == {"Spark"} else [])
        if len(found) == 1:
            return found[0], ""
        names = ", ".join(f"{each.task}/{each.store}" for each in (found or self))
        which = "more than one store that may be this one" if found else "no store of this name"
        return None, f"the metrics of {self.origin} tell of {which}: {names or 'none at all'}"

    def sum_of(self, name: str) -> float | None:
        """Return a figure of all stores together; None if one has not told it."""
        told = [each.values.get(name) for each in self]
        known = [each for each in told if each is not None]
        return sum(known) if known and len(known) == len(told) else None

    def caches_bytes(self) -> float | None:
        """Return what block caches hold at least: one that stores share is told by each of them.

        Of caches of the same size that hold nearly the same, one counts.
        """
        values = [each.values for each in self]
        if not values or any("block-cache-usage" not in each for each in values):
            return None
        held = ((each.get("block-cache-capacity", 0), each["block-cache-usage"]) for each in values)
        total, before = 0.0, (-1.0, -1.0)
        for capacity, usage in sorted(held):
            is_another = capacity != before[0] or usage > _NEARLY * before[1]
            total += usage if is_another else 0
            before = (capacity, usage)
        return total
