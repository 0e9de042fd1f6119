"""In which rows two stores differ, whatever their sizes, engines and orders.

Both are read once, and their rows sorted into a scratch folder by what makes them the same row
(:mod:`kstoolkit.stores.comparing.identity`); then they are merged. Memory holds a run of some tens
of MiB while a store is read, and a block of each run while they are merged.

Where each side has one row of an identity, the two are equal or one has changed into the other.
Where a side has several (a list's elements, a join's duplicates), nothing says which became which:
the rows are counted by value, what both have equally often is equal, the rest removed or added.
"""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tqdm import tqdm

from kstoolkit.errors import ConfigurationError
from kstoolkit.formats.serdes import serde_of
from kstoolkit.rocksdb.faults import translated
from kstoolkit.rocksdb.files.shadow import new_scratch_folder
from kstoolkit.stores.comparing.folders import both_opened
from kstoolkit.stores.comparing.sides import (
    ROW,
    SPOOLED,
    Allowance,
    Side,
    Spool,
    merged,
    write_tables,
)
from kstoolkit.stores.comparing.storediff import DIFFERENCES, DiffCounts, StoreDiff
from kstoolkit.stores.rows.readable import Rows

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from kstoolkit.stores.rows.counts import Counted
    from kstoolkit.stores.rows.readable import HasRows, SerdeLike
    from kstoolkit.units import Duration

_NOWHERE = -1  # the place of a row that a side has not


@dataclass(frozen=True, slots=True, eq=False)
class _Matches:
    """The differences among some rows: where either side's row is, and how many rows are equal."""

    in_a: NDArray[np.intp]
    in_b: NDArray[np.intp]
    num_equal: int

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many rows were added, removed, changed, and are equal."""
        added = int((self.in_a == _NOWHERE).sum())
        removed = int((self.in_b == _NOWHERE).sum())
        changed = len(self.in_a) - added - removed
        return np.array([added, removed, changed, self.num_equal], np.int64)


def _match(identity: pa.Array, value: pa.Array, is_b: NDArray[np.bool_]) -> _Matches:
    """Return which rows differ, in the order of their identities; all rows of each are here."""
    begins = np.asarray(pc.not_equal(identity[1:], identity[:-1]))
    group = np.concatenate([[0], np.cumsum(begins)])[: len(identity)]  # of each row, from 0
    number = int(group[-1]) + 1 if len(group) else 0
    num_a, num_b = (np.bincount(group[side], minlength=number) for side in (~is_b, is_b))
    alone = (num_a <= 1) & (num_b <= 1)
    of_groups, same = _matched_alone(group, value, is_b, alone)
    crowded = np.flatnonzero(~alone[group])
    of_crowds, shared = _matched_by_count(group, value, is_b, crowded)
    in_a, in_b = (np.concatenate(each) for each in zip(of_groups, of_crowds, strict=True))
    order = np.lexsort((in_b, group[np.maximum(in_a, in_b)]))
    return _Matches(in_a[order], in_b[order], same + shared)


_Places = tuple["NDArray[np.intp]", "NDArray[np.intp]"]


def _matched_alone(
    group: NDArray[np.int64], value: pa.Array, is_b: NDArray[np.bool_], alone: NDArray[np.bool_]
) -> tuple[_Places, int]:
    """Return the differences of identities with one row a side at most, and how many are equal."""
    in_a, in_b = (np.full(len(alone), _NOWHERE, np.intp) for _ in range(2))
    rows = np.arange(len(group))
    in_a[group[~is_b]], in_b[group[is_b]] = rows[~is_b], rows[is_b]
    both = np.flatnonzero(alone & (in_a != _NOWHERE) & (in_b != _NOWHERE))
    one, other = (value.take(pa.array(places[both])) for places in (in_a, in_b))
    both_null = pc.and_(one.is_null(), other.is_null())
    equal = np.asarray(pc.or_(pc.fill_null(pc.equal(one, other), fill_value=False), both_null))
    differs = alone.copy()
    differs[both[equal]] = False
    return (in_a[differs], in_b[differs]), int(equal.sum())


def _matched_by_count(
    group: NDArray[np.int64], value: pa.Array, is_b: NDArray[np.bool_], rows: NDArray[np.intp]
) -> tuple[_Places, int]:
    """Return what is left of some rows when equal ones of both sides are taken away in pairs."""
    codes = value.take(pa.array(rows)).dictionary_encode(null_encoding="encode").indices
    kinds = np.stack([group[rows], np.asarray(codes, dtype=np.int64)])
    _, kind = np.unique(kinds, axis=1, return_inverse=True)
    kind, of_b = kind.reshape(-1), is_b[rows]
    number = int(kind.max(initial=-1)) + 1
    num_a, num_b = (np.bincount(kind[side], minlength=number) for side in (~of_b, of_b))
    pairs = np.minimum(num_a, num_b)
    left_a, left_b = (
        rows[side][_rank(kind[side]) >= pairs[kind[side]]]
        for side in (np.flatnonzero(~of_b), np.flatnonzero(of_b))
    )
    in_a = np.concatenate([left_a, np.full(len(left_b), _NOWHERE, np.intp)])
    in_b = np.concatenate([np.full(len(left_a), _NOWHERE, np.intp), left_b])
    return (in_a, in_b), int(pairs.sum())


def _rank(kind: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many of its kind stand before each one."""
    order = np.argsort(kind, kind="stable")
    ordered = kind[order]
    rank = np.empty(len(kind), np.int64)
    rank[order] = np.arange(len(kind)) - np.searchsorted(ordered, ordered)
    return rank


_DISK_BYTES = 16 << 30


def diff_stores(
    a: HasRows | Rows | str | os.PathLike[str],
    b: HasRows | Rows | str | os.PathLike[str],
    *,
    store: str | None = None,
    window_size: Duration | None = None,
    action: str | None = None,
    total: bool = False,
    where: Mapping[str, str | None] | None = None,
    key_serde: SerdeLike | None = None,
    value_serde: SerdeLike | None = None,
    by_value: bool = False,
    limit: int | None = None,
    disk_bytes: int = _DISK_BYTES,
    scratch: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> StoreDiff:
    """Return what two stores differ in.

    Rows are the same row if their key, window's start and end are the same, and in a versioned
    store since when they are valid; ends count only if both stores tell them, and so do column
    families: Spark's state variables, and the sides of a join. The same row has changed if its
    value has: timestamps and headers are not compared. Where a store has several rows of one key
    and window, they are counted by value, and none has changed into another.

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
        Of folders: window length, where untold; which windows of a changelog or run are meant.
    action, total, where
        Of folders of kstoolkit's counts: those of one action, the sums of all, or of those with
        these values of their parts, as longs, which is what a count store of Kafka Streams keeps;
        none of it: each action's, as JSON.
    key_serde, value_serde
        How to read keys and values of both; None: as each store was told to, or as is guessed.
    by_value
        Whether to compare what the serdes read, not the bytes: a long of 3 equals JSON's ``3``,
        which is what it takes to compare stores of different engines.
    limit
        Keep at most so many differences; they are counted all the same.
    disk_bytes, scratch
        How much scratch disk to take at most, about what the rows take, or less; and where.
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
    >>> from kstoolkit.stores.comparing.folders import listed
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
    counted: Counted = {"action": action, "total": total, "where": where}
    with both_opened(a, b, store=store, window_size=window_size, **counted) as opened:
        rows_a, rows_b = (_rows(each, key_serde, value_serde) for each in opened)
        folder = new_scratch_folder(scratch)
        try:
            with translated(folder.path):
                sides = _sides(rows_a, rows_b, by_value=by_value)
                allowance, counts = Allowance(disk_bytes), np.zeros(4, np.int64)
                runs = _spooled(sides, folder.path, allowance, shown=progress)
                kept = folder.path / "differences.arrows"
                found = _differences(runs, sides, counts, limit)
                write_tables(found, kept, DIFFERENCES, allowance)
                for run in runs:
                    allowance.remove(run)
            return StoreDiff(
                folder,
                kept,
                DiffCounts(*counts.tolist()),
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


def _spooled(
    sides: tuple[Side, Side], folder: Path, allowance: Allowance, *, shown: bool
) -> list[Path]:
    """Read both stores, and return the runs that their rows were sorted into."""
    spools = [Spool(folder, name, SPOOLED, allowance) for name in ("a", "b")]
    with tqdm(unit=" rows", unit_scale=True, disable=not shown, file=sys.stderr) as told:
        for side, spool in zip(sides, spools, strict=True):
            for rows in side.tables():
                spool.add(rows)
                told.update(len(rows))
            spool.finish()
    return [*spools[0].runs, *spools[1].runs]


def _differences(
    runs: list[Path], sides: tuple[Side, Side], counts: NDArray[np.int64], limit: int | None
) -> Iterator[pa.Table]:
    """Yield so many differences, and add what all rows are to the counts."""
    compared = "meaning" if sides[0].by_value else "value"
    left = sys.maxsize if limit is None else limit
    with closing(merged(runs, has_ends=all(side.has_ends for side in sides))) as tables:
        for rows in tables:
            identity, value = (rows[name].combine_chunks() for name in ("identity", compared))
            found = _match(identity, value, np.asarray(rows["is_b"]))
            counts += found.counts
            if left and len(found.in_a):
                yield _joined(rows, found).slice(0, left)
                left -= min(left, len(found.in_a))


def _joined(rows: pa.Table, found: _Matches) -> pa.Table:
    """Return the rows of both sides beside each other, null where there is none."""
    bare = rows.select(ROW.names)
    halves = [
        bare.take(pa.array(places, mask=places == _NOWHERE)) for places in (found.in_a, found.in_b)
    ]
    return pa.table([column for half in halves for column in half.columns], DIFFERENCES)
