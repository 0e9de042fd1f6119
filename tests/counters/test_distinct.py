"""How many different items: beside sets, and beside another's sketches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from datasketches import hll_sketch
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.counters.counters import Counters, buckets_of
from kstoolkit.counters.distinct import OpenSketches, Touched
from kstoolkit.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterable

HOUR_MS = 3_600_000
PARTS = ("different ip",)
ODD = ["", "a", "A", "a ", "Zoë", "名前", "\x00", "\x00\x00", "x" * 300]

Touch = tuple[int, str, "str | None"]
"""An hour's number, who, and what."""

touches = st.lists(
    st.tuples(
        st.integers(-2, 3), st.sampled_from(["a", "b", "Zoë", ""]), st.sampled_from([*ODD, None])
    )
)


def touched(rows: Iterable[Touch]) -> Touched:
    hours, users, items = [list(each) for each in zip(*rows, strict=True)] or [[], [], []]
    starts = np.array(hours, np.int64) * HOUR_MS
    return Touched.of(starts, pa.array(users, pa.string()), pa.array(items, pa.string()))


def told(sketches: Touched) -> dict[tuple[int, str], int]:
    counts = sketches.counts("ip", PARTS)
    assert counts.parts == PARTS
    columns = counts.to_table().to_pydict()
    assert set(columns["action"]) <= {"ip"}
    keys = zip(columns["window_start_ms"], columns["user"], strict=True)
    return {(at // HOUR_MS, who): n for (at, who), n in zip(keys, columns["count"], strict=True)}


@given(touches, st.randoms())
def test_order_repeats_and_parts_make_no_difference(rows: list[Touch], random: object) -> None:
    whole = told(touched(rows))
    assert whole.keys() == {(hour, who) for hour, who, item in rows if item}
    shuffled = rows * 2
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    cut = len(rows) // 2
    parts = [touched(each) for each in (shuffled[:cut], shuffled[cut:], shuffled[:cut])]
    assert told(Touched.merge(parts)) == whole
    assert told(Touched.merge([Touched.decode(part.encode()) for part in parts])) == whole


@given(touches)
def test_a_few_items_are_as_many_as_there_are(rows: list[Touch]) -> None:
    items: dict[tuple[int, str], set[str]] = {}
    for hour, who, item in rows:
        if item:
            items.setdefault((hour, who), set()).add(item)
    for key, number in told(touched(rows)).items():
        assert abs(number - len(items[key])) <= 1  # nine items, 256 registers


@pytest.mark.parametrize("number", [10, 40, 160, 640, 5_000, 20_000])
@pytest.mark.parametrize("name", ["10.{}", "https://shop.example/item/{}?q=1", "{}"])
def test_it_is_as_near_as_another_tools_sketch(number: int, name: str) -> None:
    users = 200 if number < 1_000 else 30
    ours: list[int] = []
    theirs = []
    for user in range(users):
        items = [name.format(user * number + each) for each in range(number)]
        sketch = hll_sketch(8)
        for item in items:
            sketch.update(item)
        theirs.append(sketch.get_estimate())
        ours += told(touched((0, "a", item) for item in items)).values()
        del sketch
    error, bias = (np.array(ours) / number - 1), np.mean(ours) / number - 1
    other = np.sqrt(np.mean((np.array(theirs) / number - 1) ** 2))
    assert np.sqrt(np.mean(error**2)) < max(1.5 * other, 0.065)
    assert abs(bias) < 0.025 + 0.07 / np.sqrt(users)


def test_a_window_takes_170_bytes_at_most() -> None:
    for number in (1, 20, 100, 300, 1_000, 5_000):
        users = pa.array(np.repeat([f"u{each}" for each in range(200)], number).tolist())
        items = pa.array([f"10.{each}" for each in range(200 * number)])
        hours = np.arange(200 * number) % 2 * HOUR_MS
        sketches = Touched.of(hours, users, items)
        assert len(sketches.encode()) / len(told(sketches)) < 170


def test_long_items_are_told_apart() -> None:
    items = ["x" * 4_000_000 + end for end in "abc"] + ["y" * 1_025, "y" * 1_024]
    assert told(touched((0, "a", item) for item in items * 2)) == {(0, "a"): 5}


def test_every_user_is_in_the_bucket_of_its_counts() -> None:
    users = pa.array([f"user {number}" for number in range(500)])
    items = pa.array([f"{number}" for number in range(500)])
    sketches = Touched.of(np.zeros(500, np.int64), users, items)
    for bucket, part in sketches.by_bucket(16):
        assert set(buckets_of(part.users, 16).tolist()) == {bucket}
    parts = [part for _, part in sketches.by_bucket(16)]
    assert told(Touched.merge(parts)) == told(sketches)


def test_open_windows_are_held_until_they_are_closed() -> None:
    blocks: dict[str, bytes] = {}
    held = OpenSketches(blocks, "items 0/ip/", 6 * HOUR_MS)
    rows: list[Touch] = [(hour, "a", f"{item}") for hour in range(-3, 15) for item in range(3)]
    for row in rows:
        held.add(touched([row]))
    assert len(list(blocks.keys())) == 4
    part = list(held.between(2 * HOUR_MS, 13 * HOUR_MS))
    assert [end for end, _ in part] == [6 * HOUR_MS, 12 * HOUR_MS, 13 * HOUR_MS]
    found = told(Touched.merge([each for _, each in part]))
    assert found == {(hour, "a"): 3 for hour in range(2, 13)}
    held.drop(11 * HOUR_MS)
    assert len(list(blocks.keys())) == 2
    held.add(touched([(11, "b", "new")]), from_ms=10 * HOUR_MS)
    part = list(held.between(6 * HOUR_MS, 12 * HOUR_MS))
    assert told(part[0][1]) == {(10, "a"): 3, (11, "a"): 3, (11, "b"): 1}


@pytest.mark.parametrize("block", [b"", b"\x02", b"\x01", b"\x01junk", b"\x09anything"])
def test_what_is_no_sketch_is_said_to_be_none(block: bytes) -> None:
    with pytest.raises(FormatError):
        Touched.decode(block)


def test_nothing_is_no_sketch() -> None:
    nothing = touched([(0, "a", None), (0, "b", "")])
    assert not len(nothing)
    assert len(Touched.decode(nothing.encode())) == len(Touched.merge([])) == 0
    assert isinstance(nothing.counts("ip", PARTS), Counters)
    assert not told(nothing)
