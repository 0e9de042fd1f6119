from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.stores.growth.prefixes import PrefixTally
from kstoolkit.stores.growth.uses import prefix_text

parts = st.lists(
    st.lists(st.tuples(st.binary(max_size=4), st.integers(0, 50)), max_size=15), max_size=8
)


def fed(tally: PrefixTally, parts: list[list[tuple[bytes, int]]]) -> dict[bytes, tuple[int, int]]:
    for rows in parts:
        column = pa.array([key for key, _ in rows], pa.large_binary())
        tally.add(column, np.array([size for _, size in rows], dtype=np.int64))
    top = tally.top(10_000)
    if top is None:
        return {}
    figures = zip(top.num_rows.tolist(), top.data_bytes.tolist(), strict=True)
    return dict(zip(top.keys.to_pylist(), figures, strict=True))


@given(parts, st.integers(257, 300) | st.integers(2, 12))
def test_sums_are_exact_at_the_length_that_was_chosen(
    parts: list[list[tuple[bytes, int]]], most: int
) -> None:
    tally = PrefixTally(most_prefixes=most)
    found = fed(tally, parts)
    rows, sizes = Counter[bytes](), Counter[bytes]()
    for key, size in (row for part in parts for row in part):
        rows[key[: tally.length_bytes]] += 1
        sizes[key[: tally.length_bytes]] += size
    assert found == {prefix: (rows[prefix], sizes[prefix]) for prefix in rows}
    assert len(found) <= most or tally.length_bytes == 1


@given(parts, st.integers(2, 12))
def test_no_greater_length_has_few_enough(parts: list[list[tuple[bytes, int]]], most: int) -> None:
    tally = PrefixTally(most_prefixes=most)
    fed(tally, parts)
    longer = {key[: tally.length_bytes + 1] for part in parts for key, _ in part}
    assert tally.length_bytes == 32 or len(longer) > most


def test_keys_of_many_users_are_summed_up_by_what_they_have_in_common() -> None:
    tally = PrefixTally()
    names = [b"user-%06d" % each for each in range(0, 100_000, 7)]
    found = fed(tally, [[(name, 1) for name in names], [(b"page-1", 5)]])
    assert tally.length_bytes == 8
    assert len(found) == 101
    assert found[b"page-1"] == (1, 5)
    assert found[b"user-000"] == (143, 143)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", ""),
        (b"user|", "user|"),
        ("名前".encode()[:5], "名"),
        (b"\xff\xfe\xfd\xfc\xfb", "0xfffefdfcfb"),
        (b"a\x00", "0x6100"),
        (bytes(7) + b"A", "0x0000000000000041"),
    ],
)
def test_a_prefix_is_shown_as_text_or_else_as_hex(raw: bytes, text: str) -> None:
    assert prefix_text(raw) == text


def test_prefixes_that_were_longer_before_are_cut_like_those_that_come() -> None:
    tally = PrefixTally(most_prefixes=3)
    found = fed(tally, [[(b"a-long-key", 1)], [(b"a%d" % at, 1) for at in range(9)], [(b"b", 1)]])
    assert found == {b"a": (10, 10), b"b": (1, 1)}
