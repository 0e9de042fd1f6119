"""Actions of several parts: counted by the tuple, asked by any part, judged by DuckDB."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

import kstoolkit as kst
from kstoolkit.changelog.compaction import compact
from kstoolkit.counters.counters import Counters
from kstoolkit.errors import CheckpointError, ColumnError, ConfigurationError, LimitedResultWarning
from kstoolkit.formats.actions import joined
from kstoolkit.replica.windowstore import WindowStore
from kstoolkit.stores.rows.counts import changelog_counts
from tests.cli.commands import given, rows
from tests.pipeline.harness import events, kill_group, newest, spawned, until, write_files
from tests.pipeline.topics import EventTopic

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from kstoolkit.kafka.broker import Broker
    from kstoolkit.pipeline.results import BatchOutput
    from kstoolkit.pipeline.run import Run

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

PARTS = ("region", "op")
REGIONS = ("eu-west", "us", None, "a\x1fb", "x\x1by", "", "\x1b0", "名前")
OPERATIONS = ("get", "put", "delete", None, "\x1f")
HOUR = "1 hour"
RULES = (
    kst.Ceiling(HOUR, 4),
    kst.Ceiling(HOUR, 11, by="region"),
    kst.Ceiling(HOUR, 15, by="op"),
    kst.Ceiling("1 day", 40, by=[]),
    kst.Ceiling(HOUR, 9, actions=["delete"], by="op"),
)

Counts = dict[tuple[Any, ...], int]


def parted(number: int, seed: int = 1) -> list[dict[str, Any]]:
    """Return events whose actions have two parts, hostile ones and none among them."""
    draw, found = random.Random(seed), []
    for row in events(number, seed=seed, users=8, hours=8):
        parts = {"region": draw.choice(REGIONS), "op": draw.choice(OPERATIONS)}
        found.append({"time": row["time"], "user": row["user"], **parts})
    return found


def source(path: Path, action: Any = PARTS, **options: Any) -> Any:
    return kst.files(path, event_time="time", user="user", action=list(action), **options)


def expected(paths: Iterable[Path], by: Iterable[str] = PARTS, every_ms: int = 3_600_000) -> Counts:
    """Count by DuckDB, which knows nothing of ours."""
    key = ", ".join(['"user"', *by])
    query = f"""
        SELECT epoch_ms(time) // {every_ms} * {every_ms} AS start, {key}, count(*) AS n
        FROM read_json(?, format = 'newline_delimited', columns =
             {{'time': 'TIMESTAMP', 'user': 'VARCHAR', 'region': 'VARCHAR', 'op': 'VARCHAR'}})
        GROUP BY ALL"""  # noqa: S608 - of our own names
    with duckdb.connect() as database:
        told = database.execute(query, [[str(path) for path in paths]]).fetchall()
    return {tuple(row[:-1]): row[-1] for row in told}


def told(frame: pd.DataFrame, by: Iterable[str] = PARTS) -> Counts:
    """Return what a run says; each key must be there once."""
    names = ["user", *by]
    starts = [int(start.timestamp() * 1_000) for start in frame["window_start"]]
    texts = [[None if pd.isna(each) else each for each in frame[name]] for name in names]
    keys = list(zip(starts, *texts, strict=True))
    assert len(keys) == len(set(keys)), "a counter is listed twice"
    return dict(zip(keys, frame["count"].tolist(), strict=True))


def check(run: Run, paths: list[Path]) -> None:
    """Raise unless the counts of hours and days equal DuckDB's."""
    for window, every_ms in ((HOUR, 3_600_000), ("1 day", 86_400_000)):
        assert told(run.counts(window, limit=None)) == expected(paths, every_ms=every_ms)


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_files(tmp_path_factory.mktemp("parts") / "in", parted(3_000), 3)


@pytest.fixture(scope="module")
def run(paths: list[Path]) -> Run:
    """A run in several batches, whose counts grow from one to the next."""
    folder = paths[0].parent
    pipeline = kst.Pipeline(source=source(folder), rules=RULES, buckets=2)
    return pipeline.run(folder.parent / "out", max_files_per_batch=1, progress=False)


def test_tuples_are_counted_exactly_whatever_their_parts_are(run: Run, paths: list[Path]) -> None:
    check(run, paths)
    assert run.settings.parts == PARTS
    assert list(run.counts(HOUR)) == ["window_start", "window_end", "user", *PARTS, "count"]


@pytest.mark.parametrize("by", [[], ["region"], ["op"], ["op", "region"]])
def test_sums_by_any_parts_are_exact(run: Run, paths: list[Path], by: list[str]) -> None:
    assert told(run.counts(HOUR, by=by, limit=None), by) == expected(paths, by)


@pytest.mark.parametrize("value", REGIONS)
def test_any_value_of_a_part_can_be_asked_for(
    run: Run, paths: list[Path], value: str | None
) -> None:
    found = run.counts(HOUR, by="op", where={"region": value}, limit=None)
    wanted: Counts = Counter()
    for (start, user, region, operation), count in expected(paths).items():
        if region == value:
            wanted[start, user, operation] += count
    assert told(found, ["op"]) == wanted


def test_what_nobody_did_is_an_empty_table_with_its_columns(run: Run) -> None:
    found = run.counts(HOUR, where={"region": "nowhere"})
    assert list(found) == ["window_start", "window_end", "user", *PARTS, "count"]
    assert found.empty
    with pytest.raises(ColumnError, match="by = 'regio' is no part of the action"):
        run.counts(HOUR, by="regio")


@pytest.mark.parametrize(
    ("rule", "by", "window"),
    [(RULES[0], PARTS, 1), (RULES[1], ["region"], 1), (RULES[2], ["op"], 1), (RULES[3], [], 24)],
)
def test_rules_look_at_any_part_and_find_just_what_is_above_them(
    run: Run, paths: list[Path], rule: kst.Ceiling, by: list[str], window: int
) -> None:
    counts = expected(paths, by, every_ms=window * 3_600_000)
    found = [finding for finding in run.findings if finding.rule == rule.name]
    assert found
    assert {
        (each.window_start_ms, each.user, *each.parts.values()): each.count for each in found
    } == {key: count for key, count in counts.items() if count > rule.count}


def test_actions_of_a_rule_are_values_of_the_part_that_it_is_by(
    run: Run, paths: list[Path]
) -> None:
    found = {f.parts["op"] for f in run.findings if f.rule == RULES[4].name}
    over = {key[2] for key, count in expected(paths, ["op"]).items() if count > 9}
    assert over > found == {"delete"}


def test_the_same_is_found_in_the_changelog_alone(run: Run) -> None:
    found, again = run.findings, kst.find(run, RULES)
    assert sorted((f.rule, f.user, f.action, f.window_start_ms, f.count) for f in found) == sorted(
        (f.rule, f.user, f.action, f.window_start_ms, f.count) for f in again
    )
    assert [f.other_levels for f in again] == [f.other_levels for f in found]


def test_findings_tell_each_part_under_its_name(run: Run, tmp_path: Path) -> None:
    of_region = next(f for f in run.findings if f.by == ("region",) and f.parts["region"] == "us")
    assert of_region.sentence.startswith(
        f"{of_region.user} did region “us” {of_region.count} times"
    )
    in_all = next(f for f in run.findings if f.by == ())
    assert f"did {in_all.count} actions in all on " in in_all.sentence
    frame, row = run.findings.to_pandas(), run.findings[:1].to_json_rows()[0]
    assert set(PARTS) <= set(frame) & set(row)
    assert "action" not in {*frame, *row}
    page = run.report(tmp_path / "report.html").read_text()
    assert not {"\x1f", "\x1b"} & set(page)


def test_histories_and_stories_are_of_what_is_asked_for(run: Run, paths: list[Path]) -> None:
    finding = next(f for f in run.findings if f.by == ("op",))
    story = run.story(finding).levels[1]
    mine = {
        start: count
        for (start, user, operation), count in expected(paths, ["op"]).items()
        if (user, operation) == (finding.user, finding.parts["op"])
    }
    assert dict(zip(story.times_ms.tolist(), story.counts.tolist(), strict=True)) == mine
    assert story.ceiling == 15
    history = run.history(finding.user, where={"op": finding.parts["op"]})
    assert history.levels[1].counts.tolist() == story.counts.tolist()
    assert run.history(finding.user).levels[1].counts.sum() >= story.counts.sum()


def test_users_are_ranked_by_the_mix_of_what_is_asked_for(run: Run) -> None:
    assert {"main_region", "main_op"} <= set(run.users())
    by_op = run.users(by="op").set_index("user")
    assert list(by_op.filter(like="main_")) == ["main_op", "main_share"]
    counts = run.counts("1 day", by=["op"], limit=None).groupby("user")["count"].sum()
    assert by_op["events"].to_dict() == counts.to_dict()


def test_what_was_left_out_of_sums_is_said(paths: list[Path], tmp_path: Path) -> None:
    cascade = kst.Cascade(HOUR, min_count=3)
    pipeline = kst.Pipeline(source=source(paths[0].parent), cascade=cascade, rules=[], buckets=1)
    few = pipeline.run(tmp_path / "out", progress=False)
    with pytest.warns(LimitedResultWarning, match="Counts below 3 were left out"):
        sums = told(few.counts(HOUR, by=[], limit=None), [])
    wanted: Counts = Counter()
    for (start, user, *_), count in expected(paths).items():
        wanted[start, user] += count if count >= 3 else 0
    assert sums == {key: count for key, count in wanted.items() if count}


def test_spark_s_own_readers_and_writers_get_the_parts_as_columns(
    run: Run, spark: SparkSession, paths: list[Path], tmp_path: Path
) -> None:
    frame = run.to_spark(spark, HOUR).toPandas()
    frame["window_start"] = frame["window_start"].dt.tz_localize("UTC")
    assert told(frame) == expected(paths)
    seen: list[list[str]] = []

    def keep(batch: BatchOutput) -> None:
        seen.extend([batch.counts.columns, batch.findings.columns])
        found.extend(batch.findings.where("region = 'us' AND op IS NULL").collect())

    found: list[Any] = []
    pipeline = kst.Pipeline(
        source=source(paths[0].parent), rules=RULES, buckets=2, on_batch=keep
    ).run(tmp_path / "out", progress=False)
    assert seen[0] == ["window_ms", "window_start", "window_end", "user", *PARTS, "count"]
    assert "action" not in seen[1]
    assert {tuple(row["by"]) for row in found} <= {("region",), PARTS}
    told_here = {f.count for f in pipeline.findings if f.parts.get("region") == "us"}
    assert {row["count"] for row in found} <= told_here


def test_a_folded_changelog_tells_the_same(run: Run, paths: list[Path]) -> None:
    before = run.counts(HOUR, limit=None)
    compact(run.folder.path)
    assert run.counts(HOUR, limit=None).equals(before)
    check(run, paths)


def test_a_replica_is_asked_by_any_part(run: Run, paths: list[Path], tmp_path: Path) -> None:
    WindowStore.restore(run.folder.path, path=tmp_path / "replica", progress=False).close()
    counts: dict[tuple[int, str], dict[Any, int]] = {}
    for (start, user, *parts), count in expected(paths).items():
        counts.setdefault((start, user), {})[tuple(parts)] = count
    with WindowStore.open(tmp_path / "replica") as replica:
        for (start, user), each in counts.items():
            assert replica.get(user, window=HOUR, at=start).counts == each
            by_op: Counter[str | None] = Counter()
            for (_, operation), count in each.items():
                by_op[operation] += count
            assert replica.get(user, window=HOUR, at=start, by="op").counts == by_op
            assert replica.get(user, window=HOUR, at=start, by=[]).counts == {(): by_op.total()}
    named = ("--user", "Zoë", "--window", HOUR, "--at", "2025-03-01T00:30Z", "--by", "op", "--json")
    (answer,) = rows(given("get", tmp_path / "replica", *named).out)
    assert all(set(each) == {"op", "count"} for each in answer["counts"])


@pytest.mark.parametrize("where", [{"op": "delete"}, {"region": None}, {"op": "get", "region": ""}])
def test_rows_of_a_store_are_sums_of_what_is_asked_for(
    run: Run, paths: list[Path], tmp_path: Path, where: dict[str, str | None]
) -> None:
    wanted: Counter[tuple[str, int]] = Counter()
    for (start, user, *parts), count in expected(paths).items():
        if where.items() <= dict(zip(PARTS, parts, strict=True)).items():
            wanted[user, start] += count
    counts = changelog_counts(run.folder.path, window=HOUR, where=where)
    assert {(row.key, row.window_start_ms): row.value for row in counts.rows()} == wanted
    WindowStore.restore(run.folder.path, path=tmp_path / "replica", progress=False).close()
    level, out = tmp_path / "replica" / "3600000", run.folder.path
    with kst.diff_stores(out, level, window_size=HOUR, where=where) as same:
        assert (same.counts.equal, len(list(same))) == (len(wanted), 0)
    flags = [f"--where={name}{'' if text is None else f'={text}'}" for name, text in where.items()]
    told_too = given("diff", out, level, "--window-size", HOUR, *flags)
    assert (told_too.code, told_too.out) == (0, "")
    assert f"{len(wanted):,} equal" in told_too.err


PROGRAM = """
    import sys
    from pathlib import Path
    import kstoolkit as kst
    from kstoolkit.pipeline.session import spark_session
    from tests.pipeline.test_parts import RULES, source
    spark_session("local[2]")
    folder = Path(sys.argv[1])
    pipeline = kst.Pipeline(source=source(folder / "in"), rules=RULES, buckets=2)
    pipeline.run(folder / "out", max_files_per_batch=1, progress=False)
"""


@pytest.mark.kill
@pytest.mark.slow
def test_a_killed_run_goes_on_exactly_and_finds_the_same(run: Run, tmp_path: Path) -> None:
    paths = write_files(tmp_path / "in", parted(3_000), 3)
    with spawned(PROGRAM, tmp_path) as process:
        offsets = tmp_path / "out" / "checkpoint" / "offsets"
        until(lambda: newest(offsets) >= 1, "the second batch")
        kill_group(process)
    pipeline = kst.Pipeline(source=source(tmp_path / "in"), rules=RULES, buckets=2)
    done = pipeline.run(tmp_path / "out", max_files_per_batch=1, progress=False)
    check(done, paths)
    key = ("rule", "user", "action", "window_start_ms", "count")
    found, wanted = (
        sorted(tuple(getattr(each, name) for name in key) for each in some.findings)
        for some in (done, run)
    )
    assert found == wanted


def test_a_live_run_takes_late_ones_in_and_a_stop_flushes_them(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    cascade = kst.Cascade(HOUR, "1 day", lateness="2 days")
    pipeline = kst.Pipeline(source=source(tmp_path / "in"), cascade=cascade, rules=RULES, buckets=2)
    live = pipeline.start(tmp_path / "out", trigger="500 ms")
    paths: list[Path] = []
    try:
        for seed in range(3):
            paths += write_files(tmp_path / "in", parted(200, seed), 1)
            paths[-1] = paths[-1].rename(paths[-1].with_name(f"{seed}-of-all.json"))
            wanted = 200 * len(paths)
            until(lambda: live.summary().events == wanted, "its events")  # noqa: B023 - at once
    finally:
        live.stop()
    check(live, paths)


def test_expressions_with_names_and_dataframes_count_as_columns_do(
    spark: SparkSession, paths: list[Path], tmp_path: Path
) -> None:
    folder, named = paths[0].parent, ["upper(region) AS place", "op"]
    by_expression = kst.Pipeline(source=source(folder, named), rules=[], buckets=1)
    found = by_expression.run(tmp_path / "lines", progress=False).counts(HOUR, limit=None)
    wanted: Counts = Counter()
    for (start, user, region, operation), count in expected(paths).items():
        wanted[start, user, None if region is None else region.upper(), operation] += count
    assert told(found, ["place", "op"]) == wanted
    schema = "time timestamp, user string, region string, op string"
    frame = spark.read.schema(schema).json(str(folder))
    given_frame = kst.frame(frame, event_time="time", user="user", action=list(PARTS))
    pipeline = kst.Pipeline(source=given_frame, rules=[], buckets=1)
    check(pipeline.run(tmp_path / "frame", progress=False), paths)


def test_a_part_that_is_too_long_makes_a_dead_letter_and_none_is_none(tmp_path: Path) -> None:
    rows_of: list[Any] = [
        {"time": "2025-03-01T00:00:00Z", "user": "Ann", "region": "x" * 1_024, "op": "get"},
        {"time": "2025-03-01T00:00:00Z", "user": "Ann", "region": "x" * 1_025, "op": "get"},
        {"time": "2025-03-01T00:00:00Z", "user": "Ann"},
        {"time": "2025-03-01T00:00:00Z", "user": "Ann", "region": 7, "op": True},
    ]
    write_files(tmp_path / "in", rows_of, 1)
    pipeline = kst.Pipeline(source=source(tmp_path / "in"), rules=[], buckets=1)
    done = pipeline.run(tmp_path / "out", progress=False)
    assert done.dead_letters.by_reason == {"long_action": 1}
    found = {key[2:] for key in told(done.counts(HOUR))}
    assert found == {("x" * 1_024, "get"), (None, None), ("7", "true")}


def test_a_part_that_tells_all_apart_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows_of: list[Any] = [
        {"time": f"2025-03-01T0{n % 9}:00:00Z", "user": "Ann", "region": "eu", "op": str(n // 2)}
        for n in range(20_002)
    ]
    write_files(tmp_path / "in", rows_of, 2)
    pipeline = kst.Pipeline(source=source(tmp_path / "in"), rules=[], buckets=1)
    pipeline.run(tmp_path / "out", max_files_per_batch=1, progress=False)
    told = "A user has 10,001 different actions in one window; the part 'op' has 10,001 values"
    assert capsys.readouterr().err.count(told) == 1


def test_a_run_goes_on_with_the_same_parts_alone(run: Run, paths: list[Path]) -> None:
    for action in (["op", "region"], ["region"], [*PARTS, "user AS who"]):
        other = kst.Pipeline(source=source(paths[0].parent, action), rules=[], buckets=2)
        with pytest.raises(CheckpointError, match="belongs to other columns"):
            other.run(run.folder.path, progress=False)


@pytest.mark.parametrize(
    ("action", "why"),
    [
        (["a", "A"], "called 'a', which is there twice"),
        (["region", "count"], "called 'count', which is a column of the results"),
        (["lower(region)", "op"], r"'lower\(region\)' of an action has no name"),
        ([f"part{n}" for n in range(9)], "An action of 9 parts can't be counted"),
        ([], "An action of 0 parts can't be counted"),
    ],
)
def test_parts_that_make_no_sense_are_refused(action: list[str], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        kst.files("data/sample", event_time="time", user="user", action=action)


def test_rules_by_a_part_that_is_not_there_are_refused_before_spark_starts(
    paths: list[Path], tmp_path: Path
) -> None:
    for rule, why in (
        (kst.Ceiling(HOUR, 1, by="regio"), "by = 'regio' is no part of the action"),
        (kst.Ceiling(HOUR, 1, actions=["get"]), "names actions, and no one part"),
    ):
        pipeline = kst.Pipeline(source=source(paths[0].parent), rules=[rule])
        with pytest.raises((ColumnError, ConfigurationError), match=why):
            pipeline.run(tmp_path / "out", progress=False)


def test_commands_count_and_ask_by_parts(paths: list[Path], tmp_path: Path) -> None:
    columns = ("--event-time", "time", "--user", "user", "--action", "region", "--action", "op")
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nkind = "Ceiling"\nwindow = "1 hour"\ncount = 11\nby = "region"\n')
    out = tmp_path / "out"
    done = given(
        "run", paths[0].parent, *columns, "--out", out, "--rules", rules, "--buckets", 1, "-q"
    )
    assert done.code == 0, done.err
    asked = given("counts", out, "--window", HOUR, "--by", "op", "--where", "region=us", "--json")
    first = rows(asked.out)[0]
    assert list(first) == ["window_start_ms", "window_end_ms", "user", "op", "count"]
    sums = given("counts", out, "--window", HOUR, "--total", "--where", "region", "--json")
    without = [count for key, count in expected(paths).items() if key[2] is None]
    assert sum(row["count"] for row in rows(sums.out)) == sum(without)
    assert "none" in given("counts", out, "--window", HOUR, "--where", "region").out
    found = rows(given("findings", out, "--json").out)
    assert {tuple(row["by"]) for row in found} == {("region",)}
    assert given("counts", out, "--window", HOUR, "--by", "op", "--total").code == 2
    assert given("counts", out, "--window", HOUR, "--where", "place=x").code == 2


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.parametrize("blocks", [False, True], ids=["bundles", "blocks"])
def test_topics_carry_parts_both_ways(
    broker: Broker, paths: list[Path], tmp_path: Path, *, blocks: bool
) -> None:
    topic = EventTopic(broker, f"parts-{blocks}")
    for path in paths:
        topic.write_values(path.read_text().splitlines())
    address = f"kafka://{broker.bootstrap}/parts-changelog-{blocks}"
    events_at = f"kafka://{broker.bootstrap}/parts-{blocks}"
    with spawned(TOPICS, tmp_path, events_at, address, str(blocks)) as process:
        commits = tmp_path / "out" / "checkpoint" / "commits"
        until(lambda: newest(commits) >= 0, "a batch", seconds=240)
        kill_group(process)
    changelog = kst.kafka_changelog(address)
    replica = WindowStore.restore(changelog, path=tmp_path / "replica", progress=False)
    with replica, replica.follow(changelog) as standby:
        check(
            through(events_at, address, blocks=blocks).run(tmp_path / "out", progress=False), paths
        )
        standby.step()
        wanted: dict[tuple[int, str], dict[Any, int]] = {}
        for (start, user, *parts), count in expected(paths).items():
            wanted.setdefault((start, user), {})[tuple(parts)] = count
        for (start, user), counts in wanted.items():
            assert replica.get(user, window=HOUR, at=start).counts == counts


TOPICS = """
    import sys
    from pathlib import Path
    from kstoolkit.pipeline.session import spark_session
    from tests.pipeline.test_parts import through
    spark_session("local[2]")
    folder, events, changelog, blocks = sys.argv[1:]
    pipeline = through(events, changelog, blocks=blocks == "True")
    pipeline.run(Path(folder, "out"), progress=False)
"""


def through(events_at: str, changelog: str, *, blocks: bool) -> kst.Pipeline:
    """Return a run from a topic into another one, in several batches."""
    columns: dict[str, Any] = {"event_time": "time", "user": "user", "action": list(PARTS)}
    return kst.Pipeline(
        source=kst.kafka_topic(events_at, max_records_per_batch=700, **columns),
        changelog=kst.kafka_changelog(changelog, blocks=blocks),
        rules=RULES,
        buckets=2,
    )


def test_all_that_a_user_does_can_be_judged_where_an_action_is_one_column(tmp_path: Path) -> None:
    paths = write_files(tmp_path / "in", events(900, users=4, hours=5), 2)
    one = kst.files(tmp_path / "in", event_time="time", user="user", action="action")
    rules = (kst.Ceiling(HOUR, 20, by=[]), kst.Ceiling(HOUR, 20))
    done = kst.Pipeline(source=one, rules=rules, buckets=2).run(
        tmp_path / "out", max_files_per_batch=1, progress=False
    )
    sums: Counts = Counter()
    with duckdb.connect() as database:
        query = """SELECT epoch_ms(time) // 3600000 * 3600000, "user", count(*) FROM read_json(?,
            columns = {'time': 'TIMESTAMP', 'user': 'VARCHAR'}) GROUP BY ALL"""
        for start, user, number in database.execute(query, [list(map(str, paths))]).fetchall():
            sums[start, user] = number
    found = {(f.window_start_ms, f.user): f.count for f in done.findings if f.by == ()}
    assert found == {key: count for key, count in sums.items() if count > 20}
    assert told(done.counts(HOUR, by=[], limit=None), []) == sums
    assert "action" in done.findings.to_pandas()


TEXTS = st.one_of(st.none(), st.text(st.sampled_from("ab\x1b\x1f012 é"), max_size=5))


@settings(max_examples=60)
@drawn(st.lists(st.tuples(st.sampled_from("uvw"), TEXTS, TEXTS, TEXTS), min_size=1, max_size=40))
def test_sums_of_any_texts_are_those_of_plain_python(
    done: list[tuple[str, str | None, str | None, str | None]],
) -> None:
    users, *columns = zip(*done, strict=True)
    actions = joined([pa.array(each, pa.string()).dictionary_encode() for each in columns])
    names = ("x", "y", "z")
    counters = Counters.of(np.zeros(len(done), np.int64), pa.array(users), actions, parts=names)
    counters = Counters.decode(counters.encode())
    for by in ((), ("x",), ("y", "z"), names):
        chosen = [("x", "y", "z").index(name) for name in by]
        wanted = Counter((user, *(parts[n] for n in chosen)) for user, *parts in done)
        view = counters.by(by)
        texts = [column.to_pylist() for column in view.columns().values()]
        told_users = view.users.take(pa.array(view.user)).to_pylist()
        keys = list(zip(told_users, *texts, strict=True))
        assert dict(zip(keys, view.count.tolist(), strict=True)) == wanted
