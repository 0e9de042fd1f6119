from __future__ import annotations

import gzip
import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from kstoolkit.errors import InputError
from kstoolkit.rocksdb.log.lines import (
    _LONGEST_LINE_BYTES,
    event_of,
    lines_of,
    log_files,
    number_in,
    of_micros,
    text_lines,
)
from kstoolkit.rocksdb.log.storelog import read_log
from tests.rocksdb.stalledstore import REAL_LOGS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STREAMS = (REAL_LOGS / "rocksdb-10.1.3.log").read_bytes()
SPARK = (REAL_LOGS / "spark-4.3.json.log").read_bytes()
GZIP = b"\x1f\x8b"
HEAD = "2026/11/21-08:08:24.435575 139868573263552 "
PARTS = st.sampled_from(
    [
        HEAD,
        "(Original Log Time 2026/11/21-08:08:24.435575) ",
        "9999/99/99-99:99:99.999999 7f ",
        "0001/01/01-00:00:00.000000 7f ",
        'EVENT_LOG_v1 {"time_micros": 99999999999999999999999, "event": "flush_started"}',
        'EVENT_LOG_v1 {"time_micros": 1795272222106199, "job": 3, "event": "flush_finished"}',
        'EVENT_LOG_v1 {"job": [], "event": "compaction_started", "files_L0": 7}',
        'EVENT_LOG_v1 {"job": 3, "event": "trivial_move", "total_files_size": "x"}',
        "EVENT_LOG_v1 " + "[" * 9_000,
        "[WARN] [default] Stalling writes because of estimated pending compaction bytes 7 rate 9",
        "[NativeRocksDB-2] ",
        '{"ts":"2026-11-21T14:56:15.786Z","msg":"[NativeRocksDB-1] a\\nb"}',
        "------- DUMPING STATS -------",
        "** Compaction Stats [default] **",
        "Level    Files   Size     W-Amp",
        "  L0      1/0    nan KB   inf",
        "Cumulative stall: 00:00:.. H:M:S, 1.2.3 percent",
        "Uptime(secs): 1.2.3 total",
        "\n",
        " ",
    ]
)


def read_everything(path: Path) -> None:
    log = read_log(path)
    log.options().to_pandas()
    single = (log, log.write_amplification(), log.stall_time())
    many = (*log.events(), *log.stats())
    for record in (*single, *many):
        json.dumps(record.to_dict(), allow_nan=False)
        repr(record)


@pytest.fixture(scope="module")
def read_bytes(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bytes], None]:
    path = tmp_path_factory.mktemp("odd") / "LOG"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        try:
            read_everything(path)
        except InputError as error:
            if "is no log of RocksDB" not in error.message:
                raise

    return read


FEW = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FEW
@given(st.binary(max_size=400))
def test_arbitrary_bytes_never_raise(read_bytes: Callable[[bytes], None], content: bytes) -> None:
    assume(not content.startswith(GZIP))
    read_bytes(content)


@FEW
@given(st.integers(0, 47_000), st.integers(0, 9), st.binary(max_size=5))
def test_a_packed_log_that_is_torn_or_damaged_is_said_to_be(
    read_bytes: Callable[[bytes], None], at: int, length: int, instead: bytes
) -> None:
    packed = GZIP + gzip.compress(STREAMS, mtime=0)[len(GZIP) :]
    spoilt = packed[:at] + instead + packed[at + length :]
    if spoilt.startswith(GZIP):
        with suppress(InputError):
            read_bytes(spoilt)


@FEW
@given(st.lists(PARTS | st.text(max_size=20), max_size=30).map("".join))
def test_pieces_of_a_log_in_any_order_never_raise(
    read_bytes: Callable[[bytes], None], content: str
) -> None:
    read_bytes(content.encode("utf-8", "surrogatepass"))


@FEW
@given(st.sampled_from([STREAMS, SPARK]), st.integers(0, 47_000), st.integers(0, 300), st.binary())
def test_a_real_log_with_a_piece_torn_out_never_raises(
    read_bytes: Callable[[bytes], None], log: bytes, at: int, length: int, instead: bytes
) -> None:
    torn = log[:at] + instead + log[at + length :]
    assume(not torn.startswith(GZIP))
    read_bytes(torn)


def test_a_buffered_line_has_the_time_at_which_it_was_logged() -> None:
    text = f"{HEAD}(Original Log Time 2026/11/21-08:08:20.000001) [a.cc:1] [cf2] Level summary"
    [line] = lines_of(text)
    assert line.written == datetime(2026, 11, 21, 8, 8, 20, 1)  # noqa: DTZ001 - local time
    assert (line.column_family, line.text) == ("cf2", "Level summary")


def test_a_job_is_no_column_family() -> None:
    [line] = lines_of(f"{HEAD}[db/a.cc:1] [JOB 4] Delete 000011.sst")
    assert line.column_family is None
    assert line.text == "[JOB 4] Delete 000011.sst"


@pytest.mark.parametrize(
    ("level", "name"),
    [("0", "debug"), ("2", "warn"), ("3", "error"), ("WARN_LEVEL", "warn"), ("5", "header")],
)
def test_levels_that_spark_hands_on_are_names(level: str, name: str) -> None:
    [line] = lines_of(f"26/11/21 08:08:24 INFO RocksDB: [NativeRocksDB-{level}] x")
    assert (line.level, line.native) == (name, True)


@pytest.mark.parametrize(
    "begins",
    [
        "26/11/21 08:08:24",
        "2026-11-21 08:08:24,500",
        "2026-11-21T08:08:24.5Z",
        "[2026-11-21 08:08:24",
    ],
)
def test_the_usual_times_of_log4j_are_read(begins: str) -> None:
    [line] = lines_of(f"{begins} INFO RocksDB: [NativeRocksDB-1] x")
    assert line.written is not None
    assert line.written.replace(microsecond=0) == datetime(2026, 11, 21, 8, 8, 24)  # noqa: DTZ001
    assert line.in_utc == begins.endswith("Z")


def test_a_message_of_several_lines_in_json_is_taken_apart() -> None:
    lines = lines_of('{"ts":"2026-11-21T14:56:15.786Z","msg":"[NativeRocksDB-1] a\\nb\\n"}')
    assert [(line.text, line.continued) for line in lines] == [("a", False), ("b", True)]


def test_files_are_in_the_order_of_their_microseconds(tmp_path: Path) -> None:
    for name in ("LOG", "LOG.old.100", "LOG.old.99", "LOG.old.x", "LOG.older"):
        (tmp_path / name).touch()
    assert [path.name for path in log_files(tmp_path)] == ["LOG.old.99", "LOG.old.100", "LOG"]
    assert log_files(tmp_path / "LOG.older") == [tmp_path / "LOG.older"]


def test_a_line_without_end_takes_no_more_memory_than_the_longest(tmp_path: Path) -> None:
    path = tmp_path / "LOG"
    path.write_bytes(b"a" * (3 * _LONGEST_LINE_BYTES + 5) + b"\nb\n")
    assert [len(text) for text in text_lines(path)] == [_LONGEST_LINE_BYTES, 1]


@pytest.mark.parametrize("micros", [None, -1, 1 << 62])
def test_impossible_times_are_unknown(micros: int | None) -> None:
    assert of_micros(micros) is None


def test_times_are_aware() -> None:
    assert of_micros(0) == datetime(1970, 1, 1, tzinfo=UTC)


def test_an_event_has_numbers_only_where_they_are_numbers() -> None:
    event = event_of(
        'EVENT_LOG_v1 {"a": 1, "b": true, "c": "2", "d": 1e3, "e": 36893488147419103232}'
    )
    assert event is not None
    assert [number_in(event, name) for name in "abcdef"] == [1, None, None, None, None, None]
    assert event_of("EVENT_LOG_v1 [1]") is None


def test_an_event_that_is_nested_too_deeply_is_no_event() -> None:
    assert event_of('EVENT_LOG_v1 {"a": ' + "[" * 100_000) is None
