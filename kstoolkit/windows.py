"""When: windows of event time, and how those of a cascade nest.

All windows are aligned to the Unix epoch in UTC. A window that begins at ``start`` holds the
events with ``start <= time < start + size``. A tumbling window has ``every == size``; a hopping
one begins a new window ``every`` so often, and each is the sum of its panes, which are as long as
the greatest common divisor of all lengths and hops.

Examples
--------
>>> Cascade("1 minute", "1 hour", "1 day")
Cascade('1 minute', '1 hour', '1 day')
>>> Cascade("1 minute", Hop("5 minutes", every="40 seconds")).pane_ms
20000
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import gcd
from typing import Any

from kstoolkit.errors import ConfigurationError
from kstoolkit.units import Duration, format_duration, parse_duration

RETAINED_WINDOWS = 3
"""How many windows of each level a live run keeps in state, unless told otherwise."""

LONGEST_DEFAULT_FLUSH_MS = 600_000

MOST_COPIES = 1_000
"""Of how many windows an event may be a part: it becomes a counter of each."""

_A_DAY_MS = 24 * 3_600_000
_PIECES = 24
_SESSION, _UP_TO, _OVER_ALL = "session ", " up to ", " over all actions"


@dataclass(frozen=True, slots=True)
class Window:
    """A kind of window: how long it is, and how often one begins; both alike, if it is tumbling.

    Examples
    --------
    >>> Window(300_000, 60_000)
    Hop('5 minutes', every='1 minute')
    >>> hop = Window(5_000, 2_000)
    >>> hop.first_of(6_500), hop.start_of(6_500)
    (2000, 6000)
    """

    size_ms: int
    every_ms: int

    def __post_init__(self) -> None:
        hint = "A hop is no longer than its window: Hop('5 minutes', every='1 minute')."
        if self.size_ms <= 0 or self.every_ms <= 0:
            message = f"There is no window of {self.size_ms} ms every {self.every_ms} ms."
            raise ConfigurationError(message, hint=hint)
        if self.every_ms > self.size_ms:
            message = f"{self!r} leaves gaps between its windows, whose events would not count."
            raise ConfigurationError(message, hint=hint)

    @property
    def is_tumbling(self) -> bool:
        """Whether every event lies in exactly one window."""
        return self.size_ms == self.every_ms

    @property
    def label(self) -> str:
        """The window as people write it: ``"1 hour"`` or ``"5 minutes every 1 minute"``."""
        size = format_duration(self.size_ms)
        return size if self.is_tumbling else f"{size} every {format_duration(self.every_ms)}"

    @property
    def span_ms(self) -> int:
        """How long one is at most."""
        return self.size_ms

    @property
    def copies(self) -> int:
        """Of how many windows an event is a part, at most."""
        return -(-self.size_ms // self.every_ms)

    @property
    def pane_ms(self) -> int:
        """The longest grain of which every window is a sum."""
        return gcd(self.size_ms, self.every_ms)

    def start_of(self, time_ms: int) -> int:
        """Return the start of the latest window that holds ``time_ms``."""
        return time_ms - time_ms % self.every_ms

    def first_of(self, time_ms: int) -> int:
        """Return the start of the earliest window that holds ``time_ms``."""
        return self.start_of(time_ms - self.size_ms) + self.every_ms

    def __repr__(self) -> str:
        size = format_duration(self.size_ms)
        if self.is_tumbling:
            return f"Window({size!r})"
        return f"Hop({size!r}, every={format_duration(self.every_ms)!r})"


def Hop(size: Duration, *, every: Duration) -> Window:  # noqa: N802 - reads as the noun it makes
    """Return a hopping window, ``size`` long, beginning anew ``every`` so often.

    Spark calls this a sliding window. An event is counted in each window that holds it, so a short
    hop is dear; the two need not divide each other, but are summed from fewer panes if they do.

    Raises
    ------
    ConfigurationError
        If ``every`` is longer than ``size``, or an event would be part of more than 1,000 windows.

    Examples
    --------
    >>> Hop("5 minutes", every="1 minute").label
    '5 minutes every 1 minute'
    """
    return countable(Window(parse_duration(size), parse_duration(every)))


def countable(window: Window) -> Window:
    """Return a window that is about to be counted, or raise that it makes too many counters.

    What was counted before there was a limit may be any.
    """
    if window.copies <= MOST_COPIES:
        return window
    message = f"{window!r} makes {window.copies:,} counters of one event; {MOST_COPIES:,} at most."
    hint = "Let it hop less often: a hundredth of its length is dear enough."
    raise ConfigurationError(message, hint=hint)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Session(Window):
    """A kind of session: what a user does with no pause longer than ``gap`` is one.

    A session goes from its first event to its last; what comes exactly ``gap`` after that still
    belongs to it. As a level of a cascade it stands beside the windows, counted from the events
    themselves. Where a length tells levels apart, ``size_ms`` of sessions is minus their gap: no
    window is that long.

    Parameters
    ----------
    gap
        The longest pause within a session.
    longest
        No session is longer: one that would be is closed where it would, and the next begins.
    by
        By default each user's each action has its own, as in ``count_sessions`` and Kafka Streams.
        With ``by=[]`` the sessions are a user's, whatever was done, counted by action.

    Raises
    ------
    ConfigurationError
        If the gap is no positive time, or ``longest`` is shorter.

    Examples
    --------
    >>> Session("30 minutes").label
    'session 30 minutes'
    >>> Session("30 minutes", longest="12 hours", by=[])
    Session('30 minutes', longest='12 hours', by=[])
    """

    longest_ms: int
    is_over_all: bool

    def __init__(
        self, gap: Duration, longest: Duration = "1 day", by: Sequence[str] | None = None
    ) -> None:
        gap_ms, longest_ms = parse_duration(gap), parse_duration(longest)
        if longest_ms < gap_ms:
            message = f"A session of at most {format_duration(longest_ms)} has no pause of "
            message += f"{format_duration(gap_ms)} within."
            raise ConfigurationError(message, hint="Give a longer longest=, or a shorter gap.")
        if by:
            message = f"There are no sessions by {', '.join(by)}."
            hint = "Leave by= out for a session of each action, or give by=[] for one of a user."
            raise ConfigurationError(message, hint=hint)
        put = partial(object.__setattr__, self)
        put("size_ms", -gap_ms)
        put("every_ms", gap_ms)
        put("longest_ms", longest_ms)
        put("is_over_all", by is not None)

    @property
    def gap_ms(self) -> int:
        """The longest pause within a session."""
        return self.every_ms

    @property
    def span_ms(self) -> int:
        """How long one is at most."""
        return self.longest_ms

    @property
    def grain_ms(self) -> int:
        """Where sessions are counted in pieces, no piece is longer than this."""
        return max(self.longest_ms // _PIECES, 1)

    @property
    def label(self) -> str:
        """The sessions as people write them: ``"session 30 minutes"``, and what differs."""
        longest = "" if self.longest_ms == _A_DAY_MS else _UP_TO + format_duration(self.longest_ms)
        return _SESSION + format_duration(self.gap_ms) + longest + _OVER_ALL * self.is_over_all

    @classmethod
    def parse(cls, label: str) -> Session:
        """Read what :attr:`label` wrote.

        Examples
        --------
        >>> Session.parse("session 30 minutes up to 12 hours over all actions")
        Session('30 minutes', longest='12 hours', by=[])
        """
        told, over_all, rest = label.removeprefix(_SESSION).partition(_OVER_ALL)
        if rest:
            message = f"{label!r} goes on behind {_OVER_ALL.strip()!r}."
            raise ConfigurationError(message, hint=f"Write {cls('30 minutes', by=[]).label!r}.")
        gap, _, longest = told.partition(_UP_TO)
        return cls(gap, longest or _A_DAY_MS, by=[] if over_all else None)

    def __repr__(self) -> str:
        longest = format_duration(self.longest_ms)
        told = [repr(format_duration(self.gap_ms))]
        told += [f"longest={longest!r}"] * (self.longest_ms != _A_DAY_MS)
        return f"Session({', '.join(told + ['by=[]'] * self.is_over_all)})"


def length_label(size_ms: int) -> str:
    """Return which windows have this ``size_ms``, for people: of sessions, those with this gap.

    >>> length_label(60_000), length_label(-1_800_000)
    ('1 minute', 'session 30 minutes')
    """
    return format_duration(size_ms) if size_ms > 0 else _SESSION + format_duration(-size_ms)


def as_window(value: Duration | Window) -> Window:
    """Return ``value`` as a window; a bare length, or a window's label, is a window too.

    >>> as_window("1 hour"), as_window("5 minutes every 1 minute")
    (Window('1 hour'), Hop('5 minutes', every='1 minute'))
    """
    if isinstance(value, Window):
        return value
    if isinstance(value, str) and value.startswith(_SESSION):
        return Session.parse(value)
    if isinstance(value, str) and " every " in value:
        size, every = value.split(" every ", 1)
        return Window(parse_duration(size), parse_duration(every))
    size_ms = parse_duration(value)
    return Window(size_ms, size_ms)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Cascade:
    """The levels of a cascade, finest first, and how each one is kept.

    Each tumbling length divides the next. A hopping window may stand anywhere, and hop anyhow: it
    is summed from the longest level that fits into it, or from panes.

    Sessions stand beside the windows: each kind is counted from the events themselves.

    Parameters
    ----------
    *windows
        Lengths (``"1 minute"``), windows (:func:`Hop`) or sessions (:class:`Session`).
    retention
        How many windows of a level stay in state in a live run. One number, or a mapping from
        window to number. A bounded run keeps all.
    flush
        How often a live run hands a level on; a mapping from window to duration. By default the
        shortest window at every batch, others a sixtieth of their length, ten minutes at most.
    min_count
        Counts below this stay out of the changelog. One number, or a mapping from window.
    lateness
        How long after its end a window still takes events. One duration, or a mapping from window.
        By default a live run takes events as long as it retains the window, and ten minutes at
        least; in a bounded run nothing is late.
    expire
        How long after its end a window's counts and findings stay in the run's folder: they go
        when it is tidied after that, sessions once their longest has passed besides. One duration,
        or a mapping from window; by default for ever.
    max_counters_per_flush
        A live flush hands on this many counters of each bucket, and the rest waits for the next
        batch; but so many wait at most. Where more comes, a flush hands on more than this, its
        batch takes longer, and Spark takes nothing new from the source meanwhile.

    Raises
    ------
    ConfigurationError
        If the windows do not nest, an event would be part of more than 1,000 windows of a label,
        or an option names a window that the cascade has not.

    Examples
    --------
    >>> Cascade("1 minute", "7 minutes", "1 hour")
    Traceback (most recent call last):
    ...
    kstoolkit.errors.ConfigurationError: The windows do not nest: 7 minutes does not divide 1 hour.
    Hint: Each length must divide the next, as in '1 minute', '1 hour', '1 day'.
    """

    windows: tuple[Window, ...]
    sessions: tuple[Session, ...]
    retention: tuple[int, ...]
    flush_ms: tuple[int, ...]
    min_count: tuple[int, ...]
    lateness_ms: tuple[int | None, ...]
    expire_ms: tuple[int | None, ...]
    max_counters_per_flush: int

    def __init__(
        self,
        *windows: Duration | Window,
        retention: int | Mapping[Any, int] | None = None,
        flush: Mapping[Any, Duration] | None = None,
        min_count: int | Mapping[Any, int] | None = None,
        lateness: Duration | Mapping[Any, Duration] | None = None,
        expire: Duration | Mapping[Any, Duration] | None = None,
        max_counters_per_flush: int = 1_000_000,
    ) -> None:
        given = windows or ("1 minute", "1 hour", "1 day")
        levels = [w if isinstance(w, Window) else countable(as_window(w)) for w in given]
        sessions = tuple(each for each in levels if isinstance(each, Session))
        panes = tuple(each for each in levels if each not in sessions)
        _check_nesting(panes)
        _check_sessions(panes, sessions)
        levels = [*panes, *sessions]
        put, span = partial(object.__setattr__, self), partial(parse_duration, allow_zero=True)
        put("windows", panes)
        put("sessions", sessions)
        put("retention", _per_level(levels, retention, lambda _: RETAINED_WINDOWS, _positive))
        often = [0, *(min(w.every_ms // 60, LONGEST_DEFAULT_FLUSH_MS) for w in levels[1:])]
        put("flush_ms", _per_level(levels, flush, lambda w: often[levels.index(w)], span))
        put("min_count", _per_level(levels, min_count, lambda _: 1, _positive))
        put("lateness_ms", _per_level(levels, lateness, lambda _: None, span))
        put("expire_ms", _per_level(levels, expire, lambda _: None, parse_duration))
        put("max_counters_per_flush", _positive(max_counters_per_flush))

    @property
    def pane_ms(self) -> int:
        """The grain of counting: every window is a sum of panes of this length."""
        return gcd(*(window.pane_ms for window in self.windows))

    @property
    def levels(self) -> tuple[Window, ...]:
        """The windows, finest first, and behind them the sessions."""
        return self.windows + self.sessions

    @property
    def labels(self) -> tuple[str, ...]:
        """The levels as people write them."""
        return tuple(window.label for window in self.levels)

    def index(self, window: Duration | Window) -> int:
        """Return which level ``window`` is, sessions by their gap; none: a ConfigurationError."""
        wanted = as_window(window)
        if isinstance(wanted, Session):
            wanted = next((w for w in self.sessions if w.gap_ms == wanted.gap_ms), wanted)
        _check_known([wanted], self.levels)
        return self.levels.index(wanted)

    def parent(self, level: int) -> int | None:
        """Return the level that ``level`` takes its counts from; ``None`` is the source itself.

        The longest shorter tumbling window that divides all starts and ends. Sessions have none.
        """
        if level >= len(self.windows):
            return None
        pane_ms = self.windows[level].pane_ms
        shorter = enumerate(self.windows[:level])
        fitting = (n for n, w in shorter if w.is_tumbling and pane_ms % w.size_ms == 0)
        return max(fitting, default=None)

    def __repr__(self) -> str:
        names = (repr(w.label) if w.is_tumbling else repr(w) for w in self.levels)
        return f"Cascade({', '.join(names)})"


def _check_nesting(levels: tuple[Window, ...]) -> None:
    sizes = [window.size_ms for window in levels if window.is_tumbling]
    hint = "Each length must divide the next, as in '1 minute', '1 hour', '1 day'."
    for finer, coarser in pairwise(sizes):
        if finer >= coarser or coarser % finer:
            finer_text, coarser_text = format_duration(finer), format_duration(coarser)
            message = f"The windows do not nest: {finer_text} does not divide {coarser_text}."
            raise ConfigurationError(message, hint=hint)
    if len({window.size_ms for window in levels}) < len(levels):
        message = "The windows do not nest: one length is named twice."
        raise ConfigurationError(message, hint=hint)


def _check_sessions(windows: Sequence[Window], sessions: Sequence[Session]) -> None:
    if not windows:
        message = "A cascade of sessions alone has no windows."
        raise ConfigurationError(message, hint="Name a window beside, as '1 hour'.")
    if len({session.gap_ms for session in sessions}) < len(sessions):
        message = "One gap of sessions is named twice, and tells them apart."
        raise ConfigurationError(message, hint="Leave one out, or give it another gap.")


def _per_level(levels: Sequence[Window], given: Any, default: Any, check: Any) -> tuple[Any, ...]:
    if not isinstance(given, Mapping):
        return tuple(default(w) if given is None else check(given) for w in levels)
    by_window = {as_window(window): check(value) for window, value in given.items()}
    _check_known(by_window, levels)
    return tuple(by_window[w] if w in by_window else default(w) for w in levels)


def _check_known(named: Iterable[Window], levels: Sequence[Window]) -> None:
    for window in named:
        if window not in levels:
            message = f"The cascade has no window {window.label!r}."
            labels = ", ".join(each.label for each in levels)
            raise ConfigurationError(message, hint=f"It has: {labels}.")


def _positive(value: int) -> int:
    if value < 1:
        message = f"{value!r} is not a positive number."
        raise ConfigurationError(message, hint="Give 1 or more.")
    return value
