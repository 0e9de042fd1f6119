"""A replica of a run's counts, to be asked: who did what how often in which window."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from kstoolkit.changelog.changelog import MIRROR, Changelog, Mirrored
from kstoolkit.stores.catchup import CatchUp
from kstoolkit.stores.expiring import expire_disk, expire_memory, newest_start_ms
from kstoolkit.stores.levels import MemoryLevel
from kstoolkit.stores.listening import Everyone, ProgressBar
from kstoolkit.stores.lock import refusals_told, writing_alone
from kstoolkit.stores.moments import moment_ms
from kstoolkit.stores.opening import as_profile, segment_options
from kstoolkit.stores.place import replica_place
from kstoolkit.stores.preparing import prepare, retention_ms
from kstoolkit.stores.replicafile import LevelState, ReplicaState
from kstoolkit.stores.standby import Standby
from kstoolkit.stores.windowreader import WindowReader
from kstoolkit.units import format_duration
from kstoolkit.windows import as_window

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping

    from kstoolkit.rocksdb.profiles.profile import Profile
    from kstoolkit.stores.listening import RestoreListener
    from kstoolkit.stores.moments import Moment
    from kstoolkit.units import Duration
    from kstoolkit.windows import Window


class WindowStore(WindowReader):
    """A replica, open to be asked. Made by :meth:`restore` or :meth:`open`.

    Any number of readers may have it open while one process restores or follows; each sees what is
    new within a tenth of a second. A reader changes nothing in its folder. ``with`` closes it.

    Parameters
    ----------
    path
        The replica's folder.
    profile
        How RocksDB is to be set; a name or a profile.
    memory
        Levels that are in memory, by window length.
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

        What there is already is checked, block by block; a segment that is damaged, torn or gone is
        set aside as ``<segment>.damaged-<n>`` and rebuilt alone. Ended at any moment, however hard,
        it goes on from there the next time.

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
            Windows to keep in memory, for as long as this store is open; they take no place on disk
            and are read from the changelog each time. Of those that the changelog has none of (so
            far), a ``UserWarning`` tells.
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
        told = Everyone([ProgressBar(shown=progress), *([] if listener is None else [listener])])
        lengths = {as_window(window).size_ms for window in memory_windows}
        memory = {length: MemoryLevel(LevelState(length)) for length in sorted(lengths)}
        options = segment_options(as_profile(profile))
        kept_ms = None if retention is None else retention_ms(retention)
        with refusals_told(folder):
            folder.mkdir(parents=True, exist_ok=True)
        with writing_alone(folder):
            prepare(folder, in_memory=lengths, kept_ms=kept_ms)
            catch_up = CatchUp(folder, source, options=options, listener=told, memory=memory)
            try:
                catch_up.mend()
                catch_up.run()
            finally:
                catch_up.close()
        _warn_of_unknown(memory, source)
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
            state = ReplicaState.load(self.path)
            levels = [*state.levels.values(), *(each.state for each in self._memory.values())]
            now_ms = newest_start_ms(levels) if now is None else moment_ms(now)
            _, dropped = expire_disk(self.path, state, now_ms)
            dropped += expire_memory(self._memory, state.retention_ms, now_ms)
        self._reading.refresh(now=True)
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
        changelog
            A changelog, its folder, a run's output folder, or a topic:
            :func:`~kstoolkit.kafka.outputs.kafka_changelog`.
        every
            How often to look, in the background.
        listener
            Who is told how it goes.

        Raises
        ------
        OutputError
            If somebody else restores or follows.
        """
        source = _changelog(changelog, self.path)
        told = Everyone([] if listener is None else [listener])
        begin = partial(
            CatchUp, self.path, source, options=self._options, listener=told, memory=self._memory
        )
        seen = partial(self._reading.refresh, now=True)
        return Standby(begin, seen, source, self.path, every=every)


def _warn_of_unknown(memory: Mapping[int, MemoryLevel], changelog: Changelog) -> None:
    lacking = [format_duration(each) for each, level in memory.items() if not level.has_begun]
    if lacking:
        message = f"The changelog {changelog.path} has no windows of {', '.join(lacking)} so far."
        warnings.warn(message, UserWarning, stacklevel=3)


def _changelog(given: str | os.PathLike[str] | Changelog | Mirrored, replica: Path) -> Changelog:
    if isinstance(given, Changelog):
        return given
    if isinstance(given, Mirrored):
        return given.mirrored_in(replica / MIRROR)
    return Changelog.open(Path(given))
