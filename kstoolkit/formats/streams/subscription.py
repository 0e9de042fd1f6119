"""The subscriptions of a foreign-key join: which rows of one table wait for which of the other.

::

    key             length (int32) | foreign key | primary key
    value           version (1 byte; its top bit: no hash) | instruction (1 byte)
                    | hash of the row (16 bytes) | primary key | partition (int32; version 1)

in front of which the store puts its timestamp (``CombinedKeySchema``,
``SubscriptionWrapperSerde`` of ``org.apache.kafka.streams.kstream.internals.foreignkeyjoin``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kstoolkit.formats.rowcolumns import RowColumns
from kstoolkit.formats.streams.masked import (
    either,
    except_at,
    integers_of,
    known,
    nullable,
    said_of,
)
from kstoolkit.formats.streams.values import cut_values

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kstoolkit.formats.bytecolumn import ByteColumn
    from kstoolkit.formats.streams.values import Wrapping


INSTRUCTIONS = (
    "delete-no-propagate",
    "delete-and-propagate",
    "propagate-null-if-no-foreign-key",
    "propagate-only-if-foreign-key",
)
"""What a subscription asks for, each at the place of the byte that stands for it."""

_LENGTH_BYTES = 4
_HEAD_BYTES = 2
_HASH_BYTES = 16
_PARTITION_BYTES = 4
_NO_HASH = 0x80
_VERSION = 0x7F
_WITH_PARTITION = 1


@dataclass(frozen=True, slots=True, eq=False)
class _Wrappers:
    """What is in the values; of rows with a problem, nothing in particular."""

    version: NDArray[np.int64]
    instruction: NDArray[np.int64]
    hash: ByteColumn
    has_hash: NDArray[np.bool_]
    primary_key: ByteColumn
    partition: pa.Array
    problems: dict[int, str]


def split_subscriptions(keys: ByteColumn, values: ByteColumn, *, wrapping: Wrapping) -> RowColumns:
    """Return subscriptions; ``inner_key`` is the primary key, and the details are the rest.

    Keys and values are whole, as the store's iterators give them. The details are ``foreign_key``,
    ``subscriber_key`` (the primary key in the value), ``version``, ``instruction``, ``hash`` and
    ``primary_partition``, which version 0 does not have.

    Examples
    --------
    >>> from kstoolkit.formats.bytecolumn import ByteColumn
    >>> from kstoolkit.formats.streams.values import Wrapping
    >>> key = ByteColumn.of([bytes.fromhex("0000000263316f31")])
    >>> value = ByteColumn.of([bytes.fromhex("0000018bcfe5680081016f3100000005")])
    >>> rows = split_subscriptions(key, value, wrapping=Wrapping.TIMESTAMP)
    >>> rows.inner_key.to_list(), rows.details["foreign_key"].to_pylist()
    ([b'o1'], [b'c1'])
    >>> rows.details["instruction"].to_pylist(), rows.details["primary_partition"].to_pylist()
    (['delete-and-propagate'], [5])
    """
    foreign, primary, key_problems = _combined(keys)
    parts = cut_values(values, wrapping)
    found = _wrappers(parts.value)
    problems = found.problems | parts.problems | key_problems
    good = except_at(problems, len(keys))
    return RowColumns(
        np.arange(len(keys)),
        keys,
        either(good, parts.value, values),
        timestamp_ms=known(parts.timestamp_ms, good),
        headers=known(parts.headers, good),
        problems=problems,
        inner_key=either(good, primary, keys),
        details={
            "foreign_key": known(foreign.to_arrow(), good),
            "subscriber_key": known(found.primary_key.to_arrow(), good),
            "version": nullable(found.version, good),
            "instruction": _instructions(found.instruction, good),
            "hash": _hashes(found, good),
            "primary_partition": known(found.partition, good),
        },
    )


def _combined(keys: ByteColumn) -> tuple[ByteColumn, ByteColumn, dict[int, str]]:
    """Return foreign keys and primary keys."""
    long = keys.lengths >= _LENGTH_BYTES
    length = integers_of(long, keys, 4, at=0)
    fits = long & (length >= 0) & (length <= keys.lengths - _LENGTH_BYTES)
    middle = np.where(fits, _LENGTH_BYTES + length, 0)
    why = "the key is no foreign key, with its length, and a primary key"
    return keys.part(_LENGTH_BYTES, middle), keys.part(middle), said_of(~fits, why)


def _wrappers(values: ByteColumn) -> _Wrappers:
    long = values.lengths >= _HEAD_BYTES
    head = integers_of(long, values, 1, at=0) & (_NO_HASH | _VERSION)
    instruction = integers_of(long, values, 1, at=1)
    version, has_hash = head & _VERSION, (head & _NO_HASH) == 0
    before = _HEAD_BYTES + _HASH_BYTES * has_hash
    after = _PARTITION_BYTES * (version == _WITH_PARTITION)
    fits = long & (values.lengths >= before + after)
    problems = said_of(~fits, "the value is shorter than a subscription")
    problems |= said_of(version > _WITH_PARTITION, "a subscription of an unknown version")
    problems |= said_of(
        (instruction < 0) | (instruction >= len(INSTRUCTIONS)), "an unknown instruction"
    )
    has_partition = fits & (version == _WITH_PARTITION)
    partition = integers_of(has_partition, values, 4, at=-_PARTITION_BYTES)
    return _Wrappers(
        version,
        instruction,
        values.part(_HEAD_BYTES, _HEAD_BYTES + _HASH_BYTES),
        has_hash,
        values.part(before, values.lengths - after),
        nullable(partition, has_partition),
        problems,
    )


def _instructions(instruction: NDArray[np.int64], good: NDArray[np.bool_]) -> pa.Array:
    names = np.array(INSTRUCTIONS)[np.where(good, instruction, 0)]
    return pa.array(names, pa.string(), mask=~good)


def _hashes(found: _Wrappers, good: NDArray[np.bool_]) -> pa.Array:
    return known(found.hash.to_arrow(), good & found.has_hash)
