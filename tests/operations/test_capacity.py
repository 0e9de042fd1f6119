"""Plans of capacity: the published figures exactly, arithmetic by hand, and a run's own figures."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kstoolkit as kst
from kstoolkit.errors import ConfigurationError, InputError
from kstoolkit.operations.capacity import ENGINES, CapacityPlan
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
    cores = 50e6 / 1e6 * engine.cpu_s * 1.5  # half an hour is made good within an hour
    assert plan["cores"] == pytest.approx(cores)
    assert plan.needed["cores"] == ceil(cores / 8)
    origins = {each.term: each.origin for each in plan.terms}
    assert origins["events"] == "given"
    assert origins["operations a store takes"] == "published"
    assert origins["rows of 1 hour"] == "assumed"
    assert {each.origin for each in kst.plan_capacity(**STORY, users=9).savings} >= {"given"}


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
    assert salted["the largest partition's share"] == pytest.approx(0.037)
    assert kst.plan_capacity(**STORY, price=2.0)["a month"] == 730 * 2.0 * 63


def test_kafka_streams_keeps_rows_in_segments_and_all_of_its_instances_take_memory() -> None:
    plan = kst.plan_capacity(rate=1e6, partitions=40, engine="kafka_streams")
    instances = 40 * 3 * 3
    each = kst.plan_memory("kafka_streams", partitions=40, segments=3, stores=3).total_bytes
    assert plan["RocksDB's memory"] == each
    assert f"{instances:,} RocksDB instances" in str(plan)
    rows = sum(t.value for t in plan.terms if t.term.startswith("rows of "))
    assert plan["state"] == pytest.approx(60 * rows)
    assert plan["without a standby"] == pytest.approx(rows / plan.machines / 273_000)


def test_a_sweep_has_a_plan_for_each_value() -> None:
    sweep = kst.plan_capacity(**STORY).sweep("rate", [1e5, 1e6, 1e7])
    table = sweep.to_pandas()
    assert table["rate"].tolist() == [1e5, 1e6, 1e7]
    assert table["machines"].tolist() == [each.machines for each in sweep.plans]
    partitions = kst.plan_capacity(**STORY).sweep("partitions", [10, 1_000]).to_pandas()
    assert partitions["largest partition, in cores"].is_monotonic_decreasing
    with pytest.raises(ConfigurationError, match="over 'rats'"):
        kst.plan_capacity(**STORY).sweep("rats", [1])


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
