from __future__ import annotations

from collections import defaultdict
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.errors import FormatError
from kstoolkit.findings.baselines import _PROTECT_FROM_COUNT, Baselines, Cells
from kstoolkit.findings.peers import FEWEST_WINDOWS
from kstoolkit.findings.tails import Prior

if TYPE_CHECKING:
    from kstoolkit.findings.baselines import Observation

    Row = tuple[int, str, str, int, int]
    Cell = tuple[str, str]
    Key = tuple[int, str, str]
    Sums = tuple[int, int, float]

HOUR = 3_600_000
TEXT = pa.dictionary(pa.int32(), pa.string())


def changes(rows: list[Row]) -> pa.Table:
    """Rows of (window number, user, action, old, count)."""
    hours, users, actions, old, count = zip(*rows, strict=True) if rows else ((),) * 5
    return pa.table(
        {
            "window_start_ms": pa.array([hour * HOUR for hour in hours], pa.int64()),
            "user": pa.array(users, pa.string()).cast(TEXT),
            "action": pa.array(actions, pa.string()).cast(TEXT),
            "old": pa.array(old, pa.int64()),
            "count": pa.array(count, pa.int64()),
        }
    )


def told(observation: Observation) -> dict[Key, Sums]:
    names = ("window_start_ms", "user", "action", "n", "sum", "sum_of_squares")
    columns = (observation.material[name].to_pylist() for name in names)
    return {
        (start // HOUR, user, action): (n, total, squares)
        for start, user, action, n, total, squares in zip(*columns, strict=True)
    }


def kept(baselines: Baselines) -> dict[Cell, dict[str, Any]]:
    rows = baselines.cells.to_table().to_pylist()
    return {(row.pop("user"), row.pop("action")): row for row in rows}


class Oracle:
    """The definition, one cell and window at a time: every count is remembered."""

    def __init__(self) -> None:
        self.counts: defaultdict[Cell, dict[int, int]] = defaultdict(dict)

    def observe(self, rows: list[Row]) -> dict[Key, Sums]:
        for hour, user, action, _, _ in rows:
            self.counts[user, action].pop(hour, None)
        expected = {}
        for hour, user, action, _, count in sorted(rows):
            windows = self.counts[user, action]
            n = max([hour, *windows]) - min([hour, *windows])
            values = windows.values() if n else []
            squares = float(sum(v * v for v in values))
            expected[hour, user, action] = (n, sum(values), squares)
            windows[hour] = count
        return expected

    def final(self) -> dict[Cell, dict[str, Any]]:
        return {
            cell: {
                "first_ms": min(windows) * HOUR,
                "last_ms": max(windows) * HOUR,
                "last_count": windows[max(windows)],
                "total": sum(windows.values()),
                "squares": float(sum(count**2 for count in windows.values())),
                "skipped": 0,
                "from_ms": -(1 << 62),
                "learnt": len(windows),
            }
            for cell, windows in self.counts.items()
        }


@st.composite
def growing_counts(draw: st.DrawFn, *, in_order: bool) -> list[list[Row]]:
    """Calls of rows; the counts of a window grow from call to call."""
    cell = st.tuples(st.integers(0, 30), st.sampled_from("abcd"), st.sampled_from("xyz"))
    events = draw(st.lists(cell, min_size=1, max_size=60))
    if in_order:
        events.sort()
    cuts = sorted(draw(st.lists(st.integers(0, len(events)), max_size=5)))
    calls: list[list[Row]] = []
    known: defaultdict[Key, int] = defaultdict(int)
    for begin, end in zip([0, *cuts], [*cuts, len(events)], strict=True):
        rows = []
        for key, same in groupby(sorted(events[begin:end])):
            old = known[key]
            known[key] += len(list(same))
            rows.append((*key, old, known[key]))
        calls.append(draw(st.permutations(rows)))
    return calls


@given(growing_counts(in_order=True))
def test_every_baseline_is_the_sum_over_earlier_windows(calls: list[list[Row]]) -> None:
    baselines, oracle = Baselines.empty(HOUR), Oracle()
    for rows in calls:
        assert told(baselines.observe(changes(rows))) == oracle.observe(rows)
    assert kept(baselines) == oracle.final()


@given(growing_counts(in_order=False))
def test_of_sessions_only_those_that_there_are_count(calls: list[list[Row]]) -> None:
    baselines = Baselines.empty(-HOUR, HOUR)
    known: defaultdict[Cell, dict[int, int]] = defaultdict(dict)
    for rows in calls:
        for hour, user, action, _, _ in rows:
            known[user, action].pop(hour, None)
        right = {}
        for hour, user, action, _, count in sorted(rows):
            others = known[user, action].values()
            sums = (len(others), sum(others), float(sum(v * v for v in others)))
            right[hour, user, action] = sums
            known[user, action][hour] = count
        assert told(baselines.observe(changes(rows))) == right
        baselines = Baselines.decode(baselines.encode())


def test_what_a_swallowed_session_taught_is_taken_back() -> None:
    baselines = Baselines.empty(-HOUR, HOUR)
    baselines.observe(changes([(0, "a", "x", 0, 3), (1, "a", "x", 0, 2), (5, "a", "x", 0, 4)]))
    seen = baselines.observe(changes([(0, "a", "x", 3, 6), (1, "a", "x", 2, 0)]))
    assert told(seen)[0, "a", "x"] == (1, 4, 16.0)
    seen = baselines.observe(changes([(9, "a", "x", 0, 1)]))
    assert told(seen)[9, "a", "x"] == (2, 10, 52.0)


@given(growing_counts(in_order=False))
def test_however_the_changes_are_split_and_ordered_what_is_learnt_is_the_same(
    calls: list[list[Row]],
) -> None:
    baselines, oracle = Baselines.empty(HOUR), Oracle()
    for rows in calls:
        baselines = Baselines.decode(baselines.encode())
        baselines.observe(changes(rows))
        oracle.observe(rows)
    facts = ("first_ms", "last_ms", "last_count", "total", "squares", "skipped")

    def pick(cells: dict[Cell, dict[str, Any]]) -> dict[Cell, list[Any]]:
        return {cell: [row[f] for f in facts] for cell, row in cells.items()}

    assert pick(kept(baselines)) == pick(oracle.final())


def test_hours_before_the_first_event_do_not_count_and_zeros_after_it_do() -> None:
    baselines = Baselines.empty(HOUR)
    seen = told(baselines.observe(changes([(5, "a", "x", 0, 3), (9, "a", "x", 0, 1)])))
    assert seen == {(5, "a", "x"): (0, 0, 0.0), (9, "a", "x"): (4, 3, 9.0)}


def test_a_late_window_is_compared_with_all_the_others() -> None:
    baselines = Baselines.empty(HOUR)
    baselines.observe(changes([(2, "a", "x", 0, 3), (6, "a", "x", 0, 5)]))
    late = told(baselines.observe(changes([(4, "a", "x", 0, 1)])))
    assert late == {(4, "a", "x"): (4, 8, 34.0)}
    earlier = told(baselines.observe(changes([(0, "a", "x", 0, 1)])))
    assert earlier == {(0, "a", "x"): (6, 9, 35.0)}


def test_hops_count_in_steps() -> None:
    baselines = Baselines.empty(2 * HOUR, HOUR)
    seen = told(baselines.observe(changes([(0, "a", "x", 0, 1), (3, "a", "x", 0, 1)])))
    assert seen[3, "a", "x"] == (3, 1, 1.0)


def ordinary(hours: int, users: int = 80, seed: int = 3, start: int = 0) -> list[Row]:
    random = np.random.default_rng(seed)
    counts = random.poisson(random.gamma(4, 0.5, (users, 1)), (users, hours))
    return [
        (start + hour, f"user {user}", "x", 0, int(counts[user, hour]))
        for hour in range(hours)
        for user in range(users)
        if counts[user, hour]
    ]


def test_an_outbreak_does_not_raise_what_is_expected_later() -> None:
    baselines = Baselines.empty(HOUR)
    quiet = [(hour, "quiet", "x", 0, 2) for hour in range(30)]
    baselines.observe(changes(ordinary(30) + quiet))
    before = told(baselines.observe(changes([(30, "quiet", "x", 0, 1)])))[30, "quiet", "x"]
    outbreak = [(31 + hour, "quiet", "x", 0, 500) for hour in range(5)]
    baselines.observe(changes(outbreak + ordinary(5, start=31)))
    after = told(baselines.observe(changes([(36, "quiet", "x", 0, 1)])))[36, "quiet", "x"]
    assert (before[0], before[1]) == (30, 60)
    assert (after[0], after[1]) == (31, 61)
    assert len(baselines.protected) == 5


def test_an_outbreak_does_not_move_what_is_known_of_peers() -> None:
    calm, shaken = (Baselines.empty(HOUR) for _ in range(2))
    history = ordinary(30)
    outbreak = [(29, f"new {user}", "x", 0, 300) for user in range(10)]
    calm.observe(changes(history))
    shaken.observe(changes(history + outbreak))
    rates = []
    for baselines in (calm, shaken):
        moments = baselines.observe(changes([(33, "user 1", "x", 0, 1)])).moments
        prior = Prior.at(moments, np.array([33 * HOUR]), pa.chunked_array([["x"]]))
        rates.append(float(prior.alpha[0] / prior.beta[0]))
    assert rates[1] == pytest.approx(rates[0], rel=0.2)


def test_a_window_once_protected_stays_so_while_it_grows() -> None:
    baselines = Baselines.empty(HOUR)
    quiet = [(hour, "quiet", "x", 0, 2) for hour in range(30)]
    baselines.observe(changes(ordinary(30) + quiet))
    before = kept(baselines)["quiet", "x"]["total"]
    for old, count in ((0, 4), (4, 200), (200, 300), (300, 301)):
        baselines = Baselines.decode(baselines.encode())
        seen = told(baselines.observe(changes([(30, "quiet", "x", old, count)])))
        assert seen[30, "quiet", "x"][:2] == (30, 60)
    after = kept(baselines)["quiet", "x"]
    assert (after["total"], after["skipped"], len(baselines.protected)) == (before, 1, 1)


def test_a_level_that_lasts_becomes_normal() -> None:
    baselines = Baselines.empty(HOUR)
    baselines.observe(changes(ordinary(30)))
    rows = [(30 + hour, "steady", "x", 0, 100) for hour in range(60)]
    seen = told(baselines.observe(changes(rows + ordinary(60, start=30))))
    left_out = kept(baselines)["steady", "x"]["skipped"]
    assert FEWEST_WINDOWS <= left_out <= 2 * FEWEST_WINDOWS
    n, total, _ = seen[89, "steady", "x"]
    assert total == 100 * n


def test_small_counts_are_always_learnt_from() -> None:
    baselines = Baselines.empty(HOUR)
    rows = [(hour, f"u{user}", "x", 0, 1) for hour in (0, 40, 80) for user in range(100)]
    baselines.observe(changes(rows))
    baselines.observe(changes([(90, "u1", "x", 0, _PROTECT_FROM_COUNT - 1)]))
    assert len(baselines.protected) == 0


def test_an_open_window_is_scored_with_what_closed_windows_taught() -> None:
    baselines = Baselines.empty(HOUR)
    baselines.observe(changes(ordinary(20)))
    first = baselines.observe(changes([(20, "user 1", "x", 0, 1)])).moments
    growing = [(20, f"user {user}", "x", 0, 3) for user in range(2, 60)]
    baselines.observe(changes(growing))
    again = baselines.observe(changes([(20, "user 1", "x", 1, 2)])).moments
    assert again.to_pylist() == first.to_pylist()


def test_moments_are_told_of_the_first_the_last_and_thirty_windows_between() -> None:
    baselines = Baselines.empty(HOUR)
    rows = [(hour, f"u{user}", "x", 0, 1) for hour in range(200) for user in range(2)]
    moments = baselines.observe(changes(rows)).moments
    starts = sorted(set(moments["window_start_ms"].to_pylist()))
    assert len(starts) <= 32
    assert starts[-1] == 199 * HOUR
    assert max(np.diff(starts)) <= 8 * HOUR


def test_material_keeps_the_order_and_the_dictionaries_it_was_given() -> None:
    rows = [(3, "b", "x", 0, 2), (1, "a", "y", 0, 1), (2, "a", "y", 0, 9)]
    given_rows = changes(rows)
    material = Baselines.empty(HOUR).observe(given_rows.to_batches()[0]).material
    assert material["user"].type == TEXT
    names = ["window_start_ms", "user", "action", "count"]
    assert material.select(names).to_pylist() == given_rows.select(names).to_pylist()


def test_plain_text_and_several_chunks_are_taken_too() -> None:
    rows = changes([(0, "a", "x", 0, 2), (1, "ü", "", 0, 1)])
    plain = rows.set_column(1, "user", rows["user"].cast(pa.string()))
    chunked = pa.concat_tables([plain, changes([]).cast(plain.schema), plain.slice(0, 0)])
    baselines = Baselines.empty(HOUR)
    baselines.observe(chunked)
    assert set(kept(baselines)) == {("a", "x"), ("ü", "")}


def test_no_changes_change_nothing() -> None:
    baselines = Baselines.empty(HOUR)
    baselines.observe(changes([(0, "a", "x", 0, 2)]))
    before = baselines.encode()
    seen = baselines.observe(changes([]))
    assert (seen.material.num_rows, seen.moments.num_rows) == (0, 0)
    assert baselines.encode() == before


def test_what_was_not_seen_for_long_is_forgotten() -> None:
    baselines = Baselines.empty(HOUR)
    quiet = [(hour, "quiet", "x", 0, 2) for hour in range(30)]
    outbreak = [(30, "quiet", "x", 0, 500), (30, "user 1", "x", 0, 500)]
    baselines.observe(changes(ordinary(30) + quiet))
    baselines.observe(changes(outbreak))
    baselines.observe(changes([(40, "quiet", "x", 0, 1), (40, "zoe", "y", 0, 1)]))
    kept_before = kept(baselines)["quiet", "x"]
    baselines.evict(31 * HOUR)
    assert set(kept(baselines)) == {("quiet", "x"), ("zoe", "y")}
    assert kept(baselines)["quiet", "x"] == kept_before | {"from_ms": 31 * HOUR}
    assert len(baselines.protected) == 0
    assert baselines.cells.users.to_pylist() == ["quiet", "zoe"]


def test_what_is_protected_still_is_after_others_were_forgotten() -> None:
    baselines = Baselines.empty(HOUR)
    quiet = [(hour, "quiet", "x", 0, 2) for hour in range(5, 30)]
    baselines.observe(changes([(0, "gone", "w", 0, 1), *ordinary(30), *quiet]))
    baselines.observe(changes([(30, "quiet", "x", 0, 500)]))
    baselines.evict(20 * HOUR)
    assert ("gone", "w") not in kept(baselines)
    baselines.observe(changes([(30, "quiet", "x", 500, 501)]))
    assert kept(baselines)["quiet", "x"]["total"] == 50


@st.composite
def unruly_calls(draw: st.DrawFn) -> list[tuple[int, list[Row]]]:
    """Calls of rows, whatever was forgotten before them; some counts are out of all proportion."""
    known: defaultdict[Key, int] = defaultdict(int)
    calls = []
    for _ in range(draw(st.integers(1, 8))):
        keys = st.tuples(st.integers(0, 40), st.sampled_from("ab"), st.just("x"))
        rows = []
        for key in draw(st.sets(keys, max_size=6)):
            old = known[key]
            known[key] += draw(st.sampled_from([1, 2, 900]))
            rows.append((*key, old, known[key]))
        calls.append((draw(st.integers(0, 40)), rows))
    return calls


@given(unruly_calls(), st.integers(0, 20))
def test_what_was_forgotten_is_never_taken_back(
    calls: list[tuple[int, list[Row]]], hours: int
) -> None:
    baselines = Baselines.empty(HOUR)
    baselines.observe(changes(ordinary(hours, users=4)))
    counts: dict[Cell, dict[int, int]] = {}
    for row in ordinary(hours, users=4):
        counts.setdefault((row[1], row[2]), {})[row[0]] = row[4]
    for forgotten, rows in calls:
        baselines.evict(forgotten * HOUR)
        baselines = Baselines.decode(baselines.encode())
        seen = told(baselines.observe(changes(rows)))
        assert all(min(sums) >= 0 for sums in seen.values())
        for hour, user, action, _, count in rows:
            counts.setdefault((user, action), {})[hour] = count
        for cell, found in kept(baselines).items():
            windows = [n for hour, n in counts[cell].items() if hour * HOUR >= found["from_ms"]]
            if found["skipped"] == 0 and found["from_ms"] < found["first_ms"]:
                assert found["total"] == sum(windows)
            assert 0 <= found["total"] <= sum(counts[cell].values())
            assert 0 <= found["squares"] <= sum(n * n for n in counts[cell].values())


def test_a_window_whose_protection_was_forgotten_is_left_as_it_is() -> None:
    baselines = Baselines.empty(HOUR)
    quiet = [(hour, "quiet", "x", 0, 2) for hour in range(30)]
    baselines.observe(changes(ordinary(30) + quiet))
    baselines.observe(changes([(30, "quiet", "x", 0, 500), (40, "quiet", "x", 0, 1)]))
    baselines.evict(35 * HOUR)
    before = kept(baselines)["quiet", "x"]
    baselines.observe(changes([(30, "quiet", "x", 500, 501)]))
    after = kept(baselines)["quiet", "x"]
    assert (
        (after["total"], after["last_ms"])
        == (before["total"], before["last_ms"])
        == (61, 40 * HOUR)
    )


def test_a_block_of_before_anything_was_told_of_forgetting_goes_on() -> None:
    baselines = Baselines.empty(HOUR)
    baselines.observe(changes([(2, "a", "x", 0, 3), (6, "a", "x", 0, 5)]))
    table = baselines.cells.to_table().drop_columns(["from_ms", "learnt"])
    baselines.cells = Cells.from_table(table)
    assert told(baselines.observe(changes([(6, "a", "x", 5, 6)]))) == {(6, "a", "x"): (4, 3, 9.0)}


def test_a_block_comes_back_as_it_was() -> None:
    baselines = Baselines.empty(2 * HOUR, HOUR)
    baselines.observe(changes(ordinary(20)))
    block = baselines.encode()
    again = Baselines.decode(block)
    assert (again.size_ms, again.every_ms) == (2 * HOUR, HOUR)
    assert kept(again) == kept(baselines)
    assert again.encode() == block


def test_a_block_of_a_newer_version_is_refused_by_name() -> None:
    with pytest.raises(FormatError, match=r"block of baselines of version 9.*up to version 1"):
        Baselines.decode(b"\x09" + Baselines.empty(HOUR).encode()[1:])


@pytest.mark.parametrize("cut", [0, 1, 40, -20])
def test_a_damaged_block_is_refused(cut: int) -> None:
    with pytest.raises(FormatError):
        Baselines.decode(Baselines.empty(HOUR).encode()[:cut])
