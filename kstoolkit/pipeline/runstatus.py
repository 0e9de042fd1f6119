"""A run as it stands at one moment: how fast, how far behind, what waits, what its state takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from html import escape
from typing import TYPE_CHECKING

from kstoolkit.events.event import REASONS
from kstoolkit.records import Viewed
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

    from kstoolkit.pipeline.batchtimes import BatchTimes
    from kstoolkit.pipeline.restarts import Restarted


_RECENT_MS = 60_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LENGTHS = (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000))
_SECOND_MS = 1_000


class RunState(StrEnum):
    """Whether a run counts."""

    COUNTING = "counting"
    ELSEWHERE = "counting, in another process"
    RESTING = "not counting at present"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RunStatus(Viewed):
    """A run as it stands; made by :class:`kstoolkit.pipeline.watching.RunWatch`.

    Parameters
    ----------
    state, why
        Whether it counts, and why it failed if it did.
    at_ms
        When this was seen, epoch ms UTC.
    batches
        The newest micro-batches, the oldest of them first.
    num_batches, events, findings, late, dead_letters
        Of all micro-batches; late events by window, dead letters by reason.
    newest_event_ms
        Event time reaches at least so far: the end of the newest window of the finest level.
    waiting_files, waiting_bytes
        Taken in, and not counted yet.
    state_bytes
        Size of the state in the checkpoint.
    restarts, last_restart
        How often its query died and was started again, in all its life; and the newest time.
    unknown
        Why a figure is unknown, by its name.

    Examples
    --------
    >>> status = RunStatus(state=RunState.RESTING, at_ms=0)
    >>> status
    RunStatus(not counting at present, 0 events in 0 batches)
    >>> dict(status.rows())["events/s"]
    'unknown (no batch yet)'
    """

    state: RunState
    at_ms: int
    why: str | None = None
    batches: tuple[BatchTimes, ...] = ()
    num_batches: int = 0
    events: int = 0
    findings: int = 0
    late: dict[str, int] = field(default_factory=dict)
    dead_letters: dict[str, int] = field(default_factory=dict)
    newest_event_ms: int | None = None
    waiting_files: int | None = None
    waiting_bytes: int | None = None
    state_bytes: int | None = None
    restarts: int = 0
    last_restart: Restarted | None = None
    unknown: dict[str, str] = field(default_factory=dict)

    @property
    def newest(self) -> BatchTimes | None:
        """The newest micro-batch."""
        return self.batches[-1] if self.batches else None

    @property
    def lag_ms(self) -> int | None:
        """How far event time is behind the clock at least; 0 if the newest window is not over."""
        if self.newest_event_ms is None:
            return None
        return max(self.at_ms - self.newest_event_ms, 0)

    @property
    def arriving_per_second(self) -> float | None:
        """Events/s that came in during the last minute; ``None`` where it does not count."""
        if self.state not in {RunState.COUNTING, RunState.ELSEWHERE}:
            return None
        since_ms = self.at_ms - _RECENT_MS
        recent = sum(each.events for each in self.batches if each.clock_ms >= since_ms)
        return recent / (_RECENT_MS / _SECOND_MS)

    def rows(self) -> list[tuple[str, str]]:
        """Return (what, figure) for people, in the order to be read."""
        newest = self.newest
        return [
            ("state", self._state()),
            *self._restarts(),
            ("events", f"{format_count(self.events)} in {self._batches()}"),
            ("events/s", self._rate()),
            ("last batch", "none yet" if newest is None else _parts_text(newest)),
            ("lag", self._lag()),
            ("waiting", self._waiting()),
            ("late", _by_name(self.late)),
            (
                "dead letters",
                _by_name({REASONS.get(k, k): n for k, n in self.dead_letters.items()}),
            ),
            ("findings reported", format_count(self.findings)),
            ("state rows", self._held("state_rows", format_count)),
            ("state memory", self._held("memory_bytes", format_bytes)),
            ("state on disk", self._bytes_or_why(self.state_bytes, "state_bytes")),
        ]

    def to_pandas(self) -> pd.DataFrame:
        """Return one row for each of the newest micro-batches; parts of its time in seconds."""
        import pandas as pd  # noqa: PLC0415 - only for whoever asks for a table

        columns = ("number", "seconds", "events", "events_per_second", "state_rows", "memory_bytes")
        rows = [
            {
                "clock": pd.Timestamp(each.clock_ms, unit="ms", tz="UTC"),
                **{name: getattr(each, name) for name in columns},
                **{f"{name}_seconds": part for name, part in each.parts_seconds.items()},
            }
            for each in self.batches
        ]
        return pd.DataFrame(rows, columns=None if rows else ["clock", *columns])

    def __repr__(self) -> str:
        return f"RunStatus({self.state}, {format_count(self.events)} events in {self._batches()})"

    def _repr_html_(self) -> str:
        body = "".join(
            f"<tr><th scope='row' style='text-align:left'>{escape(what)}</th>"
            f"<td style='text-align:left'>{escape(figure)}</td></tr>"
            for what, figure in self.rows()
        )
        return f"<table><caption>{escape(repr(self)[10:-1])}</caption>{body}</table>"

    def _state(self) -> str:
        return self.state if self.why is None else f"{self.state}: {self.why}"

    def _restarts(self) -> list[tuple[str, str]]:
        """Return how often it was started again, where it was."""
        last = self.last_restart
        if last is None:
            return []
        ago = _length(max(self.at_ms - last.at_ms, 0))
        return [("restarts", f"{format_count(self.restarts)}, the last {ago} ago: {last.reason}")]

    def _batches(self) -> str:
        return f"{format_count(self.num_batches)} batch{'' if self.num_batches == 1 else 'es'}"

    def _rate(self) -> str:
        busy = [each for each in self.batches if each.events and each.seconds]
        if not busy:
            return f"unknown ({'no event' if self.batches else 'no batch'} yet)"
        told = f"{format_count(busy[-1].events_per_second)} in the last batch with events"
        arriving = self.arriving_per_second
        return (
            told
            if arriving is None
            else f"{told}; {arriving:,.1f} a second came in during the last minute"
        )

    def _lag(self) -> str:
        if self.newest_event_ms is None or self.lag_ms is None:
            return f"unknown ({self.unknown.get('newest_event_ms', 'no counts yet')})"
        reached = _EPOCH + timedelta(milliseconds=self.newest_event_ms)
        if not self.lag_ms:
            return f"none: event time reaches {reached:%Y-%m-%d %H:%M:%S} UTC"
        return f"{_length(self.lag_ms)}: event time reaches {reached:%Y-%m-%d %H:%M:%S} UTC"

    def _waiting(self) -> str:
        if self.waiting_files is None:
            return self._or_why(None, "waiting_files")
        files = f"{format_count(self.waiting_files)} file{'' if self.waiting_files == 1 else 's'}"
        return f"{files}, {format_bytes(self.waiting_bytes)}"

    def _held(self, name: str, printed: Callable[[float], str]) -> str:
        """Return a figure of the state after the newest batch of which it is known."""
        known = [each for each in self.batches if getattr(each, name) is not None]
        if not known:
            return self._or_why(None, "state_rows")
        figure = printed(getattr(known[-1], name))
        return figure if known[-1] is self.newest else f"{figure} after batch {known[-1].number}"

    def _or_why(self, value: int | None, name: str) -> str:
        why = self.unknown.get(name, "not told")
        return f"unknown ({why})" if value is None else format_count(value)

    def _bytes_or_why(self, value: int | None, name: str) -> str:
        return self._or_why(None, name) if value is None else format_bytes(value)


def _parts_text(batch: BatchTimes) -> str:
    told = ", ".join(f"{name} {part:,.2f}" for name, part in batch.parts_seconds.items())
    whole = f"{batch.seconds:,.2f} s, {format_count(batch.events)} events"
    return f"{whole} ({told})" if told else f"{whole} (in parts: unknown, only its process knows)"


def _by_name(counts: dict[str, int]) -> str:
    told = [f"{name} {format_count(number)}" for name, number in counts.items() if number]
    return ", ".join(told) or "none"


def _length(milliseconds: int) -> str:
    for name, length in _LENGTHS:
        if milliseconds >= 2 * length:
            return f"{milliseconds / length:,.0f} {name}s"
    return f"{milliseconds / _SECOND_MS:,.1f} s"
