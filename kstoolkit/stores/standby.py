"""A standby: a replica that follows its changelog, and can be asked meanwhile."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from kstoolkit.changelog.news import News
from kstoolkit.errors import KafkaError
from kstoolkit.records import counted
from kstoolkit.stores.lock import refusals_told, writing_alone
from kstoolkit.stores.moments import moment_ms
from kstoolkit.stores.records import Lag
from kstoolkit.units import parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kstoolkit.changelog.changelog import Changelog
    from kstoolkit.stores.catchup import CatchUp
    from kstoolkit.stores.moments import Moment
    from kstoolkit.units import Duration


_LONGEST_PAUSE_SECONDS = 10.0


class Standby:
    """Follows a changelog. Made by :meth:`kstoolkit.stores.windowstore.WindowStore.follow`.

    Step by step with :meth:`step`, or in the background between :meth:`start` and :meth:`close`.

    Parameters
    ----------
    begin
        Makes what writes, once the replica is held against other writers.
    seen
        Is called when something was written.
    changelog
        What is followed.
    folder
        The replica.
    every
        How long to wait before looking again, in the background.
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
        """How far it is behind, in records and in seconds.

        Raises
        ------
        KstoolkitError
            Why it stopped in the background, if it did.
        """
        self._raise_failure()
        self.changelog.refresh()
        news = News(self.changelog, self._catch_up.position)
        records = news.rows()
        if not records:
            return Lag(0, 0.0)
        held = [level.changed_ms for level in self._catch_up.levels.values()]
        known = [each for each in held if each is not None]
        newest_ms = news.newest_change_ms()
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
        with self._one_at_a_time, refusals_told(self._folder):
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
        """Drop segments as :meth:`kstoolkit.stores.windowstore.WindowStore.expire` does."""
        with self._one_at_a_time, refusals_told(self._folder):
            dropped = self._catch_up.expire(None if now is None else moment_ms(now))
        self._seen()
        return dropped

    def close(self) -> None:
        """Stop following; the replica can be followed by another afterwards.

        Raises
        ------
        KstoolkitError
            Why it stopped in the background, if it did.
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
