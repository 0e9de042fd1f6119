"""What kstoolkit itself counted, as a store's rows: of a changelog, or of a replica's level.

Each user and window has a row. The key is the user in UTF-8; the value either all counts by action,
as JSON (of several parts, a list in JSON again), or one number as Kafka's ``LongSerializer`` writes
it: what a windowed count store of Kafka Streams holds of the same events, to compare the two.
"""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.changelog.changelog import Changelog
from kstoolkit.errors import ConfigurationError, Option, naming
from kstoolkit.formats import countbundle
from kstoolkit.formats.actions import are_chosen, checked, in_json
from kstoolkit.formats.columns import ByteColumn, RowColumns, fixed_cells, run_edges, run_sums
from kstoolkit.formats.keys import decode_replica_keys
from kstoolkit.formats.serdes import serde_of
from kstoolkit.replica.replicafile import as_profile, segment_options, segment_span_ms
from kstoolkit.replica.segments import DiskSegment, check_ids
from kstoolkit.replica.windowstore import WindowReader
from kstoolkit.stores.rows.readable import HasRows, NamedRows, Readable, ReadAs
from kstoolkit.stores.rows.segmentedstore import InSegments, StoreSegments, segment_folders
from kstoolkit.stores.rows.statestore import StateStore
from kstoolkit.windows import as_window, length_label

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from kstoolkit.counters.counters import Counters
    from kstoolkit.formats.serdes import Serde
    from kstoolkit.replica.records import SegmentState
    from kstoolkit.stores.rows.asking import Asked
    from kstoolkit.stores.rows.readable import RowSource
    from kstoolkit.units import Duration
    from kstoolkit.windows import Window


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """Counts of some users and windows: ``size`` actions each, which stand beside each other.

    Of sessions, ``end_ms`` says when that of each action ended.
    """

    user: pa.Array
    start_ms: NDArray[np.int64]
    size: NDArray[np.int64]
    action: pa.Array
    count: NDArray[np.uint64]
    updated_at_ms: NDArray[np.int64] | None = None
    end_ms: NDArray[np.int64] | None = None


class Counted(TypedDict, total=False):
    """What of kstoolkit's counts is asked for: as of :class:`CountRows`."""

    action: str | None
    total: bool
    where: Mapping[str, str | None] | None


@dataclass(frozen=True, slots=True)
class CountRows:
    """Which counts become rows, and how: sums of some actions or of all, or of each as JSON.

    As longs, those of one action, of all, or of those with these values of their parts (``where``);
    with none of it, each action's. Two of it at once are a ConfigurationError.
    """

    window_ms: int
    action: str | None = None
    total: bool = False
    where: Mapping[str, str | None] | None = None

    def __post_init__(self) -> None:
        if self.total and self.action is not None:
            message = f"Both the total and the count of {self.action!r} are asked for."
            hint = naming("Give {action} or {total}.", total=Option("total", "True"))
            raise ConfigurationError(message, hint=hint)
        if self.where and self.action is not None:
            message = f"Both the count of {self.action!r} and other counts are asked for."
            raise ConfigurationError(message, hint=naming("Give {action} or {where}."))

    @property
    def chosen(self) -> Mapping[str, str | None]:
        """Which values parts must have; an action that is one column is called so."""
        return self.where or ({} if self.action is None else {"action": self.action})

    @property
    def value_serde(self) -> str:
        """The name of the serde that reads the values."""
        return "long" if self.total or self.chosen else "json"

    def of(self, told: Told) -> RowColumns:
        """Return counts as rows."""
        if self.value_serde == "json":
            value = _as_json(told)
        else:
            value = fixed_cells(run_sums(told.count.view(np.int64), told.size).astype(">u8"))
        updated, ends = told.updated_at_ms, told.start_ms + self.window_ms
        if told.end_ms is not None and len(ends):
            ends = np.maximum.reduceat(told.end_ms, run_edges(told.size)[:-1])
        return RowColumns(
            np.arange(len(told.start_ms)),
            ByteColumn.from_arrow(told.user),
            ByteColumn.from_arrow(value),
            window_start_ms=pa.array(told.start_ms),
            window_end_ms=pa.array(ends),
            timestamp_ms=None if updated is None else pa.array(updated),
        )


def _as_json(told: Told) -> pa.Array:
    """Return the counts of each user and window as an object, its actions in order."""
    coded = told.action.dictionary_encode()
    names = coded.dictionary.to_pylist()
    place = np.argsort(np.argsort(np.array(names, object))) if names else np.zeros(0, np.int64)
    row = np.repeat(np.arange(len(told.size)), told.size)
    order = np.lexsort((place[np.asarray(coded.indices)], row))
    quoted = pa.array([f"{json.dumps(name)}: " for name in names], pa.large_string())
    counts = pa.array(told.count[order]).cast(pa.large_string())
    marks = (", ", "{", "}", "")
    comma, begin, end, nothing = (pa.scalar(each, pa.large_string()) for each in marks)
    pairs = pc.binary_join_element_wise(quoted.take(coded.indices.take(order)), counts, nothing)
    ends = pa.array(run_edges(told.size))
    joined = pc.binary_join(pa.LargeListArray.from_arrays(ends, pairs), comma)
    return pc.binary_join_element_wise(begin, joined, end, nothing)


_ROWS = 10_000


def changelog_counts(
    changelog: Changelog | str | os.PathLike[str],
    *,
    window: Duration | Window,
    **counted: Unpack[Counted],
) -> Readable:
    """Return the latest counts of a changelog folder as rows, one for each user and window.

    ``changelog`` may be a run's output folder, too; the other arguments are those of
    :class:`CountRows`. Memory holds the counts of one of the buckets that the changelog spreads its
    users over. If both are asked for, or there are no such windows, it is a ConfigurationError; if
    an action has no such part, a ColumnError; without a changelog, an InputError.
    """
    source = changelog if isinstance(changelog, Changelog) else Changelog.open(Path(changelog))
    known = [length_label(each) for each in source.window_lengths_ms()]
    rows = CountRows(as_window(window).size_ms, **counted)
    told = partial(_told_by_changelog, source)
    return _counts_of("The changelog", source.path, known, rows, parts=source.parts(), told=told)


def replica_counts(
    replica: WindowReader, *, window: Duration | Window, **counted: Unpack[Counted]
) -> Readable:
    """Return the counts of one level of an open replica as rows, as of a changelog.

    Both asked for, no such windows, and windows in memory are a ConfigurationError.
    """
    rows = CountRows(as_window(window).size_ms, **counted)
    told = partial(_told_by_replica, replica)
    return _counts_of(
        "The replica", replica.path, replica.windows, rows, parts=replica.parts, told=told
    )


def _counts_of(
    what: str,
    path: Path,
    known: Sequence[str],
    rows: CountRows,
    *,
    parts: tuple[str, ...] | None,
    told: Callable[[CountRows, Asked], Iterator[Told]],
) -> Readable:
    checked(("action",) if parts is None else parts, list(rows.chosen), what="where")
    length = length_label(rows.window_ms)
    if length not in known:
        message = f"{what} {str(path)!r} has no windows of {length}."
        raise ConfigurationError(message, hint=f"It has: {', '.join(known) or 'none'}.")
    source = NamedRows(f"{path}, {length}", lambda asked: map(rows.of, told(rows, asked)))
    return Readable(source, key_serde="string", value_serde=rows.value_serde)


def _told_by_changelog(changelog: Changelog, rows: CountRows, asked: Asked) -> Iterator[Told]:
    """Yield counts bucket of users by bucket, or of the one user that is asked for."""
    if asked.key is not None:
        user = asked.key.decode(errors="replace")  # rows of another user are left out later
        yield from _told_by(changelog.counters(rows.window_ms, users={user}), rows)
        return
    for bucket in range(changelog.buckets()):
        yield from _told_by(changelog.counters(rows.window_ms, bucket=bucket), rows)


def _told_by_replica(replica: WindowReader, rows: CountRows, asked: Asked) -> Iterator[Told]:
    """Yield counts segment by segment."""
    options, length = segment_options(as_profile(None)), length_label(rows.window_ms)
    for state in replica.segments():
        if state.window == length and _may_hold(state, asked):
            with closing(DiskSegment(_folder_of(state), options)) as segment:
                yield from _told_in(segment, rows, replica.parts)


def _told_by(counters: Counters, rows_of: CountRows) -> Iterator[Told]:
    """Yield counters, so many users and windows at a time."""
    counters = counters.where(rows_of.chosen) if len(counters) else counters
    texts = counters.actions if counters.parts is None else in_json(counters.actions)
    differs = np.diff(counters.user, prepend=-1) != 0
    differs[1:] |= np.diff(counters.start_ms) != 0
    begins = np.append(np.flatnonzero(differs), len(counters))
    for first in range(0, len(begins) - 1, _ROWS):
        chosen = begins[first : first + _ROWS + 1]
        rows, at = slice(chosen[0], chosen[-1]), chosen[:-1]
        users = counters.users.take(pa.array(counters.user[at]))
        actions = texts.take(pa.array(counters.action[rows]))
        told = (users, counters.start_ms[at], np.diff(chosen), actions, counters.count[rows])
        yield Told(*told, end_ms=None if counters.end_ms is None else counters.end_ms[rows])


def _may_hold(state: SegmentState, asked: Asked) -> bool:
    since, until = asked.starts_ms
    return (since is None or state.end_ms > since) and (until is None or state.start_ms < until)


def _folder_of(state: SegmentState) -> Path:
    if state.path is None:
        message = f"The replica holds its windows of {state.window} in memory."
        raise ConfigurationError(message, hint="They are what its changelog tells: compare that.")
    return Path(state.path)


def _told_in(
    segment: DiskSegment, rows: CountRows, parts: tuple[str, ...] | None
) -> Iterator[Told]:
    actions = segment.actions
    texts = pa.array(actions, pa.string())
    wanted = are_chosen(texts, parts, rows.chosen)
    texts = texts if parts is None else in_json(texts)
    for keys, values in segment.pages(_ROWS):
        users, starts_ms = decode_replica_keys(keys)
        bundles = countbundle.decode_many(values)
        check_ids(int(bundles.action_id.max(initial=0)), actions)
        owner, chosen = np.repeat(np.arange(len(keys)), bundles.size), wanted[bundles.action_id]
        ends_ms = None
        if bundles.lasted_ms is not None:  # where a count of 0 is that of no session
            chosen &= bundles.count > 0
            ends_ms = (starts_ms[owner] + bundles.lasted_ms.astype(np.int64))[chosen]
        size = np.bincount(owner[chosen], minlength=len(keys))
        row = np.flatnonzero(size)  # who did none of it has no row
        yield Told(
            pa.array(users, pa.string()).take(pa.array(row)),
            starts_ms[row],
            size[row],
            texts.take(pa.array(bundles.action_id[chosen])),
            bundles.count[chosen],
            bundles.updated_at_ms[row],
            ends_ms,
        )


class ReplicaLevel(InSegments, HasRows):
    """The windows of one length in a replica; made by :func:`kstoolkit.open_store`.

    Parameters
    ----------
    path
        The level's folder; an attribute too, as ``name`` is, the length of its windows.
    read_as
        How to read its keys and values, if not as users and counts.
    """

    kind = "window"

    def __init__(self, path: Path, read_as: ReadAs) -> None:
        self.path = path
        self.name = self.window = length_label(int(path.name))
        self.read_as = ReadAs(
            key_serde=read_as.key_serde or "string", value_serde=read_as.value_serde or "json"
        )
        self.replica = WindowReader.open(path.parent)

    @cached_property
    def source(self) -> RowSource:
        """Where its rows lie."""
        return replica_counts(self.replica, window=self.window).source

    @cached_property
    def segments(self) -> StoreSegments:  # type: ignore[override] # an attribute as good
        """Its segments, as RocksDB sees them; closed with it."""
        found = segment_folders(self.path)
        return StoreSegments(self.path, {} if found is None else found.by_start)

    def close(self) -> None:
        """Close the replica; a second time does nothing."""
        if "segments" in self.__dict__:
            self.segments.close()
        self.replica.close()

    def __repr__(self) -> str:
        return f"ReplicaLevel({str(self.path)!r}, windows of {self.window})"


class ReplicaSegment(StateStore):
    """One segment of a replica: what RocksDB tells of it, and its rows as users and counts."""

    kind = "window"

    @property
    def name(self) -> str:
        """The length of its windows: ``"1 hour"``."""
        return length_label(self._window_ms)

    @property
    def key_serde(self) -> Serde:
        """How keys are read: as users, if not told otherwise."""
        return serde_of(self.read_as.key_serde or "string")

    @property
    def value_serde(self) -> Serde:
        """How values are read: as counts by action, if not told otherwise."""
        return serde_of(self.read_as.value_serde or "json")

    @cached_property
    def source(self) -> RowSource:
        """Where its rows lie."""
        level = replica_counts(self._replica, window=self.name).source
        start_ms = int(self.path.absolute().name.partition(".")[2])
        span_ms = segment_span_ms(self._window_ms, start_ms)
        return NamedRows(level.name, partial(_within, level, span_ms))

    def close(self) -> None:
        """Close the segment, and the replica that it is of; a second time does nothing."""
        self._replica.close()
        super().close()

    @cached_property
    def _replica(self) -> WindowReader:
        return WindowReader.open(self.path.absolute().parents[1])

    @property
    def _window_ms(self) -> int:
        return int(self.path.absolute().parent.name)


def _within(source: RowSource, span_ms: range, asked: Asked) -> Iterator[RowColumns]:
    """Return the rows of a source that lie in a span of time."""
    since, until = asked.since_ms, asked.until_ms
    first = span_ms.start if since is None else max(since, span_ms.start)
    last = span_ms.stop if until is None else min(until, span_ms.stop)
    narrow = replace(asked, since_ms=first, until_ms=last)
    return (rows.take(narrow.chosen(rows)) for rows in source.read(narrow))
