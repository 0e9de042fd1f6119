from __future__ import annotations

import cmath
import itertools
import math
import tracemalloc
from collections import defaultdict
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstoolkit.errors import FormatError
from kstoolkit.findings import baselines as baselines_module
from kstoolkit.findings.baselines import Baselines, Closed
from kstoolkit.findings.lasting import NOTHING, Watch
from kstoolkit.findings.rhythm import rhythm_of
from tests.findings.made import DAY, HOUR, counted

if TYPE_CHECKING:
    Row = tuple[int, str, str, int]
    Cell = tuple[str, str]
    Key = tuple[int, str, str]
    Known = tuple[int, int, float, float]

AGE_PER_HOUR = 0.9995
TEXT = pa.dictionary(pa.int32(), pa.string())
FOREVER = 1 << 62


def told(material: pa.Table, every_ms: int = HOUR) -> dict[Key, Known]:
    names = ("window_start_ms", "user", "action", "n", "sum", "sum_of_squares", "second")
    rows = zip(*(material[name].to_pylist() for name in names), strict=True)
    return {(start // every_ms, user, action): tuple(known) for start, user, action, *known in rows}


def kept(baselines: Baselines) -> dict[Cell, dict[str, Any]]:
    rows = baselines.cells.to_table().to_pylist()
    return {(row.pop("user"), row.pop("action")): row for row in rows}


@dataclass
class Oracle:
    """The definition, one window and cell at a time: all windows are remembered, nothing summed."""

    size_ms: int
    every_ms: int
    windows: defaultdict[Cell, list[tuple[int, int, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """Start, count and what was learnt of it."""
    firsts: list[tuple[str, int]] = field(default_factory=list)
    material: dict[Key, Known] = field(default_factory=dict)
    rhythms: dict[Key, complex] = field(default_factory=dict)
    facts: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    moments: dict[tuple[int, str, int | None], list[float]] = field(default_factory=dict)

    @property
    def memory_ms(self) -> int:
        return max(28 * DAY, 28 * self.every_ms)

    @property
    def grid_ms(self) -> int:
        return self.every_ms * math.ceil(6 * HOUR / self.every_ms)

    def n(self, cell: Cell, at: int) -> int:
        if self.size_ms < 0:
            return len(self.windows[cell])
        starts = [start for start, _, _ in self.windows[cell]]
        return len(range(min(starts), at, self.every_ms)) if starts else 0

    def highest(self, cell: Cell, at: int) -> list[float]:
        """All counts, aged, the highest first."""
        aged = (
            count * AGE_PER_HOUR ** ((at - start) / HOUR) for start, count, _ in self.windows[cell]
        )
        return sorted(aged, reverse=True)

    def known(self, cell: Cell, at: int) -> Known:
        learnt = [taught for _, _, taught in self.windows[cell]]
        second = [*self.highest(cell, at), 0, 0][1]
        return self.n(cell, at), sum(learnt), float(sum(each**2 for each in learnt)), second

    def rhythm(self, cell: Cell, at: int) -> complex:
        """What is shown of the cell's day by all windows; how, its own tests tell."""
        if self.size_ms < 0 or not self.windows[cell]:
            return 0j
        halves = [
            np.array(
                [sum(taught * cmath.rect(1, 2 * math.pi * start / DAY) for start, taught in each)]
            )
            for each in (
                [
                    (start, taught)
                    for start, _, taught in self.windows[cell]
                    if start // DAY % 2 == odd
                ]
                for odd in (0, 1)
            )
        ]
        n, total, squares, _ = self.known(cell, at)
        history = np.array([n]), np.array([total]), np.array([squares])
        first = min(start for start, _, _ in self.windows[cell])
        overlap = self.size_ms / self.every_ms
        told = rhythm_of((halves[0], halves[1]), history, np.array([first]), self.every_ms, overlap)
        return complex(told[0])

    def is_forgotten(self, cell: Cell, at: int) -> bool:
        return all(start < at - self.memory_ms for start, _, _ in self.windows[cell])

    def close(self, rows: list[Row], until: int) -> None:
        """Close everything before that window, which nothing was closed of before."""
        numbers = sorted({row[0] for row in rows})
        for after, number in zip([0, *numbers], numbers, strict=False):
            self.look_between(after, number)
            self.pass_(number, [row for row in rows if row[0] == number])
        self.look_between(max(numbers), until)
        for cell in list(self.windows):
            if self.is_forgotten(cell, until * self.every_ms):
                del self.windows[cell]

    def pass_(self, number: int, rows: list[Row]) -> None:
        clipped, rhythmic, new, at = 0, 0, 0, number * self.every_ms
        for _, user, action, count in rows:
            cell = user, action
            if self.is_forgotten(cell, at):
                self.windows[cell] = []
            n, total, _, second = self.material[number, user, action] = self.known(cell, at)
            self.rhythms[number, user, action] = self.rhythm(cell, at)
            if n == 0:
                new += 1
                self.firsts.append((action, min(count, 50)))
            elif self.n(cell, at - at % self.grid_ms) >= 12:
                held = min(count, max(5, math.floor(5 * (total / n))))
                clipped += held
                rhythmic += held * bool(self.rhythms[number, user, action])
            self.windows[cell].append((at, count, min(count, math.floor(2 * second) + 5)))
        self.facts[at] = clipped, rhythmic, new

    def look_between(self, after: int, until: int) -> None:
        first, last = (number * self.every_ms // self.grid_ms for number in (after, until))
        for number in range(first + 1, last + 1):
            self.look(number * self.grid_ms)

    def look(self, at: int) -> None:
        cells = [cell for cell in self.windows if not self.is_forgotten(cell, at)]
        sums: defaultdict[tuple[str, int | None], list[list[float]]] = defaultdict(list)
        for cell in cells:
            n, total, squares, _ = self.known(cell, at)
            mean, is_peer, wave = total / n, n >= 2, self.rhythm(cell, at)
            level, busy = mean * (n >= 12), 1 + abs(wave) ** 2 / 2
            excess = (squares - n * mean**2) / (n - 1) - mean if is_peer else 0
            excess -= mean**2 * (busy - 1)
            excess = min(excess, 4 * mean**2 + 3 * mean * math.sqrt(2 / n))
            weight = is_peer / (1 + mean) ** 2
            sums[cell[1], math.frexp(mean)[1] - 1].append(
                [1, n >= 12, is_peer, n >= 12 and bool(wave), level, level * bool(wave)]
                + [level * wave.real, level * wave.imag, weight * excess, weight * mean**2 * busy]
                + [is_peer * each for each in (mean, mean**2, 1 / n, mean / n, mean**2 / n)]
            )
        for action, count in self.firsts if cells else ():
            sums[action, None].append([1, *[0] * 9, count, count**2, 0, 0, 0])
        for (action, octave), terms in sums.items():
            self.moments[at, action, octave] = [sum(each) for each in zip(*terms, strict=True)]


def check(oracle: Oracle, closed: list[Closed], baselines: Baselines) -> None:
    """Compare all that was told, in however many calls, and what is left."""
    found: dict[Key, Known] = {}
    for each in closed:
        found |= told(each.material, oracle.every_ms)
    assert found.keys() == oracle.material.keys()
    for key, right in oracle.material.items():
        assert found[key] == pytest.approx(right, rel=1e-9)
    waves = {
        key: wave for each in closed for key, wave in waves_told(each, oracle.every_ms).items()
    }
    assert waves == pytest.approx(oracle.rhythms, rel=1e-5, abs=1e-5)
    facts = [row for each in closed for row in each.facts.to_pylist()]
    assert [tuple(row.values()) for row in facts] == [
        (at, *fact) for at, fact in sorted(oracle.facts.items())
    ]
    rows = [list(row.values()) for each in closed for row in each.moments.to_pylist()]
    moments = {tuple(key): values for *key, values in ((*row[:3], row[3:]) for row in rows)}
    assert len(moments) == len(rows)
    assert moments.keys() == oracle.moments.keys()
    for group, sums in oracle.moments.items():
        mine = moments[group]
        assert [*mine[:6], *mine[10:]] == pytest.approx([*sums[:6], *sums[10:]], rel=1e-9, abs=1e-9)
        assert mine[6:10] == pytest.approx(sums[6:10], rel=1e-6, abs=1e-6)  # kept as single floats
    left = kept(baselines)
    assert left.keys() == oracle.windows.keys()
    for cell, windows in oracle.windows.items():
        row = left[cell]
        starts, learnt = [each[0] for each in windows], [each[2] for each in windows]
        assert (row["first_ms"], row["last_ms"]) == (min(starts), max(starts))
        assert (row["learnt"], row["total"]) == (len(windows), sum(learnt))
        assert row["squares"] == sum(each**2 for each in learnt)
        highest = [*oracle.highest(cell, max(starts)), 0][:2]
        assert [row["top"], row["second"]] == pytest.approx(highest, rel=1e-9)


HOURS, HOPS, DAYS = (HOUR, HOUR), (2 * HOUR, HOUR), (DAY, DAY)
TWO_DAYS = (2 * DAY, 2 * DAY)  # of which 28 are more than four weeks
SESSIONS = (-HOUR, HOUR)
WATCHED = Watch(factor=2.0, evenness=True, newcomers=True)
KINDS = st.sampled_from([HOURS, HOPS, DAYS, TWO_DAYS, SESSIONS])


@st.composite
def some_counts(draw: st.DrawFn, kind: tuple[int, int]) -> list[Row]:
    """A few busy stretches, so far apart that some cells were forgotten, some just not."""
    memory = max(28 * DAY // kind[1], 28)
    gap = st.sampled_from([0, 1, memory - 20, memory, memory + 1])
    begins = [1, 1 + draw(gap), 1 + draw(gap) + draw(gap)]
    key = st.tuples(
        st.builds(int.__add__, st.sampled_from(begins), st.integers(0, 25)),
        st.sampled_from("abc"),
        st.sampled_from("xy"),
    )
    count = st.one_of(st.integers(1, 12), st.integers(1, 400))
    return [(*each, draw(count)) for each in draw(st.sets(key, min_size=1, max_size=50))]


@st.composite
def split_counts(draw: st.DrawFn) -> tuple[tuple[int, int], list[Row], list[int]]:
    """A kind of window, counts in any order, and up to when each call closes."""
    kind = draw(KINDS)
    rows = draw(some_counts(kind).flatmap(st.permutations))
    end = max(row[0] for row in rows) + 1 + draw(st.sampled_from([0, 1, 30, 800]))
    cuts = draw(st.lists(st.integers(0, end), max_size=5))
    return kind, rows, [*sorted(cuts), end]


@given(
    case=split_counts(),
    many_places=st.sampled_from([0, 1 << 40]),
    stretch=st.sampled_from([1, 28]),
    at_once=st.sampled_from([1, 200, 1 << 15]),
)
def test_closing_in_one_call_is_the_definition(
    case: tuple[tuple[int, int], list[Row], list[int]], many_places: int, stretch: int, at_once: int
) -> None:
    kind, rows, cuts = case
    baselines, oracle = Baselines.empty(*kind), Oracle(*kind)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("kstoolkit.findings.seldom._MANY_PLACES", many_places)
        patched.setattr("kstoolkit.findings.baselines._STRETCH", stretch)
        patched.setattr("kstoolkit.findings.baselines._AT_ONCE", at_once)
        closed = baselines.close(counted(rows, kind[1]), cuts[-1] * kind[1])
    oracle.close(rows, cuts[-1])
    check(oracle, [closed], baselines)


@given(split_counts())
def test_however_windows_are_split_into_calls_all_that_is_told_and_kept_is_the_same(
    case: tuple[tuple[int, int], list[Row], list[int]],
) -> None:
    kind, rows, cuts = case
    baselines, oracle, closed = Baselines.empty(*kind), Oracle(*kind), []
    for begin, end in zip([0, *cuts], cuts, strict=False):
        some = [row for row in rows if begin <= row[0] < end]
        closed.append(baselines.close(counted(some, kind[1]), end * kind[1]))
        baselines = Baselines.decode(baselines.encode())
        assert baselines.closed_ms == end * kind[1]
    oracle.close(rows, cuts[-1])
    check(oracle, closed, baselines)


@given(split_counts(), st.sampled_from([NOTHING, WATCHED]))
def test_windows_one_by_one_tell_and_keep_what_several_at_once_do(
    case: tuple[tuple[int, int], list[Row], list[int]], watch: Watch
) -> None:
    kind, rows, cuts = case
    ways = []
    for many in (0, 1_000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(baselines_module, "_MANY_ROWS", many)
            learnt, closed = Baselines.empty(*kind, watch), []
            for begin, end in zip([0, *cuts], cuts, strict=False):
                some = [row for row in rows if begin <= row[0] < end]
                told = learnt.close(counted(some, kind[1]), end * kind[1])
                closed.append([getattr(told, each.name) for each in fields(told)])
            ways.append((closed, learnt.encode()))
    assert ways[0] == ways[1]


@given(split_counts(), st.sampled_from([NOTHING, WATCHED]), st.integers(1, 4))
def test_what_is_laid_beside_a_block_comes_back_as_if_all_had_been_written(
    case: tuple[tuple[int, int], list[Row], list[int]], watch: Watch, most: int
) -> None:
    kind, rows, cuts = case
    whole, blocks = Baselines.empty(*kind, watch), dict[str, bytes]()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"_LARGE": 1, "_SHARE": 1, "_MOST_BESIDE": most}.items():
            patch.setattr(baselines_module, name, value)
        for begin, end in zip([0, *cuts], cuts, strict=False):
            counts = counted([row for row in rows if begin <= row[0] < end], kind[1])
            parted = Baselines.at(blocks, "history/1", watch) or Baselines.empty(*kind, watch)
            for each in (whole, parted):
                each.close(counts, end * kind[1])
            parted.put(blocks, "history/1")
            known = Baselines.at(blocks, "history/1", watch)
            assert known is not None
            assert len(blocks) <= 1 + most
            assert sorted_cells(known) == sorted_cells(whole)
            assert known.closed_ms == whole.closed_ms
            assert known.cells.actions == whole.cells.actions
            np.testing.assert_array_equal(known.firsts, whole.firsts)


def sorted_cells(learnt: Baselines) -> pa.Table:
    table = learnt.cells.to_table()
    texts = {name: table[name].cast(pa.string()) for name in ("user", "action")}
    table = table.drop_columns(list(texts))
    for name, column in texts.items():
        table = table.append_column(name, column)
    return table.sort_by([(name, "ascending") for name in texts])


def test_a_closing_that_touches_few_of_many_cells_writes_few_bytes() -> None:
    users = [f"user {number}" for number in range(20_000)]
    blocks, learnt = dict[str, bytes](), Baselines.empty(HOUR)
    sizes = []
    for hour in range(40):
        rows = [(hour, user, "x", 3) for user in (users if hour == 0 else users[hour::100])]
        learnt = Baselines.at(blocks, "history/1") or learnt
        before = dict(blocks)
        learnt.close(counted(rows), (hour + 1) * HOUR)
        learnt.put(blocks, "history/1")
        sizes.append(sum(len(b) for key, b in blocks.items() if before.get(key) != b))
    assert max(sizes[1:12]) < sizes[0] / 20  # an eighth of all has not been reached
    assert sum(sizes[1:]) < 5 * sizes[0]
    known = Baselines.at(blocks, "history/1")
    assert known is not None
    assert len(known.cells) == 20_000


def test_what_another_kind_of_users_had_leaves_nothing_beside() -> None:
    users = [f"user {number}" for number in range(5_000)]
    blocks, learnt = dict[str, bytes](), Baselines.empty(HOUR)
    for hour in range(3):
        learnt.close(
            counted([(hour, u, "x", 3) for u in users[: 5_000 if hour == 0 else 9]]),
            (hour + 1) * HOUR,
        )
        learnt.put(blocks, "history/1")
    assert sorted(blocks) == ["history/1", "history/1+1", "history/1+2"]
    grouped = Watch(group="^user [0-4]")
    kinds = Baselines.at(blocks, "history/1", grouped)
    assert kinds is not None
    kinds.put(blocks, "history/1")
    assert sorted(blocks) == ["history/1"]
    again = Baselines.at(blocks, "history/1", grouped)
    assert again is not None
    assert again.cells.to_table() == kinds.cells.to_table()


@given(split_counts(), st.integers(0, 40))
def test_a_window_that_is_not_over_is_compared_with_what_is_known_and_teaches_nothing(
    case: tuple[tuple[int, int], list[Row], list[int]], later: int
) -> None:
    kind, rows, cuts = case
    baselines, oracle, until = Baselines.empty(*kind), Oracle(*kind), cuts[-1]
    baselines.close(counted(rows, kind[1]), until * kind[1])
    oracle.close(rows, until)
    before = baselines.encode()
    asked = [(until + later, user, action, 7) for user in "abcd" for action in "xy"]
    seen = told(baselines.compare(counted(asked, kind[1])), kind[1])
    assert baselines.encode() == before
    for number, user, action, _ in asked:
        _, *right = oracle.known((user, action), number * kind[1])
        n = oracle.n((user, action), until * kind[1])  # those after it may yet get events
        expected = (n, *right)
        last = max((row[0] for row in rows if row[1:3] == (user, action)), default=-1)
        if (number - last) * kind[1] > max(28 * 24 * HOUR, 28 * kind[1]):  # forgotten by then
            expected = (0, 0, 0.0, 0.0)
        assert seen[number, user, action] == pytest.approx(expected, rel=1e-9)


def waves_told(closed: Closed, every_ms: int) -> dict[Key, complex]:
    names = ("window_start_ms", "user", "action", "cosine", "sine")
    told = zip(*(closed.material[name].to_pylist() for name in names), strict=True)
    return {(at // every_ms, user, action): complex(*wave) for at, user, action, *wave in told}


@given(
    st.sampled_from([HOURS, HOPS, (6 * HOUR, 6 * HOUR), (12 * HOUR, 12 * HOUR), SESSIONS]),
    st.lists(st.integers(0, 200), max_size=5),
    st.integers(0, 99),
)
@settings(max_examples=5)
def test_who_sleeps_at_night_is_known_to(kind: tuple[int, int], cuts: list[int], seed: int) -> None:
    random = np.random.default_rng(seed)
    number = np.arange(int(random.integers(0, 40)), 200)
    busy = 1 + np.cos(2 * np.pi * number * kind[1] / DAY - random.random() * 6)
    rows = [
        (at, user, action, count)
        for user, rate in (("a", 6 * busy), ("b", 0.3 * busy), ("c", np.full(len(busy), 2)))
        for action in "xy"
        for at, count in zip(number.tolist(), random.poisson(rate).tolist(), strict=True)
        if count
    ]
    baselines, oracle, closed = Baselines.empty(*kind), Oracle(*kind), []
    for begin, end in itertools.pairwise([0, *sorted(cuts), 200]):
        some = [row for row in rows if begin <= row[0] < end]
        closed.append(baselines.close(counted(some, kind[1]), end * kind[1]))
        baselines = Baselines.decode(baselines.encode())
    oracle.close(rows, 200)
    check(oracle, closed, baselines)
    known = {user for (_, user, _), wave in oracle.rhythms.items() if abs(wave) > 0.5}
    assert ("a" in known) == (kind[0] > 0 and kind[1] <= 6 * HOUR)


def test_hours_before_the_first_event_do_not_count_and_zeros_after_it_do() -> None:
    closed = Baselines.empty(HOUR).close(counted([(5, "a", "x", 3), (9, "a", "x", 1)]), 10 * HOUR)
    assert told(closed.material) == {(5, "a", "x"): (0, 0, 0, 0), (9, "a", "x"): (4, 3, 9, 0)}


def test_hops_count_in_steps() -> None:
    closed = Baselines.empty(2 * HOUR, HOUR).close(
        counted([(0, "a", "x", 1), (3, "a", "x", 1)]), 4 * HOUR
    )
    assert told(closed.material)[3, "a", "x"] == (3, 1, 1, 0)


def test_of_sessions_those_that_there_were_count() -> None:
    rows = [(0, "a", "x", 3), (7, "a", "x", 2), (90, "a", "x", 4)]
    closed = Baselines.empty(-HOUR, HOUR).close(counted(rows), 91 * HOUR)
    n, total, squares, second = told(closed.material)[90, "a", "x"]
    assert (n, total, squares) == (2, 5, 13)
    assert second == pytest.approx(2 * AGE_PER_HOUR**83)


def test_an_outbreak_hardly_raises_what_is_expected_later() -> None:
    baselines = Baselines.empty(HOUR)
    baselines.close(counted([(hour, "a", "x", 2) for hour in range(30)]), 30 * HOUR)
    before = kept(baselines)["a", "x"]["total"]
    baselines.close(counted([(30, "a", "x", 10**6)]), 31 * HOUR)
    assert kept(baselines)["a", "x"]["total"] <= before + 2 * 2 + 5


def test_a_level_that_lasts_becomes_normal() -> None:
    rows = [(hour, "a", "x", 2) for hour in range(30)]
    rows += [(hour, "a", "x", 100) for hour in range(30, 60)]
    closed = Baselines.empty(HOUR).close(counted(rows), 60 * HOUR)
    sums = [told(closed.material)[hour, "a", "x"][1] for hour in range(30, 60)]
    # One may be an outbreak, and the second is the first to follow one so high.
    assert np.diff(sums).tolist() == [8, 8] + [100] * 27


def test_a_single_high_window_is_no_second_highest_and_that_one_fades() -> None:
    rows = [(0, "a", "x", 100), (1, "a", "x", 3), (2, "a", "x", 1), (502, "a", "x", 1)]
    closed = Baselines.empty(HOUR).close(counted(rows), 503 * HOUR)
    second = [known[3] for known in told(closed.material).values()]
    assert second == pytest.approx([0, 0, 3 * AGE_PER_HOUR, 3 * AGE_PER_HOUR**501])


@pytest.mark.parametrize(("kind", "weeks"), [(HOURS, 4), (DAYS, 4), (SESSIONS, 4), (TWO_DAYS, 8)])
def test_what_nothing_was_added_to_for_four_weeks_begins_anew(
    kind: tuple[int, int], weeks: int
) -> None:
    memory = weeks * 7 * DAY // kind[1]
    rows = [
        (1, "a", "x", 3),
        (1, "b", "x", 3),
        (1 + memory, "a", "x", 2),
        (2 + memory, "b", "x", 2),
    ]
    baselines = Baselines.empty(*kind)
    closed = baselines.close(counted(rows, kind[1]), (3 + memory) * kind[1])
    seen = told(closed.material, kind[1])
    n = 1 if kind == SESSIONS else memory
    assert seen[1 + memory, "a", "x"][:2] == (n, 3)
    assert seen[2 + memory, "b", "x"] == (0, 0, 0, 0)
    firsts = dict(zip(*(closed.facts[name].to_pylist() for name in _FIRSTS), strict=True))
    assert [firsts[number * kind[1]] for number in (1, 1 + memory, 2 + memory)] == [2, 0, 1]
    assert [row["total"] for row in kept(baselines).values()] == [5, 2]


_FIRSTS = ("window_start_ms", "firsts")


def test_exactly_after_four_weeks_nobody_is_forgotten_yet() -> None:
    baselines = Baselines.empty(HOUR)
    baselines.close(counted([(1, "a", "x", 3)]), (1 + 672) * HOUR)
    assert list(kept(baselines)) == [("a", "x")]
    closed = baselines.close(counted([(1 + 672, "a", "x", 2)]), (2 + 672) * HOUR)
    assert told(closed.material)[1 + 672, "a", "x"][:2] == (672, 3)


def test_who_is_forgotten_takes_no_room_and_is_no_peer() -> None:
    baselines = Baselines.empty(HOUR)
    baselines.close(counted([(0, "a", "x", 3), (0, "b", "y", 3)]), 24 * HOUR)
    late = baselines.close(counted([(600, "b", "y", 1)]), 680 * HOUR)
    assert list(kept(baselines)) == [("b", "y")]
    assert baselines.cells.users.to_pylist() == ["b"]
    by_start = defaultdict(set)
    for row in late.moments.to_pylist():
        if row["octave"] is not None:
            by_start[row["window_start_ms"] // HOUR].add(row["action"])
    assert (by_start[672], by_start[678]) == ({"x", "y"}, {"y"})


def test_after_the_last_window_there_is_nothing_to_tell() -> None:
    rows = [(hour, "a", "x", 1) for hour in range(20)]
    closed = Baselines.empty(HOUR).close(counted(rows), FOREVER)
    assert set(closed.moments["window_start_ms"].to_pylist()) == {6 * HOUR, 12 * HOUR, 18 * HOUR}
    assert len(closed.material) == 20


def test_many_looks_at_one_cell_before_a_crowd_comes_take_no_room_for_each_of_the_crowd() -> None:
    minute, day, crowd = HOUR // 60, 24 * HOUR, 45_000
    daily = np.arange(994) * day + HOUR
    starts = np.concatenate([daily, [(994 - 26) * day], np.full(crowd, 994 * day)])
    users = [*[0] * 994, *range(1, crowd + 2)]
    told = {
        "window_start_ms": starts,
        "user": pa.array([f"u{user}" for user in users]),
        "action": ["read"] * (994 + 1 + crowd),
        "count": np.concatenate([np.full(994, 3), np.ones(1 + crowd, np.int64)]),
    }
    tracemalloc.start()
    try:
        Baselines.empty(minute).close(pa.table(told), 1_008 * day)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 500 << 20  # it would be 3.4 GiB


def test_in_how_busy_all_are_an_outbreak_counts_for_five_times_what_is_usual() -> None:
    rows = [(hour, user, "x", 4) for hour in range(24) for user in "ab"]
    closed = Baselines.empty(HOUR).close(
        counted([*rows, (24, "a", "x", 900), (24, "b", "x", 7), (24, "new", "x", 900)]), 25 * HOUR
    )
    assert closed.facts.to_pylist()[-1] == {
        "window_start_ms": 24 * HOUR,
        "clipped": 5 * 4 + 7,
        "rhythmic": 0,
        "firsts": 1,
    }


def test_who_was_not_known_when_peers_were_looked_at_tells_nothing_of_how_busy_all_are() -> None:
    rows = [(hour, "a", "x", 4) for hour in range(7, 31)]  # has twelve windows from 19:00 on
    closed = Baselines.empty(HOUR).close(counted(rows), 31 * HOUR)
    clipped = dict(zip(*(closed.facts[name].to_pylist() for name in _CLIPPED), strict=True))
    assert [hour for hour in range(7, 31) if clipped[hour * HOUR]] == [*range(24, 31)]


_CLIPPED = ("window_start_ms", "clipped")


def test_a_floor_keeps_small_counts_back_and_learns_from_them() -> None:
    rows = [(0, "a", "x", 3), (1, "a", "x", 5), (2, "a", "x", 9)]
    closed = Baselines.empty(HOUR).close(counted(rows), 3 * HOUR, floor=5)
    assert [known[1] for known in told(closed.material).values()] == [3, 8]


def test_material_keeps_the_order_and_the_dictionaries_it_was_given() -> None:
    given_rows = counted([(3, "b", "x", 2), (1, "a", "y", 1), (2, "a", "y", 9)])
    material = Baselines.empty(HOUR).close(given_rows.to_batches()[0], 4 * HOUR).material
    assert material["user"].type == TEXT
    names = ["window_start_ms", "user", "action", "count"]
    assert material.select(names).to_pylist() == given_rows.select(names).to_pylist()


def test_plain_text_and_several_chunks_are_taken_too() -> None:
    rows = counted([(0, "a", "x", 2), (1, "ü", "", 1)])
    plain = rows.set_column(1, "user", rows["user"].cast(pa.string()))
    chunked = pa.concat_tables([plain.slice(1), plain.slice(0, 0), plain.slice(0, 1)])
    baselines = Baselines.empty(HOUR)
    baselines.close(chunked, 2 * HOUR)
    assert set(kept(baselines)) == {("a", "x"), ("ü", "")}


def test_no_counts_teach_nothing() -> None:
    baselines = Baselines.empty(HOUR)
    baselines.close(counted([(0, "a", "x", 2)]), 2 * HOUR)
    before = kept(baselines)
    closed = baselines.close(counted([]), 3 * HOUR)
    assert (len(closed.material), len(closed.moments), len(closed.facts)) == (0, 0, 0)
    assert (kept(baselines), baselines.closed_ms) == (before, 3 * HOUR)


def many() -> Baselines:
    random = np.random.default_rng(3)
    user, hour = np.nonzero(random.random((2_000, 30)) < 0.3)
    rows = [
        (at, f"user {who}", "xy"[who % 2], 1 + who % 7)
        for who, at in zip(user.tolist(), hour.tolist(), strict=True)
    ]
    baselines = Baselines.empty(2 * HOUR, HOUR)
    baselines.close(counted(rows), 30 * HOUR)
    return baselines


def test_a_cell_takes_no_more_than_eighty_bytes() -> None:
    baselines = many()
    table = baselines.cells.to_table()
    columns = sum(
        table[name].nbytes for name in table.column_names if name not in {"user", "action"}
    )
    places = 2 * 4 * len(baselines.cells)  # of the user and of the action
    in_memory = sum(
        value.nbytes
        for value in (getattr(baselines.cells, name) for name in baselines.cells.__slots__)
        if isinstance(value, np.ndarray)
    )
    assert columns + places <= 80 * len(baselines.cells)
    assert in_memory <= 80 * len(baselines.cells)  # the key has both places


def test_a_block_comes_back_as_it_was() -> None:
    baselines = many()
    block = baselines.encode()
    again = Baselines.decode(block)
    assert (again.size_ms, again.every_ms, again.closed_ms) == (2 * HOUR, HOUR, 30 * HOUR)
    assert kept(again) == kept(baselines)
    assert np.array_equal(again.firsts, baselines.firsts)
    assert again.encode() == block


def test_a_block_of_a_newer_version_is_refused_by_name() -> None:
    with pytest.raises(FormatError, match=r"block of baselines of version 9.*up to version 2"):
        Baselines.decode(b"\x09" + Baselines.empty(HOUR).encode()[1:])


def test_a_block_of_a_release_that_learnt_otherwise_is_known_as_such_and_not_read() -> None:
    block = Baselines.empty(HOUR).encode()
    earlier = b"\x01" + block[1:]
    assert Baselines.at({"history/1": earlier}, "history/1") is None
    assert Baselines.at({"history/1": block}, "history/1") is not None
    for unknown in (b"", b"\x09"):
        with pytest.raises(FormatError):
            Baselines.at({"history/1": unknown}, "history/1")
    with pytest.raises(FormatError, match="of version 1"):
        Baselines.decode(earlier)


@pytest.mark.parametrize("cut", [0, 1, 40, -20])
def test_a_damaged_block_is_refused(cut: int) -> None:
    for baselines in (Baselines.empty(HOUR), many()):
        with pytest.raises(FormatError):
            Baselines.decode(baselines.encode()[:cut])
