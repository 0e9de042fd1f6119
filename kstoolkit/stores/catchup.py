"""Bringing a replica up to its changelog, so that it may be killed at any moment.

A level goes from one position to the next in a pass. A pass of many records is made in pieces, by
the users' buckets, and after each piece what it wrote is flushed, then ``replica.json`` says that
the piece is done. A pass that was cut short goes on with the first piece that is not. Latest values
written twice are still the latest values, so it does no harm that a piece is begun again, or that
it takes in batches that came meanwhile, which the next pass brings to the other pieces.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kstoolkit.changelog.news import News
from kstoolkit.errors import InputError
from kstoolkit.stores.expiring import expire_disk, expire_memory, newest_start_ms
from kstoolkit.stores.filling import Filling
from kstoolkit.stores.levels import remove_leftovers, segment_folder, segment_span_ms
from kstoolkit.stores.listening import telling
from kstoolkit.stores.memorysegment import MemorySegment
from kstoolkit.stores.mending import DAMAGE, is_whole, rebuild
from kstoolkit.stores.moments import moment_of
from kstoolkit.stores.origin import check_not_behind, check_same_changelog
from kstoolkit.stores.replicafile import LevelState, ReplicaState, segment_length_ms
from kstoolkit.stores.writing import Writing
from kstoolkit.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rocksdict import Options

    from kstoolkit.changelog.changelog import Changelog
    from kstoolkit.changelog.news import Position
    from kstoolkit.stores.levels import MemoryLevel
    from kstoolkit.stores.listening import RestoreListener
    from kstoolkit.stores.segment import Mark


BETWEEN_CHECKPOINTS = 4_000_000  # records


class CatchUp:
    """Writes what a changelog tells into a replica. Its caller holds the replica's lock.

    Parameters
    ----------
    folder
        The replica, which has its file.
    changelog
        Where from.
    options
        How segments are opened.
    listener
        Who is told.
    memory
        Levels that are in memory, by window length.

    Raises
    ------
    InputError
        If the replica is of another changelog.
    """

    def __init__(
        self,
        folder: Path,
        changelog: Changelog,
        *,
        options: Options,
        listener: RestoreListener,
        memory: Mapping[int, MemoryLevel],
    ) -> None:
        self.folder, self.changelog, self.options = folder, changelog, options
        self.listener, self.memory = listener, memory
        self.state = ReplicaState.load(folder)
        self._writing = Writing(options)
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
        """Take in all that is new, and return how many records that was.

        Raises
        ------
        InputError
            If the replica is further than the changelog: it is of another one.
        """
        self.changelog.refresh()
        check_not_behind(self.folder, self.levels.values(), self.changelog)
        news = News(self.changelog, self.position)
        target = news.newest()
        if target is None:
            return 0
        changed_ms = News.of_one(self.changelog, target).newest_change_ms()
        lengths = news.window_lengths_ms() | set(self.levels)
        self._name(lengths - self.levels.keys())
        return sum(self._bring(window_ms, target, changed_ms) for window_ms in sorted(lengths))

    def mend(self) -> list[int]:
        """Rebuild each segment that is damaged, torn or gone, and no other; return their starts."""
        return [
            start_ms
            for window_ms, level in self.state.levels.items()
            for start_ms, mark in level.segments.items()
            if not is_whole(self._folder(window_ms, start_ms), self.options, mark)
            and self._rebuild(window_ms, start_ms)
        ]

    def expire(self, now_ms: int | None) -> int:
        """Drop segments that have been kept long enough, and return how many.

        ``now_ms`` is epoch ms UTC; ``None``: as far as the data has come.
        """
        if not self.state.retention_ms:
            return 0
        if now_ms is None:
            now_ms = newest_start_ms(self.levels.values())
        dropped = expire_memory(self.memory, self.state.retention_ms, now_ms)
        self.close()
        self.state, dropped_on_disk = expire_disk(self.folder, self.state, now_ms)
        return dropped + dropped_on_disk

    def close(self) -> None:
        """Close what is open for writing."""
        self._writing.close()

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
        done = 0
        level = self.levels.get(window_ms) or LevelState(window_ms)
        while level.position is None or level.position < target:
            news = News(self.changelog, level.position)
            total = news.rows(window_ms)
            with telling(self.listener, format_duration(window_ms), total):
                level = self._pass(level, news, total, target)
                level = replace(
                    level,
                    position=level.toward,
                    toward=None,
                    pieces_done=0,
                    changed_ms=changed_ms if level.toward == target else None,
                )
                self._save(level)
            done += total
        return done

    def _pass(self, level: LevelState, news: News, total: int, target: Position) -> LevelState:
        """Make the pieces of a pass that are not done yet."""
        if level.toward is None:
            pieces = news.pieces(level.window_ms) if total else 0
            level = replace(level, toward=target, pieces=pieces, pieces_done=0)
        self._written = {}
        told, since = total * level.pieces_done // max(level.pieces, 1), 0
        for piece in range(level.pieces_done, level.pieces):
            dated = news.read(level.window_ms, bucket=(piece, level.pieces))
            self._fill(level, Filling.of(dated), target)
            reached = total * (piece + 1) // level.pieces
            since += reached - told
            self.listener.on_batch(format_duration(level.window_ms), records=reached - told)
            told = reached
            if since >= BETWEEN_CHECKPOINTS and piece + 1 < level.pieces:
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
            segment = self._writing.segment(self._folder(level.window_ms, start_ms), known)
            return part.into(segment, position, fresh=level.position is None)
        except DAMAGE:
            if known is None:
                raise
            return self._rebuild(level.window_ms, start_ms, position)

    def _checkpoint(self, level: LevelState) -> LevelState:
        """Have on disk what was written, then say so."""
        self._writing.flush(self._folder(level.window_ms, start) for start in self._written)
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
        self._writing.let_go(folder)
        news = News(self.changelog)
        position = news.newest()
        needed = max(each for each in (level.position, level.toward, least) if each)
        if position is None or position < needed:
            message = f"{str(folder)!r} is damaged, and the changelog's newest batch is not whole."
            hint = "Restore again once its run has written that; or restore into another folder."
            raise InputError(message, hint=hint)
        total = news.rows(window_ms)
        starts = segment_span_ms(window_ms, start_ms)
        what = f"{format_duration(window_ms)} from {moment_of(start_ms).isoformat()}"
        with telling(self.listener, what, total):
            mark = rebuild(
                folder, news, self.options, window_ms=window_ms, starts=starts, position=position
            )
            self._save(level.with_segments({start_ms: mark}))
            self.listener.on_batch(what, records=total)
        return mark
