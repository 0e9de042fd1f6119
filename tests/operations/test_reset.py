"""A run or a group that is moved: what is said before is what happens."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

import kstoolkit as kst
from kstoolkit.errors import CheckpointError, ConfigurationError, InputError, OutputError
from kstoolkit.operations.reset import _windows_in_part
from kstoolkit.pipeline.runfolder import RunFolder
from kstoolkit.windows import as_window
from tests.kafka.clients import make_topic, write
from tests.operations.topicruns import (
    BEGIN_MS,
    HOUR,
    MINUTE,
    PARTITIONS,
    TopicRun,
    counts,
    events,
    run_on_topic,
    send,
)
from tests.pipeline.harness import counted

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.kafka.broker import Broker

pytestmark = pytest.mark.kafka

ROW = ("window_ms", "unix_millis(window_start)", "user", "action", "count")
HALF_PAST_ONE = "2025-03-01T01:30:00Z"


def moves(plan: Any) -> list[tuple[int | None, int, int, int]]:
    return [(m.position, m.target, m.again_records, m.skipped_records) for m in plan.moves]


def files(folder: Path) -> dict[str, bytes]:
    found = (each for each in folder.rglob("*") if each.is_file())
    return {str(each.relative_to(folder)): each.read_bytes() for each in found}


def group_at(broker: Broker, topic: str, group: str, number: int) -> Consumer:
    """Return a member of a group that has read so many records and committed."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": group}
    consumer = Consumer({**settings, "enable.auto.commit": False, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    assert len(consumer.consume(number, timeout=60)) == number
    consumer.commit(asynchronous=False)
    return consumer


@pytest.mark.spark
def test_a_plan_says_what_is_read_again_and_changes_nothing(topic_run: TopicRun) -> None:
    before = files(topic_run.out)

    plan = kst.reset(topic_run.out, to="earliest")

    assert moves(plan) == [(500, 0, 500, 0), (500, 0, 500, 0)]
    assert plan.in_part == ()
    assert repr(plan).endswith("to earliest, not done yet: 1,000 records read again, 0 skipped)")
    (warning,) = plan.warnings
    assert warning.startswith("1,000 records count twice in the run's summary and metrics")
    assert files(topic_run.out) == before
    assert plan.to_pandas()["target"].tolist() == [0, 0]
    assert "1,000 records read again" in plan._repr_html_()
    assert plan.to_dict()["again_records"] == 1_000


@pytest.mark.spark
def test_windows_that_are_read_in_part_are_named_with_the_way_out(topic_run: TopicRun) -> None:
    plan = kst.reset(topic_run.out, to=datetime(2025, 3, 1, 1, 30, tzinfo=UTC))

    assert moves(plan) == [(500, 270, 230, 0), (500, 270, 230, 0)]
    (hour,) = plan.in_part
    assert (hour.window, hour.first_start_ms) == ("1 hour", BEGIN_MS + HOUR)
    assert hour.last_end_ms == BEGIN_MS + 2 * HOUR
    assert "reset to 2025-03-01T01:00:00Z or before" in plan.warnings[0]
    assert kst.reset(topic_run.out, to="2025-03-01T01:00Z").in_part == ()


@pytest.mark.spark
def test_from_the_start_of_a_window_on_all_counts_are_right_again(
    topic_run: TopicRun, tmp_path: Path
) -> None:
    mine = topic_run.copied(tmp_path / "out")
    checkpoint = files(mine.out / "checkpoint")

    plan = kst.reset(mine.out, to="2025-03-01T01:00:00Z", dry_run=False)

    assert plan.done
    assert files(mine.out / "checkpoint.epoch=0") == checkpoint
    assert kst.lag(mine.out, over=0).lag_records == plan.again_records == 640
    run = mine.go_on()
    sent = events(BEGIN_MS, 1_000)
    assert counted(run, "1 minute") == counts(sent, MINUTE)
    assert counted(run, "1 hour") == counts(sent, HOUR)
    assert run.settings.epoch == 1
    assert run.summary().events == 1_640
    assert kst.lag(run, over=0).lag_records == 0
    assert files(mine.out / "checkpoint.epoch=0") == checkpoint


@pytest.mark.spark
def test_what_is_read_again_comes_to_ones_own_function_under_ids_that_grow(
    topic_run: TopicRun, tmp_path: Path
) -> None:
    mine = topic_run.copied(tmp_path / "out")
    ids: list[int] = []
    table: dict[tuple[Any, ...], int] = {}

    def keep(batch: kst.BatchOutput) -> None:
        if batch.id <= max(ids, default=-1):  # as a writer that has it already
            return
        ids.append(batch.id)
        rows = batch.counts.selectExpr(*ROW).collect()
        table.update({tuple(key): count for *key, count in rows})

    for _ in range(2):
        kst.reset(mine.out, to="earliest", dry_run=False)
        run = mine.go_on(on_batch=keep)
    assert (len(ids), run.settings.epoch) == (6, 2)
    sent = events(BEGIN_MS, 1_000)
    assert table == {
        (size_ms, *key): count
        for size_ms in (MINUTE, HOUR)
        for key, count in counts(sent, size_ms).items()
    }


@pytest.mark.spark
def test_counts_are_too_low_in_the_windows_that_were_named_and_in_no_other(
    topic_run: TopicRun, tmp_path: Path
) -> None:
    mine = topic_run.copied(tmp_path / "out")
    plan = kst.reset(mine.out, to=HALF_PAST_ONE, dry_run=False)

    run = mine.go_on()

    sent = events(BEGIN_MS, 1_000)
    found, right = counted(run, "1 hour"), counts(sent, HOUR)
    wrong = {key[0] for key in right if found[key] != right[key]}
    assert wrong == {plan.in_part[0].first_start_ms}
    assert all(found[key] <= right[key] for key in right)
    assert counted(run, "1 minute") == counts(sent, MINUTE)


@pytest.mark.spark
def test_a_topic_made_again_is_read_after_a_reset(topic_run: TopicRun, tmp_path: Path) -> None:
    broker, name, first = topic_run.broker, "reset-made-again", events(BEGIN_MS, 60)
    mine = run_on_topic(broker, name, first, tmp_path / "out")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics([name])[name].result(60)
    make_topic(broker, name, PARTITIONS)
    second = events(BEGIN_MS + HOUR, 40)
    send(broker, name, second)

    lag = kst.lag(mine.out, over=0)
    assert lag.lag_records is None
    assert "deleted and made again" in repr(lag)
    with pytest.raises(CheckpointError, match="kstoolkit reset"):
        mine.go_on()
    plan = kst.reset(mine.out, to="earliest", dry_run=False)
    assert moves(plan) == [(None, 0, 0, 0), (None, 0, 0, 0)]
    assert "deleted and made again" in plan.warnings[0]
    assert counted(mine.go_on(), "1 hour") == counts([*first, *second], HOUR)


@pytest.mark.spark
def test_offsets_move_the_partitions_that_they_name(topic_run: TopicRun) -> None:
    plan = kst.reset(topic_run.out, to={1: 20})
    assert moves(plan) == [(500, 500, 0, 0), (500, 20, 480, 0)]
    assert plan.to == "offset 20 of partition 1"
    with pytest.raises(ConfigurationError, match="offset 501 of partition 1") as caught:
        kst.reset(topic_run.out, to={1: 501})
    assert "0: 0 to 500; 1: 0 to 500" in str(caught.value)
    with pytest.raises(ConfigurationError, match="partition 7"):
        kst.reset(topic_run.out, to={7: 0})


@pytest.mark.spark
def test_what_is_skipped_is_said(topic_run: TopicRun, tmp_path: Path) -> None:
    mine = topic_run.copied(tmp_path / "out")
    kst.reset(mine.out, to={0: 100, 1: 100}, dry_run=False)
    plan = kst.reset(mine.out, to="latest")
    assert moves(plan) == [(100, 500, 0, 400), (100, 500, 0, 400)]
    assert any("800 records will never be counted" in each for each in plan.warnings)
    assert [each.window for each in plan.in_part] == ["1 minute", "1 hour"]


@pytest.mark.spark
def test_a_run_that_is_counting_refuses(topic_run: TopicRun, tmp_path: Path) -> None:
    mine = topic_run.copied(tmp_path / "out")
    with RunFolder(mine.out).hold():
        plan = kst.reset(mine.out, to="earliest")
        assert plan.refusal == "It is counting at present: stop it first."
        with pytest.raises(CheckpointError, match="is counting at present"):
            kst.reset(mine.out, to="earliest", dry_run=False)
    assert (mine.out / "checkpoint").exists()


@pytest.mark.spark
def test_a_reset_that_dies_half_way_or_can_not_be_saved_is_none(
    topic_run: TopicRun, tmp_path: Path
) -> None:
    mine = topic_run.copied(tmp_path / "out")
    before = files(mine.out)
    folder = RunFolder(mine.out)
    folder.checkpoint.rename(mine.out / "checkpoint.epoch=0")  # as far as it got
    folder.repair_epoch()
    assert files(mine.out) == before
    (mine.out / ".run.json").mkdir()  # the settings can't be written
    with pytest.raises(OutputError, match=r"run\.json can't be written"):
        kst.reset(mine.out, to="earliest", dry_run=False)
    assert files(mine.out) == before


@pytest.mark.spark
def test_without_the_old_checkpoint_the_new_epoch_still_begins_where_it_was_told(
    topic_run: TopicRun, tmp_path: Path
) -> None:
    mine = topic_run.copied(tmp_path / "out")
    kst.reset(mine.out, to={0: 3, 1: 4}, dry_run=False)
    shutil.rmtree(mine.out / "checkpoint.epoch=0")
    folder = RunFolder(mine.out)
    folder.repair_epoch()
    assert folder.has_begun
    again = kst.reset(mine.out, to="earliest", dry_run=False)
    assert [position for position, *_ in moves(again)] == [3, 4]
    settings = folder.settings()
    assert settings is not None
    assert (settings.epoch, settings.starting_offsets) == (2, {0: 0, 1: 0})


def test_a_group_is_moved_once_nobody_is_in_it(broker: Broker, name: str) -> None:
    make_topic(broker, name)
    write(broker, name, [b"x"] * 50)
    member = group_at(broker, name, f"{name}-billing", 30)
    plan = kst.reset(f"{name}-billing", to={0: 10}, bootstrap=broker.bootstrap)
    assert moves(plan) == [(30, 10, 20, 0)]
    assert plan.refusal == "It is in use (it is stable, with 1 member): stop it first."
    with pytest.raises(CheckpointError, match="in use: it is stable, with 1 member"):
        kst.reset(f"{name}-billing", to={0: 10}, bootstrap=broker.bootstrap, dry_run=False)
    member.close()

    # To Kafka, -1 would mean the end.
    before_all = kst.reset(
        f"{name}-billing", to="1969-12-31T23:59:59.999Z", bootstrap=broker.bootstrap
    )
    assert moves(before_all) == [(30, 0, 30, 0)]
    done = kst.reset(f"{name}-billing", to={0: 10}, bootstrap=broker.bootstrap, dry_run=False)

    assert done.done
    assert kst.lag(f"{name}-billing", bootstrap=broker.bootstrap, over=0).lag_records == 40
    member = group_at(broker, name, f"{name}-billing", 40)
    member.close()
    skipped = kst.reset(f"{name}-billing", to="latest", bootstrap=broker.bootstrap)
    assert moves(skipped) == [(50, 50, 0, 0)]


def test_a_group_that_there_is_none_of_yet_can_be_told_where_to_begin(
    broker: Broker, name: str
) -> None:
    make_topic(broker, name)
    write(broker, name, [b"x"] * 5)
    asked: Any = {"bootstrap": broker.bootstrap, "to": "latest"}
    with pytest.raises(InputError, match="No consumer group"):
        kst.reset(f"{name}-new", **asked)
    kst.reset(f"{name}-new", **asked, topic=name, dry_run=False)
    assert kst.lag(f"{name}-new", bootstrap=broker.bootstrap, over=0).lag_records == 0


def test_a_group_of_several_topics_needs_one_named_and_kafka_streams_is_told_apart(
    broker: Broker, name: str
) -> None:
    topics = [f"{name}-a", f"{name}-b"]
    for topic in (*topics, f"{name}-counts-changelog"):
        make_topic(broker, topic)
        write(broker, topic, [b"x"] * 5)
    for topic in topics:
        kst.reset(name, "latest", topic=topic, bootstrap=broker.bootstrap, dry_run=False)
    with pytest.raises(ConfigurationError, match=r"Which topic\? .* has read 2") as caught:
        kst.reset(name, to="earliest", bootstrap=broker.bootstrap)
    assert ", ".join(topics) in str(caught.value)
    plan = kst.reset(name, to="earliest", topic=topics[0], bootstrap=broker.bootstrap)
    assert "kafka-streams-application-reset" in plan.warnings[-1]


@pytest.mark.parametrize("to", ["yesterday", "2025-03-01T00:00", {}, {0: -1}, {"0": 1}, 5])
def test_what_is_no_place_is_refused(to: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^to (is|has) "):
        kst.reset("a group", to=to, bootstrap="127.0.0.1:1")


def test_windows_in_part_are_those_with_records_on_both_sides() -> None:
    minute = as_window("1 minute")
    hops = as_window("5 minutes every 1 minute"), as_window("5 minutes every 2 minutes")
    for begins, cuts in (([90_000], [90_000]), ([120_000], [120_000]), ([50, 400_000], [400_000])):
        for window in (minute, *hops):
            told = list(_windows_in_part([window], begins, cuts))
            starts = range(-480_000, 600_000, window.every_ms)
            inside = [s for s in starts if s + window.size_ms > min(begins) and s < max(cuts)]
            first = [each.first_start_ms for each in told]
            last = [each.last_end_ms - window.size_ms for each in told]
            assert (first, last) == (inside[:1], inside[-1:])
    assert list(_windows_in_part([minute], [500], [])) == []
