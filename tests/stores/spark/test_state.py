from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from kstoolkit.formats.spark.rows import ValueWrapping
from kstoolkit.formats.spark.statefiles import _REMOVE_RANGE, APPEND, PUT, REMOVE
from kstoolkit.stores.spark.state import KeyRanges, Overlay

KEYS = st.binary(min_size=1, max_size=2).map(lambda raw: bytes(each % 4 for each in raw))
CHANGES = st.lists(
    st.tuples(st.sampled_from([PUT, REMOVE, APPEND, _REMOVE_RANGE]), KEYS, KEYS), max_size=20
)


def applied(rows: dict[bytes, bytes], change: tuple[int, bytes, bytes], delimiter: bytes) -> None:
    """Change rows as Spark would change those of a store."""
    kind, key, value = change
    if kind == PUT:
        rows[key] = value
    elif kind == APPEND:
        rows[key] = rows[key] + delimiter + value if key in rows else value
    elif kind == REMOVE:
        rows.pop(key, None)
    else:
        for gone in [each for each in rows if key <= each < value]:
            del rows[gone]


@settings(max_examples=60)
@given(st.dictionaries(KEYS, KEYS, max_size=8), CHANGES, st.sampled_from([b"", b","]), KEYS)
def test_an_overlay_is_what_one_change_after_the_other_makes(
    rows: dict[bytes, bytes],
    changes: list[tuple[int, bytes, bytes]],
    delimiter: bytes,
    prefix: bytes,
) -> None:
    before = sorted(rows.items())
    with tempfile.TemporaryDirectory() as folder:
        overlay = Overlay(Path(folder), ValueWrapping(delimiter=delimiter))
        for change in changes:
            overlay.change(*change)
            applied(rows, change, delimiter)
        found = list(overlay.over(iter(before)))
        begun = (row for row in before if row[0].startswith(prefix))
        some = list(overlay.over(begun, prefix))
        overlay.close()
    assert found == sorted(rows.items())
    assert some == [row for row in found if row[0].startswith(prefix)]


@given(st.lists(st.tuples(KEYS, KEYS).filter(lambda pair: pair[0] < pair[1])), KEYS)
def test_ranges_hold_what_one_of_them_holds(pairs: list[tuple[bytes, bytes]], key: bytes) -> None:
    ranges = KeyRanges()
    for first, last in pairs:
        ranges.add(first, last)
    assert (key in ranges) == any(first <= key < last for first, last in pairs)
