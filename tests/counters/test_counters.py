"""Counters against Python's own: every operation is a few lines on a dict of keys."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.counters.counters import (
    Counters,
    PackedKeys,
    _as_dictionary,
    _unify,
    buckets_of,
    prune,
)
from kstoolkit.windows import Hop, Window, as_window

Key = tuple[str, int, str]
Counts = Counter[Key]

USERS = st.sampled_from(["Anna", "Bo", "Čeněk", "", "😀\0"]) | st.text("ab", max_size=3)
ACTIONS = st.sampled_from(["read", "write", ""])
STARTS = st.integers(-300, 300).map(lambda step: step * 10_000) | st.integers(-(2**40), 2**40)
COUNTED = st.dictionaries(
    st.tuples(USERS, STARTS, ACTIONS), st.integers(1, 2**40), max_size=25
).map(Counter)
MINUTE, HOUR = as_window("1 minute"), as_window("1 hour")
WINDOWS = st.sampled_from(
    [MINUTE, HOUR, Hop("5 minutes", every="1 minute"), Window(30_000, 10_000), Window(5_000, 2_000)]
)


def made(counts: Counts) -> Counters:
    """Count the slow way round: a row for each key, in any order."""
    users, starts, actions = zip(*counts, strict=True) if counts else ((), (), ())
    return Counters.of(
        np.array(starts, dtype=np.int64),
        pa.array(users, pa.string()),
        pa.array(actions, pa.string()),
        np.array(list(counts.values()), dtype=np.uint64),
    )


def read(counters: Counters) -> Counts:
    batch = counters.to_batch()
    starts, users, actions, counts = (column.to_pylist() for column in batch.columns)
    keys = list(zip(users, starts, actions, strict=True))
    assert len(set(keys)) == len(keys), "a key stands twice"
    places = list(zip(counters.user, counters.start_ms, counters.action, strict=True))
    assert all(before < after for before, after in pairwise(places)), "out of order"
    return Counter(dict(zip(keys, counts, strict=True)))


def coarse(counts: Counts, window: Window) -> Counts:
    summed: Counts = Counter()
    for (user, start_ms, action), count in counts.items():
        latest_ms = window.start_of(start_ms)
        for back_ms in range(0, window.size_ms, window.every_ms):
            if latest_ms - back_ms + window.size_ms > start_ms:
                summed[user, latest_ms - back_ms, action] += count
    return summed


@given(st.lists(st.tuples(USERS, STARTS, ACTIONS), max_size=60), st.booleans())
def test_events_are_collapsed_into_counters(events: list[Key], as_dictionaries: bool) -> None:  # noqa: FBT001 - drawn
    users = pa.array([user for user, _, _ in events], pa.string())
    actions = pa.array([action for _, _, action in events], pa.string())
    starts = np.array([start_ms for _, start_ms, _ in events], dtype=np.int64)
    if as_dictionaries:
        users, actions = users.dictionary_encode(), actions.dictionary_encode()
    counters = Counters.of(starts, users, actions)
    assert read(counters) == Counter(events)
    assert counters.total == len(events)


@given(COUNTED)
def test_counted_rows_are_collapsed_into_their_sums(counts: Counts) -> None:
    twice = pa.concat_tables([made(counts).to_table()] * 2)
    starts, users, actions, numbers = twice.columns
    summed = Counters.of(np.asarray(starts), users, actions, np.asarray(numbers).astype(np.uint64))
    assert read(summed) == counts + counts


@given(st.lists(COUNTED, max_size=4))
def test_a_merge_is_the_sum(parts: list[Counts]) -> None:
    expected: Counts = Counter()
    for part in parts:
        expected.update(part)
    assert read(Counters.merge([made(part) for part in parts])) == expected


@given(COUNTED, COUNTED)
def test_adding_tells_what_changed_and_what_it_was_before(known: Counts, delta: Counts) -> None:
    now, changed, old = made(known).add(made(delta))
    assert read(now) == known + delta
    assert read(changed) == {key: (known + delta)[key] for key in delta}
    before = dict(zip(read(changed), old.tolist(), strict=True))
    assert before == {key: known[key] for key in delta}


@given(COUNTED, COUNTED)
def test_newer_counts_take_the_place_of_those_they_name(known: Counts, newer: Counts) -> None:
    assert read(Counters.newest([made(known), made(newer)])) == {**known, **newer}


@given(COUNTED, WINDOWS)
def test_a_coarser_window_is_the_sum_of_its_panes(counts: Counts, window: Window) -> None:
    assert read(made(counts).coarsen(window)) == coarse(counts, window)


@given(COUNTED)
def test_coarsening_in_steps_is_coarsening_at_once(counts: Counts) -> None:
    assert read(made(counts).coarsen(MINUTE).coarsen(HOUR)) == coarse(counts, HOUR)


def test_panes_that_are_windows_already_are_left_alone() -> None:
    panes = made(Counter({("a", 60_000, "x"): 2, ("a", 120_000, "x"): 3}))
    assert panes.coarsen(MINUTE) is panes


@given(COUNTED)
def test_over_time_all_windows_are_one(counts: Counts) -> None:
    expected: Counts = Counter()
    for (user, _, action), count in counts.items():
        expected[user, 0, action] += count
    assert read(made(counts).over_time()) == expected


@given(COUNTED)
def test_a_peak_is_the_busiest_window_over_all_actions(counts: Counts) -> None:
    together: Counter[tuple[str, int]] = Counter()
    for (user, start_ms, _), count in counts.items():
        together[user, start_ms] += count
    peaks: dict[str, int] = {}
    for (user, _), count in together.items():
        peaks[user] = max(peaks.get(user, 0), count)
    rows = made(counts).peaks().to_pylist()
    assert {row["user"]: row["count"] for row in rows} == peaks
    assert len(rows) == len(peaks)


@given(COUNTED, st.sampled_from([1, 60_000, 3_600_000]))
def test_segments_part_the_counters_by_time(counts: Counts, length_ms: int) -> None:
    together: Counts = Counter()
    starts = []
    for start_ms, part in made(counts).by_segment(length_ms):
        assert start_ms % length_ms == 0
        assert all(start_ms <= key[1] < start_ms + length_ms for key in read(part))
        together.update(read(part))
        starts.append(start_ms)
    assert together == counts
    assert starts == sorted(set(starts))


@given(COUNTED, st.integers(1, 8))
def test_buckets_part_the_counters_by_user(counts: Counts, buckets: int) -> None:
    together: Counts = Counter()
    for number, part in made(counts).by_bucket(buckets):
        assert set(part.users.to_pylist()) == {user for user, _, _ in read(part)}
        assert set(buckets_of(part.users, buckets)) == {number}
        together.update(read(part))
    assert together == counts


@given(COUNTED)
def test_a_block_gives_the_counters_back(counts: Counts) -> None:
    assert read(Counters.decode(made(counts).encode())) == counts


@given(COUNTED, COUNTED)
def test_counters_of_a_block_go_on_counting(known: Counts, delta: Counts) -> None:
    decoded = Counters.decode(made(known).encode())
    assert read(Counters.merge([decoded, made(delta)])) == known + delta


@given(COUNTED, st.data())
def test_chosen_counters_are_these_alone(counts: Counts, data: st.DataObject) -> None:
    counters = made(counts)
    mask = data.draw(st.lists(st.booleans(), min_size=len(counters), max_size=len(counters)))
    chosen = np.array(mask, dtype=bool)
    kept = [key for key, is_chosen in zip(read(counters), mask, strict=True) if is_chosen]
    assert list(read(counters.take(chosen))) == kept
    assert list(read(counters.take(np.flatnonzero(chosen)).pruned())) == kept


def test_nothing_is_counted_of_nothing() -> None:
    empty = Counters.empty()
    assert (len(empty), empty.total, len(Counters.merge([empty, empty]))) == (0, 0, 0)
    assert len(Counters.decode(empty.encode())) == 0
    assert list(empty.by_bucket(4)) == []
    assert list(empty.by_segment(1)) == []
    assert empty.peaks().num_rows == 0
    assert len(empty.over_time()) == len(empty.coarsen(HOUR)) == 0


def test_counts_beyond_32_bits_stay_exact() -> None:
    large = made(Counter({("a", 0, "x"): 2**63}))
    assert read(Counters.merge([large, made(Counter({("a", 0, "x"): 2**63 - 1}))])) == {
        ("a", 0, "x"): 2**64 - 1
    }


def test_a_table_for_other_tools_has_signed_counts() -> None:
    table = made(Counter({("a", 0, "x"): 3})).to_table()
    assert table.schema.field("count").type == pa.int64()
    assert table.column_names == ["window_start_ms", "user", "action", "count"]


@pytest.mark.parametrize("start_ms", [-(2**62), 2**62])
def test_the_farthest_window_starts_are_kept(start_ms: int) -> None:
    counts: Counts = Counter({("a", start_ms, "x"): 1, ("b", 0, "y"): 2, ("c", -start_ms, "x"): 3})
    assert read(made(counts)) == counts


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
DICTIONARIES = st.lists(st.lists(TEXTS, unique=True, max_size=6), min_size=1, max_size=4)
MASK = 2**64 - 1


@given(DICTIONARIES)
def test_a_unified_dictionary_has_every_text_once_and_says_where(
    given_texts: list[list[str]],
) -> None:
    merged, places = _unify([pa.array(texts, pa.string()) for texts in given_texts])
    texts = merged.to_pylist()
    assert len(set(texts)) == len(texts)
    assert [[texts[at] for at in each] for each in places] == given_texts


@given(DICTIONARIES)
def test_the_first_of_unified_dictionaries_keeps_its_places(given_texts: list[list[str]]) -> None:
    _, places = _unify([pa.array(texts, pa.string()) for texts in given_texts])
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
    dictionary, codes = _as_dictionary(texts)
    assert dictionary.type == pa.string()
    assert [dictionary[int(code)].as_py() for code in codes] == ["x", "y", "x"]


@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int32(), pa.string())])
def test_no_chunks_are_no_texts(kind: pa.DataType) -> None:
    dictionary, codes = _as_dictionary(pa.chunked_array([], kind))
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


CodedKey = tuple[int, int, int]
CODES = st.integers(0, 2**31 - 2)
ANY_STARTS = st.integers(-(2**63), 2**63 - 1)

CLOSE = st.tuples(st.integers(0, 50), st.integers(-(10**6), 10**6), st.integers(0, 9))
"""Few users, actions and times: packed by the millisecond."""

MINUTES = st.tuples(CODES, st.integers(-(10**6), 10**6).map(lambda m: m * 60_000), CODES)
"""Many users and actions, times a minute apart: packed by the step."""

ANYTHING = st.tuples(CODES, ANY_STARTS, CODES)
"""Too much for 63 bits: pairs are numbered."""


def columns_of(keys: list[CodedKey]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    user, start_ms, action = zip(*keys, strict=True)
    return np.array(user, np.int32), np.array(start_ms, np.int64), np.array(action, np.int32)


@pytest.mark.parametrize("kind", [CLOSE, MINUTES, ANYTHING], ids=["close", "minutes", "anything"])
def test_packed_keys_sort_like_the_three_and_read_back(kind: st.SearchStrategy[CodedKey]) -> None:
    @given(st.lists(kind, min_size=1, max_size=40))
    def check(rows: list[CodedKey]) -> None:
        keys = PackedKeys.of(*columns_of(rows))
        assert (keys.packed >= 0).all()
        order = np.argsort(keys.packed, kind="stable")
        assert [rows[place] for place in order] == sorted(rows)
        read = zip(*(column.tolist() for column in keys.unpack(keys.packed)), strict=True)
        assert list(read) == rows
        assert len(np.unique(keys.packed)) == len(set(rows))

    check()


def test_close_times_are_packed_by_the_millisecond() -> None:
    keys = PackedKeys.of(*columns_of([(3, 1_000, 1), (2, 1_007, 0)]))
    assert (keys.step_ms, keys.pairs) == (1, None)


def test_times_far_apart_are_packed_by_their_common_step() -> None:
    far_ms = 60_000 * 2**30
    keys = PackedKeys.of(*columns_of([(2**24, 0, 3), (1, far_ms, 0), (1, 60_000, 0)]))
    assert (keys.step_ms, keys.pairs) == (60_000, None)


def test_one_time_alone_needs_no_step() -> None:
    most = 2**31 - 2
    keys = PackedKeys.of(*columns_of([(most, 5, 2**30), (0, 5, 1)]))
    assert keys.unpack(keys.packed)[1].tolist() == [5, 5]


def test_what_fits_no_step_is_packed_by_numbering_its_pairs() -> None:
    keys = PackedKeys.of(*columns_of([(2**30, -(2**63), 2**30), (0, 2**63 - 1, 0), (7, 0, 1)]))
    assert keys.pairs is not None
    assert keys.unpack(keys.packed)[1].tolist() == [-(2**63), 2**63 - 1, 0]
