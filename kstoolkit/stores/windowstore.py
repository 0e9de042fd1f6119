"""A replica of a run's counts, to be asked: who did what how often in which window."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from kstoolkit.changelog.changelog import Changelog
from kstoolkit.errors import ConfigurationError
from kstoolkit.rocksdb.records import Records
from kstoolkit.stores.catchup import CatchUp
from kstoolkit.stores.expiring import expire_disk, expire_memory
from kstoolkit.stores.levels import MemoryLevel
from kstoolkit.stores.listening import Everyone, ProgressBar
from kstoolkit.stores.lock import writing_alone
from kstoolkit.stores.moments import moment_ms
from kstoolkit.stores.opening import as_profile, segment_options
from kstoolkit.stores.preparing import prepare
from kstoolkit.stores.queries import Queries
from kstoolkit.stores.reading import Reading
from kstoolkit.stores.replicafile import LevelState, ReplicaState
from kstoolkit.stores.standby import Standby
from kstoolkit.units import format_count
from kstoolkit.windows import as_window

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping

    from kstoolkit.rocksdb.profiles.profile import Profile
    from kstoolkit.stores.listening import RestoreListener
    from kstoolkit.stores.moments import Moment
    from kstoolkit.stores.records import SegmentState, UserCounts
    from kstoolkit.units import Duration
    from kstoolkit.windows import Window

__all__ = ["WindowStore"]

_PAGE_USERS = 10_000


class WindowStore:
    """A replica, open for reading. Made by :meth:`restore` or :meth:`open`.

    Any number of readers may have it open while one process restores or follows; each sees what is
    new within a tenth of a second. ``with`` closes it.

    Parameters
    ----------
    path
        The replica's folder.
    profile
        How RocksDB is to be set; a name or a profile.
    memory
        Levels that are in memory, by window length.
    """

    def __init__(
        self,
        path: Path,
        profile: Profile | str | None = None,
        memory: Mapping[int, MemoryLevel] | None = None,
    ) -> None:
        self.path = path
        self._memory = dict(memory or {})
        self._options = segment_options(as_profile(profile))
        self._reading = Reading(path, self._options, self._memory)
        self._queries = Queries(self._reading)

    @classmethod
    def restore(
        cls,
        changelog: str | os.PathLike[str] | Changelog,
        *,
        path: str | os.PathLike[str],
        profile: Profile | str | None = None,
        listener: RestoreListener | None = None,
        memory_windows: Iterable[Duration | Window] = (),
        retention: Mapping[Duration | Window, Duration] | None = None,
        progress: bool | None = None,
    ) -> Self:
        """Bring a replica up to its changelog, and open it.

        What there is already is checked, block by block; a segment that is damaged, torn or gone is
        set aside as ``<segment>.damaged-<n>`` and rebuilt alone. Ended at any moment, however hard,
        it goes on from there the next time.

        Parameters
        ----------
        changelog
            A changelog, its folder, or a run's output folder.
        path
            The replica's folder; made if it isn't there.
        profile
            How RocksDB is to be set; a name or a profile.
        listener
            Who is told how it goes.
        memory_windows
            Windows to keep in memory, for as long as this store is open; they take no place on disk
            and are read from the changelog each time.
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
            If the folder is something else, or is being written by somebody else.
        """
        source = _changelog(changelog)
        folder = Path(path)
        told = Everyone([ProgressBar(shown=progress), *([] if listener is None else [listener])])
        lengths = {as_window(window).size_ms for window in memory_windows}
        memory = {length: MemoryLevel(LevelState(length)) for length in sorted(lengths)}
        options = segment_options(as_profile(profile))
        folder.mkdir(parents=True, exist_ok=True)
        with writing_alone(folder):
            prepare(folder, in_memory=lengths, retention=retention)
            catch_up = CatchUp(folder, source, options=options, listener=told, memory=memory)
            try:
                catch_up.mend()
                catch_up.run()
            finally:
                catch_up.close()
        return cls(folder, profile, memory)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, profile: Profile | str | None = None) -> Self:
        """Open a replica that was restored before.

        Windows that its restorer keeps in memory are not in there.

        Raises
        ------
        InputError
            If there is none.
        """
        return cls(Path(path), profile)

    @property
    def windows(self) -> tuple[str, ...]:
        """The windows that it has counts of: ``("1 minute", "1 hour")``."""
        return self._queries.windows

    def get(self, user: str, *, window: Duration | Window, at: Moment) -> UserCounts:
        """Return a user's counts in the window that holds a moment.

        Parameters
        ----------
        user
            Who.
        window
            Which kind: ``"1 hour"``; of a hopping one (``"5 minutes every 1 minute"``) the latest
            that holds the moment.
        at
            When: ISO 8601 text, epoch ms UTC, or an aware datetime.

        Returns
        -------
        UserCounts
            Without counts, if the user did nothing then.

        Raises
        ------
        ConfigurationError
            If the replica has no such window, or ``at`` is no time.
        """
        kind = self._queries.kind(window)
        return self._queries.one(user, kind, kind.start_of(moment_ms(at)))

    def get_many(
        self, users: Iterable[str], *, window: Duration | Window, at: Moment
    ) -> Records[UserCounts]:
        """Return the counts of several users in one window, in the order of the users."""
        kind = self._queries.kind(window)
        found = self._queries.many(list(users), kind, kind.start_of(moment_ms(at)))
        return Records(found, "users' counts")

    def scan(
        self, *, window: Duration | Window, at: Moment, page: int = _PAGE_USERS
    ) -> Iterator[Records[UserCounts]]:
        """Yield the counts of all users in one window, so many at a time, in no order to rely on.

        A page is of one moment; what comes in meanwhile may be in the next one.

        Parameters
        ----------
        window, at
            As in :meth:`get`.
        page
            How many users to yield at once, at most.
        """
        kind = self._queries.kind(window)
        if page < 1:
            message = f"A page of {page} users makes no sense."
            raise ConfigurationError(message, hint="Give 1 or more.")
        return self._queries.pages(kind, kind.start_of(moment_ms(at)), page)

    def history(
        self, user: str, *, window: Duration | Window, since: Moment | None = None
    ) -> Records[UserCounts]:
        """Return a user's counts in all windows in which there are any, the earliest first.

        Parameters
        ----------
        user, window
            As in :meth:`get`.
        since
            From the window on that holds this moment; by default from the beginning.
        """
        kind = self._queries.kind(window)
        since_ms = None if since is None else kind.start_of(moment_ms(since))
        return Records(list(self._queries.history(user, kind, since_ms)), "windows")

    def segments(self) -> Records[SegmentState]:
        """Return the segments, by window and time."""
        return Records(list(self._queries.segments()), "segments")

    def expire(self, now: Moment) -> int:
        """Drop the segments that have been kept as long as was asked, and return how many.

        A segment is dropped whole once its end is longer ago than the ``retention`` of its window,
        which :meth:`restore` was given. It does not come back. There is no expiry of single keys.

        Raises
        ------
        OutputError
            If somebody restores or follows; whoever follows can expire: ``standby.expire(now)``.
        """
        now_ms = moment_ms(now)
        with writing_alone(self.path):
            state = ReplicaState.load(self.path)
            _, dropped = expire_disk(self.path, state, now_ms)
            dropped += expire_memory(self._memory, state.retention_ms, now_ms)
        self._reading.refresh(now=True)
        return dropped

    def follow(
        self,
        changelog: str | os.PathLike[str] | Changelog,
        *,
        every: Duration = "1 second",
        listener: RestoreListener | None = None,
    ) -> Standby:
        """Return a standby that keeps this replica up to its changelog.

        Give it steps, or start it in the background; this store can be asked meanwhile.

        Parameters
        ----------
        changelog
            A changelog, its folder, or a run's output folder.
        every
            How often to look, in the background.
        listener
            Who is told how it goes.

        Raises
        ------
        OutputError
            If somebody else restores or follows.
        """
        source = _changelog(changelog)
        told = Everyone([] if listener is None else [listener])
        begin = partial(
            CatchUp, self.path, source, options=self._options, listener=told, memory=self._memory
        )
        seen = partial(self._reading.refresh, now=True)
        return Standby(begin, seen, source, self.path, every=every)

    def close(self) -> None:
        """Close it; it can't be asked any more."""
        self._reading.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        segments = sum(len(self._reading.starts_ms(length)) for length in self._reading.levels)
        windows = ", ".join(self.windows) or "no windows"
        return f"WindowStore({str(self.path)!r}: {windows}; {format_count(segments)} segments)"


def _changelog(given: str | os.PathLike[str] | Changelog) -> Changelog:
    return given if isinstance(given, Changelog) else Changelog.open(Path(given))
