"""Trials of the lab beside the notebook: begun, heard, cancelled, and what came of them."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

from kstoolkit.records import Records, counted
from kstoolkit.rocksdb.lab.comparing import Comparison, Listener, TrialFailed
from kstoolkit.widgets.background import Background
from kstoolkit.widgets.profilechoice import short_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from threading import Event

    from kstoolkit.rocksdb.lab.results import Moment
    from kstoolkit.rocksdb.lab.workloads import Workload
    from kstoolkit.rocksdb.profiles.profile import Profile


_RUNNING = "running"


class Trying(Listener):
    """A comparison in a thread, and what is known of it by now.

    Parameters
    ----------
    given
        A comparison that was made before.
    tell
        Takes a sentence for the user, and how much is done, from 0 to 1.
    ended
        Called in the thread when all has ended, however it did.
    """

    def __init__(
        self,
        given: Comparison | None,
        tell: Callable[[str, float], object],
        ended: Callable[[], object],
    ) -> None:
        self.comparison = given
        self.state = "not run yet" if given is None else counted(len(given), "trials")
        self.is_running = False
        self._tell, self._ended = tell, ended
        self._moments: list[Moment] = [] if given is None else [*given.series]
        self._background = Background(self._fail)
        self._stop: Event | None = None
        self.names = [each.profile for each in given or ()]
        self._workload: Workload | None = None if given is None else given.workload
        self._is_cancelled = self._is_closed = False

    def start(self, workload: Workload, profiles: Sequence[str | Profile], **limits: Any) -> bool:
        """Begin to compare, unless that goes on already; return whether it began."""
        if self.is_running or self._is_closed:
            return False
        self._background.wait()  # for the end of one before
        self.comparison, self._moments, self.names = None, [], []
        self._workload, self._is_cancelled = workload, False
        self.state, self.is_running = _RUNNING, True
        return self._background.start(lambda stop: self._compare(stop, workload, profiles, limits))

    def cancel(self) -> None:
        """Have it end soon; trials that have ended are kept."""
        self._is_cancelled = True

    def close(self) -> None:
        """End it, wait for that, and begin no other."""
        self._is_closed = True
        self._background.close()

    def wait(self) -> None:
        """Wait until it has ended by itself."""
        while self._background.is_busy:
            self._background.wait()

    def found(self) -> Comparison | None:
        """Return what is known by now: trials that have ended, moments of all; None: nothing."""
        if self._workload is None:
            return None
        known: Sequence[Any] = self.comparison or ()
        levels = Records((), "levels") if self.comparison is None else self.comparison.levels
        moments = Records(list(self._moments), "moments")
        return Comparison(self._workload, list(known), moments, levels)

    def begin(self, workload: Workload, profiles: Sequence[str]) -> None:
        """Keep what is tried."""
        self._workload, self.names = workload, list(profiles)

    def hear(self, moment: Moment) -> None:
        """Keep the moment, and tell of it."""
        self._moments.append(moment)
        writes = self._workload.writes if self._workload else moment.writes
        before, tried = self.names.index(moment.profile), len(self.names)
        done = (
            "all written" if moment.writes >= writes else f"{moment.writes:,} of {writes:,} writes"
        )
        name = short_name(moment.profile)
        said = f"Trial {before + 1} of {tried}, {name}: {done}."
        self._tell(said, (before + min(moment.writes / writes, 1)) / tried)

    def is_cancelled(self) -> bool:
        """Return whether somebody wants it to end."""
        return self._is_cancelled or (self._stop is not None and self._stop.is_set())

    def _compare(
        self,
        stop: Event,
        workload: Workload,
        profiles: Sequence[str | Profile],
        limits: dict[str, Any],
    ) -> None:
        from kstoolkit.rocksdb.lab.comparing import (  # noqa: PLC0415 - only to try
            compare_profiles,
        )

        began, self._stop = monotonic(), stop
        try:
            self.comparison = compare_profiles(
                workload, profiles, progress=False, listener=self, **limits
            )
            self.state = counted(len(self.comparison), "trials")
            self._tell(_told(self.comparison, monotonic() - began), 1)
        except TrialFailed as failed:
            self._keep(failed)
        finally:
            self.is_running = False
            self.state = "failed" if self.state == _RUNNING else self.state
            self._ended()

    def _keep(self, failed: TrialFailed) -> None:
        self.comparison = failed.found
        kept = len(failed.found or ())
        cause = "cancelled" if self.is_cancelled() else "failed"
        self.state = f"{cause} after {counted(kept, 'trials')}"
        self._tell(f"{failed} {counted(kept, 'trials')} had ended before.", 0)

    def _fail(self, sentence: str) -> None:
        self._tell(sentence, 0)


def _told(found: Comparison, took_s: float) -> str:
    stopped = [each for each in found if each.stopped_by]
    limits = {"time": "its time was up", "disk": "it took more disk than it may"}
    whys = [
        f"{short_name(each.profile)} was stopped: {limits[each.stopped_by or '']}"
        for each in stopped
    ]
    return "; ".join([f"{counted(len(found), 'trials')} in {took_s:.1f} s", *whys]) + "."
