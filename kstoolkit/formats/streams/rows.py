"""What the application put into a store, by its rows as they lie on disk.

Windows and sessions are told by their keys (:mod:`kstoolkit.formats.streams.keys`), timestamps and
headers stand in front of values (:mod:`kstoolkit.formats.streams.values`). Four kinds have rows of
their own form, in which numbers are big-endian; a length of -1, where there may be one, is null.

A store of lists holds the results of a left or outer join that wait for a partner::

    key             timestamp (int64) | side (1 byte) | key
    value           01 | count (int32) | { length (int32) | element } ...
    element         side | value; in ``listValueWithHeaders`` headers | side | value

Side 1 is the left one, 0 the right one. (``ListValueStore``,
``TimestampedKeyAndJoinSideSerializer``, ``LeftOrRightValueSerializer`` of Kafka Streams 3.1, with
headers ``ListValueStoreUpgradeUtils`` of 4.4.)

The grace buffer of a stream-table join holds records that wait, each with where it came from::

    key             00 | timestamp (int64) | key | sequence (int32)
    value           timestamp (int64) | offset (int64) | topic | partition (int32)
                    | count (int32) | { header name | header value } ...
                    | prior value | old value | new value

Each name and value has its length (int32) in front; -2 as the old value's means that it is the
prior one. (``BufferValue`` and ``ProcessorRecordContext`` of Kafka Streams 3.6.)

The subscriptions of a foreign-key join say which rows of one table wait for which of the other::

    key             length (int32) | foreign key | primary key
    value           version (1 byte; its top bit: no hash) | instruction (1 byte)
                    | hash of the row (16 bytes) | primary key | partition (int32; version 1)

In front of the value the store puts its timestamp. (``CombinedKeySchema``,
``SubscriptionWrapperSerde`` of ``org.apache.kafka.streams.kstream.internals.foreignkeyjoin``.)

A versioned store has each key's latest version, and those before it segment by segment::

    key             segment (int64) | key; segment -1 holds the latest versions
    latest          valid from (int64) | value
    history         valid to of the newest (int64) | valid from of the oldest (int64)
                    | { valid from (int64), size (int32) }, newest first | values, oldest first

A size of -1 is a version without a value: the key was deleted. How many versions there are is not
stored: they end with the one that is valid from when the oldest is. (``RocksDBVersionedStore``,
``RocksDBVersionedStoreSegmentValueFormatter`` of Kafka Streams 3.5.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa

from kstoolkit.errors import FormatError
from kstoolkit.formats.columns import ByteColumn, RowColumns, except_at, run_edges, said_of
from kstoolkit.formats.streams.keys import (
    either,
    integers_of,
    known,
    nullable,
    session_keys,
    spans,
    time_ordered_session_keys,
    time_ordered_window_keys,
    window_keys,
)
from kstoolkit.formats.streams.kinds import Kind
from kstoolkit.formats.streams.values import Cursor, cut_values, headers_array, wrapping_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from kstoolkit.formats.streams.keys import KeyParts
    from kstoolkit.formats.streams.values import RecordHeaders, ValueParts, Wrapping

_SIDES = ("right", "left")  # the sides of a join, each at the place of the byte that stands for it
_KEY_BYTES = 9
_SIDE_AT = 8
_OF_VARIABLE_SIZE = 1
_LENGTH_BYTES = 4


def _read_list(data: memoryview, start: int, end: int) -> list[tuple[int, int] | None]:
    """Return where the elements of a list lie; None for null ones."""
    cursor = Cursor(data, start, end)
    strategy = cursor.byte()
    if strategy != _OF_VARIABLE_SIZE:
        message = f"its elements are laid out in way {strategy}, not {_OF_VARIABLE_SIZE}"
        raise FormatError(message)
    elements = [cursor.sized() for _ in range(cursor.count(_LENGTH_BYTES, "elements"))]
    cursor.finish()
    return elements


def _split_lists(keys: ByteColumn, values: ByteColumn, *, wrapping: Wrapping) -> RowColumns:
    """Return one row an element; ``side`` of the details is the side of the join it waits on.

    The keys are whole, as the store's iterators give them, and so are the elements;
    ``inner_key`` and ``inner_value`` are the application's own. The time in the key is
    ``timestamp_ms``.
    """
    row, elements, problems = _elements(values)
    key = keys.take(row)
    short = key.lengths < _KEY_BYTES
    problems |= said_of(short, "the key is shorter than the 9 bytes of time and side")
    side = integers_of(~short, key, 1, at=_SIDE_AT)
    problems |= said_of((side < 0) | (side > 1), "the key's side is neither 00 nor 01")
    parts = cut_values(elements, wrapping)
    problems |= parts.problems
    first = parts.value.first_bytes()
    wrong = ((first < 0) | (first > 1)) & ~parts.value.is_null
    problems = said_of(wrong, "the element begins with neither side, 00 nor 01") | problems
    good = except_at(problems, len(row))
    sides = np.where(good, side, 0)
    return RowColumns(
        row,
        key,
        either(good, parts.value, values.take(row)),
        timestamp_ms=nullable(integers_of(good, key, 8, at=0), good),
        headers=known(parts.headers, good),
        problems=problems,
        inner_key=either(good, key.part(_KEY_BYTES), key),
        inner_value=either(good, parts.value.part(1), values.take(row)),
        details={"side": pa.array(np.array(_SIDES)[sides], pa.string(), mask=~good)},
    )


def _elements(values: ByteColumn) -> tuple[NDArray[np.intp], ByteColumn, dict[int, str]]:
    """Return the elements, the row of each, and why a row, standing for itself, has none."""
    rows = np.arange(len(values))
    found, torn = _read_each(_read_list, rows, values, "the value is no list")
    whole = zip(values.starts.tolist(), values.ends.tolist(), strict=True)
    elements = [found.get(row, [span]) for row, span in enumerate(whole)]
    size = np.array([len(each) for each in elements], dtype=np.int64)
    first = run_edges(size)
    problems = {int(first[row]): why for row, why in torn.items()}
    return np.repeat(rows, size), spans(values.data, chain.from_iterable(elements)), problems


Read = TypeVar("Read")


def _read_each(
    read: Callable[[memoryview, int, int], Read],
    rows: NDArray[np.intp],
    values: ByteColumn,
    why: str,
) -> tuple[dict[int, Read], dict[int, str]]:
    """Return what is read of the values of some rows, and why it can't be of the others."""
    found, problems = dict[int, Read](), dict[int, str]()
    data, starts, ends = values.data.data, values.starts[rows].tolist(), values.ends[rows].tolist()
    for row, start, end in zip(rows.tolist(), starts, ends, strict=True):
        try:
            found[row] = read(data, start, end)
        except FormatError as error:
            problems[row] = f"{why}: {error.message}"
    return found, problems


_HEADER_BYTES = 8
_AS_PRIOR = -2


@dataclass(frozen=True, slots=True)
class _BufferedRecord:
    """A record that waits; where its values lie, or None for null ones."""

    timestamp_ms: int
    offset: int
    topic: str
    partition: int
    headers: RecordHeaders
    prior: tuple[int, int] | None
    old: tuple[int, int] | None
    new: tuple[int, int] | None


def _read_buffered(data: memoryview, start: int, end: int) -> _BufferedRecord:
    cursor = Cursor(data, start, end)
    timestamp_ms, offset = cursor.int64(), cursor.int64()
    topic, partition = cursor.text(cursor.sized()), cursor.int32()
    count = cursor.count(_HEADER_BYTES, "headers", least=-1)  # from old releases: none either
    found = ((cursor.text(cursor.sized()), cursor.sized()) for _ in range(count))
    headers = [(name, None if value is None else cursor.take(value)) for name, value in found]
    prior = cursor.sized()
    length = cursor.int32()
    old = prior if length == _AS_PRIOR else None if length == -1 else cursor.span(length)
    new = cursor.sized()
    cursor.finish()
    return _BufferedRecord(timestamp_ms, offset, topic, partition, headers, prior, old, new)


def split_buffer(keys: ByteColumn, values: ByteColumn) -> RowColumns:
    """Return the records that wait; a row's value is the record's new value.

    The details are ``topic``, ``partition`` and ``offset`` of where it came from, ``prior`` and
    ``old``, the values before it, and ``sequence``.
    """
    parts = time_ordered_window_keys(keys)
    problems = said_of(parts.is_index, "the key begins with 01, and there is no index here")
    problems |= parts.problems
    rows = np.flatnonzero(except_at(problems, len(keys)))
    found, torn = _read_each(_read_buffered, rows, values, "the value is no record that waits")
    problems |= torn
    good = except_at(problems, len(keys))
    records = [found.get(row) for row in range(len(keys))]
    new, prior, old = (
        spans(values.data, [None if each is None else getattr(each, name) for each in records])
        for name in ("new", "prior", "old")
    )
    return RowColumns(
        np.arange(len(keys)),
        either(good, parts.key, keys),
        either(good, new, values),
        timestamp_ms=pa.array([each and each.timestamp_ms for each in records], pa.int64()),
        headers=headers_array({row: each.headers for row, each in found.items()}, good),
        problems=problems,
        details={
            "topic": pa.array([each and each.topic for each in records], pa.string()),
            "partition": pa.array([each and each.partition for each in records], pa.int64()),
            "offset": pa.array([each and each.offset for each in records], pa.int64()),
            "prior": prior.to_arrow(),
            "old": old.to_arrow(),
            "sequence": pa.array(parts.sequence, pa.int64(), mask=~good),
        },
    )


_INSTRUCTIONS = (
    "DELETE_KEY_NO_PROPAGATE",
    "DELETE_KEY_AND_PROPAGATE",
    "PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE",
    "PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE",
)
"""What a subscription asks for, as Kafka names it, each at the place of its byte."""
_HEAD_BYTES = 2
_HASH_BYTES = 16
_PARTITION_BYTES = 4
_NO_HASH = 0x80
_VERSION = 0x7F
_WITH_PARTITION = 1


def _split_subscriptions(keys: ByteColumn, values: ByteColumn, *, wrapping: Wrapping) -> RowColumns:
    """Return subscriptions; ``inner_key`` is the primary key, and the details are the rest.

    Keys and values are whole, as the store's iterators give them. The details are ``foreign_key``,
    ``subscriber_key`` (the primary key in the value), ``version``, ``instruction``, ``hash`` and
    ``primary_partition``, which version 0 does not have.
    """
    foreign, primary, key_problems = _combined(keys)
    parts = cut_values(values, wrapping)
    told, value_problems = _wrappers(parts.value)
    problems = value_problems | parts.problems | key_problems
    good = except_at(problems, len(keys))
    details = {"foreign_key": foreign.to_arrow()} | told
    return replace(
        _with_values(keys, values, parts, problems),
        inner_key=either(good, primary, keys),
        details={name: known(column, good) for name, column in details.items()},
    )


def _combined(keys: ByteColumn) -> tuple[ByteColumn, ByteColumn, dict[int, str]]:
    long = keys.lengths >= _LENGTH_BYTES
    length = integers_of(long, keys, 4, at=0)
    fits = long & (length >= 0) & (length <= keys.lengths - _LENGTH_BYTES)
    middle = np.where(fits, _LENGTH_BYTES + length, 0)
    why = "the key is no foreign key, with its length, and a primary key"
    return keys.part(_LENGTH_BYTES, middle), keys.part(middle), said_of(~fits, why)


def _wrappers(values: ByteColumn) -> tuple[dict[str, pa.Array], dict[int, str]]:
    """Return what is in the values, of rows with a problem nothing in particular, and those."""
    long = values.lengths >= _HEAD_BYTES
    head = integers_of(long, values, 1, at=0) & (_NO_HASH | _VERSION)
    instruction = integers_of(long, values, 1, at=1)
    version, has_hash = head & _VERSION, (head & _NO_HASH) == 0
    before = _HEAD_BYTES + _HASH_BYTES * has_hash
    after = _PARTITION_BYTES * (version == _WITH_PARTITION)
    fits = long & (values.lengths >= before + after)
    problems = said_of(~fits, "the value is shorter than a subscription")
    problems |= said_of(version > _WITH_PARTITION, "a subscription of an unknown version")
    is_known = (instruction >= 0) & (instruction < len(_INSTRUCTIONS))
    problems |= said_of(~is_known, "an unknown instruction")
    has_partition = fits & (version == _WITH_PARTITION)
    partition = integers_of(has_partition, values, 4, at=-_PARTITION_BYTES)
    hashes = values.part(_HEAD_BYTES, _HEAD_BYTES + _HASH_BYTES).to_arrow()
    told = {
        "subscriber_key": values.part(before, values.lengths - after).to_arrow(),
        "version": pa.array(version),
        "instruction": pa.array(np.array(_INSTRUCTIONS)[np.where(is_known, instruction, 0)]),
        "hash": known(hashes, has_hash),
        "primary_partition": nullable(partition, has_partition),
    }
    return told, problems


_LATEST = -1  # the segment that holds the latest versions
_SEGMENT_BYTES = 8
_TIMESTAMP_BYTES = 8
_DELETED = -1


@dataclass(frozen=True, slots=True)
class _Version:
    """One version of a key: when it was valid, and where its value lies; None if it was deleted."""

    valid_from_ms: int
    valid_to_ms: int
    value: tuple[int, int] | None


def _read_history(data: memoryview, start: int, end: int) -> list[_Version]:
    """Return the versions in one history row, oldest first.

    A row whose one version was valid for no time holds its place alone, and gives no version.
    """
    cursor = Cursor(data, start, end)
    newest_to_ms = cursor.int64()
    heads = list(reversed(_heads(cursor, newest_to_ms, cursor.int64())))
    versions = [
        _Version(valid_from, valid_to, None if size == _DELETED else cursor.span(size))
        for valid_from, valid_to, size in heads
    ]
    cursor.finish()
    return [each for each in versions if each.value or each.valid_from_ms < each.valid_to_ms]


def _heads(cursor: Cursor, newest_to_ms: int, oldest_from_ms: int) -> list[tuple[int, int, int]]:
    """Return (valid from, valid to, size) of each version, newest first."""
    heads: list[tuple[int, int, int]] = []
    valid_to_ms = newest_to_ms
    while not heads or valid_to_ms != oldest_from_ms:
        valid_from_ms, size = cursor.int64(), cursor.int32()
        if not oldest_from_ms <= valid_from_ms <= valid_to_ms or size < _DELETED:
            message = f"a version from {valid_from_ms} to {valid_to_ms} of {size} bytes"
            raise FormatError(message)
        heads.append((valid_from_ms, valid_to_ms, size))
        valid_to_ms = valid_from_ms
    return heads


def _split_versioned(keys: ByteColumn, values: ByteColumn) -> RowColumns:
    """Return one row a version, of each key in a segment oldest first.

    ``timestamp_ms`` is from when a version is valid, and ``valid_to_ms`` until when. The column
    ``segment_id`` of the details is where it lay; -1 holds the latest ones.
    """
    has_segment = keys.lengths >= _SEGMENT_BYTES
    segment = integers_of(has_segment, keys, 8, at=0)
    latest = has_segment & (segment == _LATEST) & (values.lengths >= _TIMESTAMP_BYTES)
    rows = np.flatnonzero(has_segment & (segment >= 0))
    found, torn = _read_each(_read_history, rows, values, "the value is no history of versions")
    bad = torn | said_of(~has_segment, "the key is shorter than the 8 bytes of a segment")
    bad |= said_of(segment < _LATEST, "the key's segment is below -1")
    has_no_time = has_segment & (segment == _LATEST) & ~latest
    bad |= said_of(has_no_time, "the value is shorter than its 8 bytes of time")
    single = latest.copy()
    single[list(bad)] = True
    history = [(row, version) for row, versions in found.items() for version in versions]
    return _joined(keys, values, segment=segment, single=single, bad=bad, history=history)


def _joined(
    keys: ByteColumn,
    values: ByteColumn,
    *,
    segment: NDArray[np.int64],
    single: NDArray[np.bool_],
    bad: dict[int, str],
    history: list[tuple[int, _Version]],
) -> RowColumns:
    """Return the rows that are one version, and those of the history, in the order on disk."""
    alone = np.flatnonzero(single)
    good = except_at(bad, len(keys))[alone]
    unsorted = np.concatenate([alone, np.array([row for row, _ in history], dtype=np.intp)])
    order = np.argsort(unsorted, kind="stable")
    row = unsorted[order]
    of_history = order >= len(alone)
    is_good = np.concatenate([good, np.ones(len(history), dtype=np.bool_)])[order]

    latest = values.take(alone)
    bounds = np.array([(each.valid_from_ms, each.valid_to_ms) for _, each in history], np.int64)
    bounds = bounds.reshape(-1, 2)
    from_ms = np.concatenate([integers_of(good, latest, 8, at=0), bounds[:, 0]])
    to_ms = np.concatenate([np.zeros(len(alone), dtype=np.int64), bounds[:, 1]])
    first = np.where(good, _TIMESTAMP_BYTES, 0)
    value = latest.part(first).followed_by(spans(values.data, [each.value for _, each in history]))
    return RowColumns(
        row,
        keys.take(row).part(np.where(is_good, _SEGMENT_BYTES, 0)),
        value.take(order),
        timestamp_ms=nullable(from_ms[order], is_good),
        valid_to_ms=nullable(to_ms[order], of_history),
        problems={int(at): bad[int(row[at])] for at in np.flatnonzero(~is_good)},
        details={"segment_id": pa.array(segment[row], mask=~is_good)},
    )


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
    r"""Return what the application put into some rows of a store, as they lie on disk.

    A row may become several, one a version or an element of a list, or none, if it is there for
    finding another. What can't be taken apart stays whole, and ``problems`` says why. Without a
    window size, which the store doesn't tell itself, windows' ends are null. The ``family`` is the
    column family that the rows are from; None is the one that this kind writes to. If there are not
    as many keys as values, or no rows lie in this family, it is a FormatError.

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
    wrapping = wrapping_of(kind, kind.live_family if family is None else family)
    match kind:
        case Kind.VERSIONED:
            return _split_versioned(keys, values)
        case Kind.LIST_VALUE:
            return _split_lists(keys, values, wrapping=wrapping)
        case Kind.GRACE_BUFFER:
            return split_buffer(keys, values)
        case Kind.FOREIGN_KEY_SUBSCRIPTION:
            return _split_subscriptions(keys, values, wrapping=wrapping)
        case Kind.KEY_VALUE | Kind.TIMESTAMPED_KEY_VALUE | Kind.HEADERS_KEY_VALUE:
            parts = cut_values(values, wrapping)
            return _with_values(keys, values, parts, parts.problems)
    return _timed(kind, keys, values, wrapping=wrapping, window_size_ms=window_size_ms)


def _with_values(
    keys: ByteColumn, values: ByteColumn, parts: ValueParts, problems: dict[int, str]
) -> RowColumns:
    """Return rows with whole keys and what their values hold; one with a problem stays as it is."""
    good = except_at(problems, len(keys))
    return RowColumns(
        np.arange(len(keys)),
        keys,
        either(good, parts.value, values),
        timestamp_ms=known(parts.timestamp_ms, good),
        headers=known(parts.headers, good),
        problems=problems,
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
    return replace(
        _with_values(keys, values, parts, problems),
        row=np.flatnonzero(is_row),
        key=either(good, times.key, keys),
        window_start_ms=nullable(times.start_ms, good),
        window_end_ms=_ends(times, window_size_ms, good),
        details={} if times.sequence is None else {"sequence": nullable(times.sequence, good)},
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
