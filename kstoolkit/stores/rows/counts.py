"""What kstoolkit itself counted, to compare another store with: a changelog's or a replica's."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kstoolkit.changelog.changelog import Changelog
from kstoolkit.errors import ConfigurationError
from kstoolkit.formats import countbundle
from kstoolkit.formats.keys import decode_replica_keys
from kstoolkit.replica.replicafile import as_profile, segment_options
from kstoolkit.replica.segments import DiskSegment, check_ids
from kstoolkit.stores.rows.countrows import CountRows, Told
from kstoolkit.stores.rows.readable import Readable
from kstoolkit.units import format_duration
from kstoolkit.windows import as_window

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from kstoolkit.counters.counters import Counters
    from kstoolkit.formats.columns import RowColumns
    from kstoolkit.replica.records import SegmentState
    from kstoolkit.replica.windowstore import WindowReader
    from kstoolkit.stores.rows.asking import Asked
    from kstoolkit.units import Duration
    from kstoolkit.windows import Window


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
    kind = as_window(window)
    lengths_ms = source.window_lengths_ms()
    if kind.size_ms not in lengths_ms:
        known = [format_duration(each) for each in lengths_ms]
        raise _no_such_window(kind, f"The changelog {str(source.path)!r}", known)
    counted = CountRows(kind.size_ms, action, total)
    return Readable(
        _ChangelogCounts(source, counted), key_serde="string", value_serde=counted.value_serde
    )


def replica_counts(
    replica: WindowReader,
    *,
    window: Duration | Window,
    action: str | None = None,
    total: bool = False,
) -> Readable:
    """Return the counts of one level of a replica as rows, one for each user and window.

    Parameters
    ----------
    replica
        The replica, open until the rows are read.
    window, action, total
        As in :func:`changelog_counts`.

    Raises
    ------
    ConfigurationError
        If both are asked for, or the replica has no such windows, or holds them in memory.
    """
    kind = as_window(window)
    if format_duration(kind.size_ms) not in replica.windows:
        raise _no_such_window(kind, f"The replica {str(replica.path)!r}", replica.windows)
    counted = CountRows(kind.size_ms, action, total)
    return Readable(
        _ReplicaCounts(replica, counted), key_serde="string", value_serde=counted.value_serde
    )


def _no_such_window(window: Window, where: str, known: Sequence[str]) -> ConfigurationError:
    message = f"{where} has no windows of {format_duration(window.size_ms)}."
    return ConfigurationError(message, hint=f"It has: {', '.join(known) or 'none'}.")


@dataclass(frozen=True, slots=True)
class _ChangelogCounts:
    """The latest counts of one window length, bucket of users by bucket."""

    changelog: Changelog
    rows: CountRows

    @property
    def name(self) -> str:
        return f"{self.changelog.path}, {format_duration(self.rows.window_ms)}"

    def read(self, asked: Asked) -> Iterator[RowColumns]:
        for counters in self._counters(asked):
            yield from map(self.rows.of, _told_by(counters))

    def _counters(self, asked: Asked) -> Iterator[Counters]:
        if asked.key is not None:
            user = asked.key.decode(errors="replace")  # rows of another user are left out later
            yield self.changelog.counters(self.rows.window_ms, users={user})
            return
        for bucket in range(self.changelog.buckets()):
            yield self.changelog.counters(self.rows.window_ms, bucket=bucket)


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
            counters.actions.take(pa.array(counters.action[rows])),
            counters.count[rows],
        )


@dataclass(frozen=True, slots=True)
class _ReplicaCounts:
    """The counts of one level, segment by segment."""

    replica: WindowReader
    rows: CountRows

    @property
    def name(self) -> str:
        return f"{self.replica.path}, {format_duration(self.rows.window_ms)}"

    def read(self, asked: Asked) -> Iterator[RowColumns]:
        options = segment_options(as_profile(None))
        for state in self.replica.segments():
            if state.window == format_duration(self.rows.window_ms) and _may_hold(state, asked):
                with closing(DiskSegment(_folder_of(state), options)) as segment:
                    yield from map(self.rows.of, _told_in(segment))


def _may_hold(state: SegmentState, asked: Asked) -> bool:
    since, until = asked.since_ms, asked.until_ms
    if asked.window_start_ms is not None:
        since, until = asked.window_start_ms, asked.window_start_ms + 1
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
            pa.array(actions, pa.string()).take(pa.array(bundles.action_id)),
            bundles.count,
            bundles.updated_at_ms,
        )
