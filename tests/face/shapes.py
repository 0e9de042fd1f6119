"""The shape of JSON: which fields there are and of which types, whatever their values."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["shape"]

TYPES = {
    bool: "boolean",
    dict: "object",
    float: "number",
    int: "integer",
    list: "array",
    str: "string",
    type(None): "null",
}


BY_DATA = {
    *("backlog", "counts", "dead_letters", "failures", "fields", "late", "other_levels"),
    *(
        "key",
        "key_raw",
        "objects",
        "partitions",
        "parts",
        "tickers",
        "unknown",
        "unset",
        "value",
        "value_a",
        "value_b",
    ),
}
"""Fields whose objects have the data's own names: windows, reasons, actions, columns, figures."""


def shape(rows: Iterable[dict[str, Any]]) -> str:
    """Return a line for each field of rows: its path, and the types that it has been seen with.

    Examples
    --------
    >>> print(shape([{"a": 1, "b": [{"c": None}]}, {"a": "x", "b": []}]), end="")
    a: integer or string
    b: array
    b[]: object
    b[].c: null
    >>> print(shape([{"late": {"1 minute": 3, "1 hour": 4}}]), end="")
    late: object
    late{}: integer
    """
    seen = defaultdict[str, set[str]](set)
    for row in rows:
        for path, kind in _fields(row, ""):
            seen[path].add(kind)
    return "".join(f"{path}: {' or '.join(sorted(seen[path]))}\n" for path in sorted(seen))


def _fields(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if path:
        yield path, TYPES[type(value)]
    if isinstance(value, list):
        for each in value:
            yield from _fields(each, f"{path}[]")
    if isinstance(value, dict):
        by_data = path.rpartition(".")[2] in BY_DATA
        for name, each in value.items():
            yield from _fields(each, f"{path}{{}}" if by_data else f"{path}.{name}".strip("."))
