"""The questions that a replica answers, from whichever segments hold the answer."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from kstoolkit.errors import ConfigurationError
from kstoolkit.formats.keys import encode_replica_key
from kstoolkit.records import Records
from kstoolkit.stores.answers import counts_of, counts_of_page, look_up, segment_state
from kstoolkit.stores.levels import segment_folder, segment_span_ms
from kstoolkit.stores.replicafile import segment_length_ms
from kstoolkit.units import format_duration
from kstoolkit.windows import Window, as_window

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kstoolkit.stores.answers import Found
    from kstoolkit.stores.reading import Reading
    from kstoolkit.stores.records import SegmentState, UserCounts
    from kstoolkit.stores.segment import Segment
    from kstoolkit.units import Duration


_PAGE_ROWS = 10_000
_NOTHING: Found = (None, [])


class Queries:
    """Answers questions from the segments that are open for reading."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self._kinds: dict[Duration | Window, Window] = {}

    @property
    def windows(self) -> tuple[str, ...]:
        """The windows that there are counts of."""
        return tuple(format_duration(length) for length in self.reading.levels)

    def kind(self, window: Duration | Window) -> Window:
        """Return which kind of window is meant.

        Raises
        ------
        ConfigurationError
            If there are no such windows here.
        """
        _check_window(window)
        known = self._kinds.get(window)
        if known is not None:
            return known
        kind = as_window(window)
        if kind.size_ms not in self.reading.levels:
            self.reading.refresh(now=True)
        if kind.size_ms not in self.reading.levels:
            message = f"The replica {str(self.reading.folder)!r} has no window {kind.label!r}."
            raise ConfigurationError(message, hint=f"It has: {', '.join(self.windows) or 'none'}.")
        self._kinds[window] = kind
        return kind

    def one(self, user: str, kind: Window, start_ms: int) -> UserCounts:
        """Return the counts of one user in one window."""
        key = _key(user, start_ms)
        found = self.reading.ask(
            kind.size_ms,
            _segment_of(kind, start_ms),
            lambda segment: look_up(segment, key),
            _NOTHING,
        )
        return counts_of(user, start_ms, start_ms + kind.size_ms, found)

    def many(self, users: Sequence[str], kind: Window, start_ms: int) -> list[UserCounts]:
        """Return the counts of some users in one window."""
        keys = [_key(user, start_ms) for user in users]
        values, actions = self._found(kind, _segment_of(kind, start_ms), keys)
        end_ms = start_ms + kind.size_ms
        return [
            counts_of(user, start_ms, end_ms, (value, actions))
            for user, value in zip(users, values, strict=True)
        ]

    def pages(self, kind: Window, start_ms: int, page: int) -> Iterator[Records[UserCounts]]:
        """Yield the counts of all users in one window, so many at a time."""
        found: list[UserCounts] = []
        segment: Segment | None = self.reading.ask(
            kind.size_ms, _segment_of(kind, start_ms), lambda each: each, None
        )
        if segment is None:
            return
        for rows in segment.pages(_PAGE_ROWS):
            found += counts_of_page(rows, segment.actions, start_ms, start_ms + kind.size_ms)
            while len(found) >= page:
                yield Records(found[:page], "users' counts")
                found = found[page:]
        if found:
            yield Records(found, "users' counts")

    def history(self, user: str, kind: Window, since_ms: int | None) -> Iterator[UserCounts]:
        """Yield the counts of one user in all windows from one on in which there are any."""
        for segment_ms in self.reading.starts_ms(kind.size_ms):
            starts = _window_starts(kind, segment_ms, since_ms)
            if not starts:
                continue
            keys = [_key(user, start_ms) for start_ms in starts]
            values, actions = self._found(kind, segment_ms, keys)
            for start_ms, value in zip(starts, values, strict=True):
                if value is not None:
                    yield counts_of(user, start_ms, start_ms + kind.size_ms, (value, actions))

    def segments(self) -> Iterator[SegmentState]:
        """Yield what there is to say of each segment."""
        for window_ms in self.reading.levels:
            for start_ms in self.reading.starts_ms(window_ms):
                question = partial(
                    segment_state,
                    window=format_duration(window_ms),
                    span_ms=segment_span_ms(window_ms, start_ms),
                    folder=segment_folder(self.reading.folder, window_ms, start_ms),
                )
                state = self.reading.ask(window_ms, start_ms, question, None)
                if state is not None:
                    yield state

    def _found(
        self, kind: Window, segment_ms: int, keys: list[bytes]
    ) -> tuple[list[bytes | None], list[str]]:
        nothing: tuple[list[bytes | None], list[str]] = ([None] * len(keys), [])
        return self.reading.ask(
            kind.size_ms,
            segment_ms,
            lambda segment: (segment.get_many(keys), segment.actions),
            nothing,
        )


def _check_window(window: object) -> None:
    if not isinstance(window, str | int | timedelta | Window):
        message = f"{window!r} is no window."
        raise ConfigurationError(message, hint="Give one such as '1 hour'.")


def _check_user(user: object) -> None:
    if not isinstance(user, str):
        message = f"The user {user!r} is no text."
        raise ConfigurationError(message, hint="Give the user's name, as it was counted.")


def _key(user: str, start_ms: int) -> bytes:
    _check_user(user)
    try:
        return encode_replica_key(user, start_ms)
    except UnicodeEncodeError as error:
        message = f"The user {user!r} is no text: it has half of a surrogate pair."
        raise ConfigurationError(message, hint="Give the name in UTF-8.") from error


def _segment_of(kind: Window, start_ms: int) -> int:
    return start_ms - start_ms % segment_length_ms(kind.size_ms)


def _window_starts(kind: Window, segment_ms: int, since_ms: int | None) -> range:
    """Return where the windows of a segment begin, from some window on."""
    span = segment_span_ms(kind.size_ms, segment_ms)
    first = span.start + -span.start % kind.every_ms
    return range(first if since_ms is None else max(first, since_ms), span.stop, kind.every_ms)
