"""Any record as parts of a view: what it says, its figures and rows, its plot; and in which words.

A value reads alike wherever it stands: in a panel, in a report. What is unknown is folded away,
each reason once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, date, datetime
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from kstoolkit.records import Figure, Record, Records, Source, counted
from kstoolkit.units import format_bytes, format_count, format_span
from kstoolkit.views.parts import Part, cards, coded, facts, seen, table, width_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kstoolkit.records import Viewed

_Columns = dict[str, list[Any]]

NOTHING = "none"
_LISTED, _FEW = 8, 4
_WHOLE_FROM = 1_000
_MOST_ROWS = 10_000
_OWN = {"sst": "SST", "ssts": "SSTs", "wal": "WAL", "rocksdb": "RocksDB"}
_OWN |= {each.lower(): each for each in ("RSS", "PSS", "CPU", "ID", "UTC")}
_WHYS, _UNKNOWN = ("unknown", "unjudged"), "unknown"
_PLACES = {"path", "folder", "file"}  # of which the end tells most
_NEARLY_ALL = 0.99
_MOMENTS_FROM_MS = 10**11
"""A number of milliseconds that is no duration: in 1973, or three years."""
_ENDS = {"_ms": "", "_bytes": "", "_bytes_per_second": "_rate"}
_NAMES = {"id", "option", "store"}  # which begin alike
_SAYS_NOTHING = {"span_ms": 1, "error_rows": 0, "error_bytes": 0}
"""What is left out of a table where all of its rows say it: one start alone, no error."""
_SAID = {"nullptr": NOTHING} | {
    f"kCompactionStyle{name}": name.lower() for name in ("Level", "Universal", "FIFO")
}
"""What OPTIONS files say by names of RocksDB's code."""
_EMPTY: tuple[object, ...] = (None, (), "", {})


def words(name: str) -> str:
    """Return the name of a class, or of a field, in words.

    >>> words("MemoryPlan"), words("hot_prefixes"), words("SST files")
    ('Memory plan', 'Hot prefixes', 'SST files')
    """
    apart = re.sub("(?<=[a-z])(?=[A-Z])", " ", name.replace("_", " ")).split()
    told = " ".join(_OWN.get(each, each if each.isupper() else each.lower()) for each in apart)
    return told[:1].upper() + told[1:]


def printed(value: object, name: str = "") -> str:
    r"""Return a value for people; its name tells the unit, as in ``size_bytes``.

    >>> printed(3 << 20, "size_bytes"), printed(1234.5), printed(None), printed(b"a\x00")
    ('3.0 MiB', '1,234', 'none', '6100')
    >>> printed(("a", 2)), printed({"x": 1.5}), printed(90_000, "took_ms")
    ('a, 2', 'x: 1.5', '90.0 s')
    >>> printed(3 << 20, "read_bytes_per_second"), printed(1_700_005_380_000, "start_ms")
    ('3.0 MiB a second', '2023-11-14 23:43:00 UTC')
    """
    if isinstance(value, Record | Records):
        return told_of(value)
    if isinstance(value, Mapping):
        return _listed(f"{key}: {printed(each)}" for key, each in value.items())
    if isinstance(value, list | tuple | set | frozenset | np.ndarray):
        return _listed(map(printed, value))
    return _single(value, name)


def told_of(thing: object) -> str:
    """Return the first line of what a thing says of itself, without the names of classes."""
    said, told = (repr(thing).splitlines() or [""])[0], ""
    while said != told:
        told, said = said, re.sub(r"\b[A-Z][a-z]\w*\(([^()]*)\)", r"\1", said)
    return said


def is_number(value: object) -> bool:
    """Return whether a value is a number, which columns set to the right."""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _listed(texts: Iterable[str]) -> str:
    found = list(texts)
    if not found:
        return NOTHING
    return ", ".join(found) if len(found) <= _LISTED else counted(len(found), "entries")


def _single(value: Any, name: str) -> str:
    if value is None or (pd.api.types.is_scalar(value) and pd.isna(value)):
        return NOTHING
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if is_number(value):
        return _number(value, name)
    if isinstance(value, bytes | bytearray | memoryview):
        told = bytes(value).decode("utf-8", "surrogateescape")
        return told if told.isprintable() else bytes(value).hex()
    if not isinstance(value, datetime):
        said = value.isoformat() if isinstance(value, date) else str(value)
        return _SAID.get(said, said)
    zone = "" if value.tzinfo is None else " UTC"
    time = value if value.tzinfo is None else value.astimezone(UTC)
    precision = "milliseconds" if time.microsecond else "seconds"
    return time.replace(tzinfo=None).isoformat(" ", precision) + zone


def _number(value: Any, name: str) -> str:
    if name.endswith("_bytes_per_second"):
        return f"{format_bytes(float(value))} a second"
    if name == "share" and 0 <= value <= 1:
        digits = 2 if value < _NEARLY_ALL else 4  # which is not told as all
        return f"{np.format_float_positional(100 * value, digits, fractional=False, trim='-')} %"
    if name.endswith("_ms") and abs(value) < _MOMENTS_FROM_MS:
        return f"{value:.4g} ms" if abs(value) < _WHOLE_FROM else format_span(value / 1_000)
    is_whole = isinstance(value, int | np.integer)
    return Figure(name, int(value) if is_whole else float(value), Source.GIVEN).text


def figures_of(thing: Viewed) -> Part:
    """Return what is so of a record, or of what has facts, each below what it is of.

    Figures that are unknown are folded, by reason.
    """
    if not isinstance(thing, Record):
        told = getattr(thing, "facts", None) or getattr(thing, "rows", None)
        rows = told() if callable(told) else ()
        return {} if isinstance(rows, str) else facts(rows)
    values = [(name, getattr(thing, name)) for name in about(thing)]
    told = [(name, value) for name, value in values if value not in _EMPTY]
    figures = thing.figures()
    known = [(each.name, each.value) for each in figures if each.value is not None]
    shown = facts((label_of(name), printed(value, name)) for name, value in [*told, *known])
    missing = [(label_of(each.name), each.text) for each in figures if each.value is None]
    unjudged = getattr(thing, "unjudged", {})
    whys = [*missing, *(unjudged.items() if isinstance(unjudged, dict) else ())]
    unknown = by_reason((name, printed(why)) for name, why in whys)
    lacks = f"{counted(len(whys), 'figures')} unknown, and why"
    return shown and shown | {"unknown": [seen(each, 600) for each in unknown], "lacks": lacks}


def rows_of(rows: Records[Any] | pd.DataFrame, of: int | None = None) -> Part:
    """Return several records, or a frame, as a table; those that say sentences as cards.

    They are the largest of ``of`` that there are. What is unknown of all is folded, by reason.
    """
    if isinstance(rows, Records):
        kept = rows[:_MOST_ROWS]
        if kept and all("\n" in str(each) for each in kept):
            return cards(map(str, kept))
        names = [each.name for each in fields(kept[0]) if each.name not in _WHYS] if kept else []
        columns: _Columns = {name: [value_of(each, name) for each in kept] for name in names}
        missing = {
            name for name, values in columns.items() if set(map(_is_unknown, values)) == {True}
        }
        whys = {(name, each.unknown[name]) for each in kept for name in missing}
        told = {name: each for name, each in columns.items() if name not in missing}
        folded = by_reason((label_of(name), printed(why)) for name, why in sorted(whys))
        lacks: Part = {"unknown": [seen(each, 600) for each in folded]} if folded else {}
        lacks |= {"lacks": f"{counted(len(missing), 'figures')} unknown, and why"} if folded else {}
        largest = (
            f", the largest of {format_count(of)}" if of is not None and of > len(rows) else ""
        )
        return _table(rows.kind, _in_order(_that_tell(told)), len(rows), largest, **lacks)
    frame = rows.head(_MOST_ROWS)
    return _table("rows", {str(name): frame[name].tolist() for name in frame.columns}, len(rows))


def line_of(thing: object) -> str:
    """Return what a thing says of itself in a line; nothing if it only lists its fields."""
    told = told_of(thing)
    return "" if re.match(r"(\w+\()?\w+=", told) else told


def records_in(record: Record) -> list[tuple[str, Records[Any], int | None]]:
    """Return the records that a record holds, by the names of its fields, and of how many."""
    values = ((each.name, getattr(record, each.name)) for each in fields(record))  # type: ignore[arg-type] # records are dataclasses
    return [
        (name, each, getattr(record, f"num_{name}", None))
        for name, each in values
        if isinstance(each, Records) and len(each)
    ]


def about(record: Record) -> list[str]:
    """Return the names of fields that are no figures, and hold no records of their own."""
    return [
        each.name
        for each in fields(record)  # type: ignore[arg-type] # records are dataclasses
        if not ("source" in each.metadata or each.name in _WHYS)
        and not isinstance(getattr(record, each.name), Record | Records)
    ]


def _is_unknown(value: object) -> bool:
    return value is _UNKNOWN


def value_of(record: Any, name: str) -> Any:
    """Return a value of a row; of one that is unknown, that it is."""
    value = getattr(record, name)
    return _UNKNOWN if value is None and name in getattr(record, "unknown", {}) else value


def label_of(name: str) -> str:
    """Return a name in words, as ``Expired rows``; sizes and counts are told by their values."""
    for end, said in _ENDS.items():
        name = name.removesuffix(end) + said * name.endswith(end)
    return words(name.replace(".", "_").replace("num_", ""))


def by_reason(whys: Iterable[tuple[str, str]]) -> list[str]:
    """Return each reason once, with the names of all that it is of before it."""
    names: dict[str, list[str]] = {}
    for name, why in whys:
        names.setdefault(why, []).append(name)
    return [f"{', '.join(of)}: {why}" for why, of in names.items()]


def _that_tell(columns: _Columns) -> _Columns:
    """Return the columns that say something; not bytes of what stands there as a text, too."""

    def is_told(name: str, values: list[Any]) -> bool:
        raw = columns.get(name.removesuffix("_raw"), []) if name.endswith("_raw") else []
        alike = bool(raw) and [*map(printed, raw)] == [*map(printed, values)]
        is_empty = name in _SAYS_NOTHING and set(values) == {_SAYS_NOTHING[name]}
        return not (alike or is_empty)

    return {name: values for name, values in columns.items() if is_told(name, values)}


def _in_order(columns: _Columns) -> _Columns:
    """Return the columns with where each row is from first, if that tells them apart; or last."""
    places = {name: columns[name] for name in columns if name in _PLACES}
    others = {name: columns[name] for name in columns if name not in _PLACES}
    first = {
        name: _from_where_they_differ(values)
        for name, values in places.items()
        if len(set(values)) > 1 and all(isinstance(each, str) for each in values)
    }
    return first | others | {name: each for name, each in places.items() if name not in first}


def _from_where_they_differ(paths: list[str]) -> list[str]:
    r"""Return paths from where they differ.

    >>> _from_where_they_differ(["/a/b/clicks", "/a/b/users"])
    ['clicks', 'users']
    """
    if len({each.startswith("/") for each in paths}) > 1:
        return paths
    shared = os.path.commonpath(paths)
    return [os.path.relpath(each, shared) for each in paths]


def _table(kind: str, columns: _Columns, of: int, of_all: str = "", **how: Any) -> Part:
    """Return a table with its name above it; of more than a few rows it can be searched."""
    if not columns:
        return {}
    made = [_column(name, values) for name, values in columns.items()]
    searched = [each["name"] for each in made if "codes" in each]
    which = f", the first of {format_count(of)}" if of > _MOST_ROWS else of_all
    if searched and of > _FEW:
        how |= {"search": searched, "hint": f"Search {kind} \N{HORIZONTAL ELLIPSIS}"}
    how |= {"one": counted(1, kind)[2:] + which, "opens": True}
    label = words(kind) if "search" in how else f"{counted(of, kind)}{which}"
    return table(label, f"{kind}{which}", made, **how)


def _column(name: str, values: list[Any]) -> Part:
    """Return numbers as such, with the texts that people read; anything else as texts."""
    texts = [each if each is _UNKNOWN else printed(each, name) for each in values]
    head: Part = {"name": name, "label": label_of(name), "width": width_of(label_of(name), texts)}
    head |= {"tail": True} if name in _PLACES else {"middle": True} if name in _NAMES else {}
    known = [each for each in values if each is not None and each is not _UNKNOWN]
    if not known or not all(map(is_number, known)):
        return head | {"kind": "text", **coded(pa.array(texts, pa.string()))}
    numbers = [float(each) if is_number(each) and isfinite(each) else None for each in values]
    return head | {"kind": "number", "values": numbers, "texts": texts}
