"""Keys with times in them: windows and sessions, in the order of keys or of time.

::

    window                  key | start (int64) | sequence (int32)
    session                 key | end (int64) | start (int64)
    window, time first      00 | start | key | sequence
    window, index           01 | key | start | sequence
    session, time first     00 | end | start | key
    session, index          01 | key | end | start

(``WindowKeySchema``, ``SessionKeySchema``, ``PrefixedWindowKeySchemas``,
``PrefixedSessionKeySchemas`` of ``org.apache.kafka.streams.state.internals``.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kstoolkit.formats.streams.masked import either, integers_of, said_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kstoolkit.formats.bytecolumn import ByteColumn


_WINDOW_BYTES = 12
_SESSION_BYTES = 16
_NEITHER = "the key begins with neither 00 nor 01"


@dataclass(frozen=True, slots=True, eq=False)
class KeyParts:
    """What is in keys with times; of rows with a problem, nothing in particular.

    Parameters
    ----------
    key
        The application's own key.
    start_ms
        Where the window or session begins, epoch ms UTC.
    end_ms
        Where the session ends, which is its last event; None for windows, whose ends lie nowhere.
    sequence
        Which of several rows of the same key and window it is; None for sessions.
    is_index
        Which rows are for finding others.
    problems
        Why a key could not be taken apart, by its row.
    """

    key: ByteColumn
    start_ms: NDArray[np.int64]
    end_ms: NDArray[np.int64] | None
    sequence: NDArray[np.int64] | None
    is_index: NDArray[np.bool_]
    problems: dict[int, str]


def window_keys(keys: ByteColumn) -> KeyParts:
    """Return what is in the keys of a window store.

    Examples
    --------
    >>> from kstoolkit.formats.bytecolumn import ByteColumn
    >>> parts = window_keys(ByteColumn.of([bytes.fromhex("410000018bcfe5680000000000")]))
    >>> parts.key.to_list(), parts.start_ms.tolist(), parts.sequence.tolist()
    ([b'A'], [1700000000000], [0])
    """
    fits = keys.lengths >= _WINDOW_BYTES
    return KeyParts(
        keys.part(end=-_WINDOW_BYTES),
        integers_of(fits, keys, 8, at=-12),
        None,
        integers_of(fits, keys, 4, at=-4),
        np.zeros(len(keys), dtype=np.bool_),
        said_of(~fits, "the key is shorter than the 12 bytes of a window"),
    )


def session_keys(keys: ByteColumn) -> KeyParts:
    """Return what is in the keys of a session store.

    Examples
    --------
    >>> from kstoolkit.formats.bytecolumn import ByteColumn
    >>> key = bytes.fromhex("410000018bcfe652600000018bcfe56800")
    >>> parts = session_keys(ByteColumn.of([key]))
    >>> parts.key.to_list(), parts.end_ms - parts.start_ms
    ([b'A'], array([60000]))
    """
    fits = keys.lengths >= _SESSION_BYTES
    return KeyParts(
        keys.part(end=-_SESSION_BYTES),
        integers_of(fits, keys, 8, at=-8),
        integers_of(fits, keys, 8, at=-16),
        None,
        np.zeros(len(keys), dtype=np.bool_),
        said_of(~fits, "the key is shorter than the 16 bytes of a session"),
    )


def time_ordered_window_keys(keys: ByteColumn) -> KeyParts:
    """Return what is in the keys of a window store that is ordered by time.

    Examples
    --------
    >>> from kstoolkit.formats.bytecolumn import ByteColumn
    >>> base, index = "000000018bcfe568004100000000", "01410000018bcfe5680000000000"
    >>> parts = time_ordered_window_keys(ByteColumn.of([bytes.fromhex(base), bytes.fromhex(index)]))
    >>> parts.key.to_list(), parts.start_ms.tolist(), parts.is_index.tolist()
    ([b'A', b'A'], [1700000000000, 1700000000000], [False, True])
    """
    base, index, problems = _prefixes(keys, _WINDOW_BYTES + 1, "13 bytes of a time-ordered window")
    starts = integers_of(base, keys, 8, at=1) + integers_of(index, keys, 8, at=-12)
    return KeyParts(
        either(base, keys.part(9, -4), keys.part(1, -_WINDOW_BYTES)),
        starts,
        None,
        integers_of(base | index, keys, 4, at=-4),
        index,
        problems,
    )


def time_ordered_session_keys(keys: ByteColumn) -> KeyParts:
    """Return what is in the keys of a session store that is ordered by time.

    Examples
    --------
    >>> from kstoolkit.formats.bytecolumn import ByteColumn
    >>> key = bytes.fromhex("000000018bcfe652600000018bcfe5680041")
    >>> parts = time_ordered_session_keys(ByteColumn.of([key]))
    >>> parts.key.to_list(), parts.start_ms.tolist(), parts.end_ms.tolist()
    ([b'A'], [1700000000000], [1700000060000])
    """
    base, index, problems = _prefixes(
        keys, _SESSION_BYTES + 1, "17 bytes of a time-ordered session"
    )
    return KeyParts(
        either(base, keys.part(_SESSION_BYTES + 1), keys.part(1, -_SESSION_BYTES)),
        integers_of(base, keys, 8, at=9) + integers_of(index, keys, 8, at=-8),
        integers_of(base, keys, 8, at=1) + integers_of(index, keys, 8, at=-16),
        None,
        index,
        problems,
    )


def _prefixes(
    keys: ByteColumn, shortest: int, what: str
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], dict[int, str]]:
    """Return which keys begin with 00, which with 01, and what is wrong with the others."""
    first = keys.first_bytes()
    fits = keys.lengths >= shortest
    base, index = fits & (first == 0), fits & (first == 1)
    problems = said_of(fits & ~base & ~index, _NEITHER)
    return base, index, problems | said_of(~fits, f"the key is shorter than the {what}")
