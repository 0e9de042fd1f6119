"""Plans of capacity: the published figures exactly, arithmetic by hand, and a run's own figures."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kstoolkit as kst
from kstoolkit.counters.bucket import Bucket
from kstoolkit.errors import ConfigurationError, InputError
from kstoolkit.operations.capacity import ENGINES, CapacityPlan
from kstoolkit.operations.traffic import Traffic, zipf
from kstoolkit.windows import Cascade
from tests.cli.commands import given
from tests.counters.test_bucket import Watched
from tests.pipeline.harness import source

if TYPE_CHECKING:
    from pathlib import Path

STORY: dict[str, Any] = {"rate": 50_000_000, "partitions": 100}


def test_the_published_story_comes_out_exactly() -> None:
    plan = kst.plan_capacity(**STORY, windows=["1 minute", "1 hour", "1 day"])
    assert plan["operations a store takes"] == 15_000
    assert kst.plan_capacity(**STORY, windows=["1 minute"])["events a store takes"] == 7_500
    assert plan["events a store takes"] == 2_500
    assert plan["events a partition gets"] == 500_000
    assert plan["times too much"] == 200
    assert plan["stores needed"] == 20_000
    assert plan.savings[0].stores == 20_000
    assert "20,000 stores" in str(plan)


def test_each_step_saves_and_the_steps_multiply_to_all_of_it() -> None:
    plan = kst.plan_capacity(**STORY, users=1e9)
    operations = [each.operations for each in plan.savings]
    assert operations == sorted(operations, reverse=True)
    saved = np.prod([each.saves for each in plan.savings])
    assert plan["operations an event"] / saved == pytest.approx(operations[-1])
    for each in plan.savings:
        assert each.stores == pytest.approx(50e6 * each.operations / 15_000)


def test_what_is_measured_is_told_apart_from_what_is_extrapolated() -> None:
    plan = kst.plan_capacity(**STORY)
    engine = ENGINES["spark"]
    assert plan["times what was measured"] == pytest.approx(50e6 / engine.measured_at)
    cpu_s = engine.event_s + engine.record_s * plan["records"] / 50e6
    cores = 50e6 / 1e6 * cpu_s * 1.5 / 0.77  # half an hour is made good within an hour
    assert plan["cores"] == pytest.approx(cores)
    assert plan.needed["cores"] == ceil(cores / 8)
    origins = {each.term: each.origin for each in plan.terms}
    assert origins["events"] == "given"
    assert origins["operations a store takes"] == "published"
    assert origins["rows of 1 hour"] == "assumed"
    law: dict[str, Any] = {"users": 9, "exponent": 0.5, "actions": 2}
    assert {each.origin for each in kst.plan_capacity(**STORY, **law).savings} >= {"given"}
    part = kst.plan_capacity(**STORY, users=9)
    assert part.savings[1].origin == "users given, the rest assumed"


@pytest.mark.parametrize(
    ("engine", "records", "cpu_s"),
    [
        ("spark", 0.48, 6.72),
        ("spark", 0, 4.02),
        ("kafka_streams", 0.71, 18.3),
        ("kafka_streams", 2.66, 22.7),
    ],
)
def test_cpu_is_what_was_measured_with_so_many_records(
    engine: str, records: float, cpu_s: float
) -> None:
    """Those of docs/speed.md, and of Kafka Streams with its default cache and a large one."""
    found = ENGINES[engine]
    assert found.event_s + found.record_s * records == pytest.approx(cpu_s, rel=0.01)


def test_text_is_taken_as_the_command_line_does() -> None:
    told = kst.plan_capacity(rate="50M", windows="1 minute, 1 hour").to_dict()
    assert told == kst.plan_capacity(rate=5e7, windows=["1 minute", "1 hour"]).to_dict()
    some = kst.plan_capacity(rate="50M", users="1G", operations="15k").to_dict()
    assert some == kst.plan_capacity(rate=5e7, users=1e9, operations=15_000).to_dict()


def test_machines_may_cost_nothing() -> None:
    assert kst.plan_capacity(**STORY, price=0)["a month"] == 0
    told = given("capacity", "--rate", "1M", "--price", 0)
    assert (told.code, told.err) == (0, "")
    assert "a month" in told.out


def test_processes_take_memory_beside_rocksdb_for_each_core_that_is_wanted() -> None:
    """2.2 GiB on two cores, as in docs/speed.md."""
    for engine in ENGINES:
        plan = kst.plan_capacity(**STORY, engine=engine, memory_bytes=2 << 30)
        processes = plan["cores"] * 2.2 / 2 * (1 << 30)
        assert plan["processes' memory"] == pytest.approx(processes)
        assert [*plan.needed] == ["cores", "disk", "memory"]
        assert plan.needed["memory"] == ceil((processes + plan["RocksDB's memory"]) / (2 << 30))


def test_this_toolkit_plans_the_windows_that_a_live_run_keeps() -> None:
    """What a bucket holds as time goes on: what is planned, and up to twice that."""
    windows = ("1 minute", "1 hour", "2 hours")
    plan = kst.plan_capacity(rate=1e6, windows=windows)
    counters = Traffic.counters
    law = zipf(1e6, users=2e7, actions=8)
    watched, held = Watched(Cascade(*windows), live=True, now_ms=0), []
    for minute in range(720):
        watched.now_ms = (minute + 1) * 60_000
        watched.take([("Anna", minute * 60_000, "read")])
        bucket = Bucket(watched.cascade, watched.blocks, 0, 1, live=True)
        levels = [bucket.segments(level) for level in range(3)]
        held.append([sum(len(each.at(start)) for start in each.places()) for each in levels])
    middle, most = np.median(held[360:], axis=0), np.max(held, axis=0)
    for label, size_s, typical, peak in zip(windows, (60, 3_600, 7_200), middle, most, strict=True):
        kept = plan[f"rows of {label}"] / counters(law, size_s)
        assert kept <= round(typical) <= peak <= 2.1 * kept
    longer = kst.plan_capacity(rate=1e6, windows=windows, retention="1 day")
    assert longer["rows of 1 hour"] == pytest.approx(25 * counters(law, 3_600), rel=1e-3)


def test_a_plan_grows_with_what_it_is_of() -> None:
    small, large = (kst.plan_capacity(rate=rate, users=1e7) for rate in (1e6, 1e8))
    for term in ("cores", "records", "state", "stores needed", "cores it wants"):
        assert small[term] < large[term]
    kept, longer = (kst.plan_capacity(**STORY, retention=each) for each in ("1 minute", "1 day"))
    assert kept["state"] < longer["state"]
    alone, beside = (kst.plan_capacity(**STORY, standbys=each) for each in (0, 2))
    assert beside["disk"] == pytest.approx(3 * alone["disk"])
    assert beside["a standby's disk"] == pytest.approx(alone["disk"])
    whole, salted = (kst.plan_capacity(**STORY, key_share=0.3, salt=each) for each in (1, 10))
    assert whole["the largest partition's share"] == pytest.approx(0.307)
    assert 0.037 < salted["the largest partition's share"] < 0.067  # some parts fall together
    assert kst.plan_capacity(**STORY, price=2.0)["a month"] == 730 * 2.0 * 91


def test_kafka_streams_keeps_rows_in_segments_and_all_of_its_instances_take_memory() -> None:
    plan = kst.plan_capacity(rate=1e6, users=1e6, partitions=40, engine="kafka_streams")
    instances = 40 * (3 + 2 + 2)  # of an hour and a day, no three segments have a window's start
    each = kst.plan_memory("kafka_streams", partitions=40, segments=7).total_bytes
    assert each is not None
    filters = sum(t.value for t in plan.terms if t.term.startswith("rows of ")) * 10 / 8
    assert each + filters < plan["RocksDB's memory"] < each + 2 * filters  # and index blocks
    assert f"{instances:,} RocksDB instances" in str(plan)
    rows = sum(t.value for t in plan.terms if t.term.startswith("rows of "))
    assert plan["state"] == pytest.approx(45 * rows)
    interval, retention = 330, 660  # of a minute's windows: half of what they are kept
    share = interval / (interval + retention)
    assert plan["a segment of 1 minute"] == pytest.approx(45 * share * plan["rows of 1 minute"])
    assert plan["a segment of 1 day"] == pytest.approx(45 * 8e6)  # all of a day, by its start
    in_topics = 8e6 * (1 + 1 / 144 + 1)  # of a day, ten minutes, and 24 hours that topics add
    in_topics += 8e6 * (1 + 1 / 6 + 24) + plan["rows of 1 minute"] / 16.5 * (11 + 24 * 60)
    assert plan["topics keep"] == pytest.approx(3 * 53 * in_topics, rel=0.001)
    assert plan["without a standby"] == pytest.approx(
        in_topics / plan.machines / 273_000, rel=0.001
    )
    assert len(plan.savings) == 2  # it has no cascade, and no blocks
    short = kst.plan_capacity(
        rate=1e6, partitions=40, engine="kafka_streams", retention="0 seconds"
    )
    segments = [each.formula.split()[-2] for each in short.terms if "rows of" in each.term]
    assert segments == ["2", "2", "2"]
    assert f"{40 * 6:,} RocksDB instances" in str(short)


def test_what_is_added_up_for_longer_than_a_window_is_a_counter_of_each_window() -> None:
    minutes: dict[str, Any] = {"rate": 1e6, "windows": ["1 minute"]}
    short, long = (kst.plan_capacity(**minutes, batch=each) for each in ("1 minute", "1 hour"))
    assert long["records"] == pytest.approx(short["records"])
    assert long.savings[1].operations == pytest.approx(short.savings[1].operations)


def test_an_event_is_in_each_window_that_overlaps() -> None:
    whole, hops = (
        kst.plan_capacity(rate=1e6, windows=[each], operations=15_000)
        for each in ("5 minutes", "5 minutes every 1 minute")
    )
    assert hops["operations an event"] == 5 * whole["operations an event"]
    assert hops["records"] == pytest.approx(5 * whole["records"])
    kept = "rows of 5 minutes every 1 minute"
    assert hops[kept] == pytest.approx(5 * whole["rows of 5 minutes"])


@pytest.mark.parametrize(
    "far",
    [
        {"rate": 1e15, "exponent": 3},
        {"rate": 1e-5},
        {"users": 1e30},
        {"users": 1, "exponent": 3_000},
        {"actions": 10**9},
        {"partitions": 10**20},
        {"salt": 10**20},
        {"key_share": 1},
        {"key_share": 0},
        {"retention": "1000000 days", "engine": "kafka_streams"},
        {"outage": "0 seconds"},
    ],
)
def test_figures_far_from_any_machine_are_planned_at_once(far: dict[str, Any]) -> None:
    plan = kst.plan_capacity(**(STORY | far))
    assert all(np.isfinite(each.value) and each.value >= 0 for each in plan.terms)
    assert plan.machines >= 1
    least = 1 / far.get("partitions", 100)
    assert least * 0.999 <= plan["the largest partition's share"] <= 1.000_001
    assert not str(plan).startswith("0 events")


def test_more_parts_than_partitions_leave_each_its_part_at_least() -> None:
    shares = [
        kst.plan_capacity(rate=1e6, partitions=10, key_share=1, salt=salt)[
            "the largest partition's share"
        ]
        for salt in (1, 10, 1_000, 8_192, 1_000_000, 8_193)
    ]
    assert shares.pop() == pytest.approx(shares[3], rel=0.01)  # drawn otherwise from there on
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == 1
    assert 0.1 < shares[-1] < 0.101


def test_a_sweep_has_a_plan_for_each_value() -> None:
    sweep = kst.plan_capacity(**STORY).sweep("rate", [1e5, 1e6, 1e7])
    table = sweep.to_pandas()
    assert table["rate"].tolist() == [1e5, 1e6, 1e7]
    assert table["machines"].tolist() == [each.machines for each in sweep.plans]
    partitions = kst.plan_capacity(**STORY).sweep("partitions", [10, 1_000]).to_pandas()
    assert partitions["largest partition, in cores"].is_monotonic_decreasing
    for over, values in (("rats", [1]), ("engine", ["spark"]), ("rate", [])):
        with pytest.raises(ConfigurationError, match=f"over '{over}'"):
            kst.plan_capacity(**STORY).sweep(over, values)  # type: ignore[arg-type] # on purpose


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"rate": 0}, "rate is 0"),
        ({"rate": float("inf")}, "rate is inf"),
        ({"users": -1}, "users is -1"),
        ({"partitions": 0}, "partitions is 0"),
        ({"key_share": 2}, "key_share is 2"),
        ({"engine": "flink"}, "no engine 'flink'"),
        ({"operations": 5, "measure": True}, "both given"),
        ({"windows": ["1 parsec"]}, "'1 parsec'"),
        ({"standbys": -1}, "standbys is -1"),
        ({"salt": 0}, "salt is 0"),
        ({"windows": ["1 minute", "session 30 minutes"]}, "session 30 minutes can't be planned"),
        ({"rate": None}, "rate is None"),
        ({"rate": 1e31}, "rate is 1e\\+31"),
        ({"users": "many"}, "'many' is no number"),
        ({"users": 0.5}, "by 0.5 users"),
        ({"exponent": float("inf")}, "exponent is inf"),
        ({"exponent": -1}, "exponent is -1"),
        ({"key_share": float("nan")}, "key_share is nan"),
        ({"price": -1}, "price is -1"),
        ({"cores": 10**400}, "cores is too large"),
        ({"batch": 0.5}, "0.5 is not a duration"),
    ],
)
def test_figures_that_make_no_sense_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        kst.plan_capacity(**(STORY | wrong))


def test_a_term_that_there_is_none_of_is_said() -> None:
    with pytest.raises(ConfigurationError, match="no term 'money'"):
        kst.plan_capacity(**STORY)["money"]


def test_the_lab_is_asked_for_how_many_operations_a_store_takes_here() -> None:
    plan = kst.plan_capacity(**STORY, measure=True)
    term = next(each for each in plan.terms if each.term == "operations a store takes")
    assert term.origin == "measured on this machine"
    assert term.value > 1_000
    assert plan["stores needed"] == pytest.approx(50e6 * 6 / term.value)
    swept = plan.sweep("rate", [1e5, 1e6]).plans[0]
    assert swept["operations a store takes"] == term.value  # asked once


@pytest.mark.long
@pytest.mark.spark
def test_a_run_tells_what_it_counted(tmp_path: Path, spark: object) -> None:
    """The run's own figures are DuckDB's or pandas', and no law's."""
    assert spark
    draws = np.random.default_rng(7)
    begin, seconds, number = 1_772_409_600_000, 1_200, 60_000
    events = pa.table(
        {
            "time": pa.array(
                np.sort(draws.integers(0, seconds * 1_000, number)) + begin,
                pa.timestamp("ms", tz="UTC"),
            ),
            "user": pa.array((draws.pareto(1.1, number) * 10).astype(int) % 9_000).cast(
                pa.string()
            ),
            "action": pa.array(draws.choice(["a", "b"], number, p=[0.8, 0.2])),
        }
    )
    (tmp_path / "in").mkdir()
    pq.write_table(events, tmp_path / "in" / "events.parquet")
    run = kst.Pipeline(source=source(tmp_path / "in"), rules=[]).run(tmp_path / "out")
    plan = kst.plan_capacity(run, rate=number / seconds)
    told = events.to_pandas()
    minutes = told.assign(window=told["time"].dt.floor("min"))
    a_minute = len(minutes[["user", "action", "window"]].drop_duplicates()) / (seconds / 60)
    kept = 11  # a minute, and ten minutes of grace
    assert plan["rows of 1 minute"] == pytest.approx(kept * a_minute, rel=0.01)
    size = (tmp_path / "in" / "events.parquet").stat().st_size
    assert plan["events in"] == pytest.approx(size / seconds)
    shares = told["user"].value_counts(normalize=True)
    assert shares.iloc[0] < plan["the largest partition's share"] < shares.iloc[:3].sum() + 0.02
    assert f"measured in {run.folder.shown}" in {each.origin for each in plan.terms}
    more = kst.plan_capacity(run, rate=1_000 * number / seconds)
    assert more["rows of 1 minute"] == pytest.approx(1_000 * plan["rows of 1 minute"])
    assert (
        kst.plan_capacity(run.folder.path, rate=50).to_dict()
        == kst.plan_capacity(run, rate=50).to_dict()
    )
    with pytest.raises(ConfigurationError, match="beside a run"):
        kst.plan_capacity(run, rate=50, users=3)
    with pytest.raises(InputError):
        kst.plan_capacity(tmp_path / "none", rate=50)


def test_it_is_read_as_text_table_and_html() -> None:
    plan = kst.plan_capacity(**STORY, price=0.5)
    assert isinstance(plan, CapacityPlan)
    told = plan.to_dict()
    assert told["machines"] == plan.machines
    assert {each["term"] for each in told["terms"]} == {each.term for each in plan.terms}
    for each in plan.terms:
        assert each.text in str(plan)
    assert len(plan.terms.to_pandas()) == len(plan.terms)
    assert "an update for each event" in plan._repr_html_()


def test_a_standby_takes_what_changelogs_take_in_and_cores_to_put_it() -> None:
    given: Any = {"rate": 1e7, "engine": "kafka_streams", "cores": 1}
    alone, two = (kst.plan_capacity(**given, standbys=n) for n in (0, 2))
    assert two["a standby's network"] == two["bytes"]
    assert two["a standby's cores"] == pytest.approx(two["records"] / 136_500)
    more = two.needed["cores"] - alone.needed["cores"]
    assert more == pytest.approx(2 * two["a standby's cores"], abs=1)
    assert "a standby's cores" not in [each.term for each in kst.plan_capacity(rate=1e6).terms]
