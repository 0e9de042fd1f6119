"""From the rows of a store, as they lie on disk, to what the application put in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kstoolkit.errors import FormatError
from kstoolkit.formats.rowcolumns import RowColumns
from kstoolkit.formats.streams.contexts import split_buffer
from kstoolkit.formats.streams.keys import (
    session_keys,
    time_ordered_session_keys,
    time_ordered_window_keys,
    window_keys,
)
from kstoolkit.formats.streams.kinds import Kind
from kstoolkit.formats.streams.lists import split_lists
from kstoolkit.formats.streams.masked import either, except_at, known, nullable, said_of
from kstoolkit.formats.streams.subscription import split_subscriptions
from kstoolkit.formats.streams.values import cut_values, wrapping_of
from kstoolkit.formats.streams.versioned import split_versioned

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kstoolkit.formats.bytecolumn import ByteColumn
    from kstoolkit.formats.streams.keys import KeyParts
    from kstoolkit.formats.streams.values import Wrapping


_LATEST_MS = 2**63 - 1

_TIMED_KEYS = {
    Kind.WINDOW: window_keys,
    Kind.TIMESTAMPED_WINDOW: window_keys,
    Kind.HEADERS_WINDOW: window_keys,
    Kind.TIME_ORDERED_WINDOW: time_ordered_window_keys,
    Kind.HEADERS_TIME_ORDERED_WINDOW: time_ordered_window_keys,
    Kind.SESSION: session_keys,
    Kind.HEADERS_SESSION: session_keys,
    Kind.TIME_ORDERED_SESSION: time_ordered_session_keys,
    Kind.HEADERS_TIME_ORDERED_SESSION: time_ordered_session_keys,
}


def split(
    kind: Kind,
    keys: ByteColumn,
    values: ByteColumn,
    *,
    window_size_ms: int | None = None,
    family: str | None = None,
) -> RowColumns:
    r"""Return what the application put into some rows of a store.

    A row may become several, one a version or an element of a list, or none, if it is there for
    finding another. What can't be taken apart stays whole, and ``problems`` says why. Both columns
    must be as long.

    Parameters
    ----------
    kind
        What kind of store it is.
    keys, values
        The rows, as they lie on disk.
    window_size_ms
        How long the store's windows are, which it doesn't tell itself. None leaves their ends null.
    family
        The column family that the rows are from; None is the one that this kind writes to.

    Raises
    ------
    FormatError
        If there are not as many keys as values, or if no rows lie in this column family.

    Examples
    --------
    >>> from kstoolkit.formats.bytecolumn import ByteColumn
    >>> key = ByteColumn.of([b"Anna" + bytes.fromhex("0000018bcfe5680000000000")])
    >>> value = ByteColumn.of([bytes.fromhex("0000018bcfe56801") + b"42"])
    >>> rows = split(Kind.TIMESTAMPED_WINDOW, key, value, window_size_ms=60_000)
    >>> rows.key.to_list(), rows.value.to_list()
    ([b'Anna'], [b'42'])
    >>> rows.window_start_ms.to_pylist(), rows.window_end_ms.to_pylist()
    ([1700000000000], [1700000060000])
    """
    if len(keys) != len(values):
        message = f"{len(keys)} keys and {len(values)} values."
        raise FormatError(message, hint="Give a value for each key.")
    lies_in = kind.live_family if family is None else family
    wrapping = wrapping_of(kind, lies_in)
    match kind:
        case Kind.VERSIONED:
            return split_versioned(keys, values)
        case Kind.LIST_VALUE:
            return split_lists(keys, values, wrapping=wrapping)
        case Kind.GRACE_BUFFER:
            return split_buffer(keys, values)
        case Kind.FOREIGN_KEY_SUBSCRIPTION:
            return split_subscriptions(keys, values, wrapping=wrapping)
        case Kind.KEY_VALUE | Kind.TIMESTAMPED_KEY_VALUE | Kind.HEADERS_KEY_VALUE:
            return _untimed(keys, values, wrapping)
    return _timed(kind, keys, values, wrapping=wrapping, window_size_ms=window_size_ms)


def _untimed(keys: ByteColumn, values: ByteColumn, wrapping: Wrapping) -> RowColumns:
    parts = cut_values(values, wrapping)
    good = except_at(parts.problems, len(keys))
    return RowColumns(
        np.arange(len(keys)),
        keys,
        either(good, parts.value, values),
        timestamp_ms=known(parts.timestamp_ms, good),
        headers=known(parts.headers, good),
        problems=parts.problems,
    )


def _timed(
    kind: Kind,
    keys: ByteColumn,
    values: ByteColumn,
    *,
    wrapping: Wrapping,
    window_size_ms: int | None,
) -> RowColumns:
    """Return windows or sessions, without the rows that are for finding them."""
    times = _TIMED_KEYS[kind](keys)
    is_row = ~(times.is_index & (values.lengths == 0))
    if not is_row.all():
        keys, values = keys.take(is_row), values.take(is_row)
        times = _TIMED_KEYS[kind](keys)
    parts = cut_values(values, wrapping)
    problems = (
        parts.problems
        | said_of(times.is_index, "the key begins with 01, as an index's do, but there is a value")
        | times.problems
    )
    good = except_at(problems, len(keys))
    return RowColumns(
        np.flatnonzero(is_row),
        either(good, times.key, keys),
        either(good, parts.value, values),
        window_start_ms=nullable(times.start_ms, good),
        window_end_ms=_ends(times, window_size_ms, good),
        timestamp_ms=known(parts.timestamp_ms, good),
        headers=known(parts.headers, good),
        problems=problems,
        details=_sequences(times, good),
        num_left_out=int((~is_row).sum()),
    )


def _ends(times: KeyParts, window_size_ms: int | None, good: NDArray[np.bool_]) -> pa.Array:
    if times.end_ms is not None:
        return nullable(times.end_ms, good)
    if window_size_ms is None:
        return pa.nulls(len(good), pa.int64())
    # Where start and size overflow, Kafka Streams takes the last moment there is.
    size_ms = min(window_size_ms, _LATEST_MS)
    ends = np.minimum(times.start_ms, _LATEST_MS - size_ms) + size_ms
    return nullable(ends, good)


def _sequences(times: KeyParts, good: NDArray[np.bool_]) -> dict[str, pa.Array]:
    return {} if times.sequence is None else {"sequence": nullable(times.sequence, good)}
