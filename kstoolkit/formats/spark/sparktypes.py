"""Spark's data types: what a column of its state may hold.

A type says how many bytes a value takes inside an array, and which Arrow type stands for it. Two
differ from what Arrow would offer: a year-month interval is its months, a calendar interval a
struct of months, days and microseconds. A type that is not known here is :class:`Unread`: its bytes
are shown as they are, and so is a list of such. Types are made from Spark's JSON by
:func:`~kstoolkit.formats.spark.schemajson.schema_of`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


WORD_BYTES = 8
"""A row has a word for each column."""


INTERVAL = pa.struct([("months", pa.int32()), ("days", pa.int32()), ("microseconds", pa.int64())])
"""A calendar interval, which has no one length."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A type whose values fit in a word: ``width`` bytes, little-endian."""

    name: str
    width: int
    arrow: pa.DataType


@dataclass(frozen=True, slots=True)
class Variable:
    """A type without parts whose values lie behind the words: strings, bytes, large decimals."""

    name: str
    arrow: pa.DataType
    width: int = WORD_BYTES


@dataclass(frozen=True, slots=True)
class Unread:
    """A type that is not read here: of a value, the bytes are shown."""

    name: str
    is_variable: bool
    arrow: pa.DataType
    width: int = WORD_BYTES


@dataclass(frozen=True, slots=True)
class Array:
    """Values of one type, some of them null."""

    element: SparkType
    width: int = WORD_BYTES

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type of such a list."""
        return pa.large_list(self.element.arrow)


@dataclass(frozen=True, slots=True)
class Map:
    """Keys of one type, none of them null, each with a value of another."""

    key: SparkType
    value: SparkType
    width: int = WORD_BYTES

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type of such a map."""
        return pa.map_(self.key.arrow, self.value.arrow)


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a struct.

    Parameters
    ----------
    name, type
        What it is called, and what it holds.
    position
        Which word of a row is its.
    is_event_time
        Whether a watermark is kept on it.
    """

    name: str
    type: SparkType
    position: int
    is_event_time: bool = False


@dataclass(frozen=True, slots=True)
class Struct:
    """Columns, all of them or some, of rows of ``count`` columns.

    Examples
    --------
    >>> from kstoolkit.formats.spark.schemajson import schema_of
    >>> key = schema_of('{"type": "struct", "fields": [{"name": "user", "type": "string"}]}')
    >>> key.names, key.count
    (['user'], 1)
    """

    fields: tuple[Field, ...]
    count: int
    width: int = WORD_BYTES

    @property
    def names(self) -> list[str]:
        """What the columns are called, each name once."""
        return [field.name for field in self.fields]

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type of such a row."""
        return pa.struct([(field.name, field.type.arrow) for field in self.fields])

    def keep(self, names: Collection[str]) -> Struct:
        """Return the same rows, of which only the columns of these names are read."""
        return Struct(tuple(f for f in self.fields if f.name in names), self.count)

    def at(self, positions: Collection[int]) -> Struct:
        """Return rows that have the columns at these positions alone, in that order."""
        chosen = [self.fields[position] for position in positions]
        moved = (replace(field, position=n) for n, field in enumerate(chosen))
        return Struct(tuple(moved), len(chosen))

    def get(self, name: str) -> SparkType | None:
        """Return the type of the column of this name; None if there is none."""
        return next((field.type for field in self.fields if field.name == name), None)


SparkType: TypeAlias = Scalar | Variable | Unread | Array | Map | Struct


def types_in(kind: SparkType) -> Iterator[SparkType]:
    """Return a type, and all those that it is made of.

    Examples
    --------
    >>> [type(each).__name__ for each in types_in(Array(Variable("binary", pa.large_binary())))]
    ['Array', 'Variable']
    """
    yield kind
    match kind:
        case Struct():
            inner = [field.type for field in kind.fields]
        case Array():
            inner = [kind.element]
        case Map():
            inner = [kind.key, kind.value]
        case _:
            inner = []
    for each in inner:
        yield from types_in(each)
