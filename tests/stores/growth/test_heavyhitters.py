from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.stores.growth.heavyhitters import HeavyHitters, PrefixTally
from kstoolkit.stores.growth.horizon import _prefix_text

Rows = list[tuple[bytes | None, int]]

keys = st.none() | st.binary(max_size=2) | st.sampled_from([b"", b"a", b"often", b"oftener"])
parts = st.lists(st.lists(st.tuples(keys, st.integers(0, 50)), max_size=12), max_size=12)


def fed(hitters: HeavyHitters, parts: list[Rows]) -> HeavyHitters:
    for rows in parts:
        column = pa.array([key for key, _ in rows], pa.large_binary())
        hitters.add(column, np.array([size for _, size in rows], dtype=np.int64))
    return hitters


def told(hitters: HeavyHitters, count: int = 10_000) -> dict[bytes | None, tuple[int, int]]:
    top = hitters.top(count)
    figures = zip(top.num_rows.tolist(), top.data_bytes.tolist(), strict=True)
    return dict(zip(top.keys.to_pylist(), figures, strict=True))


def counted(parts: list[Rows]) -> dict[bytes | None, tuple[int, int]]:
    rows, sizes = Counter[bytes | None](), Counter[bytes | None]()
    for key, size in (row for part in parts for row in part):
        rows[key] += 1
        sizes[key] += size
    return {key: (rows[key], sizes[key]) for key in rows}


@given(parts)
def test_with_room_for_all_keys_the_sums_are_those_of_a_dict(parts: list[Rows]) -> None:
    hitters = fed(HeavyHitters(), parts)
    assert told(hitters) == counted(parts)
    assert hitters.num_keys == len(counted(parts))
    assert (hitters.error_bytes, hitters.error_rows) == (0, 0)


@given(parts, st.integers(1, 6))
def test_no_key_has_more_than_the_bound_beyond_what_is_told(parts: list[Rows], most: int) -> None:
    hitters = fed(HeavyHitters(most_keys=most), parts)
    found, expected = told(hitters), counted(parts)
    assert len(found) <= most
    for key, (rows, size) in expected.items():
        told_rows, told_size = found.get(key, (0, 0))
        assert told_size <= size <= told_size + hitters.error_bytes
        assert told_rows <= rows <= told_rows + hitters.error_rows
    whole = sum(size for _, size in expected.values())
    assert hitters.error_bytes <= whole / (most + 1)
    assert hitters.num_keys in {None, len(expected)}


@given(parts, st.integers(1, 20))
def test_the_bound_holds_where_the_bytes_of_keys_are_what_is_scarce(
    parts: list[Rows], most_bytes: int
) -> None:
    hitters = fed(HeavyHitters(most_key_bytes=most_bytes), parts)
    found = told(hitters)
    assert sum(len(key or b"") for key in found) <= most_bytes
    for key, (_, size) in counted(parts).items():
        assert found.get(key, (0, 0))[1] <= size
        assert size <= found.get(key, (0, 0))[1] + hitters.error_bytes


@given(st.dictionaries(st.binary(max_size=3), st.integers(0, 9), max_size=60), st.integers(1, 9))
def test_keys_that_come_once_are_told_exactly_and_the_largest_stay(
    sizes: dict[bytes, int], most: int
) -> None:
    rows: Rows = list(sizes.items())
    hitters = fed(
        HeavyHitters(most_keys=most, once=True), [rows[at : at + 7] for at in range(0, 60, 7)]
    )
    found = told(hitters)
    assert all(found[key] == (1, sizes[key]) for key in found if key is not None)
    largest = sorted(sizes.values(), reverse=True)[:most]
    assert sorted((size for _, size in found.values()), reverse=True) == largest
    assert hitters.error_bytes == 0


def test_a_key_that_takes_half_is_found_among_a_million_others() -> None:
    hitters, rng = HeavyHitters(most_keys=100), np.random.default_rng(3)
    for _ in range(100):
        names = [b"half"] * 500 + [b"%d" % each for each in rng.integers(0, 10**9, 500)]
        hitters.add(pa.array(names, pa.large_binary()), np.full(1000, 10))
    top = hitters.top(1)
    assert top.keys.to_pylist() == [b"half"]
    assert 500_000 - hitters.error_bytes <= top.data_bytes[0] <= 500_000
    assert hitters.num_keys is None


def test_the_largest_come_first_and_no_more_than_asked_for() -> None:
    hitters = fed(HeavyHitters(), [[(b"a", 1), (b"b", 3), (b"c", 2)]])
    assert list(told(hitters, 2)) == [b"b", b"c"]
    assert hitters.most_rows == 1
    assert told(HeavyHitters()) == {}
    assert HeavyHitters().most_rows == 0


def test_keys_that_were_kept_for_long_do_not_make_the_bound_grow() -> None:
    """Their counters fall with every key that goes, so that newcomers get their room in time."""
    hitters = fed(HeavyHitters(most_keys=2), [[(b"a", 1000), (b"b", 1000)]])
    for at in range(100):
        fed(hitters, [[(b"%d" % at, 60), (b"%d-" % at, 1), (b"-%d" % at, 1)]])
    hitters.top(1)
    assert hitters.error_bytes <= (2000 + 100 * 62) / 3


prefixes_parts = st.lists(
    st.lists(st.tuples(st.binary(max_size=4), st.integers(0, 50)), max_size=15), max_size=8
)


def prefixes_fed(
    tally: PrefixTally, parts: list[list[tuple[bytes, int]]]
) -> dict[bytes, tuple[int, int]]:
    for rows in parts:
        column = pa.array([key for key, _ in rows], pa.large_binary())
        tally.add(column, np.array([size for _, size in rows], dtype=np.int64))
    top = tally.top(10_000)
    figures = zip(top.num_rows.tolist(), top.data_bytes.tolist(), strict=True)
    return dict(zip(top.keys.to_pylist(), figures, strict=True))


@given(prefixes_parts, st.integers(257, 300) | st.integers(2, 12))
def test_sums_are_exact_at_the_length_that_was_chosen(
    parts: list[list[tuple[bytes, int]]], most: int
) -> None:
    tally = PrefixTally(most_prefixes=most)
    found = prefixes_fed(tally, parts)
    rows, sizes = Counter[bytes](), Counter[bytes]()
    for key, size in (row for part in parts for row in part):
        rows[key[: tally.length_bytes]] += 1
        sizes[key[: tally.length_bytes]] += size
    assert found == {prefix: (rows[prefix], sizes[prefix]) for prefix in rows}
    assert len(found) <= most or tally.length_bytes == 1


@given(prefixes_parts, st.integers(2, 12))
def test_no_greater_length_has_few_enough(parts: list[list[tuple[bytes, int]]], most: int) -> None:
    tally = PrefixTally(most_prefixes=most)
    prefixes_fed(tally, parts)
    longer = {key[: tally.length_bytes + 1] for part in parts for key, _ in part}
    assert tally.length_bytes == 32 or len(longer) > most


def test_keys_of_many_users_are_summed_up_by_what_they_have_in_common() -> None:
    tally = PrefixTally()
    names = [b"user-%06d" % each for each in range(0, 100_000, 7)]
    found = prefixes_fed(tally, [[(name, 1) for name in names], [(b"page-1", 5)]])
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
    assert _prefix_text(raw) == text


def test_prefixes_that_were_longer_before_are_cut_like_those_that_come() -> None:
    tally = PrefixTally(most_prefixes=3)
    found = prefixes_fed(
        tally, [[(b"a-long-key", 1)], [(b"a%d" % at, 1) for at in range(9)], [(b"b", 1)]]
    )
    assert found == {b"a": (10, 10), b"b": (1, 1)}
