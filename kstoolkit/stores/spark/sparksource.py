"""Rows of stores of Spark's, of one partition or of all, family by family."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from kstoolkit.formats.spark.rows import RowTimes
from kstoolkit.stores.rows.batching import row_batches
from kstoolkit.stores.spark.familyserdes import FamilySerdes, family_mark, marked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kstoolkit.formats.columns import RowColumns
    from kstoolkit.formats.spark.rows import Family, StoreLayout
    from kstoolkit.stores.rows.asking import Asked
    from kstoolkit.stores.spark.partitionstate import PartitionState


@dataclass(frozen=True, slots=True)
class Part:
    """One store of one partition.

    Parameters
    ----------
    partition
        Which partition.
    opened
        Returns its state, open.
    layout
        How its rows are taken apart, given the numbers that its families have.
    wanted
        The families whose rows are wanted, by their names on disk.
    """

    partition: int
    opened: Callable[[], PartitionState]
    layout: Callable[[dict[str, int]], StoreLayout]
    wanted: Mapping[str, Family]


@dataclass(frozen=True, slots=True)
class SparkSource:
    """Rows of some column families.

    Parameters
    ----------
    name
        The store's name, for people.
    parts
        Where they lie.
    wanted
        The families, each with its place in the schema as its number; None in a store without.
    is_whole
        Whether the parts are those of all partitions: rows then tell theirs, and one state at a
        time is open. Else the states stay open, for whoever opened them to close.
    count
        Tells about how many rows there are; None: nobody counted those of these families.
    """

    name: str
    parts: Sequence[Part]
    wanted: tuple[Family, ...]
    is_whole: bool = False
    count: Callable[[], int | None] | None = None

    def estimated_rows(self) -> int | None:
        """Return how many keys the latest snapshots counted; None if nothing tells."""
        return None if self.count is None else self.count()

    @property
    def serdes(self) -> FamilySerdes:
        """What reads the rows."""
        return FamilySerdes(self.wanted)

    @property
    def extra_columns(self) -> dict[str, pa.DataType]:
        """The columns that rows have beside those of every store, and their types."""
        has_families = any(each.number is not None for each in self.wanted)
        family = {"family": pa.string()} if has_families else {}
        return family | ({"partition": pa.int32()} if self.is_whole else {})

    def read(self, asked: Asked) -> Iterator[RowColumns]:
        """Yield rows in parts of some thousands: at least those that are asked for."""
        for part in self.parts:
            with _closing(part.opened, stays=not self.is_whole) as state:
                yield from self._of_part(part, state, asked)

    def _of_part(self, part: Part, state: PartitionState, asked: Asked) -> Iterator[RowColumns]:
        layout = part.layout(state.families)
        on_disk = [each for each in layout.families if each.name in part.wanted]
        # A family that is newer than the version has no rows in it.
        if not on_disk and layout.families:
            return
        prefix = _prefix(layout, on_disk[0], asked) if len(on_disk) == 1 else b""
        for keys, values in row_batches(state.rows(prefix)):
            for found in layout.split(keys, values):
                if found.family is None:
                    yield self._told(found.rows, None, part.partition)
                elif found.family.name in part.wanted:
                    yield self._told(found.rows, part.wanted[found.family.name], part.partition)

    def _told(self, rows: RowColumns, family: Family | None, partition: int) -> RowColumns:
        """Return the rows of a family with its name and partition, where rows tell those."""
        told = {"family": None if family is None else family.name, "partition": partition}
        columns = {
            name: pa.repeat(pa.scalar(told[name], kind), len(rows))
            for name, kind in self.extra_columns.items()
        }
        if family is not None and RowTimes.of(family).are_expiries:
            columns["expires"] = pa.repeat(pa.scalar(value=True), len(rows))
        if columns:
            rows = replace(rows, details=rows.details | columns)
        if family is None or not self.serdes.are_marked:
            return rows
        inner = marked(rows.key, family), marked(rows.value, family)
        return replace(rows, inner_key=inner[0], inner_value=inner[1])


@contextmanager
def _closing(opened: Callable[[], PartitionState], *, stays: bool) -> Iterator[PartitionState]:
    state = opened()
    try:
        yield state
    finally:
        if not stays:
            state.close()


def _prefix(layout: StoreLayout, family: Family, asked: Asked) -> bytes:
    """Return what the keys on disk begin with that are asked for."""
    sought = asked.key if asked.key is not None else asked.prefix
    mark = family_mark(family)
    if not sought:
        return mark
    has_version = layout.wrapping.is_rocksdb and family.encoder.kind == "NoPrefix"
    return mark + (b"\x00" if has_version else b"") + sought
