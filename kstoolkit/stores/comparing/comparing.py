"""Compare two stores row by row, whatever their sizes, engines and orders.

Both are read once, and their rows sorted into a scratch folder by what makes them the same row
(:mod:`kstoolkit.stores.comparing.identity`); then they are merged. Memory holds a run of some tens
of MiB while a store is read, and a block of each run while they are merged.
"""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
from tqdm import tqdm

from kstoolkit.errors import ConfigurationError
from kstoolkit.formats.serdes import serde_of
from kstoolkit.rocksdb.faults import translated
from kstoolkit.rocksdb.files.shadow import new_scratch_folder
from kstoolkit.stores.comparing.difference import DIFFERENCES
from kstoolkit.stores.comparing.folders import both_opened
from kstoolkit.stores.comparing.identity import END_BYTES
from kstoolkit.stores.comparing.matching import NOWHERE, match
from kstoolkit.stores.comparing.merging import merged
from kstoolkit.stores.comparing.sides import ROW, SPOOLED, Side
from kstoolkit.stores.comparing.spool import Allowance, Spool, write_tables
from kstoolkit.stores.comparing.storediff import DiffCounts, StoreDiff
from kstoolkit.stores.rows.rowview import Rows

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from kstoolkit.stores.comparing.matching import Matches
    from kstoolkit.stores.rows.readable import HasRows, SerdeLike
    from kstoolkit.units import Duration


_DISK_BYTES = 16 << 30


def diff_stores(
    a: HasRows | Rows | str | os.PathLike[str],
    b: HasRows | Rows | str | os.PathLike[str],
    *,
    store: str | None = None,
    window_size: Duration | None = None,
    action: str | None = None,
    total: bool = False,
    key_serde: SerdeLike | None = None,
    value_serde: SerdeLike | None = None,
    by_value: bool = False,
    limit: int | None = None,
    disk_bytes: int = _DISK_BYTES,
    scratch: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> StoreDiff:
    """Return what two stores differ in.

    Rows are the same row if their key, their window's start and its end are the same, and in a
    versioned store the moment from which they are valid; ends count only if both stores tell them,
    and so do column families: Spark's state variables, and the sides of a join.
    The same row has changed if its value has: timestamps and headers are not compared. Where a
    store has several rows of one key and window, they are counted by value, and none is said to
    have changed into another.

    Parameters
    ----------
    a, b
        The stores, or some of their rows, such as ``store.rows(since="2025-01-01")``; open until
        this returns. Or their folders, as :func:`kstoolkit.open_store` takes them; also those of a
        changelog of kstoolkit's, of a run's output, and of a level of a replica, which stand for
        its counts. A changelog topic is what :func:`kstoolkit.open_topic` returns.
    store
        Of a folder that is none of these, such as a state directory of Kafka Streams: the name of
        the store in it of which all partitions are compared.
    window_size
        Of folders: how long windows are, where a store does not tell; and which windows of a
        changelog or a run are meant.
    action, total
        Of folders of kstoolkit's counts: those of one action, or the sums of all, as longs, which
        is what a count store of Kafka Streams keeps; neither: each action's, as JSON.
    key_serde, value_serde
        How to read keys and values of both; None: as each store was told to, or as is guessed.
    by_value
        Whether to compare what the serdes read, not the bytes: a long of 3 equals JSON's ``3``,
        which is what it takes to compare stores of different engines.
    limit
        Keep at most so many differences; they are counted all the same.
    disk_bytes
        How much scratch disk to take at most; about what the rows take, or less.
    scratch
        Where to make the scratch folder; None is where temporary files go.
    progress
        Whether to show on stderr how many rows are read by now.

    Raises
    ------
    ConfigurationError
        If ``disk_bytes`` is not enough, ``limit`` is below 0, there is no such serde, the rows
        given have a limit of their own, or something is told of folders where there are none.
    StoreResourceError
        If there is no scratch disk, or no room on it.
    KstoolkitError
        What a store raises that can't be read.

    Examples
    --------
    >>> from kstoolkit.stores.comparing.listedrows import listed
    >>> before = listed("before", [(b"anna", b"3"), (b"bo", b"1")])
    >>> after = listed("after", [(b"anna", b"5"), (b"bo", b"1"), (b"cy", b"9")])
    >>> with diff_stores(before, after, key_serde="string", value_serde="json") as diff:
    ...     print(diff)
    ...     print(*diff, sep="; ")
    StoreDiff('before' to 'after': 1 added, 0 removed, 1 changed, 1 equal)
    ~ 'anna': 5, was 3; + 'cy': 9
    """
    if limit is not None and limit < 0:
        message = f"limit is {limit}: there are no fewer differences than none."
        raise ConfigurationError(message, hint="Give 0 or more; None is all.")
    told: dict[str, Any] = {"store": store, "window_size": window_size}
    with both_opened(a, b, **told, action=action, total=total) as opened:
        rows_a, rows_b = (_rows(each, key_serde, value_serde) for each in opened)
        return _diff(
            rows_a,
            rows_b,
            by_value=by_value,
            limit=limit,
            disk_bytes=disk_bytes,
            scratch=scratch,
            progress=progress,
        )


def _diff(
    rows_a: Rows,
    rows_b: Rows,
    *,
    by_value: bool,
    limit: int | None,
    disk_bytes: int,
    scratch: str | os.PathLike[str] | None,
    progress: bool,
) -> StoreDiff:
    folder = new_scratch_folder(scratch)
    try:
        with translated(folder.path):
            sides = _sides(rows_a, rows_b, by_value=by_value)
            comparison = _Comparison.of(sides, folder.path, disk_bytes, shown=progress)
            kept = comparison.kept(folder.path / "differences.arrows", limit)
        return StoreDiff(
            folder,
            kept,
            DiffCounts(*comparison.counts.tolist()),
            names=(rows_a.source.name, rows_b.source.name),
            serdes_a=(rows_a.key_serde, rows_a.value_serde),
            serdes_b=(rows_b.key_serde, rows_b.value_serde),
            has_families=(bool(sides[0].has_families), bool(sides[1].has_families)),
        )
    except BaseException:
        folder.remove()
        raise


def _rows(given: HasRows | Rows, key: SerdeLike | None, value: SerdeLike | None) -> Rows:
    if not isinstance(given, Rows):
        return given.rows(key_serde=key, value_serde=value)
    reads_key = given.key_serde if key is None else serde_of(key)
    reads_value = given.value_serde if value is None else serde_of(value)
    return Rows(given.source, given.asked, reads_key, reads_value, limit=given.limit)


def _sides(a: Rows, b: Rows, *, by_value: bool) -> tuple[Side, Side]:
    sides = Side(a, False, by_value), Side(b, True, by_value)  # noqa: FBT003 - a and b
    by_family = {each.has_families for each in sides} - {None} == {True}
    for each in sides:
        each.by_family = by_family
    return sides


@dataclass(slots=True)
class _Comparison:
    """Two stores' rows in their runs, and what they were found to differ in so far."""

    runs: list[Path]
    allowance: Allowance
    without_last: int
    compared: str
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, sides: tuple[Side, Side], folder: Path, disk_bytes: int, *, shown: bool) -> Self:
        """Read both stores."""
        allowance = Allowance(disk_bytes)
        spools = [Spool(folder, name, SPOOLED, allowance) for name in ("a", "b")]
        with tqdm(unit=" rows", unit_scale=True, disable=not shown, file=sys.stderr) as told:
            for side, spool in zip(sides, spools, strict=True):
                for rows in side.tables():
                    spool.add(rows)
                    told.update(len(rows))
                spool.finish()
        return cls(
            [*spools[0].runs, *spools[1].runs],
            allowance,
            without_last=0 if all(side.has_ends for side in sides) else END_BYTES,
            compared="meaning" if sides[0].by_value else "value",
            counts=np.zeros(4, np.int64),
        )

    def kept(self, path: Path, limit: int | None) -> Path:
        """Count all differences, write so many of them to a file, and remove the runs."""
        write_tables(self._differences(limit), path, DIFFERENCES, self.allowance)
        for run in self.runs:
            self.allowance.remove(run)
        return path

    def _differences(self, limit: int | None) -> Iterator[pa.Table]:
        left = sys.maxsize if limit is None else limit
        with closing(merged(self.runs, without_last=self.without_last)) as tables:
            for rows in tables:
                identity, value = (
                    rows[name].combine_chunks() for name in ("identity", self.compared)
                )
                found = match(identity, value, np.asarray(rows["is_b"]))
                self.counts += found.counts
                if left and len(found.in_a):
                    yield _joined(rows, found).slice(0, left)
                    left -= min(left, len(found.in_a))


def _joined(rows: pa.Table, found: Matches) -> pa.Table:
    """Return the rows of both sides beside each other, null where there is none."""
    bare = rows.select(ROW.names)
    halves = [
        bare.take(pa.array(places, mask=places == NOWHERE)) for places in (found.in_a, found.in_b)
    ]
    return pa.table([column for half in halves for column in half.columns], DIFFERENCES)
