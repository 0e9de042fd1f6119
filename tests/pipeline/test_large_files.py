"""Files that are larger than a task's share: read in parts, and counted as if they were whole."""

from __future__ import annotations

import gzip
import json
import os
import random
import time
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv
import pyarrow.parquet as pq
import pytest

import kstoolkit as kst
from kstoolkit.counters.bucket import Reached
from kstoolkit.counters.counters import Counters
from kstoolkit.counters.sessions import rejoined
from kstoolkit.errors import UnreadableFile
from kstoolkit.events.contents import ContentsFile
from kstoolkit.events.event import Columns, Limits
from kstoolkit.pipeline.feeds import CountingReader, FileFeedPlan, _File
from kstoolkit.pipeline.operator import _unpack
from kstoolkit.pipeline.shuffle import DEAD_LETTERS, Grain, from_ipc
from kstoolkit.windows import Session
from tests.pipeline.harness import (
    BEGIN,
    Counted,
    counted,
    kill_group,
    letters,
    newest,
    source,
    spawned,
    told,
    until,
)

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from pyspark.sql.datasource import InputPartition

    from kstoolkit.counters.distinct import Touched
    from kstoolkit.pipeline.run import Run

FORMATS = pytest.mark.parametrize("kind", ["parquet", "json", "csv"])
LONG = pytest.mark.long
SOME_FORMATS = pytest.mark.parametrize(
    "kind", ["csv", *(pytest.param(kind, marks=LONG) for kind in ("parquet", "json"))]
)
EVENTS = 200_000
ROWS_IN_GROUP = 20_000
BAD = EVENTS // 4  # every so many events, one has no user


def events(number: int = EVENTS, *, users: int = 3_000, seed: int = 1) -> pa.Table:
    """Return events in the order of their times, of three days; a column beside makes it large."""
    draw = np.random.default_rng(seed)
    begin_ms = int(BEGIN.timestamp() * 1_000)
    who = np.char.add("user ", (draw.zipf(1.3, number) % users).astype(str)).astype(object)
    who[::BAD] = ""
    beside = draw.bytes(number * 32).hex()
    return pa.table(
        {
            "time": pa.array(
                begin_ms + np.sort(draw.integers(0, 3 * 86_400_000, number)),
                pa.timestamp("ms", "UTC"),
            ),
            "user": pa.array(who, pa.string()),
            "action": pa.array(draw.choice(["read", "write", "läs"], number)),
            "page": pa.array(np.char.add("/", draw.integers(0, 99, number).astype(str))),
            "beside": pa.array([beside[at : at + 64] for at in range(0, len(beside), 64)]),
        }
    )


def write(path: Path, table: pa.Table) -> Path:
    """Write events in the format that a name says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(
            table, path, row_group_size=ROWS_IN_GROUP, write_page_checksum=True, data_page_size=4096
        )
        return path
    texts = table.set_column(0, "time", pc.strftime(table["time"], "%Y-%m-%dT%H:%M:%SZ"))
    if path.suffix == ".csv":
        options = pv.WriteOptions(quoting_style="none", quoting_header="none")
        pv.write_csv(texts, path, options)
    else:
        rows = texts.to_pylist()
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return path


def by_duckdb(path: Path, hours: int = 1) -> Counted:
    """Count a file's events by DuckDB, which knows nothing of ours."""
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        read = getattr(database, f"read_{path.suffix[1:]}")
        start = f"epoch_ms(time) // {hours * 3_600_000} * {hours * 3_600_000} AS start"
        columns = f'{start}, "user", action, count(*) AS number'
        known = read(str(path)).filter("\"user\" != ''")
        rows = known.aggregate(columns, 'start, "user", action').fetchall()
    return {(start, who, what): number for start, who, what, number in rows}


COLUMNS = Columns("time", "user", "action", ("page",))
GRAIN = Grain(60_000, 3, sessions=("session 5 seconds",), items=(("page", 3_600_000),))


@dataclass(frozen=True)
class Arrived:
    """What came to each bucket, and dead letters, wherever they went."""

    buckets: list[dict[str, Any]]
    dead: list[str]


@dataclass(frozen=True)
class Feed:
    """The file feed over a folder as Spark asks it, for so many tasks."""

    folder: Path
    out: Path
    tasks: int

    def reader(self) -> CountingReader:
        ledger = str(self.out / "files.jsonl")
        plan = (ledger, GRAIN, self.tasks, 1_000, 1 << 40)
        return CountingReader(FileFeedPlan(str(self.folder), None, COLUMNS, Limits(), *plan))

    def partitions(self) -> list[InputPartition]:
        reader = self.reader()
        end = reader.latestOffset({"files": 0}, reader.getDefaultReadLimit())
        return reader.partitions({"files": 0}, end)

    def came(self, partitions: list[InputPartition] | None = None) -> Arrived:
        """Return what comes of tasks that end in any order, as the operator sees it."""
        tasks = self.partitions() if partitions is None else partitions
        random.Random(1).shuffle(tasks)
        batches = chain(*(self.reader().read(task) for task in tasks))
        rows = [row for batch in batches for row in batch.to_pylist()]
        buckets = [_bucket(rows, bucket) for bucket in range(GRAIN.buckets)]
        dead = chain(*(from_ipc(each).to_pylist() for came in buckets for each in came.dead))
        return Arrived(list(map(_plainly, buckets)), sorted(map(str, dead)))

    def held(self, position: int = 0) -> dict[str, Any]:
        """Return what is known of a file, but for when it was changed."""
        found = ContentsFile(self.out / "contents").read(position)
        return {} if found is None else asdict(found) | {"mtime_ns": 0}


def _bucket(rows: list[dict[str, Any]], bucket: int) -> Any:
    mine = [row for row in rows if row["bucket"] == bucket]
    frames = [pd.DataFrame(mine[at : at + 5]).assign(now_ms=1) for at in range(0, len(mine), 5)]
    return _unpack(iter(frames), bucket)


def _plainly(came: Any) -> dict[str, Any]:
    return {
        "counters": _rows(came.arrivals),
        "sessions": {number: _sessions(each) for number, each in came.sessions.items()},
        "touched": {kind: _registers(each) for kind, each in came.touched.items()},
        "feeds": came.feeds,
        "kinds": came.kinds - {DEAD_LETTERS},
    }


def _rows(counters: Counters) -> list[dict[str, Any]]:
    return sorted(counters.to_table().to_pylist(), key=str)


def _sessions(pieces: Counters) -> list[dict[str, Any]]:
    return _rows(rejoined(Counters.empty(), pieces, Session.parse(GRAIN.sessions[0]))[0])


def _registers(touched: Touched) -> list[tuple[str, ...]]:
    columns = (touched.start_ms, touched.register, touched.rank)
    users = np.array(touched.users.to_pylist())[touched.user]
    return sorted(zip(users.tolist(), *(each.tolist() for each in columns), strict=True))


def parts_in(partitions: list[InputPartition]) -> list[list[_File]]:
    return [list(each.value) for each in partitions]


@pytest.mark.parametrize("kind", ["parquet", pytest.param("csv", marks=LONG), "json"])
@pytest.mark.parametrize("tasks", [2, pytest.param(3, marks=LONG)])
def test_what_comes_of_parts_is_what_comes_of_the_whole(
    tmp_path: Path, kind: str, tasks: int
) -> None:
    path = write(tmp_path / "in" / f"a.{kind}", events())
    whole, parted = (Feed(tmp_path / "in", tmp_path / f"out{n}", n) for n in (1, tasks))
    assert [len(files) for files in parts_in(parted.partitions())] == [1] * min(
        tasks, path.stat().st_size >> 22
    )
    assert parted.came() == whole.came()
    assert parted.held() == whole.held() != {}


def test_how_far_a_file_is_is_told_by_some_of_many_users(tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.parquet", events(users=100_000, seed=2))
    (whole,), (parted,) = (
        Feed(tmp_path / "in", tmp_path / f"out{n}", n).came().buckets[0]["feeds"] for n in (1, 2)
    )
    assert isinstance(whole, Reached)
    assert parted.latest_ms == whole.latest_ms
    assert parted.users == pytest.approx(whole.users, rel=0.1)
    # Of a thousand samples of so many users, the middle ones are farther apart in no more than one.
    assert abs(parted.pane_ms - whole.pane_ms) < 0.06 * 3 * 86_400_000


def damage(path: Path, kind: str, where: float) -> None:
    """Have a file damaged at a place: a bit of a page, or a record that never ends."""
    data = bytearray(path.read_bytes())
    if kind == "parquet":
        known = pq.read_metadata(path)
        group = known.row_group(int(where * (known.num_row_groups - 1)))
        column = next(group.column(n) for n in range(5) if group.column(n).path_in_schema == "time")
        data[column.data_page_offset + column.total_compressed_size // 2] ^= 1
    else:
        at = data.index(b"\n", int(where * len(data) * 0.9)) + 1
        data[at:at] = b"x" * (17 << 20)
    path.write_bytes(data)


@pytest.mark.parametrize("where", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_of_a_file_with_a_damaged_part_nothing_comes_but_that_it_is(
    tmp_path: Path, kind: str, where: float
) -> None:
    path = write(tmp_path / "in" / f"a.{kind}", events())
    damage(path, kind, where)
    whole, parted = (Feed(tmp_path / "in", tmp_path / f"out{n}", n) for n in (1, 3))
    assert len(parted.partitions()) > 1
    found = parted.came()
    assert found == whole.came()
    assert [letter[:26] for letter in found.dead] == ["{'reason': 'broken_file', "]
    assert not any(
        each["counters"] or each["sessions"] or each["touched"] for each in found.buckets
    )
    assert parted.held() == whole.held()
    assert parted.held()["is_damaged"]


@SOME_FORMATS
def test_what_comes_of_a_file_that_is_cut_short_is_what_comes_of_it_whole(
    tmp_path: Path, kind: str
) -> None:
    path = write(tmp_path / "in" / f"a.{kind}", events())
    os.truncate(path, path.stat().st_size * 9 // 10 - 30)
    whole, parted = (Feed(tmp_path / "in", tmp_path / f"out{n}", n) for n in (1, 2))
    found = parted.came()
    assert found == whole.came()
    last = "broken_file" if kind == "parquet" else "unparseable"  # and those without a user
    assert last in {letter.split("'")[3] for letter in found.dead}
    assert parted.held() == whole.held() != {}


def test_beside_a_damaged_large_file_all_others_count(tmp_path: Path) -> None:
    write(tmp_path / "in" / "b.parquet", events())
    damage(write(tmp_path / "in" / "a.parquet", events(2 * EVENTS, seed=3)), "parquet", 0.9)
    write(tmp_path / "in" / "c.csv", events(1_000, seed=4))
    whole, parted = (Feed(tmp_path / "in", tmp_path / f"out{n}", n) for n in (1, 3))
    assert sum(len(files) for files in parts_in(parted.partitions())) == 2 + 1 + 1
    mine, theirs = parted.came(), whole.came()
    assert mine.dead == theirs.dead
    for one, other in zip(mine.buckets, theirs.buckets, strict=True):
        assert one["counters"] == other["counters"] != []
    assert [parted.held(n) for n in range(3)] == [whole.held(n) for n in range(3)]


def test_lines_may_end_inside_of_quotes_where_a_file_has_any(tmp_path: Path) -> None:
    path = write(tmp_path / "in" / "a.csv", events())
    data = path.read_bytes()
    line = data.rindex(b"\n", 0, len(data) // 2) + 1  # a cut would come amid these
    inside = b'2025-03-01T10:00:00Z,"a\n' + b"2025-03-01T10:00:00Z,b,c,d,e\n" * 9_999 + b'",x,y,z\n'
    path.write_bytes(data[:line] + inside + data[line:])
    feed = Feed(tmp_path / "in", tmp_path / "out", 2)
    assert len(feed.partitions()) == 1
    users = {row["user"] for came in feed.came().buckets for row in came["counters"]}
    assert "b" not in users


@FORMATS
def test_a_compressed_or_small_text_stays_whole(tmp_path: Path, kind: str) -> None:
    write(tmp_path / "in" / f"a.{kind}", events(2_000))
    assert len(Feed(tmp_path / "in", tmp_path / "out", 2).partitions()) == 1
    if kind != "parquet":
        path = write(tmp_path / "packed" / f"a.{kind}", events())
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), 0))
        path.unlink()
        assert len(Feed(tmp_path / "packed", tmp_path / "out 2", 2).partitions()) == 1


@pytest.mark.long
@SOME_FORMATS
def test_parts_of_two_files_are_never_put_together(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path / "in" / f"a.{kind}", events())
    feed = Feed(tmp_path / "in", tmp_path / "out", 2)
    first, second = feed.partitions()
    list(feed.reader().read(first))
    other = write(tmp_path / "other" / path.name, events(seed=5))
    other.replace(path)
    with pytest.raises(UnreadableFile, match=r"another one than when its first parts were read"):
        list(feed.reader().read(second))
    expected = by_duckdb(path)
    found = feed.came()  # planned anew, as a batch that is repeated is
    assert sum(row["count"] for came in found.buckets for row in came["counters"]) == sum(
        expected.values()
    )


@pytest.mark.parametrize("kind", [pytest.param("json", marks=LONG), "csv"])
def test_what_is_added_while_parts_are_read_is_not_counted(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path / "in" / f"a.{kind}", events())
    whole = Feed(tmp_path / "in", tmp_path / "out1", 1).came()
    feed = Feed(tmp_path / "in", tmp_path / "out2", 2)
    parts = feed.partitions()
    with path.open("ab") as file:
        file.write(path.read_bytes()[-1_000:])
    assert feed.came(parts) == whole
    assert feed.held()["whole"] == -1  # nobody knows: it changed meanwhile


RULES = (kst.Ceiling("1 hour", 200), kst.Unusual("1 hour", 50), kst.Distinct("page", "1 hour", 50))
CASCADE = kst.Cascade("1 hour", "1 day", kst.Session("5 seconds"))


def pipeline(folder: Path) -> kst.Pipeline:
    return kst.Pipeline(source=source(folder / "in"), cascade=CASCADE, rules=RULES, buckets=3)


def run(folder: Path, out: str = "out") -> Run:
    return pipeline(folder).run(folder / out, max_files_per_batch=2, progress=False)


def all_told(run: Run) -> tuple[Any, ...]:
    """Return what a run tells, but for the names of files."""
    dead = [letter[:2] for letter in letters(run)]
    summary = run.summary()
    figures = summary.events, summary.late, summary.dead_letters, summary.counters_in
    windows = {label: counted(run, label) for label in run.settings.windows}
    users = run.users()[["user", "score"]]
    return told(run), dead, figures, windows, users.to_dict("list")


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@SOME_FORMATS
def test_a_run_counts_a_large_file_as_duckdb_does_and_finds_what_it_finds_in_the_whole(
    tmp_path: Path, kind: str
) -> None:
    path = write(tmp_path / "large" / "in" / f"a.{kind}", events(seed=6))
    whole = tmp_path / "whole" / "in" / path.name
    whole.parent.mkdir(parents=True)
    if kind == "parquet":
        pq.write_table(pq.read_table(path), whole, row_group_size=EVENTS)
    else:
        whole.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), 1))
    assert len(Feed(path.parent, tmp_path / "feed", 2).partitions()) == 2
    assert len(Feed(whole.parent, tmp_path / "feed whole", 2).partitions()) == 1
    mine, theirs = run(tmp_path / "large"), run(tmp_path / "whole")
    assert counted(mine, "1 hour") == by_duckdb(path)
    assert counted(mine, "1 day") == by_duckdb(path, hours=24)
    assert all_told(mine) == all_told(theirs)
    assert len(mine.findings) > 0


PROGRAM = """
    import sys
    from pathlib import Path
    from kstoolkit.pipeline.session import spark_session
    from tests.pipeline.test_large_files import run
    spark_session("local[2]")
    run(Path(sys.argv[1]))
"""


def _has_begun(folder: Path, begun: int, process: subprocess.Popen[str]) -> bool:
    return newest(folder) > begun or process.poll() is not None


@LONG
@pytest.mark.spark
@pytest.mark.kill
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("spark")
def test_kills_while_parts_are_read_change_nothing(tmp_path: Path) -> None:
    """Beside a good file in parts is one that is damaged late, and in a later batch two more."""
    inputs, out = tmp_path / "in", tmp_path / "out"
    goods = [write(inputs / f"{name}.parquet", events(seed=n)) for n, name in enumerate("ac")]
    damage(write(inputs / "b.parquet", events(seed=7)), "parquet", 1.0)
    goods.append(write(inputs / "d.csv", events(seed=8)))
    draw, ahead = random.Random(9), 0
    for wait in ("offsets", "offsets", "commits"):
        begun = newest(out / "checkpoint" / "commits")
        with spawned(PROGRAM, tmp_path) as process:
            is_there = partial(_has_begun, out / "checkpoint" / wait, begun, process)
            until(is_there, "a batch that has begun", seconds=120, every=0.002)
            time.sleep(draw.random())
            assert process.poll() is None, process.communicate()[1]
            kill_group(process)
        ahead += newest(out / "checkpoint" / "offsets") > newest(out / "checkpoint" / "commits")
    assert ahead, "no kill came amid a batch"
    mine, calm = run(tmp_path), run(tmp_path, "calm")
    expected: Counted = {}
    for path in goods:
        for key, number in by_duckdb(path).items():
            expected[key] = expected.get(key, 0) + number
    assert counted(mine, "1 hour") == expected
    assert all_told(mine) == all_told(calm)
    assert [each for each in letters(mine) if each[0] == "broken_file"] == [
        ("broken_file", "", "b.parquet")
    ]
    contents = [ContentsFile(each / "contents") for each in (out, tmp_path / "calm")]
    mine_held, calm_held = ([each.read(n) for n in range(4)] for each in contents)
    assert mine_held == calm_held
    assert [held is not None and held.is_damaged for held in mine_held] == [
        False,
        True,
        False,
        False,
    ]
