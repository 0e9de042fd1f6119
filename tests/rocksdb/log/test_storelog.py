from __future__ import annotations

import gzip
import json
import re
import shutil
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from rocksdict import Rdict

from kstoolkit.errors import ConfigurationError, InputError
from kstoolkit.records import Source
from kstoolkit.rocksdb.log.jobs import Compaction, Flush, Stall
from kstoolkit.rocksdb.log.lines import text_lines
from kstoolkit.rocksdb.log.stats import StatsDump, stall_time
from kstoolkit.rocksdb.log.storelog import StoreLog, read_log
from tests.rocksdb.stalledstore import REAL_LOGS, tight_options, write_stalled_store

STREAMS = REAL_LOGS / "rocksdb-10.1.3.log"
SPARK = REAL_LOGS / "spark-4.3.log"
SPARK_JSON = REAL_LOGS / "spark-4.3.json.log"
WRITTEN = re.compile(r"\d{4}/\d\d/\d\d-\d\d:\d\d:\d\d\.\d{6}")
TIME_FORMAT = "%Y/%m/%d-%H:%M:%S.%f"
SETTER = "options.setInfoLogLevel(InfoLogLevel.INFO_LEVEL);"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stalled") / "store"
    write_stalled_store(path)
    return path


@pytest.fixture(scope="module")
def log(folder: Path) -> StoreLog:
    return read_log(folder)


def later(written: str, ahead: timedelta) -> str:
    time = datetime.strptime(written, TIME_FORMAT) + ahead  # noqa: DTZ007 - local time
    return time.strftime(TIME_FORMAT)


def in_events(folder: Path, name: str) -> list[dict[str, object]]:
    lines = (folder / "LOG").read_text(errors="replace").splitlines()
    events = [json.loads(line.partition("EVENT_LOG_v1 ")[2]) for line in lines if "_v1 {" in line]
    return [event for event in events if event["event"] == name]


def test_the_head_tells_version_level_options_and_time(log: StoreLog) -> None:
    assert (log.rocksdb_version, log.level, log.options_level) == ("9.8.4", "info", "info")
    told = {each.name: each.value for each in log.options() if each.column_family == "default"}
    assert told["write_buffer_size"] == "65536"
    assert told["block_size"] == "4096"
    assert log.began_at is not None
    assert abs(datetime.now(UTC) - log.began_at) < timedelta(minutes=5)
    assert log.unknown == {}
    assert repr(log).startswith("StoreLog(RocksDB 9.8.4, 1 file, ")


def test_every_flush_of_a_real_store_is_found(log: StoreLog, folder: Path) -> None:
    flushes = log.flushes()
    started = in_events(folder, "flush_started")
    assert flushes.unknown is None
    assert [each.job for each in flushes] == [each["job"] for each in started]
    assert [each.num_entries for each in flushes] == [each["num_entries"] for each in started]
    assert {each.column_family for each in flushes} == {"default"}
    assert all(each.duration_ms and each.cpu_ms and each.output_bytes for each in flushes)
    assert all(each.unknown == {} for each in flushes)


def test_every_compaction_of_a_real_store_is_found(log: StoreLog, folder: Path) -> None:
    merged = [each for each in log.compactions() if not each.moved]
    finished = in_events(folder, "compaction_finished")
    written = [(each.output_bytes or 0) + (each.wasted_bytes or 0) for each in merged]
    assert written == [e["total_output_size"] for e in finished]
    first = merged[0]
    assert (first.from_levels, first.reason, first.column_family) == (
        (0,),
        "LevelL0FilesNum",
        "default",
    )
    assert first.num_records_dropped == 0
    assert first.duration_ms is not None
    assert first.at is not None
    assert first.finished_at is not None
    assert first.finished_at > first.at


def test_files_written_agree_with_the_events_of_the_files(log: StoreLog, folder: Path) -> None:
    # Closing breaks off what runs: of that, the events of files and of jobs need not agree.
    before = (folder / "LOG").read_text(errors="replace").partition("Shutdown: canceling")[0]
    files: Counter[object] = Counter()
    for event in in_events(folder, "table_file_creation"):
        files[event["job"]] += int(str(event["file_size"]))
    merged = [each for each in log.compactions() if not each.moved]
    told = {each.job: each.output_bytes for each in log.flushes()}
    told |= {each.job: each.output_bytes for each in merged}
    ended = [job for job in told if f'"job": {job}, "event": "flush_finished"' in before]
    ended += [job for job in told if f'"job": {job}, "event": "compaction_finished"' in before]
    assert len(ended) > 10
    assert {job: told[job] for job in ended} == {job: files[job] for job in ended}


def test_the_write_amplification_is_that_of_all_flushes_and_merges(log: StoreLog) -> None:
    flushed = sum(each.output_bytes or 0 for each in log.flushes())
    merged = sum(each.output_bytes or 0 for each in log.compactions() if not each.moved)
    told = log.write_amplification()
    assert (told.flushed_bytes, told.compacted_bytes) == (flushed, merged)
    assert told.write_amplification == (flushed + merged) / flushed > 1


def test_stalls_have_condition_cause_amount_and_rate(log: StoreLog, folder: Path) -> None:
    stalls = log.stalls()
    text = (folder / "LOG").read_text(errors="replace")
    assert len(stalls) == text.count(" writes because ") > 0
    for each in stalls:
        assert each.cause in {"memtable limit", "L0 file count limit"}
        assert (each.rate_bytes is None) == (each.condition == "stopped")
        assert (each.limit is None) == (each.cause != "memtable limit")
        assert each.at is not None
        assert each.duration_ms is None
        assert "where it ends" in each.unknown["duration_ms"]


def test_dumps_of_statistics_tell_how_long_writers_waited(log: StoreLog) -> None:
    dumps, waited = log.stats(), log.stall_time()
    last = dumps[-1]
    assert waited.stalled_s == last.stalled_s
    assert last.stalled_s is not None
    assert last.tickers["rocksdb.stall.micros"] / 1e6 == pytest.approx(last.stalled_s, abs=0.01)
    busy = next(each for each in reversed(dumps) if each.levels)  # a quiet one tells of no level
    counted = busy.stall_counts["default"]
    assert counted["total-delays"] + counted["total-stops"] > 0
    assert busy.pending_compaction_bytes.keys() == {"default"}
    total = next(each for each in busy.levels if each.level == "Sum")
    assert (total.column_family, total.cells["Level"]) == ("default", "Sum")
    assert total.write_amplification is not None
    assert total.write_amplification >= 1


def test_events_are_all_kinds_in_order_of_time(log: StoreLog) -> None:
    events = log.events()
    assert {type(each) for each in events} == {Flush, Compaction, Stall}
    times = [each.at for each in events if each.at]
    assert times == sorted(times)
    assert len(events) == len(log.flushes()) + len(log.compactions()) + len(log.stalls())
    assert events.to_pandas().shape[0] == len(events)
    assert {str(f.source) for each in events for f in each.figures()} == {str(Source.LOG)}


def test_a_span_counts_only_what_ended_in_it(log: StoreLog) -> None:
    flushes = log.flushes()
    half = flushes[len(flushes) // 2].finished_at
    first, second = log.write_amplification(until=half), log.write_amplification(since=half)
    assert (first.num_flushes or 0) + (second.num_flushes or 0) == len(flushes)
    assert first.num_flushes == len(flushes) // 2
    with pytest.raises(ConfigurationError, match="no zone"):
        log.write_amplification(since=datetime(2026, 3, 1))  # noqa: DTZ001 - the mistake


def test_rotated_files_are_read_in_order_and_a_replayed_log_counts_as_a_flush(
    tmp_path: Path,
) -> None:
    with_wal = tmp_path / "store"
    store = Rdict(str(with_wal), tight_options())
    store[b"a"] = b"1"
    copy = tmp_path / "copy"
    shutil.copytree(with_wal, copy)  # as a killed process leaves it
    store.close()
    for _ in range(2):
        Rdict(str(copy), tight_options()).close()
    found = read_log(copy, since=0)
    names = [Path(each.path).name for each in found.files]
    assert [name.startswith("LOG.old.") for name in names] == [True] * (len(names) - 1) + [False]
    assert len(names) == 3
    assert [each.reason for each in found.flushes()] == ["Recovery"]
    began = [each.began_at for each in found.files if each.began_at]
    assert began == sorted(began)


def test_local_times_are_calibrated_by_the_events(folder: Path, tmp_path: Path) -> None:
    ahead = timedelta(hours=5, minutes=45)
    shifted = tmp_path / "LOG"
    text = (folder / "LOG").read_text(errors="replace")
    shifted.write_text(WRITTEN.sub(lambda match: later(match[0], ahead), text))
    here, there = read_log(folder), read_log(shifted)
    assert there.utc_offset == ahead + (here.utc_offset or timedelta())
    assert there.began_at == here.began_at
    assert [each.at for each in there.stalls()][:9] == [each.at for each in here.stalls()][:9]


def test_without_an_event_the_zone_is_unknown_unless_it_is_given(tmp_path: Path) -> None:
    line = "2026/03/01-08:00:00.000000 7f [WARN] [db/a.cc:1] [default] Stopping writes because "
    (tmp_path / "LOG").write_text(f"{line}we have 36 level-0 files\n")
    unknown = read_log(tmp_path).stalls()[0]
    assert unknown.at is None
    assert "zone=" in unknown.unknown["at"]
    known = read_log(tmp_path, zone=timezone(timedelta(hours=1))).stalls()[0]
    assert known.at == datetime(2026, 3, 1, 7, tzinfo=UTC)
    assert json.dumps(read_log(tmp_path, zone=UTC).to_dict()["zone"]) == '"UTC"'
    assert (known.condition, known.cause, known.amount) == ("stopped", "L0 file count limit", 36)


@pytest.mark.parametrize("head", ["", (REAL_LOGS / "rocksdb-5.18.4-error.log").read_text()])
def test_a_level_that_is_too_low_is_no_absence_of_stalls(tmp_path: Path, head: str) -> None:
    (tmp_path / "LOG").write_text(head)
    (tmp_path / "OPTIONS-000007").write_text("[DBOptions]\n  info_log_level=ERROR_LEVEL\n")
    found = read_log(tmp_path)
    assert found.options_level == "error"
    for rows in (found.stalls(), found.compactions(), found.flushes(), found.stats()):
        assert len(rows) == 0
        assert "at level ERROR" in str(rows.unknown)
        assert SETTER in repr(rows)
        assert "unknown" in rows._repr_html_()
    assert found.write_amplification().flushed_bytes is None
    assert SETTER in found.stall_time().unknown["stalled_s"]


def test_at_level_warn_stalls_are_known_and_events_are_not(tmp_path: Path) -> None:
    (tmp_path / "LOG").touch()
    (tmp_path / "OPTIONS-000007").write_text("[DBOptions]\n  info_log_level=WARN_LEVEL\n")
    found = read_log(tmp_path)
    assert repr(found.stalls()) == "LogRows(0 stalls)"
    assert "at level WARN" in repr(found.compactions())


def test_a_silent_file_among_others_is_named(tmp_path: Path) -> None:
    shutil.copy(STREAMS, tmp_path / "LOG")
    (tmp_path / "LOG.old.5").touch()
    assert read_log(tmp_path).stalls().unknown is None
    stalls = read_log(tmp_path, since=0).stalls()
    assert "LOG.old.5" in str(stalls.unknown)


def test_a_path_without_a_log_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no log at"):
        read_log(tmp_path / "gone")
    with pytest.raises(InputError, match="has no LOG") as caught:
        read_log(tmp_path)
    assert "Spark writes no LOG" in str(caught.value.hint)


def test_a_log_that_can_not_be_read_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can't be read: Is a directory"):
        list(text_lines(tmp_path))


def test_an_older_version_of_rocksdb_is_read() -> None:
    found = read_log(REAL_LOGS / "rocksdb-7.9.2.log")
    assert found.rocksdb_version == "7.9.2"
    merges = [each for each in found.compactions() if not each.moved]
    assert [(each.num_records_in, each.num_records_dropped) for each in merges] == [
        (942, 372),
        (1002, 420),
    ]
    assert {each.column_family for each in merges} == {"keyValueWithTimestamp"}


OF_11_1_2 = """\
2026/11/21-16:57:02.591268 140314356336320 EVENT_LOG_v1 {"time_micros": 1795280222591265, "job": 2,\
 "event": "flush_started", "num_memtables": 1, "total_num_input_entries": 50, "num_deletes": 0,\
 "total_data_size": 790, "memory_usage": 6416, "num_range_deletes": 0, "flush_reason":\
 "Manual Compaction"}
2026/11/21-16:57:02.592250 140314356336320 (Original Log Time 2026/11/21-16:57:02.592148)\
 EVENT_LOG_v1 {"time_micros": 1795280222592143, "job": 2, "event": "flush_finished",\
 "output_compression": "NoCompression", "lsm_state": [1, 0, 0, 0, 0, 0, 0],\
 "immutable_memtables": 0}
"""


def test_a_newer_version_of_rocksdb_calls_the_entries_of_a_flush_otherwise(tmp_path: Path) -> None:
    (tmp_path / "LOG").write_text(OF_11_1_2)
    (flush,) = read_log(tmp_path).flushes()
    assert (flush.num_entries, flush.num_deletes, flush.compression) == (50, 0, "NoCompression")
    assert flush.sentence.startswith("50 entries of 790 B")


def test_an_atomic_flush_is_one_flush_a_column_family() -> None:
    flushes = read_log(STREAMS).flushes()
    first = [each for each in flushes if each.job == flushes[0].job]
    assert [each.column_family for each in first] == ["keyValueWithTimestamp", "offsets"]
    assert [each.compression for each in first] == ["Snappy", "NoCompression"]


def test_a_trivial_move_writes_nothing() -> None:
    found = read_log(STREAMS)
    moves = [each for each in found.compactions() if each.moved]
    assert [(each.num_files_in, each.input_bytes, each.to_level) for each in moves] == [
        (1, 18282, 5)
    ]
    assert moves[0].column_family == "keyValueWithTimestamp"
    assert "doesn't tell" in moves[0].unknown["num_records_in"]
    merged = [each.output_bytes or 0 for each in found.compactions() if not each.moved]
    assert found.write_amplification().compacted_bytes == sum(merged)


@pytest.mark.parametrize("path", [SPARK, SPARK_JSON], ids=["text", "json"])
def test_lines_that_spark_hands_on_are_read_alike(path: Path) -> None:
    found = read_log(path)
    assert (found.rocksdb_version, found.level, found.files[0].forwarded) == ("9.8.4", "info", True)
    [merge] = found.compactions()
    assert (merge.input_bytes, merge.output_bytes, merge.to_level) == (926250, 1111391, 6)
    assert merge.store == "operatorId=0, partitionId=0, storeName=default"
    assert [each.num_entries for each in found.flushes()][:1] == [15622]
    assert [each.uptime_s for each in found.stats()] == [0.1]
    assert found.write_amplification().write_amplification == pytest.approx(2.2, abs=0.01)


@pytest.fixture
def rolled(tmp_path: Path) -> Path:
    """A log of Spark rolled as log4j does: older files packed, under names that tell no order."""
    lines = SPARK.read_text().splitlines(keepends=True)
    third = len(lines) // 3
    pieces = ["".join(lines[at : at + third]) for at in (0, third, 2 * third)]
    pieces[-1] += "".join(lines[3 * third :])
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "spark-2.log.gz").write_bytes(gzip.compress(pieces[0].encode()))
    (folder / "spark-1.log.gz").write_bytes(gzip.compress(pieces[1].encode()))
    (folder / "spark.log").write_text(pieces[2])
    (folder / "README.md").write_text("no log")
    return folder


def test_rolled_and_packed_logs_of_spark_are_one_log(rolled: Path) -> None:
    whole, found = read_log(SPARK), read_log(rolled)
    names = [Path(each.path).name for each in found.files]
    assert names == ["spark-2.log.gz", "spark-1.log.gz", "spark.log"]
    assert [each.to_dict() for each in found.events()] == [e.to_dict() for e in whole.events()]
    assert found.options().to_dicts() == whole.options().to_dicts()
    assert found.rocksdb_version == whole.rocksdb_version
    one = read_log(rolled / "spark-2.log.gz")
    assert (one.num_files, one.rocksdb_version) == (1, "9.8.4")


def test_a_packed_log_that_is_not_whole_says_so(rolled: Path) -> None:
    packed = rolled / "spark-1.log.gz"
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"spark-1\.log\.gz can't be unpacked"):
        read_log(rolled).events()


def test_a_store_without_a_log_is_no_folder_of_logs(tmp_path: Path) -> None:
    """Its WAL is called 000004.log."""
    (tmp_path / "CURRENT").touch()
    (tmp_path / "spark.log").touch()
    with pytest.raises(InputError, match="has no LOG"):
        read_log(tmp_path)
    (tmp_path / "CURRENT").unlink()
    (tmp_path / "000004.log").touch()
    assert [Path(each.path).name for each in read_log(tmp_path).files] == ["spark.log"]


def test_two_stores_in_one_log_of_spark_are_told_apart(tmp_path: Path) -> None:
    lines = SPARK.read_text().splitlines()
    other = [line.replace("partitionId=0", "partitionId=1") for line in lines]
    both = tmp_path / "executor.log"
    both.write_text("\n".join(each for pair in zip(lines, other, strict=True) for each in pair))
    one, two = read_log(SPARK), read_log(both)
    assert len(two.flushes()) == 2 * len(one.flushes())
    assert all(each.finished_at for each in two.flushes())
    assert len({each.store for each in two.compactions()}) == 2


def test_spark_at_its_usual_level_is_told_which_logger_to_raise(tmp_path: Path) -> None:
    path = tmp_path / "driver.log"
    path.write_text("26/11/21 08:08:24 INFO DAGScheduler: Job 1 finished\n")
    assert "org.apache.spark.sql.execution.streaming.state" in str(read_log(path).stalls().unknown)


def test_what_never_ended_is_kept_and_says_so(tmp_path: Path) -> None:
    lines = STREAMS.read_text().splitlines()
    last = next(i for i, line in enumerate(lines) if '"compaction_started"' in line)
    (tmp_path / "LOG").write_text("\n".join(lines[: last + 1]))
    [merge] = [each for each in read_log(tmp_path).compactions() if not each.moved]
    assert merge.output_bytes is None
    assert "finished" in merge.unknown["output_bytes"]
    assert merge.input_bytes is not None


def test_what_began_before_the_log_does_says_so(tmp_path: Path) -> None:
    lines = STREAMS.read_text().splitlines()
    first = next(i for i, line in enumerate(lines) if '"compaction_started"' in line)
    (tmp_path / "LOG").write_text("\n".join(lines[first + 1 :]))
    merge = read_log(tmp_path).compactions()[0]
    assert merge.at is None
    assert "rotated away" in merge.unknown["input_bytes"]


def test_a_file_without_events_is_taken_to_be_of_the_zone_of_the_others(tmp_path: Path) -> None:
    shutil.copy(STREAMS, tmp_path / "LOG")
    old = "2026/11/21-08:00:00.000000 7f [WARN] [default] Stopping writes because we have 9 level-0"
    (tmp_path / "LOG.old.5").write_text(f"{old} files\n")
    found = read_log(tmp_path, since=0)
    assert found.began_at == datetime(2026, 11, 21, 8, tzinfo=UTC)
    assert [each.at for each in found.stalls()] == [found.began_at]


def test_a_job_that_ran_when_the_store_was_killed_is_not_the_next_open_s(tmp_path: Path) -> None:
    lines = STREAMS.read_text().splitlines()
    started = next(i for i, line in enumerate(lines) if '"flush_started"' in line)
    ended = next(i for i, line in enumerate(lines) if '"flush_finished"' in line)
    opened = [line.replace("24AUDN4QJ2G8HCXSINST", "ANOTHER") for line in lines[: started - 1]]
    killed = lines[: started + 1]
    (tmp_path / "LOG").write_text("\n".join([*killed, *opened, lines[ended]]))
    first, second = read_log(tmp_path).flushes()
    assert (first.num_entries, first.finished_at) == (1077, None)
    assert (second.num_entries, second.at) == (None, None)
    assert second.finished_at is not None


def test_stalls_are_summed_over_the_times_that_the_store_was_open() -> None:
    opens = [(600.0, 1.0), (1200.0, 3.0), (600.0, 2.0), (700.0, 2.5)]
    waited = stall_time([StatsDump(None, up, stalled) for up, stalled in opens])
    assert (waited.num_dumps, waited.num_opens) == (4, 2)
    assert (waited.covered_s, waited.stalled_s) == (1900, 5.5)
    assert waited.stalled_percent == pytest.approx(100 * 5.5 / 1900)


def test_dumps_of_two_stores_in_one_log_are_summed_apart() -> None:
    dumps = [StatsDump(None, up, 1.0, store=store) for up, store in [(600.0, "a"), (300.0, "b")]]
    assert stall_time([*dumps, *dumps]).covered_s == 900


def test_the_dump_of_an_opening_covers_no_time_and_tells_of_no_stall() -> None:
    waited = stall_time([StatsDump(None, 0.0, 0.0), StatsDump(None, 0.0, 0.0)])
    assert (waited.num_dumps, waited.covered_s) == (2, 0)
    assert (waited.stalled_s, waited.stalled_percent) == (None, None)
    assert set(waited.unknown) == {"stalled_s", "stalled_percent"}
    both = stall_time([StatsDump(None, 0.0, 0.0), StatsDump(None, 600.0, 6.0)])
    assert (both.covered_s, both.stalled_s, both.stalled_percent) == (600, 6, 1)


def test_a_flush_that_failed_has_no_output(tmp_path: Path) -> None:
    lines = STREAMS.read_text().splitlines(keepends=True)
    (place,) = [at for at, line in enumerate(lines) if "[JOB 3] Level-0 flush table #12: 1" in line]
    head, _, _ = lines[place].rpartition(" bytes OK")
    lines[place] = f"{head} bytes IO error: No space left on device\n"
    (tmp_path / "LOG").write_text("".join(lines))
    whole, log = read_log(STREAMS), read_log(tmp_path)
    (failed,) = [each for each in log.flushes() if each.job == 3 and each.status != "OK"]
    assert failed.status == "IO error: No space left on device"
    assert (failed.finished_at, failed.output_bytes, failed.num_files_out) == (None, 0, 0)
    assert failed.wasted_bytes == 16_829
    assert "not finished (IO error" in failed.sentence
    flushed, all_flushed = (each.write_amplification().flushed_bytes or 0 for each in (log, whole))
    assert all_flushed - flushed == 16_829


def test_one_of_a_kind_is_named_in_the_singular() -> None:
    flushes = read_log(STREAMS).flushes()
    assert repr(type(flushes)(flushes[:1], "flushes")) == "LogRows(1 flush)"
    assert replace(flushes[0], num_entries=1).sentence.startswith("1 entry of ")


@pytest.mark.parametrize("content", [b"root:x:0:0:root:/root:/bin/sh\n", bytes(2_000), b"{}\n"])
def test_a_file_without_a_line_of_a_log_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "passwd").write_bytes(content)
    with pytest.raises(InputError, match="passwd is no log of RocksDB, nor one of Spark"):
        read_log(tmp_path / "passwd")
    (tmp_path / "LOG").touch()
    assert read_log(tmp_path / "LOG").num_files == 1
