"""What a column of Spark's state may hold: data types, and schemas from Spark's JSON of them.

A type says how many bytes a value takes inside an array, and which Arrow type stands for it; its
name is that of ``org.apache.spark.sql.types.DataType.json``. Two differ from Arrow's: a year-month
interval is its months, a calendar interval a struct of months, days and microseconds. A type not
known here is :class:`Unread`: its bytes are shown as they are, and so is a list of such.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import pyarrow as pa

from kstoolkit.errors import FormatError
from kstoolkit.formats.spark.text import items, member, object_of, shown, text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

WORD_BYTES = 8  # a row has a word for each column
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
    width: int = WORD_BYTES
    arrow: ClassVar[pa.DataType] = pa.large_binary()


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
    """A column of a struct: which word of a row is its, and whether a watermark is kept on it."""

    name: str
    type: SparkType
    position: int
    is_event_time: bool = False


@dataclass(frozen=True, slots=True)
class Struct:
    """Columns, all of them or some, of rows of ``count`` columns."""

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


def _types_in(kind: SparkType) -> Iterator[SparkType]:
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
        yield from _types_in(each)


_DEEPEST, _MOST_FIELDS = 50, 4096
_LONG_DIGITS, _MOST_DIGITS = 18, 38
_WATERMARK = "spark.watermarkDelayMs"
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")
_SCALARS = {
    "void": (8, pa.null()),
    "null": (8, pa.null()),
    "boolean": (1, pa.bool_()),
    "byte": (1, pa.int8()),
    "short": (2, pa.int16()),
    "integer": (4, pa.int32()),
    "long": (8, pa.int64()),
    "float": (4, pa.float32()),
    "double": (8, pa.float64()),
    "date": (4, pa.date32()),
    "timestamp": (8, pa.timestamp("us", tz="UTC")),
    "timestamp_ntz": (8, pa.timestamp("us")),
}
_STRING = Variable("string", pa.large_string())
_WITHOUT_ARGUMENTS: dict[str, SparkType] = {
    "string": _STRING,
    "char": _STRING,
    "varchar": _STRING,
    "binary": Variable("binary", pa.large_binary()),
    "time": Scalar("time", WORD_BYTES, pa.time64("us")),
    "variant": Unread("variant", is_variable=True),
}


def schema_of(schema: str | bytes | dict[str, Any]) -> Struct:
    """Return the columns that Spark's JSON of a StructType names.

    A name that an earlier column has already gets its position behind it: ``user#3``. Whatever is
    no such JSON, is nested deeper than 50 types, or has more than 4096 columns is a FormatError.

    >>> schema_of({"type": "struct", "fields": [{"name": "n", "type": "long"}]}).fields
    (Field(name='n', type=Scalar(name='long', width=8, arrow=DataType(int64)), position=0,
           is_event_time=False),)
    """
    found = schema if isinstance(schema, dict) else object_of(schema, "the schema of a row")
    if found.get("type") != "struct":
        message = f"The schema of a row has the type {shown(found.get('type'))}, not 'struct'."
        raise FormatError(message, hint="The schema file is damaged.")
    struct = _struct(found, 0)
    if sum(1 for _ in _types_in(struct)) > _MOST_FIELDS:
        message = f"A schema of more than {_MOST_FIELDS:,} columns."
        raise FormatError(message, hint="The schema file is damaged.")
    return struct


def _struct(found: dict[str, Any], depth: int) -> Struct:
    fields: list[Field] = []
    taken: set[str] = set()
    for position, column in enumerate(items(found, "fields", "a schema")):
        name = text(column, "name", "a column")
        while name in taken:
            name = f"{name}#{position}"
        taken.add(name)
        kind = _type(column.get("type"), depth + 1)
        fields.append(Field(name, kind, position, _WATERMARK in member(column, "metadata", name)))
    return Struct(tuple(fields), len(fields))


def _type(found: Any, depth: int) -> SparkType:
    if depth > _DEEPEST:
        message = f"A schema that is nested deeper than {_DEEPEST} types."
        raise FormatError(message, hint="The schema file is damaged.")
    if isinstance(found, str):
        return _named(found)
    kind = found.get("type") if isinstance(found, dict) else None
    if kind == "struct":
        return _struct(found, depth)
    if kind == "array":
        return _container(Array(_type(found.get("elementType"), depth + 1)))
    if kind == "map":
        key, value = found.get("keyType"), found.get("valueType")
        return _container(Map(_type(key, depth + 1), _type(value, depth + 1)))
    if kind == "udt":
        return _type(found.get("sqlType"), depth + 1)
    message = f"A schema has a type that is none of Spark's: {shown(found)}."
    raise FormatError(message, hint="The schema file is damaged.")


def _container(kind: Array | Map) -> SparkType:
    """Return the type, as bytes if it holds what is not known: nor is how wide that is, then."""
    inner = [kind.element] if isinstance(kind, Array) else [kind.key, kind.value]
    for each in inner:
        if isinstance(each, Unread):
            return Unread(each.name, is_variable=True)
    if isinstance(kind, Map) and kind.key.arrow == pa.null():
        # What Spark makes of an empty map() without types. Arrow has no map whose keys are null.
        return Unread("map", is_variable=True)
    return kind


def _named(name: str) -> SparkType:
    first = re.split(r"[ (]", name, maxsplit=1)[0]  # "char(5)", "string collate UNICODE"
    if name in _SCALARS:
        return Scalar(name, *_SCALARS[name])
    if first in _WITHOUT_ARGUMENTS:
        return _WITHOUT_ARGUMENTS[first]
    if first == "interval":
        if name == "interval":
            return Variable(name, INTERVAL)
        if {"year", "month"} & set(name.split()):
            return Scalar("months", 4, pa.int32())
        return Scalar("duration", WORD_BYTES, pa.duration("us"))
    return _decimal(name) or Unread(name, is_variable=False)


def _decimal(name: str) -> SparkType | None:
    match = _DECIMAL.fullmatch(name)
    if match is None:
        return None
    digits, scale = int(match[1]), int(match[2])
    if not 1 <= digits <= _MOST_DIGITS or scale > digits:
        return None
    arrow = pa.decimal128(digits, scale)
    if digits <= _LONG_DIGITS:
        return Scalar("decimal", WORD_BYTES, arrow)
    return Variable("decimal", arrow)
