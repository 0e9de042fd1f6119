from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.counters.dictionaries import as_dictionary, buckets_of, prune, unify

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
DICTIONARIES = st.lists(st.lists(TEXTS, unique=True, max_size=6), min_size=1, max_size=4)
MASK = 2**64 - 1


@given(DICTIONARIES)
def test_a_unified_dictionary_has_every_text_once_and_says_where(
    given_texts: list[list[str]],
) -> None:
    merged, places = unify([pa.array(texts, pa.string()) for texts in given_texts])
    texts = merged.to_pylist()
    assert len(set(texts)) == len(texts)
    assert [[texts[at] for at in each] for each in places] == given_texts


@given(DICTIONARIES)
def test_the_first_of_unified_dictionaries_keeps_its_places(given_texts: list[list[str]]) -> None:
    _, places = unify([pa.array(texts, pa.string()) for texts in given_texts])
    assert places[0].tolist() == list(range(len(given_texts[0])))


@pytest.mark.parametrize(
    "texts",
    [
        pa.array(["x", "y", "x"]),
        pa.array(["x", "y", "x"], pa.large_string()),
        pa.array(["x", "y", "x"]).dictionary_encode(),
        pa.array(["z", "x", "y", "x"]).dictionary_encode()[1:],
        pa.array(["z", "x", "y", "x"])[1:],
        pa.chunked_array([["x"], ["y", "x"]]),
        pa.chunked_array([pa.array(each).dictionary_encode() for each in (["x"], ["y", "x"])]),
    ],
)
def test_codes_point_at_the_texts_however_arrow_holds_them(texts: pa.Array) -> None:
    dictionary, codes = as_dictionary(texts)
    assert dictionary.type == pa.string()
    assert [dictionary[int(code)].as_py() for code in codes] == ["x", "y", "x"]


@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int32(), pa.string())])
def test_no_chunks_are_no_texts(kind: pa.DataType) -> None:
    dictionary, codes = as_dictionary(pa.chunked_array([], kind))
    assert (len(dictionary), len(codes)) == (0, 0)


@given(st.lists(TEXTS, unique=True, min_size=1, max_size=8), st.data())
def test_pruning_keeps_what_is_used_in_its_order(texts: list[str], data: st.DataObject) -> None:
    codes = data.draw(st.lists(st.integers(0, len(texts) - 1), max_size=12))
    kept, places = prune(pa.array(texts), np.array(codes, dtype=np.int32))
    assert kept.to_pylist() == [texts[code] for code in sorted(set(codes))]
    assert [kept[int(place)].as_py() for place in places] == [texts[code] for code in codes]


def reference_bucket(user: str, buckets: int) -> int:
    """Compute the bucket one step at a time, from the function's own description."""
    data = user.encode()
    value = 0xCBF29CE484222325 ^ len(data)
    for start in range(0, len(data), 8):
        word = int.from_bytes(data[start : start + 8], "little")
        value = (value ^ word) * 0x100000001B3 & MASK
        value ^= value >> 32
    value = value * 0xFF51AFD7ED558CCD & MASK
    return (value ^ (value >> 32)) % buckets


@given(st.lists(TEXTS | st.text("aé😀", max_size=200), max_size=20), st.integers(1, 5000))
def test_a_bucket_is_the_hash_of_the_bytes(users: list[str], buckets: int) -> None:
    found = buckets_of(pa.array(users, pa.string()), buckets)
    assert found.tolist() == [reference_bucket(user, buckets) for user in users]


def test_buckets_never_change_between_versions() -> None:
    users = [
        "",
        "a",
        "Anna",
        "ClueBot NG",
        "12345678",
        "123456789",
        "Čeněk",
        "😀",
        "\0",
        "x" * 1024,
    ]
    expected = [194929, 248913, 743458, 812539, 96339, 9500, 651467, 633980, 855576, 682134]
    assert buckets_of(pa.array(users), 1_000_003).tolist() == expected


def test_buckets_of_a_slice_are_those_of_its_users() -> None:
    users = pa.array([f"user {number}" for number in range(50)])
    assert buckets_of(users[20:30], 16).tolist() == buckets_of(users, 16)[20:30].tolist()


def test_users_are_spread_evenly_over_buckets() -> None:
    buckets = buckets_of(pa.array([f"user {number}" for number in range(64_000)]), 64)
    counts = np.bincount(buckets, minlength=64)
    assert counts.min() > 850
    assert counts.max() < 1_150


def test_a_very_long_user_is_hashed_to_its_end() -> None:
    long = "x" * 100_000
    assert len({int(buckets_of(pa.array([long + end]), 2**31 - 1)[0]) for end in "abcdefgh"}) == 8
