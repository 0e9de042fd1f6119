"""Rows of a store of Spark's, of one partition or of all, family by family."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kstoolkit.stores.rows.batching import row_batches
from kstoolkit.stores.spark.familyserdes import FamilySerdes, family_mark, marked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kstoolkit.formats.rowcolumns import RowColumns
    from kstoolkit.formats.spark.layouts import Family, StoreLayout
    from kstoolkit.stores.rows.asking import Asked
    from kstoolkit.stores.spark.partitionstate import PartitionState

__all__ = ["SparkSource"]


@dataclass(frozen=True, slots=True)
class SparkSource:
    """Rows of some column families of a store.

    Parameters
    ----------
    name
        The store's name, for people.
    partitions
        What returns the state of each partition, open; if there are several, one at a time is.
    layout
        How its rows are taken apart, given the numbers that a partition's families have.
    wanted
        The families whose rows are wanted, each with its place in the schema as its number; None
        in a store without families.
    """

    name: str
    partitions: Sequence[Callable[[], PartitionState]]
    layout: Callable[[dict[str, int]], StoreLayout]
    wanted: tuple[Family, ...]

    @property
    def serdes(self) -> FamilySerdes:
        """What reads the rows."""
        return FamilySerdes(self.wanted)

    def read(self, asked: Asked) -> Iterator[RowColumns]:
        """Yield rows in parts of some thousands: at least those that are asked for."""
        for opened in self.partitions:
            with _closing(opened, stays=len(self.partitions) == 1) as state:
                yield from self._of_partition(state, asked)

    def _of_partition(self, state: PartitionState, asked: Asked) -> Iterator[RowColumns]:
        layout = self.layout(state.families)
        wanted = {each.name: each for each in self.wanted}
        on_disk = [each for each in layout.families if each.name in wanted]
        # A family that is newer than the version has no rows in it.
        if not on_disk and layout.families:
            return
        prefix = _prefix(layout, on_disk[0], asked) if len(on_disk) == 1 else b""
        for keys, values in row_batches(state.rows(prefix)):
            for part in layout.split(keys, values):
                if part.family is None:
                    yield part.rows
                elif part.family.name in wanted:
                    yield self._named(part.rows, wanted[part.family.name])

    def _named(self, rows: RowColumns, family: Family) -> RowColumns:
        """Return the rows of a family with its name, if the store has families."""
        if family.number is None:
            return rows
        name = pa.array(np.full(len(rows), family.name, dtype=object), pa.string())
        named = replace(rows, details=rows.details | {"family": name})
        if not self.serdes.are_marked:
            return named
        inner = marked(rows.key, family), marked(rows.value, family)
        return replace(named, inner_key=inner[0], inner_value=inner[1])


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
