"""A replica of a run's counts, to be asked: who did what how often in which window.

Segments are open for reading while somebody else may be writing them. What is open is a view of
what was on disk then. ``replica.json`` says when there is more: it is looked at no more often than
every :data:`_LOOK_AGAIN_SECONDS`, and segments that have changed are opened anew. A standby follows
its changelog, and the replica can be asked meanwhile.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections import OrderedDict
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from functools import partial
from html import escape
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from kstoolkit.changelog.changelog import MIRROR, Changelog, Mirrored
from kstoolkit.changelog.reader import ChangelogReader
from kstoolkit.errors import ConfigurationError, FormatError, KafkaError
from kstoolkit.formats.actions import checked
from kstoolkit.formats.keys import decode_replica_keys, encode_replica_key
from kstoolkit.moments import moment_ms
from kstoolkit.records import Closing, Records, Viewed, counted
from kstoolkit.replica.catchup import CatchUp, expire
from kstoolkit.replica.listening import ProgressBar
from kstoolkit.replica.records import Lag, UserCounts
from kstoolkit.replica.replicafile import (
    FILE,
    LevelState,
    MemoryLevel,
    ReplicaState,
    as_profile,
    prepare,
    replica_place,
    retention_ms,
    segment_folder,
    segment_length_ms,
    segment_options,
    segment_span_ms,
    writing_alone,
    writing_errors,
)
from kstoolkit.replica.segments import (
    DiskSegment,
    counts_of,
    counts_of_page,
    look_up,
    segment_state,
    sessions_of,
)
from kstoolkit.rocksdb.faults import StoreClosedError, StoreFault
from kstoolkit.units import parse_duration
from kstoolkit.windows import Session, Window, as_window, length_label

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pandas as pd
    from rocksdict import Options

    from kstoolkit.moments import Moment
    from kstoolkit.replica.listening import RestoreListener
    from kstoolkit.replica.records import Mark, SegmentState
    from kstoolkit.replica.segments import Found, Pairs, Segment
    from kstoolkit.rocksdb.profiles.profile import Profile
    from kstoolkit.units import Duration

_PAGE_ROWS = 10_000
_NOTHING: Found = (None, [])


def _key(user: object, start_ms: int) -> bytes:
    if not isinstance(user, str):
        message = f"The user {user!r} is no text."
        raise ConfigurationError(message, hint="Give the user's name, as it was counted.")
    try:
        return encode_replica_key(user, start_ms)
    except UnicodeEncodeError as error:
        message = f"The user {user!r} is no text: it has half of a surrogate pair."
        raise ConfigurationError(message, hint="Give the name in UTF-8.") from error


def _segment_of(kind: Window, start_ms: int) -> int:
    return start_ms - start_ms % segment_length_ms(kind.size_ms)


_START_BYTES = 8
_LOOK_BACK_MS = 31 * 24 * 3_600_000
"""How long before a moment a session that holds it may have begun; more if who asks says so."""
_NO_ROWS: tuple[Pairs, list[str]] = (([], []), [])
_NO_SESSION = {"updated_at_ms": "the user has no session at this moment"}


def _together(user: str, at_ms: int, sessions: list[UserCounts]) -> UserCounts:
    """Return what a user's sessions at a moment have counted: one, or one for each action."""
    if not sessions:
        return UserCounts(user, at_ms, at_ms, {}, None, dict(_NO_SESSION))
    counts: dict[Any, int] = {}
    for action, count in (pair for one in sessions for pair in one.counts.items()):
        counts[action] = counts.get(action, 0) + count  # of one that was parted
    start_ms = min(one.window_start_ms for one in sessions)
    end_ms = max(one.window_end_ms for one in sessions)
    updated = [one.updated_at_ms for one in sessions if one.updated_at_ms is not None]
    return UserCounts(user, start_ms, end_ms, counts, max(updated, default=None))


_LOOK_AGAIN_SECONDS = 0.1
_MOST_OPEN = 256
_TRIES = 5
Answer = TypeVar("Answer")


class _OpenSegments:
    """Opens segments as they are asked for."""

    def __init__(self, folder: Path, options: Options, memory: Mapping[int, MemoryLevel]) -> None:
        self.folder, self.options, self.memory = folder, options, memory
        self.state = ReplicaState.load(folder)
        self._seen = self._stamp()
        self._looked = time.monotonic()
        self._open: OrderedDict[tuple[int, int], tuple[Mark, DiskSegment]] = OrderedDict()
        self._lock = threading.Lock()
        self._closed = False

    @property
    def levels(self) -> dict[int, LevelState]:
        """All levels, on disk and in memory, the shortest windows first.

        Whoever asks for windows in memory may name some that the changelog does not tell of.
        """
        in_memory = {each: level.state for each, level in self.memory.items() if level.has_begun}
        return dict(sorted((self.state.levels | in_memory).items()))

    def starts_ms(self, window_ms: int) -> list[int]:
        """Return where the segments of a level begin, the earliest first."""
        if window_ms in self.memory:
            return sorted(self.memory[window_ms].segments)
        self.refresh()
        level = self.state.levels.get(window_ms)
        return [] if level is None else list(level.segments)

    def ask(
        self, window_ms: int, start_ms: int, question: Callable[[Segment], Answer], default: Answer
    ) -> Answer:
        """Ask the segment that begins at a time, once more if it changed; or return ``default``."""
        if window_ms in self.memory:
            held = self.memory[window_ms].segments.get(start_ms)
            return default if held is None else question(held)
        for _ in range(_TRIES - 1):
            try:
                segment = self._segment(window_ms, start_ms)
                return default if segment is None else question(segment)
            except (FormatError, StoreFault):
                with self._lock:
                    self._open.pop((window_ms, start_ms), None)
                time.sleep(0.02)
                self.refresh(now=True)
        segment = self._segment(window_ms, start_ms)
        return default if segment is None else question(segment)

    def refresh(self, *, now: bool = False) -> None:
        """Look whether there is more than when we last looked."""
        clock = time.monotonic()
        if not now and clock - self._looked < _LOOK_AGAIN_SECONDS:
            return
        self._looked = clock
        if self._closed:
            message = f"The replica {str(self.folder)!r} is closed."
            raise StoreClosedError(message, hint="Open it again: WindowStore.open(path).")
        stamp = self._stamp()
        if stamp != self._seen:
            self.state = ReplicaState.load(self.folder)
            self._seen = stamp

    def close(self) -> None:
        with self._lock:
            self._open.clear()
            self._closed = True
            self._looked = -_LOOK_AGAIN_SECONDS

    def _stamp(self) -> tuple[int, int] | None:
        try:
            there = (self.folder / FILE).stat()
        except OSError:  # reading it says why
            return None
        return there.st_ino, there.st_mtime_ns

    def _segment(self, window_ms: int, start_ms: int) -> DiskSegment | None:
        self.refresh()
        level = self.state.levels.get(window_ms)
        mark = None if level is None else level.segments.get(start_ms)
        if mark is None:
            return None
        name = (window_ms, start_ms)
        with self._lock:
            held = self._open.get(name)
            if held is not None and held[0] == mark:
                self._open.move_to_end(name)
                return held[1]
            folder = segment_folder(self.folder, window_ms, start_ms)
            # Whoever still reads from the older view keeps it: it closes once nobody does.
            segment = DiskSegment(folder, self.options)
            segment.check_holds(mark)
            self._open[name] = (mark, segment)
            if len(self._open) > _MOST_OPEN:
                self._open.popitem(last=False)
            return self._open[name][1]


_PAGE_USERS = 10_000


class WindowReader(Closing, Viewed):
    """What a replica is asked. What changes one is its ``WindowStore``'s."""

    def __init__(
        self,
        path: Path,
        profile: Profile | str | None = None,
        memory: Mapping[int, MemoryLevel] | None = None,
    ) -> None:
        self.path = path
        self._memory = dict(memory or {})
        self._options = segment_options(as_profile(profile))
        self._opened = _OpenSegments(path, self._options, self._memory)
        self._kinds: dict[object, Window] = {}

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, profile: Profile | str | None = None) -> Self:
        """Open a replica that was restored before; if there is none, it is an InputError.

        Windows that its restorer keeps in memory are not in there.
        """
        return cls(replica_place(path), profile)

    @property
    def windows(self) -> tuple[str, ...]:
        """The windows that it has counts of: ``("1 minute", "1 hour")``."""
        return tuple(length_label(length) for length in self._opened.levels)

    @property
    def parts(self) -> tuple[str, ...] | None:
        """What the parts of an action are called; ``None`` if it is one column."""
        return self._opened.state.parts

    def get(
        self,
        user: str,
        *,
        window: Duration | Window,
        at: Moment,
        by: str | Sequence[str] | None = None,
    ) -> UserCounts:
        """Return a user's counts in the window that holds a moment.

        Parameters
        ----------
        window
            Which kind: ``"1 hour"``; of a hopping one (``"5 minutes every 1 minute"``) the latest
            that holds the moment; of sessions (``"session 30 minutes"``) all that hold it, from
            the start of the first to the end of the last.
        at
            When: ISO 8601 text, which is in UTC if it names no zone; epoch ms UTC; or an aware
            datetime: one without a zone is refused, as Python's own is in local time.
        by
            Sums over actions with the same values of these parts: tuples of them, or of one given
            as a text the value itself; ``[]``: the sum of all. By default each action alone.

        Returns
        -------
        UserCounts
            Without counts, if the user did nothing then.

        Raises
        ------
        ConfigurationError
            If the replica has no such window, ``at`` is no time, or ``user`` no text.
        ColumnError
            If there is no such part.
        """
        kind = self._kind(window)
        counted = self._counted(user, kind, moment_ms(at))
        return counted if by is None else self._summed(counted, by)

    def _counted(self, user: str, kind: Window, at_ms: int) -> UserCounts:
        if isinstance(kind, Session):
            begun = self._sessions(user, kind, at_ms - max(_LOOK_BACK_MS, kind.longest_ms), at_ms)
            return _together(user, at_ms, [one for one in begun if one.window_end_ms >= at_ms])
        start_ms = kind.start_of(at_ms)
        key = _key(user, start_ms)
        segment_ms = _segment_of(kind, start_ms)
        found = self._opened.ask(
            kind.size_ms, segment_ms, lambda each: look_up(each, key), _NOTHING
        )
        return counts_of(user, start_ms, start_ms + kind.size_ms, found)

    def _sessions(
        self, user: str, kind: Session, since_ms: float = -inf, until_ms: float = inf
    ) -> list[UserCounts]:
        """Return a user's sessions that begin between two moments, the earliest first."""
        prefix, found = _key(user, 0)[:-_START_BYTES], list[UserCounts]()
        for segment_ms in self._opened.starts_ms(kind.size_ms):
            span = segment_span_ms(kind.size_ms, segment_ms)
            if since_ms >= span.stop or until_ms < span.start:
                continue
            (keys, values), actions = self._opened.ask(
                kind.size_ms,
                segment_ms,
                lambda segment: (segment.beginning_with(prefix), segment.actions),
                _NO_ROWS,
            )
            names, starts = decode_replica_keys(keys)
            for name, start_ms, value in zip(names, starts.tolist(), values, strict=True):
                if name == user:  # and no longer one that begins so
                    found += sessions_of(user, start_ms, (value, actions))
        inside = [one for one in found if since_ms <= one.window_start_ms <= until_ms]
        return sorted(inside, key=lambda one: (one.window_start_ms, one.window_end_ms))

    def _summed(self, counted: UserCounts, by: str | Sequence[str]) -> UserCounts:
        """Return the sums of a user's counts by some parts of their actions."""
        names = ("action",) if self.parts is None else self.parts
        places = [names.index(name) for name in checked(names, by, what="by")]
        sums: dict[Any, int] = {}
        for action, count in counted.counts.items():
            values = (action,) if self.parts is None else action
            key = tuple(values[place] for place in places)
            told = key[0] if isinstance(by, str) else key
            sums[told] = sums.get(told, 0) + count
        return replace(counted, counts=sums)

    def get_many(
        self, users: Iterable[str], *, window: Duration | Window, at: Moment
    ) -> Records[UserCounts]:
        """Return the counts of several users in one window, in the order of the users.

        Users are named one by one: a text alone is refused, for it is one user. The other
        parameters and the errors are those of :meth:`get`.
        """
        if isinstance(users, str | bytes):
            message = f"The users are {users!r}, which is one text."
            raise ConfigurationError(message, hint=f"Give a list of them: [{users!r}].")
        kind, named = self._kind(window), list(users)
        if isinstance(kind, Session):
            each = [self._counted(user, kind, moment_ms(at)) for user in named]
            return Records(each, "users' counts")
        start_ms = kind.start_of(moment_ms(at))
        end_ms = start_ms + kind.size_ms
        keys = [_key(user, start_ms) for user in named]
        values, actions = self._found(kind, _segment_of(kind, start_ms), keys)
        found = [
            counts_of(user, start_ms, end_ms, (value, actions))
            for user, value in zip(named, values, strict=True)
        ]
        return Records(found, "users' counts")

    def scan(
        self, *, window: Duration | Window, at: Moment, page: int = _PAGE_USERS
    ) -> Iterator[Records[UserCounts]]:
        """Yield the counts of all users in one window, so many at a time, in no order to rely on.

        A ``page`` is of one moment; what comes in meanwhile may be in the next one. The other
        parameters are those of :meth:`get`.
        """
        kind = self._kind(window)
        if isinstance(kind, Session):
            message = f"Users' sessions ({kind.label}) have no start in common to go through."
            raise ConfigurationError(message, hint="Ask for users by get_many or history.")
        if page < 1:
            message = f"A page of {page} users makes no sense."
            raise ConfigurationError(message, hint="Give 1 or more.")
        return self._pages(kind, kind.start_of(moment_ms(at)), page)

    def history(
        self, user: str, *, window: Duration | Window, since: Moment | None = None
    ) -> Records[UserCounts]:
        """Return a user's counts in all windows in which there are any, the earliest first.

        With ``since``, they are from the window on that holds this moment.
        """
        kind = self._kind(window)
        since_ms = None if since is None else moment_ms(since)
        if isinstance(kind, Session):
            ends_ms = -inf if since_ms is None else since_ms
            sessions = self._sessions(user, kind, ends_ms - max(_LOOK_BACK_MS, kind.longest_ms))
            return Records([one for one in sessions if one.window_end_ms >= ends_ms], "sessions")
        since_ms = None if since_ms is None else kind.start_of(since_ms)
        found: list[UserCounts] = []
        for segment_ms in self._opened.starts_ms(kind.size_ms):
            span = segment_span_ms(kind.size_ms, segment_ms)
            first = span.start + -span.start % kind.every_ms
            first = first if since_ms is None else max(first, since_ms)
            starts = range(first, span.stop, kind.every_ms)
            if not starts:
                continue
            keys = [_key(user, start_ms) for start_ms in starts]
            values, actions = self._found(kind, segment_ms, keys)
            found += [
                counts_of(user, start_ms, start_ms + kind.size_ms, (value, actions))
                for start_ms, value in zip(starts, values, strict=True)
                if value is not None
            ]
        return Records(found, "windows")

    def segments(self) -> Records[SegmentState]:
        """Return the segments, by window and time."""
        states: list[SegmentState | None] = []
        for window_ms in self._opened.levels:
            about = partial(segment_state, window=length_label(window_ms))
            for start_ms in self._opened.starts_ms(window_ms):
                span_ms = segment_span_ms(window_ms, start_ms)
                folder = segment_folder(self.path, window_ms, start_ms)
                question = partial(about, span_ms=span_ms, folder=folder)
                states.append(self._opened.ask(window_ms, start_ms, question, None))
        return Records([state for state in states if state is not None], "segments")

    def _kind(self, window: object) -> Window:
        if not isinstance(window, str | int | timedelta | Window):
            message = f"{window!r} is no window."
            raise ConfigurationError(message, hint="Give one such as '1 hour'.")
        if window in self._kinds:
            return self._kinds[window]
        kind = as_window(window)
        if kind.size_ms not in self._opened.levels:
            self._opened.refresh(now=True)
        if kind.size_ms not in self._opened.levels:
            message = f"The replica {str(self.path)!r} has no window {kind.label!r}."
            raise ConfigurationError(message, hint=f"It has: {', '.join(self.windows) or 'none'}.")
        self._kinds[window] = kind
        return kind

    def _found(
        self, kind: Window, segment_ms: int, keys: list[bytes]
    ) -> tuple[list[bytes | None], list[str]]:
        nothing: tuple[list[bytes | None], list[str]] = ([None] * len(keys), [])
        return self._opened.ask(
            kind.size_ms, segment_ms, lambda each: (each.get_many(keys), each.actions), nothing
        )

    def _pages(self, kind: Window, start_ms: int, page: int) -> Iterator[Records[UserCounts]]:
        found: list[UserCounts] = []
        segment_ms = _segment_of(kind, start_ms)
        segment = self._opened.ask(kind.size_ms, segment_ms, lambda each: each, None)
        if segment is None:
            return
        for rows in segment.pages(_PAGE_ROWS):
            found += counts_of_page(rows, segment.actions, start_ms, start_ms + kind.size_ms)
            while len(found) >= page:
                yield Records(found[:page], "users' counts")
                found = found[page:]
        if found:
            yield Records(found, "users' counts")

    def to_pandas(self) -> pd.DataFrame:
        """Return one row a segment."""
        return self.segments().to_pandas()

    def close(self) -> None:
        """Close it; it can't be asked any more."""
        self._opened.close()

    def __repr__(self) -> str:
        segments = sum(len(self._opened.starts_ms(length)) for length in self._opened.levels)
        windows = ", ".join(self.windows) or "no windows"
        told = f"{str(self.path)!r}: {windows}; {counted(segments, 'segments')}"
        return f"{type(self).__name__}({told})"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.segments()._repr_html_()}"


_LONGEST_PAUSE_SECONDS = 10.0


class Standby(Closing):
    """Follows a changelog. Made by :meth:`kstoolkit.replica.windowstore.WindowStore.follow`.

    Step by step with :meth:`step`, or in the background between :meth:`start` and :meth:`close`.
    """

    def __init__(
        self,
        begin: Callable[[], CatchUp],
        seen: Callable[[], None],
        changelog: Changelog,
        folder: Path,
        *,
        every: Duration,
    ) -> None:
        self.changelog = changelog
        self.records = 0
        self._every_seconds = parse_duration(every) / 1_000
        self._seen = seen
        self._folder = folder
        self._stop = threading.Event()
        self._one_at_a_time = threading.Lock()
        self._failure: Exception | None = None
        self._thread: threading.Thread | None = None
        with ExitStack() as held:
            held.enter_context(writing_alone(folder))
            self._catch_up = begin()
            held.callback(self._catch_up.close)
            self._held = held.pop_all()

    @property
    def lag(self) -> Lag:
        """How far it is behind, in records and in seconds; or why it stopped in the background."""
        self._raise_failure()
        self.changelog.refresh()
        reader = ChangelogReader(self.changelog, self._catch_up.position)
        records = reader.rows()
        if not records:
            return Lag(0, 0.0)
        held = [level.changed_ms for level in self._catch_up.levels.values()]
        known = [each for each in held if each is not None]
        newest_ms = reader.newest_change_ms()
        if newest_ms is None or not known or len(known) < len(held):
            return Lag(records, None, {"seconds": "nothing is held yet"})
        return Lag(records, max(newest_ms - min(known), 0) / 1_000)

    def step(self) -> int:
        """Take in what is new now, and return how many records that was.

        Raises
        ------
        OutputError
            If the replica can't be written, for want of room for instance.
        FormatError
            If a file of the changelog is damaged.
        """
        self._raise_failure()
        with self._one_at_a_time, writing_errors(self._folder):
            done = self._catch_up.run()
            self.records += done
        if done:
            self._seen()
        return done

    def start(self) -> Self:
        """Follow in the background, until it is closed; if that ended with an error, once more.

        A topic's brokers that do not answer are no such error: they are asked again, after pauses
        that grow up to ten seconds.
        """
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._go_on, name="standby", daemon=True)
            self._thread.start()
        return self

    def expire(self, now: Moment | None = None) -> int:
        """Drop segments as :meth:`kstoolkit.replica.windowstore.WindowStore.expire` does."""
        with self._one_at_a_time, writing_errors(self._folder):
            dropped = self._catch_up.expire(None if now is None else moment_ms(now))
        self._seen()
        return dropped

    def close(self) -> None:
        """Stop following; the replica can be followed by another afterwards.

        Why it stopped in the background, if it did, is raised then.
        """
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        with self._one_at_a_time:
            self._held.close()
        self._raise_failure()

    def _go_on(self) -> None:
        pause = self._every_seconds
        while not self._stop.is_set():
            try:
                self.step()
            except KafkaError:  # brokers come back; whoever asks for the lag meanwhile is told
                pause = max(pause, min(2 * pause, _LONGEST_PAUSE_SECONDS))
            except Exception as error:  # noqa: BLE001 - told to whoever asks next
                self._failure = error
                return
            else:
                pause = self._every_seconds
            self._stop.wait(pause)

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def __repr__(self) -> str:
        return f"Standby({counted(self.records, 'records')} followed)"


class WindowStore(WindowReader):
    """A replica, open to be asked. Made by :meth:`restore` or :meth:`open`.

    Any number of readers may have it open while one process restores or follows; each sees what is
    new within a tenth of a second. A reader changes nothing in its folder. ``with`` closes it.
    """

    @classmethod
    def restore(
        cls,
        changelog: str | os.PathLike[str] | Changelog | Mirrored,
        *,
        path: str | os.PathLike[str],
        profile: Profile | str | None = None,
        listener: RestoreListener | None = None,
        memory_windows: Iterable[Duration | Window] = (),
        retention: Mapping[Duration | Window, Duration] | None = None,
        progress: bool | None = None,
    ) -> Self:
        """Bring a replica up to its changelog, and open it.

        What is there is checked block by block; a damaged, torn or gone segment is set aside as
        ``<segment>.damaged-<n>`` and rebuilt alone. Ended at any moment, however hard, it goes on
        from there the next time.

        Parameters
        ----------
        changelog
            A changelog, its folder, a run's output folder, or a topic:
            :func:`~kstoolkit.kafka.outputs.kafka_changelog`.
        path
            The replica's folder; made if it isn't there.
        profile
            How RocksDB is to be set; a name or a profile.
        listener
            Who is told how it goes.
        memory_windows
            Windows to keep in memory, while this store is open; not on disk, but read from the
            changelog each time. Of those the changelog lacks (so far), a ``UserWarning`` tells.
        retention
            How long :meth:`expire` keeps a segment after its end, by window. Windows that are not
            named are kept for ever; without it, what was said the last time holds.
        progress
            Whether to show a bar; by default if stderr is a terminal.

        Raises
        ------
        InputError
            If there is no changelog, or the replica is of another one.
        OutputError
            If the folder is something else, is being written by somebody else, or can't be written.
        FormatError
            If a file of the changelog is damaged, or the replica's own file.
        ConfigurationError
            If ``path``, the profile, a window or a duration makes no sense.
        """
        folder = replica_place(path)
        source = _changelog(changelog, folder)
        told: list[RestoreListener] = [ProgressBar(shown=progress)]
        told += [] if listener is None else [listener]
        lengths = {as_window(window).size_ms for window in memory_windows}
        memory = {length: MemoryLevel(LevelState(length)) for length in sorted(lengths)}
        options = segment_options(as_profile(profile))
        kept_ms = None if retention is None else retention_ms(retention)
        with writing_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        with writing_alone(folder):
            prepare(folder, in_memory=lengths, kept_ms=kept_ms)
            catch_up = CatchUp(folder, source, options=options, listeners=told, memory=memory)
            try:
                catch_up.mend()
                catch_up.run()
            finally:
                catch_up.close()
        lacking = [length_label(each) for each, level in memory.items() if not level.has_begun]
        if lacking:
            message = f"The changelog {source.path} has no windows of {', '.join(lacking)} so far."
            warnings.warn(message, UserWarning, stacklevel=2)
        return cls(folder, profile, memory)

    def expire(self, now: Moment | None = None) -> int:
        """Drop the segments that have been kept as long as was asked, and return how many.

        A segment is dropped whole once its end is longer ago than the ``retention`` of its window,
        which :meth:`restore` was given. It does not come back. There is no expiry of single keys.

        Parameters
        ----------
        now
            When; by default as far as the data has come: the start of the newest segment.

        Raises
        ------
        OutputError
            If somebody restores or follows; whoever follows can expire: ``standby.expire(now)``.
        """
        with writing_alone(self.path):
            now_ms = None if now is None else moment_ms(now)
            _, dropped = expire(self.path, ReplicaState.load(self.path), self._memory, now_ms)
        self._opened.refresh(now=True)
        return dropped

    def follow(
        self,
        changelog: str | os.PathLike[str] | Changelog | Mirrored,
        *,
        every: Duration = "1 second",
        listener: RestoreListener | None = None,
    ) -> Standby:
        """Return a standby that keeps this replica up to its changelog.

        Give it steps, or start it in the background; this store can be asked meanwhile.

        Parameters
        ----------
        changelog, listener
            As of :meth:`restore`.
        every
            How often to look, in the background.

        Raises
        ------
        OutputError
            If somebody else restores or follows.
        """
        source = _changelog(changelog, self.path)
        told = [] if listener is None else [listener]
        begin = partial(
            CatchUp, self.path, source, options=self._options, listeners=told, memory=self._memory
        )
        seen = partial(self._opened.refresh, now=True)
        return Standby(begin, seen, source, self.path, every=every)


def _changelog(given: str | os.PathLike[str] | Changelog | Mirrored, replica: Path) -> Changelog:
    if isinstance(given, Changelog):
        return given
    if isinstance(given, Mirrored):
        return given.mirrored_in(replica / MIRROR)
    return Changelog.open(Path(given))
