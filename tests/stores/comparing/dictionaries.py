"""What two stores differ in, as plain dictionaries tell it: what comparing them is held to."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

Row = tuple[bytes, int | None, int | None, bytes | None]
"""A key, its window's start and end, and a value."""


def _grouped(rows: list[Row], *, by_end: bool) -> dict[Any, Counter[bytes | None]]:
    found: dict[Any, Counter[bytes | None]] = defaultdict(Counter)
    for key, start, end, value in rows:
        found[key, start, end if by_end else None][value] += 1
    return found


def expected(a: list[Row], b: list[Row]) -> tuple[int, int, int, int]:
    """Return how many rows were added, removed, changed, and are equal."""
    by_end = all(any(row[2] is not None for row in rows) for rows in (a, b))
    of_a, of_b = (_grouped(rows, by_end=by_end) for rows in (a, b))
    added = removed = changed = equal = 0
    for identity in of_a.keys() | of_b.keys():
        left, right = of_a[identity], of_b[identity]
        gone, new = (left - right).total(), (right - left).total()
        equal += (left & right).total()
        if (left.total(), right.total(), gone) == (1, 1, 1):
            changed += 1
        else:
            removed += gone
            added += new
    return added, removed, changed, equal


def plain(row: Any) -> Row:
    """Return a row of a store as one of those."""
    return row.key_bytes, row.window_start_ms, row.window_end_ms, row.value_bytes
