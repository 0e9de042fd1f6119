"""What other rules would have told: the same as a run with them tells of the same events."""

from __future__ import annotations

import random
import shutil
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kstoolkit as kst
from kstoolkit.errors import ConfigurationError, InputError, OutputError, UserError
from kstoolkit.pipeline.runfolder import RunFolder
from kstoolkit.pipeline.tidying import compact_run
from tests.cli.commands import given, rows
from tests.pipeline.harness import until

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kstoolkit.findings.incidents import Incident, Incidents
    from kstoolkit.findings.rules import Rule
    from kstoolkit.pipeline.run import Run
    from kstoolkit.pipeline.whatif import WhatIf

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

BEGIN, HOUR, DAY = datetime(2026, 3, 2, tzinfo=UTC), 3_600_000, 86_400_000
BEGIN_MS = int(BEGIN.timestamp() * 1_000)
EACH, WHOLE = kst.Session("30 minutes"), kst.Session("50 minutes", by=[])
CASCADE = kst.Cascade("10 minutes", "1 hour", "6 hours", EACH, WHOLE)
RAN = (
    kst.Unusual("1 hour", 20),
    kst.Ceiling("10 minutes", 12),
    kst.Ceiling("1 hour", 40, by=[]),
    kst.Distinct("page", "1 hour", 20),
)


def write(folder: Path) -> Path:
    """Write five days in which there is some of everything; actions have two parts."""
    made = kst.simulate(
        event_count=40_000,
        users=250,
        duration="5 days",
        start=BEGIN,
        abnormal={"low-and-slow": 3, "doubled": 10, "campaign": 80, "25-fold-hour": 6},
        world="gamma",
        seed=5,
    ).events()
    draw = np.random.default_rng(1)
    regions = pa.array(["us", "eu"]).take(pa.array(draw.integers(0, 2, len(made))))
    pages = pa.array([f"page {n}" for n in draw.integers(0, 40, len(made))])
    folder.mkdir(parents=True)
    table = made.append_column("region", regions).append_column("page", pages)
    pq.write_table(table, folder / "events.parquet")
    return folder


def run(events: Path, out: Path, rules: Sequence[Rule], cascade: kst.Cascade = CASCADE) -> Run:
    """Count the events, a file a batch, and find by these rules."""
    source = kst.files(str(events), event_time="time", user="user", action=["action", "region"])
    pipeline = kst.Pipeline(source=source, cascade=cascade, rules=rules, buckets=4)
    return pipeline.run(out, progress=False, max_files_per_batch=1)


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("what-if") / "in")


@pytest.fixture(scope="module")
def ran(events: Path) -> Run:
    return run(events, events.parent / "ran", RAN)


def drawn(seed: int) -> list[Rule]:
    """Return some rules of all kinds that can be judged afterwards, by a seed."""
    draw = random.Random(seed)
    by: list[Any] = [None, [], ["region"], ["action"]]
    own = draw.random() < 0.5
    budgets = iter([round(draw.uniform(1, 60), 2) if own else None for _ in range(20)])
    windows = ["10 minutes", "1 hour", "6 hours"]
    rules: list[Rule] = [] if own else [kst.Budget(round(draw.uniform(20, 90), 1))]
    usual: list[Any] = [(window, parts) for window in windows[1:] for parts in by]
    for window, parts in draw.sample([*usual, (EACH, None), (WHOLE, [])], 2):
        group, least = draw.choice([None, "^[a-m]"]), draw.randint(2, 6)
        rules.append(kst.Unusual(window, next(budgets), least, by=parts, group=group))
    rules.append(kst.Drift("1 hour", draw.choice([1.5, 2, 3]), next(budgets), by=draw.choice(by)))
    rules.append(kst.TooEven("1 hour", next(budgets), by=draw.choice(by)))
    rules.append(kst.Campaign("1 hour", next(budgets), by=draw.choice(by)))
    rules.append(kst.Ceiling(draw.choice(windows), draw.randint(5, 40), by=draw.choice(by)))
    rules.append(kst.Ceiling("1 hour", draw.randint(5, 20), ["us"], by="region"))
    rules.append(kst.Ceiling(EACH, draw.randint(8, 20)))
    rules.append(kst.Longer(WHOLE, f"{draw.randint(60, 300)} minutes"))
    rules.append(kst.Exempt(pattern=draw.choice(["[a-c].*", ".*a", "nobody"])))
    return rules


def facts(told: Incidents) -> dict[str, dict[str, Any]]:
    """Return incidents by their ids, without when a run's clock said that they were told."""
    clocks = ("opened_ms", "told_ms", "sentence")
    return {
        each.id: {k: v for k, v in each.to_dict().items() if k not in clocks} | evidence(each)
        for each in told
        if each.state != "merged"
    }


def evidence(incident: Incident) -> dict[str, Any]:
    """Return the findings of an incident by what they are known by."""
    keys = (
        "rule",
        "user",
        "action",
        "by",
        "window",
        "window_start_ms",
        "window_end_ms",
        "since_ms",
    )
    told = ("count", "ceiling", "expected_low", "expected_high", "log10_probability")
    return {
        str([getattr(each, key) for key in keys]): [
            pytest.approx(value, abs=1e-9) if isinstance(value, float) else value
            for value in (getattr(each, name) for name in told)
        ]
        for each in incident.findings
    }


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(n, marks=pytest.mark.long) for n in range(2, 24))]
)
def test_other_rules_would_have_told_what_a_run_with_them_tells(
    seed: int, ran: Run, events: Path, tmp_path: Path
) -> None:
    rules = drawn(seed)
    told = kst.what_if(ran, rules)
    right = run(events, tmp_path / "out", rules)
    assert len(right.incidents()) > 20
    assert len({each.kind for each in right.findings}) > 4
    assert facts(told.after) == facts(right.incidents())
    assert told.figures["findings"][1] == right._reported().num_rows
    allowed = kst.what_if(right, rules).figures["budget"][0]
    assert told.figures["budget"][1] == pytest.approx(allowed)


def test_the_rules_that_ran_gain_and_lose_nothing_but_what_was_of_items(ran: Run) -> None:
    told = kst.what_if(ran, RAN[:3])
    of_items = [e for e in told.before if {f.kind for f in e.findings} == {"Distinct"}]
    assert [each.id for each in told.lost] == [each.id for each in of_items]
    assert len(told.gained) == 0
    assert len(told.kept) == len(told.after) > 20


OTHERS = (kst.Unusual("1 hour", 1), kst.Ceiling("1 hour", 7, by="region"))
CHANGED = (
    "[[rule]]\nkind = 'Unusual'\nwindow = '1 hour'\nfalse_alarms_per_day = 1\n"
    "[[rule]]\nkind = 'Ceiling'\nwindow = '1 hour'\ncount = 7\nby = 'region'\n"
)
"""The same in a file."""


@pytest.fixture(scope="module")
def told(ran: Run) -> WhatIf:
    return kst.what_if(ran, OTHERS)


def test_what_is_gained_lost_and_kept_is_all_of_it(told: WhatIf) -> None:
    assert min(map(len, (told.gained, told.lost, told.kept))) > 5
    assert sorted(e.id for some in (told.gained, told.kept) for e in some) == sorted(
        each.id for each in told.after
    )
    before = {each.id for each in told.before}
    assert {each.id for each in told.lost} < before
    was, now = ({str(each.user) for each in some} for some in (told.before, told.after))
    assert told.users == {"gained": sorted(now - was), "lost": sorted(was - now)}
    assert min(map(len, told.users.values())) > 0


def test_figures_are_of_both_and_by_day(told: WhatIf, ran: Run) -> None:
    assert told.days == pytest.approx(5, abs=0.1)
    found = sum(len(each.findings) for each in told.after)
    assert list(told.figures["findings"]) == [ran._reported().num_rows, found]
    was, now = (
        [f.kind for each in some for f in each.findings] for some in (told.before, told.after)
    )
    learnt = [len(was) - was.count("Ceiling"), now.count("Unusual")]
    assert list(told.figures["learnt"]) == learnt
    assert told.figures["learnt_a_day"] == pytest.approx([n / told.days for n in learnt])
    assert list(told.figures["budget"]) == [40, 1]
    assert list(told.figures["incidents"]) == [len(told.before), len(told.after)]


def test_since_leaves_out_what_ended_before_and_learns_from_all(told: WhatIf, ran: Run) -> None:
    since_ms = BEGIN_MS + 3 * DAY
    later = kst.what_if(ran, OTHERS, since=since_ms)
    for name in ("before", "after", "gained", "lost", "kept"):
        right = [each.id for each in getattr(told, name) if each.until_ms > since_ms]
        assert [each.id for each in getattr(later, name)] == right, name
    windows = [f.window_end_ms for each in later.after for f in each.findings]
    assert later.figures["findings"][1] == sum(end > since_ms for end in windows)
    assert later.days == pytest.approx(told.days - 3)


def test_a_frame_has_a_row_an_incident(told: WhatIf, ran: Run) -> None:
    frame = told.to_pandas()
    assert list(frame) == ["change", *ran.incidents().to_pandas()]
    assert frame["change"].value_counts().to_dict() == {
        name: len(getattr(told, name)) for name in ("gained", "lost", "kept")
    }
    assert frame.dtypes.iloc[1:].equals(ran.incidents().to_pandas().dtypes)


def test_it_says_so_in_plain_lines_and_in_html(told: WhatIf) -> None:
    first, second, third = str(told).splitlines()
    assert first.startswith(f"{len(told.after)} incidents instead of {len(told.before)}: ")
    assert f"{len(told.gained)} gained, {len(told.lost)} lost, {len(told.kept)} kept; " in first
    now, was = (f"{len(some) / told.days:.2f}" for some in (told.after, told.before))
    assert second == f"Incidents a day: {now} instead of {was}, over {told.days:.2f} days."
    assert third.endswith("their budget is 1 instead of 40.")
    assert repr(told) == f"WhatIf({told.seen})"
    assert told.gained[0].id in told._repr_html_()


def test_less_than_a_day_is_told_in_hours(told: WhatIf) -> None:
    short = replace(told, until_ms=told.since_ms + DAY // 4)
    assert str(short).splitlines()[1].endswith(", over 6 hours.")


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        (kst.Distinct("page", "1 hour"), "looks at items, and counts have none"),
        (kst.Ceiling("1 minute", 5), "looks at 1 minute, which is not counted"),
        (kst.Longer(kst.Session("40 minutes"), "1 hour"), "40 minutes, which is not counted"),
        (kst.Unusual("1 hour", by="country"), "country"),
        ([kst.Budget(5), kst.Unusual("1 hour", 5)], "Beside Budget of 5"),
    ],
)
def test_what_was_not_counted_is_refused_in_one_sentence(ran: Run, rules: Any, why: str) -> None:
    with pytest.raises(UserError, match=why) as refused:
        kst.what_if(ran, rules)
    assert one_sentence(refused.value.message)


def one_sentence(text: str) -> bool:
    return text.endswith(".") and ". " not in text and "\n" not in text


def test_a_moment_after_all_counts_is_refused(ran: Run) -> None:
    with pytest.raises(ConfigurationError, match="Nothing was counted after 2027-01-01 00:00 UTC"):
        kst.what_if(ran, RAN[0], since="2027-01-01")


def test_where_there_is_no_run_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No run in"):
        kst.what_if(tmp_path, RAN[0])


def test_no_rules_lose_all(ran: Run) -> None:
    told = kst.what_if(ran.folder.path, kst.Exempt(["nobody"]))
    assert (len(told.after), len(told.lost)) == (0, len(told.before))
    assert list(told.figures["budget"]) == [40, 0]


@pytest.fixture(scope="module")
def cut(events: Path) -> Run:
    """A run whose changelog has no hours' counts below 10."""
    cascade = kst.Cascade("10 minutes", "1 hour", min_count={"1 hour": 10})
    return run(events, events.parent / "cut", [kst.Ceiling("1 hour", 20)], cascade)


@pytest.mark.parametrize("place", ["run", "folder", "changelog"])
@pytest.mark.parametrize(
    "rule",
    [
        kst.Ceiling("1 hour", 8),
        kst.Ceiling("1 hour", 20, by=[]),
        kst.Unusual("1 hour", min_count=10),
    ],
)
def test_where_min_count_left_out_what_a_rule_needs_it_is_refused(
    cut: Run, place: str, rule: Rule
) -> None:
    path = cut.folder.path / ("changelog" if place == "changelog" else "")
    look = kst.what_if if place == "run" else kst.find
    with pytest.raises(ConfigurationError, match="min_count left out those below 10") as refused:
        look(cut if place == "run" else path, rule)
    assert one_sentence(refused.value.message)


def test_a_limit_above_min_count_tells_what_a_run_with_it_does(cut: Run, ran: Run) -> None:
    found = kst.what_if(cut, kst.Ceiling("1 hour", 9))
    assert facts(found.after) == facts(kst.what_if(ran, kst.Ceiling("1 hour", 9)).after)
    assert len(kst.find(cut.folder.path, kst.Ceiling("1 hour", 9))) == found.figures["findings"][1]
    all_there = kst.what_if(cut, kst.Ceiling("10 minutes", 5))
    assert all_there.figures["findings"][1] > 5
    was, now = found.figures["findings"]
    assert now > was > 5


def test_what_an_earlier_run_left_out_is_missing_still(cut: Run, tmp_path: Path) -> None:
    shutil.copytree(cut.folder.path, tmp_path / "out")
    folder = RunFolder(tmp_path / "out")
    settings = folder.settings()
    assert settings is not None
    folder.save(replace(settings, min_count=(1, 1)))  # as a later run without min_count leaves it
    with pytest.raises(ConfigurationError, match="min_count left out some in an earlier run"):
        kst.what_if(folder.path, kst.Ceiling("1 hour", 20))
    assert len(kst.what_if(folder.path, kst.Ceiling("10 minutes", 5)).after) > 0


@pytest.fixture(scope="module")
def several(events: Path) -> Run:
    """The same events in three batches, one day after the other."""
    table, folder = (
        pq.read_table(events / "events.parquet").sort_by("time"),
        events.parent / "parts",
    )
    folder.mkdir()
    for number, some in enumerate(np.array_split(np.arange(len(table)), 3)):
        pq.write_table(table.take(pa.array(some)), folder / f"{number}.parquet")
    return run(folder, events.parent / "several", RAN[:3])


def test_what_has_expired_is_not_compared(several: Run, tmp_path: Path) -> None:
    shutil.copytree(several.folder.path, tmp_path / "out")
    before = {each.id: each.until_ms for each in kst.load_run(tmp_path / "out").incidents()}
    given("compact", tmp_path / "out", "--expire", "10 minutes=1 day")
    left = kst.load_run(tmp_path / "out")
    kept = left.changelog.span_ms(600_000)
    assert kept is not None
    assert kept[0] > BEGIN_MS + DAY
    told = kst.what_if(left, kst.Ceiling("1 hour", 12))
    assert told.since_ms == kept[0]
    ends = [each.until_ms for some in (told.before, told.after) for each in some]
    assert min(before.values()) < kept[0] <= min(ends)
    assert {each.id for each in told.before} <= before.keys()


def test_of_several_batches_the_same_rules_keep_all(several: Run) -> None:
    assert len(several.batches()) == 3
    told = kst.what_if(several, RAN[:3])
    assert (len(told.gained), len(told.lost)) == (0, 0)
    assert told.figures["findings"][0] == told.figures["findings"][1]
    spans = [sorted((e.user, e.since_ms, e.until_ms) for e in x) for x in (told.before, told.after)]
    assert spans[0] == spans[1]


def test_the_command_line_says_it(told: WhatIf, ran: Run, tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(CHANGED)
    assert kst.what_if(ran, path).to_dict() == told.to_dict()
    command = ("what-if", ran.folder.path, "--rules", path)
    shown = given(*command, "--limit", 2).out.splitlines()
    assert shown[:3] == str(told).splitlines()
    for name, some in (("gained", told.gained), ("lost", told.lost)):
        first = [f"{name}: {each.sentence}" for each in some.top(2)]
        more = f"2 of {len(some)} {name} are shown; --json prints all; --limit N more."
        assert ("\n".join([*first, more])) in "\n".join(shown[3:])
    assert len(shown) == 9
    (row,) = rows(given(*command, "--json").out)
    assert row == told.to_dict()
    assert [each["id"] for each in row["lost"]] == [each.id for each in told.lost]
    (later,) = rows(given(*command, "--json", "--since", "2026-03-05").out)
    assert later["since_ms"] == BEGIN_MS + 3 * DAY
    wrong = given("what-if", tmp_path / "none", "--rules", path)
    assert (wrong.code, wrong.out) == (2, "")


def told_of(incidents: Incidents) -> list[Any]:
    """Return whom incidents are of, and of which findings: ids tell who told first."""
    told = [each for each in incidents if each.state != "merged"]
    return sorted((str(e.user), e.since_ms, sorted(evidence(e)), e.excess) for e in told)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_beside_a_live_run_it_neither_disturbs_it_nor_stumbles_over_what_is_folded(
    events: Path, tmp_path: Path
) -> None:
    table = pq.read_table(events / "events.parquet").sort_by("time")
    parts = [table.take(pa.array(some)) for some in np.array_split(np.arange(len(table)), 8)]
    folder, out, rules = tmp_path / "in", tmp_path / "out", tmp_path / "rules.toml"
    rules.write_text(CHANGED)
    folder.mkdir()

    def feed(number: int) -> None:
        pq.write_table(parts[number], tmp_path / "part")
        (tmp_path / "part").rename(folder / f"{number:02d}.parquet")

    feed(0)
    source = kst.files(str(folder), event_time="time", user="user", action=["action", "region"])
    pipeline = kst.Pipeline(source=source, cascade=CASCADE, rules=RAN[:3], buckets=4)
    live = pipeline.start(out, trigger="1 second", max_files_per_batch=1)
    until(lambda: len(live.batches()) > 0, "the first batch")
    asked: set[int] = set()
    folded, over = [0], Event()

    def fold() -> None:
        while not over.wait(0.5):
            with suppress(OutputError):  # the run does so, too
                folded[0] += compact_run(out)["changelog"].batches_folded

    beside = Thread(target=fold, daemon=True)
    beside.start()
    for number in range(1, len(parts)):
        feed(number)
        while len(live.batches()) <= number:
            asked.add(len(kst.what_if(out, OTHERS).after))
    last = given("what-if", out, "--rules", rules, "--json")
    assert last.code == 0, last.err
    until(lambda: live.summary().events == len(table), "all of it", seconds=500)
    over.set()
    beside.join()
    assert live.is_active
    live.stop()
    assert live.failure() is None
    assert len(asked) >= 2
    assert folded[0] > 3
    right = run(events, tmp_path / "right", OTHERS)
    assert told_of(kst.what_if(out, OTHERS).after) == told_of(right.incidents())
    counts = [each.counts("1 hour", limit=None) for each in (kst.load_run(out), right)]
    assert counts[0].equals(counts[1])
    files = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()}
    assert len(kst.what_if(out, rules).after) == len(kst.what_if(out, OTHERS).after)
    assert files == {p: p.stat().st_mtime_ns for p in out.rglob("*") if p.is_file()}
