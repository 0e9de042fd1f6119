"""What kstoolkit itself counted, as a store's rows: of a changelog, or of a replica's level.

There is a row for each user and window. The key is the user in UTF-8; the value either all counts
by action, as JSON (an action of several parts is a list of them, in JSON again), or one number as
Kafka's ``LongSerializer`` writes it: what a windowed count store of Kafka Streams holds of the same
events, so that the two can be compared.
"""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.changelog.changelog import Changelog
from kstoolkit.errors import ConfigurationError, Option, naming
from kstoolkit.formats import countbundle
from kstoolkit.formats.actions import in_json
from kstoolkit.formats.columns import ByteColumn, RowColumns, fixed_cells, run_edges, run_sums
from kstoolkit.formats.keys import decode_replica_keys
from kstoolkit.formats.serdes import serde_of
from kstoolkit.replica.replicafile import as_profile, segment_options, segment_span_ms
from kstoolkit.replica.segments import DiskSegment, check_ids
from kstoolkit.replica.windowstore import WindowReader
from kstoolkit.stores.rows.readable import HasRows, Readable, ReadAs
from kstoolkit.stores.rows.segmentedstore import InSegments, StoreSegments, segment_folders
from kstoolkit.stores.rows.statestore import StateStore
from kstoolkit.units import format_duration
from kstoolkit.windows import as_window

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

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
    """Counts of some users and windows: ``size`` actions each, which stand beside each other."""

    user: pa.Array
    start_ms: NDArray[np.int64]
    size: NDArray[np.int64]
    action: pa.Array
    count: NDArray[np.uint64]
    updated_at_ms: NDArray[np.int64] | None = None


@dataclass(frozen=True, slots=True)
class CountRows:
    """Which counts become rows, and how: of one action, of all together, or of each as JSON.

    Raises
    ------
    ConfigurationError
        If both are asked for.
    """

    window_ms: int
    action: str | None = None
    total: bool = False

    def __post_init__(self) -> None:
        if self.total and self.action is not None:
            message = f"Both the total and the count of {self.action!r} are asked for."
            hint = naming("Give {action} or {total}.", total=Option("total", "True"))
            raise ConfigurationError(message, hint=hint)

    @property
    def value_serde(self) -> str:
        """The name of the serde that reads the values."""
        return "long" if self.total or self.action is not None else "json"

    def of(self, told: Told) -> RowColumns:
        """Return counts as rows."""
        if self.action is not None:
            return self._rows(*_of_action(told, self.action))
        if self.total:
            return self._rows(told, _longs(run_sums(told.count.view(np.int64), told.size)))
        return self._rows(told, ByteColumn.from_arrow(_as_json(told)))

    def _rows(self, told: Told, value: ByteColumn) -> RowColumns:
        updated = told.updated_at_ms
        return RowColumns(
            np.arange(len(told.start_ms)),
            ByteColumn.from_arrow(told.user),
            value,
            window_start_ms=pa.array(told.start_ms),
            window_end_ms=pa.array(told.start_ms + self.window_ms),
            timestamp_ms=None if updated is None else pa.array(updated),
        )


def _of_action(told: Told, action: str) -> tuple[Told, ByteColumn]:
    chosen = np.flatnonzero(pc.equal(told.action, action))
    row = np.repeat(np.arange(len(told.size)), told.size)[chosen]
    updated = told.updated_at_ms
    fewer = Told(
        told.user.take(pa.array(row)),
        told.start_ms[row],
        np.ones(len(row), np.int64),
        told.action.take(pa.array(chosen)),
        told.count[chosen],
        None if updated is None else updated[row],
    )
    return fewer, _longs(fewer.count)


def _longs(numbers: NDArray[np.uint64] | NDArray[np.int64]) -> ByteColumn:
    return ByteColumn.from_arrow(fixed_cells(numbers.astype(">u8")))


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
    action: str | None = None,
    total: bool = False,
) -> Readable:
    """Return the latest counts of a changelog folder as rows, one for each user and window.

    Memory holds the counts of one of the buckets that the changelog spreads its users over.

    Parameters
    ----------
    changelog
        A changelog, its folder, or a run's output folder.
    window
        Which windows: ``"1 minute"``.
    action, total
        Count one action, or all of them together, as a long; neither: each action's, as JSON.

    Raises
    ------
    ConfigurationError
        If both are asked for, or the changelog has no such windows.
    InputError
        If there is no changelog.
    """
    source = changelog if isinstance(changelog, Changelog) else Changelog.open(Path(changelog))
    known = [format_duration(each) for each in source.window_lengths_ms()]
    return _counts_of(source, "The changelog", known, window, action, total=total)


def replica_counts(
    replica: WindowReader,
    *,
    window: Duration | Window,
    action: str | None = None,
    total: bool = False,
) -> Readable:
    """Return the counts of one level of an open replica as rows, as of a changelog.

    Raises
    ------
    ConfigurationError
        If both are asked for, or the replica has no such windows, or holds them in memory.
    """
    return _counts_of(replica, "The replica", replica.windows, window, action, total=total)


def _counts_of(
    held: Changelog | WindowReader,
    what: str,
    known: Sequence[str],
    window: Duration | Window,
    action: str | None,
    *,
    total: bool,
) -> Readable:
    size_ms = as_window(window).size_ms
    length = format_duration(size_ms)
    if length not in known:
        message = f"{what} {str(held.path)!r} has no windows of {length}."
        raise ConfigurationError(message, hint=f"It has: {', '.join(known) or 'none'}.")
    counted = CountRows(size_ms, action, total)
    return Readable(_Counts(held, counted), key_serde="string", value_serde=counted.value_serde)


@dataclass(frozen=True, slots=True)
class _Counts:
    """The latest counts of one window length, as a changelog or a replica has them."""

    held: Changelog | WindowReader
    rows: CountRows

    @property
    def name(self) -> str:
        return f"{self.held.path}, {format_duration(self.rows.window_ms)}"

    def read(self, asked: Asked) -> Iterator[RowColumns]:
        if isinstance(self.held, Changelog):
            told = _told_by_changelog(self.held, self.rows.window_ms, asked)
        else:
            told = _told_by_replica(self.held, self.rows.window_ms, asked)
        return map(self.rows.of, told)


def _told_by_changelog(changelog: Changelog, window_ms: int, asked: Asked) -> Iterator[Told]:
    """Yield counts bucket of users by bucket, or of the one user that is asked for."""
    if asked.key is not None:
        user = asked.key.decode(errors="replace")  # rows of another user are left out later
        yield from _told_by(changelog.counters(window_ms, users={user}))
        return
    for bucket in range(changelog.buckets()):
        yield from _told_by(changelog.counters(window_ms, bucket=bucket))


def _told_by_replica(replica: WindowReader, window_ms: int, asked: Asked) -> Iterator[Told]:
    """Yield counts segment by segment."""
    options, length = segment_options(as_profile(None)), format_duration(window_ms)
    for state in replica.segments():
        if state.window == length and _may_hold(state, asked):
            with closing(DiskSegment(_folder_of(state), options)) as segment:
                yield from _told_in(segment)


def _told_by(counters: Counters) -> Iterator[Told]:
    """Yield counters, so many users and windows at a time."""
    differs = np.diff(counters.user, prepend=-1) != 0
    differs[1:] |= np.diff(counters.start_ms) != 0
    begins = np.append(np.flatnonzero(differs), len(counters))
    for first in range(0, len(begins) - 1, _ROWS):
        chosen = begins[first : first + _ROWS + 1]
        rows, at = slice(chosen[0], chosen[-1]), chosen[:-1]
        yield Told(
            counters.users.take(pa.array(counters.user[at])),
            counters.start_ms[at],
            np.diff(chosen),
            _told(counters.actions, counters.parts is not None).take(
                pa.array(counters.action[rows])
            ),
            counters.count[rows],
        )


def _told(actions: pa.Array, in_parts: bool) -> pa.Array:  # noqa: FBT001 - what they are
    """Return texts of actions as rows tell them: several parts as a list in JSON."""
    return in_json(actions) if in_parts else actions


def _may_hold(state: SegmentState, asked: Asked) -> bool:
    since, until = asked.starts_ms
    too_old = since is not None and state.end_ms <= since
    return not too_old and (until is None or state.start_ms < until)


def _folder_of(state: SegmentState) -> Path:
    if state.path is None:
        message = f"The replica holds its windows of {state.window} in memory."
        raise ConfigurationError(message, hint="They are what its changelog tells: compare that.")
    return Path(state.path)


def _told_in(segment: DiskSegment) -> Iterator[Told]:
    actions = segment.actions
    for keys, values in segment.pages(_ROWS):
        users, starts_ms = decode_replica_keys(keys)
        bundles = countbundle.decode_many(values)
        check_ids(int(bundles.action_id.max(initial=0)), actions)
        yield Told(
            pa.array(users, pa.string()),
            starts_ms,
            bundles.size,
            _told(
                pa.array(actions, pa.string()), bundles.version == countbundle.VERSION_OF_PARTS
            ).take(pa.array(bundles.action_id)),
            bundles.count,
            bundles.updated_at_ms,
        )


class ReplicaLevel(InSegments, HasRows):
    """The windows of one length in a replica; made by :func:`kstoolkit.open_store`.

    Parameters
    ----------
    path
        The level's folder; an attribute too.
    read_as
        How to read its keys and values, if not as users and counts.
    """

    kind = "window"

    def __init__(self, path: Path, read_as: ReadAs) -> None:
        self.path = path
        self.window = format_duration(int(path.name))
        self.read_as = ReadAs(
            key_serde=read_as.key_serde or "string", value_serde=read_as.value_serde or "json"
        )
        self.replica = WindowReader.open(path.parent)

    @property
    def name(self) -> str:
        """The length of its windows: ``"1 hour"``."""
        return self.window

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
        return format_duration(self._window_ms)

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
        return _SpanOfRows(level, segment_span_ms(self._window_ms, start_ms))

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


@dataclass(frozen=True, slots=True)
class _SpanOfRows:
    """The rows of a source that lie in a span of time."""

    whole: RowSource
    span_ms: range

    @property
    def name(self) -> str:
        return self.whole.name

    def read(self, asked: Asked) -> Iterator[RowColumns]:
        since, until = asked.since_ms, asked.until_ms
        first = self.span_ms.start if since is None else max(since, self.span_ms.start)
        last = self.span_ms.stop if until is None else min(until, self.span_ms.stop)
        narrow = replace(asked, since_ms=first, until_ms=last)
        for rows in self.whole.read(narrow):
            yield rows.take(narrow.chosen(rows))
