from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from kstoolkit.errors import ConfigurationError
from kstoolkit.plots.log import _MOST_MARKS
from kstoolkit.plots.palette import UNKNOWN_HATCH
from kstoolkit.records import Records
from kstoolkit.rocksdb.log.jobs import LogRows, Stall
from kstoolkit.rocksdb.log.stats import StallTime, StatsDump, stall_time
from kstoolkit.rocksdb.log.storelog import read_log
from tests.plots.made import HOSTILE, drawn, legend, row_names, seen, stays_inside, texts
from tests.plots.realstores import lengths, log_named, tight_store
from tests.rocksdb.stalledstore import REAL_LOGS

STREAMS = "rocksdb-10.1.3.log"
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
MS_OF_DAY = 86_400_000


def stall(minute: float, condition: str = "stopped", cause: str | None = "memtable limit") -> Stall:
    at = NOON + timedelta(minutes=minute)
    return Stall(at, "default", condition, cause, 2, 2, None, None, None)


def dump(minute: int, **changes: Any) -> StatsDump:
    return StatsDump(NOON + timedelta(minutes=minute), **changes)


def bars_of(axes: Any, name: str) -> list[Any]:
    (bars,) = [each for each in axes.containers if each.get_label() == name]
    return list(bars)


def spans_of(axes: Any, name: str) -> Any:
    (spans,) = [each for each in axes.collections if each.get_label() == name]
    return spans


def marks_of(axes: Any, name: str) -> Any:
    (marks,) = [line for line in axes.lines if line.get_label() == name]
    return marks


@pytest.mark.parametrize(
    "name", [STREAMS, "rocksdb-7.9.2.log", "spark-4.3.log", "spark-4.3.json.log"]
)
def test_real_logs_fit_their_figures(name: str) -> None:
    log = log_named(name)
    assert stays_inside(log.plot())


def test_each_flush_and_compaction_is_a_span_as_long_as_it_took() -> None:
    log = log_named(STREAMS)
    axes: Any = drawn(log.plot())
    for name, done in (("flush", log.flushes()), ("compaction", log.compactions())):
        took = [each.duration_ms for each in done if not getattr(each, "moved", False)]
        edges = [path.vertices[:, 0] for path in spans_of(axes, name).get_paths()]
        drawn_ms = [np.ptp(each) * MS_OF_DAY for each in edges]
        assert drawn_ms == pytest.approx(took, rel=0.2, abs=2)


def test_levels_are_rows_and_moves_are_ticks() -> None:
    log = log_named(STREAMS)
    axes: Any = drawn(log.plot())
    assert row_names(axes) == ["flush to L0", "compaction to L5", "compaction to L6"]
    moves = marks_of(axes, "moved as they were")
    assert moves.get_marker() == "|"
    assert len(moves.get_xdata()) == sum(each.moved for each in log.compactions())
    assert seen(axes).startswith("5 flushes, 2 compactions, 1 move; each flushed byte written 1.9")


def test_stalls_are_marked_where_they_begin_by_cause_and_condition() -> None:
    rows = [
        stall(0),
        stall(1),
        stall(2, "delayed", "L0 file count limit"),
        stall(3, "delayed", None),
    ]
    axes: Any = drawn(LogRows(rows, "stalls").plot())
    assert row_names(axes) == ["memtable limit", "L0 file count limit", "another cause"]
    stopped, delayed = marks_of(axes, "writes stopped"), marks_of(axes, "writes delayed")
    assert list(stopped.get_ydata()) == [0, 0]
    assert list(delayed.get_ydata()) == [1, 2]
    assert stopped.get_marker() != delayed.get_marker()
    assert stopped.get_color() != delayed.get_color()
    assert "RocksDB doesn't log their ends" in axes.get_xlabel()
    minute = np.diff(stopped.get_xdata())[0] * MS_OF_DAY / 60_000
    assert minute == pytest.approx(1, rel=1e-3)


def test_time_in_which_writers_waited_is_drawn_as_high_as_its_share() -> None:
    log = read_log(tight_store())
    waits = [
        each for each in log.stats() if each.interval_stalled_s and each.interval_stalled_percent
    ]
    told = dump(10, interval_stalled_s=150.0, interval_stalled_percent=25.0)
    axes: Any = drawn(LogRows([stall(0), *waits], "events").plot())
    assert ("writers waited" in row_names(axes)) is bool(waits)
    one: Any = drawn(LogRows([stall(0), told], "events").plot())
    (bar,) = bars_of(one, "writers waited")
    assert abs(bar.get_height()) == pytest.approx(0.6 * 0.25)
    assert bar.get_width() * MS_OF_DAY == pytest.approx(600_000, rel=1e-3)


def test_a_job_that_was_not_finished_is_hatched() -> None:
    done = log_named(STREAMS).compactions()
    cut = replace(next(each for each in done if not each.moved), finished_at=None, duration_ms=None)
    axes: Any = drawn(LogRows([cut], "compactions").plot())
    assert legend(axes) == ["compaction, not finished"]
    assert spans_of(axes, "compaction, not finished").get_hatch() == UNKNOWN_HATCH


def test_a_silent_log_is_unknown_and_says_why() -> None:
    axes: Any = drawn(log_named("rocksdb-5.18.4-error.log").plot())
    title = seen(axes).replace("\n", " ")
    assert title.startswith("Flushes, compactions and stalls: unknown (")
    rows: Any = drawn(LogRows([], "stalls", "the writer logs at level ERROR").plot())
    assert seen(rows) == "Stalls: unknown (the writer logs at level ERROR)"
    assert seen(drawn(LogRows([], "stalls").plot())) == "No stalls"


def test_many_jobs_and_stalls_are_thinned_and_the_figure_says_so() -> None:
    one = next(each for each in log_named(STREAMS).flushes() if each.at and each.finished_at)
    at, end = one.at or NOON, one.finished_at or NOON
    flushes = [
        replace(one, at=at + n * timedelta(seconds=9), finished_at=end + n * timedelta(seconds=9))
        for n in range(5_000)
    ]
    axes: Any = drawn(LogRows([*flushes, *(stall(n) for n in range(3_000))], "events").plot())
    assert len(spans_of(axes, "flush").get_paths()) == _MOST_MARKS
    assert len(marks_of(axes, "writes stopped").get_xdata()) == _MOST_MARKS
    assert "the 2,000 longest of 5,000 jobs are drawn" in axes.get_xlabel()
    assert "stalls: 2,000 of 3,000 are marked" in axes.get_xlabel()


def test_what_has_no_time_is_counted() -> None:
    axes: Any = drawn(LogRows([stall(0), replace(stall(1), at=None)], "stalls").plot())
    assert "1 event without a time: not drawn" in axes.get_xlabel()


def test_writes_add_up_to_the_write_amplification() -> None:
    writes = log_named(STREAMS).write_amplification()
    axes: Any = drawn(writes.plot())
    assert lengths(axes) == [writes.flushed_bytes, writes.compacted_bytes]
    assert seen(axes).startswith(
        f"A flushed byte was written {writes.write_amplification:.1f} times"
    )


def test_the_time_that_writers_waited_is_part_of_the_time_covered() -> None:
    axes: Any = drawn(StallTime(2, 1, 600.0, 30.0, 5.0).plot())
    assert lengths(axes) == [570, 30]
    assert texts(axes) == ["600.0 s"]
    unknown: Any = drawn(stall_time([]).plot())
    assert seen(unknown).startswith("Writers waited unknown (the log holds no dump of statistics")


def test_levels_over_time_are_lines_that_differ_by_more_than_colour() -> None:
    log = read_log(tight_store())
    dumps = LogRows(list(log.stats()), "dumps of statistics")
    assert len(dumps)
    two = LogRows(
        [dump(0, levels=d.levels) for d in dumps]
        + [dump(9, levels=log_named(STREAMS).stats()[0].levels)],
        "dumps",
    )
    axes: Any = drawn(two.plot())
    assert {line.get_label() for line in axes.lines} >= {"L0", "L6"}
    looks = [(line.get_color(), line.get_linestyle(), line.get_marker()) for line in axes.lines]
    assert len(set(looks)) == len(looks)
    assert "dumps of statistics" in seen(axes)


def test_any_figure_of_a_dump_may_be_seen() -> None:
    dumps = [
        dump(
            n, stalled_s=float(n), stalled_percent=1.0 * n, tickers={"rocksdb.stall.micros": n * 10}
        )
        for n in range(5)
    ]
    axes: Any = drawn(LogRows(dumps, "dumps of statistics").plot(figure="stalled_percent"))
    assert axes.lines[0].get_ydata().tolist() == [0, 1, 2, 3, 4]
    assert axes.get_ylabel() == "stalled, %"
    ticker: Any = drawn(LogRows(dumps, "dumps").plot(figure="rocksdb.stall.micros"))
    assert seen(ticker) == "rocksdb.stall.micros was 40 at last; 5 dumps of statistics"
    nothing: Any = drawn(LogRows(dumps, "dumps").plot(figure="size_bytes"))
    assert seen(nothing) == "Size: unknown (no dump holds it)"
    with pytest.raises(ConfigurationError, match="'size'"):
        LogRows(dumps, "dumps").plot(figure="size")


def test_many_dumps_are_thinned_to_the_highest_of_their_groups() -> None:
    dumps = [dump(n, stalled_s=float(n % 7)) for n in range(10_000)]
    axes: Any = drawn(LogRows(dumps, "dumps").plot(figure="stalled_s"))
    assert len(axes.lines[0].get_xdata()) == 2_000
    assert "10,000 points drawn as 2,000, each the highest of 5" in axes.get_xlabel()


def test_one_store_of_several_is_drawn_and_named() -> None:
    dumps = [dump(n, stalled_s=1.0, store="a" if n % 3 else "b") for n in range(9)]
    axes: Any = drawn(LogRows(dumps, "dumps").plot(figure="stalled_s"))
    assert len(axes.lines[0].get_xdata()) == 6
    assert "one of 2 stores: a" in axes.get_xlabel()


def test_one_dump_shows_its_levels() -> None:
    one = log_named(STREAMS).stats()[0]
    axes: Any = one.plot()
    held = [each for each in one.levels if each.level not in {"Sum", "Int"}]
    assert stays_inside(axes)
    assert lengths(axes) == [each.size_bytes for each in held if each.size_bytes]
    assert len(row_names(axes)) == len(held)


@pytest.mark.parametrize("name", HOSTILE)
def test_names_in_a_log_may_hold_anything(name: str) -> None:
    one = log_named(STREAMS).stats()[0]
    levels = [replace(each, column_family=name) for each in one.levels]
    assert stays_inside(Records(levels, "levels").plot())
    pending = [dump(n, pending_compaction_bytes={name: n}) for n in range(3)]
    drawn(LogRows(pending, "dumps").plot(figure="pending_compaction_bytes"))
    silent: Any = drawn(LogRows([stall(0)], "stalls", name).plot())
    assert len(silent.get_xlabel()) < 600


def test_errors_are_marked_where_they_have_a_time_and_counted_where_not() -> None:
    file = REAL_LOGS / "rocksdb-7.9.2-full.log"
    known: Any = drawn(read_log(file, zone=UTC).plot())
    assert row_names(known) == ["errors"]
    assert "4 errors" in seen(known)
    unknown: Any = drawn(read_log(file).plot())
    assert "4 errors" in seen(unknown)
    assert not unknown.lines
