"""How a replica is brought up to its changelog, so that it may be killed at any moment.

A level goes from one position to the next in a pass. A pass of many records is made in pieces, by
the users' buckets, and after each piece what it wrote is flushed, then ``replica.json`` says that
the piece is done. A pass that was cut short goes on with the first piece that is not. Latest values
written twice are still the latest values, so it does no harm that a piece is begun again, or that
it takes in batches that came meanwhile, which the next pass brings to the other pieces.

A damaged segment is rebuilt from the changelog, beside its place, and the others stay. Segments
that have been kept long enough are dropped whole, without a tombstone.

The lab replays a changelog as the writes of a store: what following it writes, batch by batch.
"""

from __future__ import annotations

import shutil
from collections import OrderedDict
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import TYPE_CHECKING

from kstoolkit.changelog.changelog import Changelog, sync
from kstoolkit.changelog.reader import ChangelogReader, Position
from kstoolkit.errors import FormatError, InputError
from kstoolkit.moments import moment_of
from kstoolkit.replica.listening import telling
from kstoolkit.replica.replicafile import (
    LevelState,
    ReplicaState,
    check_not_behind,
    check_same_changelog,
    remove_leftovers,
    segment_folder,
    segment_length_ms,
    segment_span_ms,
    set_aside,
)
from kstoolkit.replica.segments import DiskSegment, Filling, MemorySegment
from kstoolkit.rocksdb.faults import DamagedStoreError, NoStoreError, StoreFault
from kstoolkit.windows import as_window, length_label

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from rocksdict import Options

    from kstoolkit.replica.listening import RestoreListener
    from kstoolkit.replica.records import Mark
    from kstoolkit.replica.replicafile import MemoryLevel
    from kstoolkit.replica.segments import Pairs
    from kstoolkit.units import Duration
    from kstoolkit.windows import Window

_MOST_OPEN = 64


class _SegmentWriters:
    """Opens segments as they are written; what it closes is on disk."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._open: OrderedDict[Path, DiskSegment] = OrderedDict()

    def segment(self, folder: Path, mark: Mark | None) -> DiskSegment:
        if folder in self._open:
            self._open.move_to_end(folder)
            return self._open[folder]
        if mark is not None and not (folder / "CURRENT").exists():
            message = f"The segment {folder} is damaged: it has no CURRENT file."
            raise DamagedStoreError(message)
        segment = self._open[folder] = DiskSegment(folder, self.options, writing=True)
        if mark is not None:
            segment.check_holds(mark)
        if len(self._open) > _MOST_OPEN:
            _finish(self._open.popitem(last=False)[1])
        return segment

    def flush(self, folders: Iterable[Path]) -> None:
        """Have on disk what was written to some segments; closed ones have it."""
        for folder in folders:
            if folder in self._open:
                self._open[folder].flush()

    def let_go(self, folder: Path) -> None:
        """Close a damaged segment, whatever was written to it."""
        if folder in self._open:
            self._open.pop(folder).close()

    def close(self) -> None:
        with ExitStack() as all_of_them:  # whichever of them fails
            for segment in self._open.values():
                all_of_them.callback(_finish, segment)
            self._open.clear()


def _finish(segment: DiskSegment) -> None:
    with closing(segment):
        segment.flush()


_DAMAGE = (FormatError, StoreFault, NoStoreError)
"""What a damaged segment raises; a lock, a full disk or missing permission is no damage."""


def _is_whole(folder: Path, options: Options, mark: Mark) -> bool:
    """Return whether every block of a segment can be read, and all that is said to be in it is."""
    try:
        with closing(DiskSegment(folder, options)) as segment:
            segment.check()
            segment.check_holds(mark)
    except _DAMAGE:
        return False
    return True


_LONG_AGO_MS = -(2**63)


def expire(
    folder: Path, state: ReplicaState, memory: Mapping[int, MemoryLevel], now_ms: int | None
) -> tuple[ReplicaState, int]:
    """Drop segments, and return what the replica's file says then, and how many it were.

    ``now_ms`` is epoch ms UTC; ``None``: as far as the data has come.
    """
    starts: dict[int, Collection[int]] = {each: at.segments for each, at in state.levels.items()}
    starts |= {each: held.segments for each, held in memory.items()}
    if now_ms is None:
        now_ms = max((start for each in starts.values() for start in each), default=_LONG_AGO_MS)
    gone = {each: _expired(each, at, state.retention_ms, now_ms) for each, at in starts.items()}
    for window_ms, held in memory.items():
        held.state = _without(held.state, gone[window_ms])
        for start_ms in gone[window_ms]:
            del held.segments[start_ms]
    levels = {each: _without(level, gone[each]) for each, level in state.levels.items()}
    if levels != state.levels:
        state = replace(state, levels=levels)
        state.save(folder)  # from now on nobody counts on them
        remove_leftovers(folder, state)
    return state, sum(map(len, gone.values()))


def _expired(
    window_ms: int, starts: Iterable[int], retention_ms: Mapping[int, int], now_ms: int
) -> set[int]:
    kept_ms = retention_ms.get(window_ms)
    if kept_ms is None:
        return set()
    # A session goes on behind the segment that it begins in.
    kept_ms += 0 if window_ms > 0 else segment_length_ms(window_ms)
    return {start for start in starts if segment_span_ms(window_ms, start).stop + kept_ms <= now_ms}


def _without(level: LevelState, starts: set[int]) -> LevelState:
    if not starts:
        return level
    floor_ms = segment_span_ms(level.window_ms, max(starts)).stop
    left = {start: mark for start, mark in level.segments.items() if start not in starts}
    floor_ms = max(floor_ms, level.expired_before_ms or floor_ms)
    return replace(level, segments=left, expired_before_ms=floor_ms)


_BETWEEN_CHECKPOINTS = 4_000_000  # records


class CatchUp:
    """Writes what a changelog tells into a replica, which has its file. Its caller holds the lock.

    A replica of another changelog is an :class:`~kstoolkit.errors.InputError`.
    """

    def __init__(
        self,
        folder: Path,
        changelog: Changelog,
        *,
        options: Options,
        listeners: Sequence[RestoreListener],
        memory: Mapping[int, MemoryLevel],
    ) -> None:
        self.folder, self.changelog, self.options = folder, changelog, options
        self.listeners, self.memory = listeners, memory
        self.state = ReplicaState.load(folder)
        self._writers = _SegmentWriters(options)
        self._written: dict[int, Mark] = {}
        check_same_changelog(folder, self.levels.values(), changelog)
        remove_leftovers(folder, self.state)

    @property
    def levels(self) -> dict[int, LevelState]:
        """All levels, on disk and in memory."""
        return self.state.levels | {each: level.state for each, level in self.memory.items()}

    @property
    def position(self) -> Position | None:
        """Up to where all levels are; ``None`` if one has nothing yet, or there are none."""
        places = [level.position for level in self.levels.values()]
        known = [place for place in places if place is not None]
        return min(known) if known and len(known) == len(places) else None

    def run(self) -> int:
        """Take in all that is new, and return how many records that was."""
        self.changelog.refresh()
        check_not_behind(self.folder, self.levels.values(), self.changelog)
        reader = ChangelogReader(self.changelog, self.position)
        target = reader.newest()
        if target is None:
            return 0
        changed_ms = ChangelogReader.of_one(self.changelog, target).newest_change_ms()
        lengths = reader.window_lengths_ms() | set(self.levels)
        self.state = replace(self.state, parts=self.changelog.parts())
        self._name(lengths - self.levels.keys())
        return sum(self._bring(window_ms, target, changed_ms) for window_ms in sorted(lengths))

    def mend(self) -> None:
        """Rebuild each segment that is damaged, torn or gone, and no other."""
        for window_ms, level in self.state.levels.items():
            for start_ms, mark in level.segments.items():
                if not _is_whole(self._folder(window_ms, start_ms), self.options, mark):
                    self._rebuild(window_ms, start_ms)

    def expire(self, now_ms: int | None) -> int:
        """Drop segments that have been kept long enough, and return how many; as :func:`expire`."""
        if not self.state.retention_ms:
            return 0
        self.close()
        self.state, dropped = expire(self.folder, self.state, self.memory, now_ms)
        return dropped

    def close(self) -> None:
        """Close what is open for writing."""
        self._writers.close()

    def _name(self, lengths_ms: set[int]) -> None:
        """Say which levels are about to be brought, before the first of them is.

        Whoever goes on after a restore that was cut short would else not know of those that it did
        not come to, take the others for all there are, and never look so far back again.
        """
        for window_ms in lengths_ms:
            self.state = self.state.with_level(LevelState(window_ms))
        if lengths_ms:
            self.state.save(self.folder)

    def _bring(self, window_ms: int, target: Position, changed_ms: int | None) -> int:
        """Bring one level to a position, and return how many records were read."""
        done, level = 0, self.levels[window_ms]
        while level.position is None or level.position < target:
            reader = ChangelogReader(self.changelog, level.position)
            total = reader.rows(window_ms)
            with telling(self.listeners, length_label(window_ms), total):
                level = self._pass(level, reader, total, target)
                clock_ms = changed_ms if level.toward == target else None
                level = replace(level, position=level.toward, changed_ms=clock_ms)
                level = replace(level, toward=None, pieces_done=0)
                self._save(level)
            done += total
        return done

    def _pass(
        self, level: LevelState, reader: ChangelogReader, total: int, target: Position
    ) -> LevelState:
        """Make the pieces of a pass that are not done yet."""
        if level.toward is None:
            pieces = reader.pieces(level.window_ms) if total else 0
            level = replace(level, toward=target, pieces=pieces, pieces_done=0)
        self._written = {}
        told, since = total * level.pieces_done // max(level.pieces, 1), 0
        for piece in range(level.pieces_done, level.pieces):
            dated = reader.read(level.window_ms, bucket=(piece, level.pieces))
            self._fill(level, Filling.of(dated), target)
            reached = total * (piece + 1) // level.pieces
            since += reached - told
            for each in self.listeners:
                each.on_batch(length_label(level.window_ms), records=reached - told)
            told = reached
            if since >= _BETWEEN_CHECKPOINTS and piece + 1 < level.pieces:
                level = self._checkpoint(replace(level, pieces_done=piece + 1))
                since = 0
        return self._checkpoint(replace(level, pieces_done=level.pieces))

    def _fill(self, level: LevelState, filling: Filling, position: Position) -> None:
        window_ms, floor_ms = level.window_ms, level.expired_before_ms
        fresh = level.position is None
        for start_ms, part in filling.by_segment(segment_length_ms(window_ms)):
            if floor_ms is not None and start_ms < floor_ms:
                continue
            if window_ms in self.memory:
                held = self.memory[window_ms].segments
                segment = held.setdefault(start_ms, MemorySegment())
                self._written[start_ms] = part.into(segment, position, fresh=fresh)
            else:
                self._written[start_ms] = self._fill_on_disk(level, start_ms, part, position)

    def _fill_on_disk(
        self, level: LevelState, start_ms: int, part: Filling, position: Position
    ) -> Mark:
        known = level.segments.get(start_ms)
        try:
            segment = self._writers.segment(self._folder(level.window_ms, start_ms), known)
            return part.into(segment, position, fresh=level.position is None)
        except _DAMAGE:
            if known is None:
                raise
            return self._rebuild(level.window_ms, start_ms, position)

    def _checkpoint(self, level: LevelState) -> LevelState:
        """Have on disk what was written, then say so."""
        self._writers.flush(self._folder(level.window_ms, start) for start in self._written)
        level = level.with_segments(self._written)
        self._written = {}
        self._save(level)
        return level

    def _save(self, level: LevelState) -> None:
        if level.window_ms in self.memory:
            self.memory[level.window_ms].state = level
        else:
            self.state = self.state.with_level(level)
            self.state.save(self.folder)

    def _folder(self, window_ms: int, start_ms: int) -> Path:
        return segment_folder(self.folder, window_ms, start_ms)

    def _rebuild(self, window_ms: int, start_ms: int, least: Position | None = None) -> Mark:
        """Rebuild one segment, which is damaged, up to a position at least; return what is in it.

        The changelog's newest batch may be unmarked for the moment: without it, counts that the
        replica held would be gone from this segment alone, and for good.
        """
        folder, level = self._folder(window_ms, start_ms), self.state.levels[window_ms]
        self._writers.let_go(folder)
        reader = ChangelogReader(self.changelog)
        position = reader.newest()
        needed = max(each for each in (level.position, level.toward, least) if each)
        if position is None or position < needed:
            message = f"{str(folder)!r} is damaged, and the changelog's newest batch is not whole."
            hint = "Restore again once its run has written that; or restore into another folder."
            raise InputError(message, hint=hint)
        total = reader.rows(window_ms)
        what = f"{length_label(window_ms)} from {moment_of(start_ms).isoformat()}"
        with telling(self.listeners, what, total):
            mark = self._made_anew(window_ms, start_ms, reader, position)
            self._save(level.with_segments({start_ms: mark}))
            for each in self.listeners:
                each.on_batch(what, records=total)
        return mark

    def _made_anew(
        self, window_ms: int, start_ms: int, reader: ChangelogReader, position: Position
    ) -> Mark:
        """Make a segment of all of a changelog up to a position, and set the damaged one aside."""
        folder, starts = self._folder(window_ms, start_ms), segment_span_ms(window_ms, start_ms)
        building = folder.with_name(f"{folder.name}.building")
        shutil.rmtree(building, ignore_errors=True)
        with closing(DiskSegment(building, self.options, writing=True)) as segment:
            pieces = reader.pieces(window_ms)
            for piece in range(pieces):
                dated = reader.read(window_ms, bucket=(piece, pieces), starts=starts)
                mark = Filling.of(dated).into(segment, position, fresh=True)
            segment.flush()
        if folder.exists():
            set_aside(folder)
        building.rename(folder)
        sync(folder.parent)
        return mark


class _RecordingSegment(MemorySegment):
    """A segment that remembers what was last written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.last: Pairs = ([], [])

    def write(self, rows: Pairs, actions: Sequence[str], position: Position) -> Mark:
        self.last = rows
        return super().write(rows, actions, position)


def changelog_rows(
    path: str | os.PathLike[str], *, window: Duration | Window
) -> Iterator[tuple[bytes, bytes]]:
    """Yield each key and bundle that following a changelog writes, in the order of its batches.

    A bundle has all that its key had before, as a replica's has; so the latest bundle of each key
    is kept in memory. ``path`` is a run's output folder, or its changelog folder. What there is
    none of is an InputError; a damaged file is a FormatError.
    """
    changelog, size_ms = Changelog.open(str(path)), as_window(window).size_ms
    known = changelog.window_lengths_ms()
    if size_ms not in known:
        message = f"The changelog {path} tells of no windows of {length_label(size_ms)}."
        raise InputError(message, hint=f"It has: {', '.join(map(length_label, known)) or 'none'}.")
    segment = _RecordingSegment()
    for batch in changelog.batches:
        position = Position(batch.epoch, batch.number)
        dated = ChangelogReader.of_one(changelog, position).read(size_ms, bucket=(0, 1))
        if len(dated):
            Filling.of(dated).into(segment, position, fresh=False)
            yield from zip(*segment.last, strict=True)
