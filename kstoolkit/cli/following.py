"""A replica that follows its changelog in a terminal, until somebody stops it."""

from __future__ import annotations

import signal
import sys
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING

from tqdm import tqdm

from kstoolkit.cli.outage import Outage
from kstoolkit.cli.terminal import note
from kstoolkit.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from kstoolkit.replica.records import Lag
    from kstoolkit.replica.windowstore import Standby


SHOW_SECONDS = 0.5


def keep_up(
    standby: Standby, *, quiet: bool, told: Callable[[Lag, int], None] | None = None
) -> int:
    """Follow until SIGINT or SIGTERM comes, and return how many segments were dropped.

    Brokers that do not answer are waited for, with growing pauses, ten minutes at most.

    Parameters
    ----------
    standby
        What follows.
    quiet
        Whether to show nothing; else the lag stands on stderr, if that is a terminal.
    told
        Called with the lag, and how many records were followed, each time that it is looked at.

    Raises
    ------
    KstoolkitError
        Why it can't go on.
    """
    dropped, expired_at = 0, 0
    outage: Outage | None = None
    with _asked_to_stop() as asked, _line(quiet=quiet) as line:
        if not quiet:
            note("Following. Ctrl-C ends it; the same command goes on from there.")
        while not asked.is_set():
            try:
                lag = standby.start().lag
            except KafkaError as error:
                outage = outage or Outage("The changelog")
                asked.wait(outage.next_pause(error))
                continue
            outage = None
            line.set_description_str(_lag(lag, standby.records))
            if told is not None:
                told(lag, standby.records)
            if standby.records > expired_at:
                expired_at = standby.records
                dropped += standby.expire()
            asked.wait(SHOW_SECONDS)
    return dropped


@contextmanager
def _asked_to_stop() -> Iterator[Event]:
    """Yield what is set once somebody asks to stop; who asks twice does not wait for the batch."""
    asked = Event()

    def ask(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            signal.default_int_handler(number, frame)
        asked.set()

    before = {each: signal.signal(each, ask) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _line(*, quiet: bool) -> tqdm:
    """Return a line on stderr that is written over and over, if that is a terminal."""
    return tqdm(
        disable=True if quiet else None,
        file=sys.stderr,
        bar_format="{desc}",
        dynamic_ncols=True,
        leave=False,
    )


def _lag(lag: Lag, followed: int) -> str:
    from kstoolkit.records import counted  # noqa: PLC0415 - loads pandas

    behind = "an unknown time" if lag.seconds is None else f"{lag.seconds:,.1f} s"
    return (
        f"{counted(lag.records, 'records')} and {behind} behind; "
        f"{counted(followed, 'records')} followed"
    )
