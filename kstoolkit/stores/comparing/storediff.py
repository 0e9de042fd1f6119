"""What two stores differ in: how much, and each difference, read when it is looked at."""

from __future__ import annotations

import warnings
import weakref
from dataclasses import dataclass
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from kstoolkit.errors import LimitedResultWarning
from kstoolkit.records import Viewed
from kstoolkit.rocksdb.faults import StoreClosedError
from kstoolkit.stores.comparing.difference import DIFFERENCES, diff_batch
from kstoolkit.stores.rows.jsonlines import json_text
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pandas as pd

    from kstoolkit.formats.serdes import Serde
    from kstoolkit.rocksdb.files.shadow import ScratchFolder
    from kstoolkit.stores.comparing.difference import DiffBatch, Difference


_SHOWN_ROWS = 100_000
_LISTED_ROWS = 10


@dataclass(frozen=True, slots=True)
class DiffCounts:
    """In how many rows two stores differ, and in how many they don't.

    Examples
    --------
    >>> print(DiffCounts(12, 3, 1, 4201))
    12 added, 3 removed, 1 changed, 4,201 equal
    """

    added: int
    removed: int
    changed: int
    equal: int

    def __str__(self) -> str:
        told = ((name, getattr(self, name)) for name in self.__slots__)
        return ", ".join(f"{format_count(number)} {name}" for name, number in told)


class StoreDiff(Viewed):
    """The differences of two stores, made by :func:`~kstoolkit.stores.comparing.diff_stores`.

    The stores themselves may be closed by now. The differences lie in a scratch folder, which goes
    with this object, or when it is closed; ``with`` closes it.

    Parameters
    ----------
    folder
        The scratch folder.
    kept
        The file in it.
    counts
        How many rows were added, removed, changed, and are equal.
    names
        The two stores' names.
    serdes_a, serdes_b
        How to read keys and values of either.
    has_families
        Whether the rows of either name their column families.
    """

    def __init__(
        self,
        folder: ScratchFolder,
        kept: Path,
        counts: DiffCounts,
        *,
        names: tuple[str, str],
        serdes_a: tuple[Serde, Serde],
        serdes_b: tuple[Serde, Serde],
        has_families: tuple[bool, bool] = (False, False),
    ) -> None:
        self.counts, self.names = counts, names
        self._kept, self._read_by = kept, (serdes_a, serdes_b, has_families)
        self._remove = weakref.finalize(self, folder.remove)

    @property
    def added(self) -> int:
        """How many rows only the second store has."""
        return self.counts.added

    @property
    def removed(self) -> int:
        """How many rows only the first store has."""
        return self.counts.removed

    @property
    def changed(self) -> int:
        """How many rows both have, with different values."""
        return self.counts.changed

    @property
    def equal(self) -> int:
        """How many rows are the same in both."""
        return self.counts.equal

    @property
    def is_empty(self) -> bool:
        """Whether the stores hold the same."""
        return not (self.added or self.removed or self.changed)

    def batches(self) -> Iterator[DiffBatch]:
        """Yield the differences in parts of some thousands, by key, window and time.

        Raises
        ------
        StoreClosedError
            If this is closed.
        """
        if not self._remove.alive:
            message = f"The comparison of {self.names[0]!r} and {self.names[1]!r} is closed."
            raise StoreClosedError(message, hint="Compare them again.")
        return self._batches()

    def rows(self) -> Iterator[Difference]:
        """Yield the differences one by one, by key, window and time."""
        for batch in self.batches():
            yield from batch

    __iter__ = rows

    def json_lines(self) -> Iterator[str]:
        """Yield one JSON object a difference, without its line end; bytes and NaN as in rows."""
        return (json_text(each.to_dict()) for each in self.rows())

    def to_arrow(self, limit: int | None = _SHOWN_ROWS) -> pa.Table:
        """Return the differences as an Arrow table.

        Parameters
        ----------
        limit
            At most so many, announced if there are more; ``None`` for all.

        Returns
        -------
        pyarrow.Table
            Columns as in :meth:`DiffBatch.to_arrow
            <kstoolkit.stores.comparing.difference.DiffBatch.to_arrow>`.
        """
        return self._table(limit)

    def to_pandas(self, limit: int | None = _SHOWN_ROWS) -> pd.DataFrame:
        """Return the differences as a DataFrame, with columns and limit as in :meth:`to_arrow`."""
        frame: pd.DataFrame = self._table(limit).to_pandas()
        return frame

    def close(self) -> None:
        """Remove the scratch folder; a second time does nothing."""
        self._remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"StoreDiff({self.names[0]!r} to {self.names[1]!r}: {self.counts})"

    def _repr_html_(self) -> str:
        head = f"<p>{escape(repr(self))}</p>"
        if self.is_empty or not self._remove.alive:
            return head
        first = list(islice(self.rows(), _LISTED_ROWS + 1))
        listed = "".join(f"<li>{escape(str(each))}</li>" for each in first[:_LISTED_ROWS])
        more = "<p>… and more</p>" if len(first) > _LISTED_ROWS else ""
        return f"{head}<ul>{listed}</ul>{more}"

    def _table(self, limit: int | None) -> pa.Table:
        tables, number = [], 0
        for batch in self.batches():
            tables.append(batch.to_arrow())
            number += len(batch)
            if limit is not None and number > limit:
                break
        table = pa.concat_tables(tables, promote_options="permissive")
        if limit is None or number <= limit:
            return table
        shown = format_count(limit)
        message = f"{shown} differences are shown, and there are more; limit=None gives all."
        warnings.warn(message, LimitedResultWarning, stacklevel=3)
        return table.slice(0, limit)

    def _batches(self) -> Iterator[DiffBatch]:
        nothing = True
        with pa.OSFile(str(self._kept), "rb") as file, pa.ipc.open_stream(file) as stream:
            for block in stream:
                yield diff_batch(pa.Table.from_batches([block]), *self._read_by)
                nothing = False
        if nothing:  # which has columns and types, too
            yield diff_batch(DIFFERENCES.empty_table(), *self._read_by)
