"""Records of a changelog topic, kept as a store would have them after a restore.

A topic has no prefixes: a record's value is the application's own, its time and its headers stand
beside it. Here they are put in front again, as stores with headers have them; of a versioned store
each version is a key of its own, beside those of the same key::

    key                                       headers | timestamp (int64) | value
    length (int32) | key | timestamp (int64)  valid to (int64) | headers | timestamp | value

Keys of windows are ``key | start | sequence`` in the topic whatever the store is, also where the
store has them in the order of time. (``RecordConverters`` and ``ChangeLogging...BytesStore`` of
``org.apache.kafka.streams.state.internals``.)
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.formats.columns import ByteColumn, RowColumns, except_at, fixed_cells, joined_cells
from kstoolkit.formats.streams.keys import known
from kstoolkit.formats.streams.kinds import DEFAULT, Kind, kinds_named
from kstoolkit.formats.streams.recognising import Recognised, Sample, fits_as
from kstoolkit.formats.streams.rows import split, split_buffer
from kstoolkit.formats.streams.values import Wrapping, cut_values, headers_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kstoolkit.formats.streams.values import RecordHeaders

TIME_BYTES: Final = 8
OPEN_END = (2**63 - 1).to_bytes(TIME_BYTES, "big")
"""The end, of 8 bytes, of a version that is still the valid one."""
_LENGTH_BYTES: Final = 4
_WINDOW_BYTES: Final = 12
_BINARY = pa.large_binary()
_PLAIN = {
    **dict.fromkeys(kinds_named("key-value"), Kind.KEY_VALUE),
    **dict.fromkeys(kinds_named("window"), Kind.WINDOW),
    **dict.fromkeys(kinds_named("session"), Kind.SESSION),
}
_TRIED = {
    Kind.FOREIGN_KEY_SUBSCRIPTION: "key and value hold the same primary key",
    Kind.LIST_VALUE: "every key begins with a time and a side, every value is a list",
    Kind.GRACE_BUFFER: "every value is a record with its topic and offset",
    Kind.SESSION: "every key ends with the end and the start of a session",
    Kind.WINDOW: "every key ends with the start of a window and a number",
}
"""The kinds whose records have a form of their own, what is most special first."""
_ENOUGH = 0.95  # of the records
_BY_FORM, _NO_FORM, _BY_NOTHING = 0.9, 0.8, 0.3


def plain_kind(kind: Kind) -> Kind:
    """Return the kind whose form a store's records have in its changelog topic.

    >>> plain_kind(Kind.HEADERS_TIME_ORDERED_WINDOW)
    <Kind.WINDOW: 'window'>
    """
    return _PLAIN.get(kind, kind)


def restored_values(
    values: Sequence[bytes | None],
    timestamps_ms: Sequence[int] | NDArray[np.int64],
    headers: Sequence[RecordHeaders],
) -> pa.Array:
    r"""Return records' values with headers and time (epoch ms UTC) in front; null of a tombstone.

    >>> restored_values([b"42", None], [258, 0], [[("k", None)], None]).to_pylist()
    [b'\x08\x02\x02k\x01\x00\x00\x00\x00\x00\x00\x01\x0242', None]
    """
    front = pa.array([headers_bytes(each) for each in headers], _BINARY)
    times = fixed_cells(np.asarray(timestamps_ms, ">i8"))
    return joined_cells(front, times, pa.array(values, _BINARY))


def version_keys(keys: Sequence[bytes], timestamps_ms: Sequence[int]) -> pa.Array:
    """Return the keys under which versions lie: those of one key together, in the order of time.

    >>> [key.hex(" ", 4) for key in version_keys([b"anna"], [258]).to_pylist()]
    ['00000004 616e6e61 00000000 00000102']
    """
    lengths = fixed_cells(np.fromiter(map(len, keys), ">i4", len(keys)))
    times = fixed_cells(np.asarray(timestamps_ms, ">i8"))
    return joined_cells(lengths, pa.array(keys, _BINARY), times)


def split_records(
    kind: Kind, keys: ByteColumn, values: ByteColumn, *, window_size_ms: int | None = None
) -> RowColumns:
    """Return what the application put into the latest records of keys, drawn at this module's head.

    ``kind`` is the store's whose changelog it is; without a window size, windows' ends are null.

    >>> key = ByteColumn.of([b"anna"])
    >>> value = ByteColumn.from_arrow(restored_values([b"42"], [1700000000000], [None]))
    >>> rows = split_records(Kind.TIMESTAMPED_KEY_VALUE, key, value)
    >>> rows.value.to_list(), rows.timestamp_ms.to_pylist()
    ([b'42'], [1700000000000])
    """
    if kind is Kind.VERSIONED:
        parts = cut_values(values.part(TIME_BYTES), Wrapping.HEADERS_AND_TIMESTAMP)
        ends = values.integers(8)
        return RowColumns(
            np.arange(len(keys)),
            keys.part(_LENGTH_BYTES, -TIME_BYTES),
            parts.value,
            timestamp_ms=parts.timestamp_ms,
            headers=parts.headers,
            valid_to_ms=pa.array(ends, mask=ends == int.from_bytes(OPEN_END, "big")),
        )
    parts = cut_values(values, Wrapping.HEADERS_AND_TIMESTAMP)
    if kind is Kind.GRACE_BUFFER:  # its values tell times and headers themselves
        return split_buffer(_time_first(keys), parts.value)
    rows = split(plain_kind(kind), keys, parts.value, window_size_ms=window_size_ms, family=DEFAULT)
    good, place = except_at(rows.problems, len(rows)), pa.array(rows.row)
    times, headers = (
        None if each is None else known(each.take(place), good)
        for each in (parts.timestamp_ms, parts.headers)
    )
    waits_in_key = kind is Kind.LIST_VALUE
    return replace(rows, timestamp_ms=rows.timestamp_ms if waits_in_key else times, headers=headers)


def recognise_records(keys: ByteColumn, values: ByteColumn) -> Recognised:
    """Return what kind of store the latest records of keys are of, how sure that is, and why.

    A versioned store's look like a key-value store's: it has to be told.
    """
    if not len(keys):
        return Recognised(Kind.KEY_VALUE, _BY_NOTHING, ("the topic holds no records",))
    bare = cut_values(values, Wrapping.HEADERS_AND_TIMESTAMP).value
    plain, ordered = (Sample.of(each, bare, family=DEFAULT) for each in (keys, _time_first(keys)))
    for kind, why in _TRIED.items():
        share = fits_as(kind, ordered if kind is Kind.GRACE_BUFFER else plain).share
        if share >= _ENOUGH:
            return Recognised(kind, round(_BY_FORM * share, 3), (why,))
    return Recognised(Kind.KEY_VALUE, _NO_FORM, ("keys and values of no special form",))


def _time_first(keys: ByteColumn) -> ByteColumn:
    """Return keys of windows as a store in the order of time has them; shorter ones as they are."""
    whole = keys.to_arrow()
    base = pa.scalar(b"\x00", _BINARY)
    start, end = keys.part(-_WINDOW_BYTES, -4), keys.part(-4)
    key = keys.part(end=-_WINDOW_BYTES)
    turned = joined_cells(base, start.to_arrow(), key.to_arrow(), end.to_arrow())
    fits = pa.array(keys.lengths >= _WINDOW_BYTES)
    return ByteColumn.from_arrow(pc.if_else(fits, turned, whole))
