"""What a run does with input, folders and disks that are not as they should be."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kstoolkit as kst
from kstoolkit.errors import (
    ColumnError,
    ConfigurationError,
    InputError,
    OutputError,
    UnreadableFile,
    UserError,
)
from kstoolkit.events.event import REASONS
from tests.pipeline.harness import (
    NAMES,
    ROOT,
    check_exact,
    counted,
    events,
    letters,
    source,
    write_files,
    write_lines,
)

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.pipeline.run import Run

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

OF_OTHER_SOURCES = {"marked_broken", "poison"}
"""Reasons that only DataFrames and topics have."""

GONE = {"missing_file", "set_aside"}
"""Reasons of files that were not read at all."""

GOOD = {"time": "2025-03-01T10:00:00Z", "user": "Ann", "action": "read"}


def run(folder: Path, out: Path, **options: Any) -> Run:
    pipeline = kst.Pipeline(
        source=source(folder), cascade=kst.Cascade("1 hour", "1 day"), buckets=2
    )
    return pipeline.run(out, progress=False, **options)


def bad(**changes: Any) -> str:
    """Return a record with something wrong in it; ``None`` takes a field away."""
    record = {**GOOD, **changes}
    return json.dumps({name: value for name, value in record.items() if value is not None})


BAD = {
    '{"time": "2025-03-01T10:00:00Z", "user": ': "unparseable",
    "[1, 2]": "unparseable",
    bad(user=None): "no_user",
    bad(user=""): "no_user",
    bad(action=None): "no_action",
    bad(time=None): "no_time",
    bad(time="yesterday"): "bad_time",
    bad(time="2099-01-01T00:00:00Z"): "future_time",
    bad(user="x" * 1025): "long_user",
    bad(action="ä" * 513): "long_action",
}


def test_bad_records_become_dead_letters_with_reason_raw_text_file_and_batch(
    tmp_path: Path,
) -> None:
    rows: list[dict[str, Any] | str] = [GOOD, *BAD, GOOD]
    write_lines(tmp_path / "in" / "a.json", [GOOD])
    path = write_lines(tmp_path / "in" / "b.json", rows)
    whole = gzip.compress(b"\n".join(json.dumps(GOOD).encode() for _ in range(50_000)))
    (tmp_path / "in" / "c.json.gz").write_bytes(whole[: len(whole) // 2])
    write_lines(tmp_path / "in" / "d.json", [GOOD])
    done = run(tmp_path / "in", tmp_path / "out", max_files_per_batch=1)

    expected = [(reason, raw, "b.json") for raw, reason in BAD.items()]
    assert letters(done) == sorted([*expected, ("broken_file", "", "c.json.gz")])
    assert {reason for reason, _, _ in letters(done)} == set(REASONS) - OF_OTHER_SOURCES - GONE
    table = done.dead_letters.table.to_pylist()
    assert {(row["file"], row["batch"]) for row in table} == {
        (str(path), 1),
        (str(tmp_path / "in" / "c.json.gz"), 2),
    }
    assert list(counted(done, "1 day").values()) == [4]
    summary = done.summary()
    assert (summary.events, summary.late) == (4, {})
    assert summary.dead_letters == done.dead_letters.by_reason
    assert "its time lies further in the future than the clock allows" in str(summary)


def test_a_record_of_the_year_2099_makes_no_other_late(tmp_path: Path) -> None:
    write_lines(tmp_path / "in" / "a.json", [bad(time="2099-01-01T00:00:00Z")])
    write_lines(tmp_path / "in" / "b.json", [GOOD])
    cascade = kst.Cascade("1 hour", lateness="1 hour")
    done = kst.Pipeline(source=source(tmp_path / "in"), cascade=cascade, buckets=1).run(
        tmp_path / "out", max_files_per_batch=1, progress=False
    )
    assert (done.summary().late, list(counted(done, "1 hour").values())) == ({}, [1])


def test_how_far_in_the_future_and_how_long_a_name_may_be_is_the_users_to_say(
    tmp_path: Path,
) -> None:
    now = datetime.now(UTC)
    soon = (now + timedelta(hours=30)).isoformat()
    write_lines(tmp_path / "in" / "a.json", [bad(time=soon), bad(user="Bartholomew"), GOOD])
    given = source(tmp_path / "in", max_future="2 days", max_text_bytes=10)
    done = kst.Pipeline(source=given, cascade=kst.Cascade("1 day"), buckets=1).run(
        tmp_path / "out", progress=False
    )
    assert [reason for reason, _, _ in letters(done)] == ["long_user"]
    assert sum(counted(done, "1 day").values()) == 2
    nearly = bad(time=(now + timedelta(hours=23)).isoformat())
    write_lines(tmp_path / "in" / "a.json", [bad(time=soon), nearly])
    by_default = run(tmp_path / "in", tmp_path / "by default")
    assert letters(by_default) == [("future_time", bad(time=soon), "a.json")]
    assert sum(counted(by_default, "1 day").values()) == 1


def test_an_empty_file_among_others_is_no_event_and_no_dead_letter(tmp_path: Path) -> None:
    write_lines(tmp_path / "in" / "a.json", [])
    path = write_lines(tmp_path / "in" / "b.json", [GOOD])
    (tmp_path / "in" / "c.csv").touch()
    done = run(tmp_path / "in", tmp_path / "out")
    assert (len(done.dead_letters), done.summary().events) == (0, 1)
    check_exact(done, [path])


@pytest.mark.parametrize("ending", ["json", "csv"])
def test_what_columns_expressions_may_name_is_seen_behind_files_that_are_empty(
    tmp_path: Path, ending: str
) -> None:
    (tmp_path / "in").mkdir()
    for number in range(5):
        (tmp_path / "in" / f"{number}.{ending}").touch()
    told = {"json": json.dumps(GOOD), "csv": "\n".join(map(",".join, (GOOD, GOOD.values())))}
    (tmp_path / "in" / f"z.{ending}").write_text(told[ending] + "\n")
    given = kst.files(tmp_path / "in", event_time="time", user="upper(user)", action="action")
    done = kst.Pipeline(source=given, cascade=kst.Cascade("1 day"), buckets=1).run(
        tmp_path / "out", progress=False
    )
    assert done.users()["user"].tolist() == ["ANN"]


@pytest.mark.parametrize("name", ["a.json", "a.csv"])
def test_nothing_but_empty_files_is_said_so(tmp_path: Path, name: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / name).touch()
    with pytest.raises(InputError, match=r"No events in .*: .* empty"):
        run(tmp_path / "in", tmp_path / "out")


def test_an_empty_folder_is_said_so_and_can_be_filled_and_run_again(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "notes.txt").write_text("nothing of ours")
    with pytest.raises(InputError, match=r"No events in .*: no file there has a known format"):
        run(tmp_path / "in", tmp_path / "out")
    write_lines(tmp_path / "in" / "a.json", [GOOD])
    assert run(tmp_path / "in", tmp_path / "out").summary().events == 1


def test_files_that_are_left_unread_are_said_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [write_lines(tmp_path / "in" / name, [GOOD]) for name in ("a.ndjson", "app.log")]
    check_exact(run(tmp_path / "in", tmp_path / "out"), paths[:1])
    assert "Left unread is 1 file whose name says no format: .log (1). " in capsys.readouterr().err
    both = kst.Pipeline(source=source(tmp_path / "in", format="json"), buckets=2)
    check_exact(both.run(tmp_path / "both", progress=False), paths)
    assert "Left unread" not in capsys.readouterr().err


def test_times_without_a_zone_are_said_to_be_utc_or_are_what_one_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").mkdir()
    lines = ("time,user,action", "2025-07-01 10:00:00,Ann,read", "02/Jul/2025:10:00:00,Bo,read")
    (tmp_path / "in" / "a.csv").write_text("\n".join(lines))
    told = "Times without a zone are taken for UTC; --input-timezone"

    def hours(out: str, **options: Any) -> list[str]:
        given = source(tmp_path / "in", **options)
        pipeline = kst.Pipeline(source=given, cascade=kst.Cascade("1 hour"), buckets=2)
        counts = pipeline.run(tmp_path / out, progress=False).counts("1 hour")
        return [each.isoformat() for each in counts["window_start"]]

    assert hours("utc") == ["2025-07-01T10:00:00+00:00", "2025-07-02T10:00:00+00:00"]
    assert told in capsys.readouterr().err
    hours("utc")
    assert told not in capsys.readouterr().err
    there = hours("there", input_timezone="Europe/Prague")
    assert there == ["2025-07-01T08:00:00+00:00", "2025-07-02T08:00:00+00:00"]
    assert told not in capsys.readouterr().err
    with pytest.raises(ConfigurationError, match="The time zone 'Prague' is unknown"):
        source(tmp_path / "in", input_timezone="Prague")


def test_input_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"No such file or folder: .*nowhere'"):
        run(tmp_path / "nowhere", tmp_path / "out")


def test_a_missing_column_is_named_with_the_ones_that_are_near(tmp_path: Path) -> None:
    write_lines(tmp_path / "in" / "a.json", [{"time": GOOD["time"], "usr": "a", "action": "b"}])
    with pytest.raises(ColumnError, match=r"No column 'user' in .*a\.json") as raised:
        run(tmp_path / "in", tmp_path / "out")
    assert raised.value.hint == "Did you mean 'usr'? It has: action, time, usr."
    assert isinstance(raised.value, UserError)


def test_a_later_file_without_the_column_is_a_dead_letter_and_stops_nothing(tmp_path: Path) -> None:
    paths = [write_lines(tmp_path / "in" / f"{n}.json", [GOOD]) for n in range(3)]
    (tmp_path / "in" / "x.csv").write_text("time,name,action\n2025-03-01,a,b\n")
    pq.write_table(pa.table({"time": [1], "action": ["a"]}), tmp_path / "in" / "y.parquet")
    (tmp_path / "in" / "z.parquet").write_bytes(b"PAR1 and no more")
    done = run(tmp_path / "in", tmp_path / "out")
    check_exact(done, paths)
    found = [(reason, name) for reason, _, name in letters(done)]
    assert found == [("broken_file", name) for name in ("x.csv", "y.parquet", "z.parquet")]
    assert all(row["detail"] for row in done.dead_letters.table.to_pylist())


def test_a_file_that_is_gone_before_it_is_read_is_a_dead_letter(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in" / "a.json", [GOOD])
    (tmp_path / "in" / "b.json").symlink_to(tmp_path / "nowhere")
    (tmp_path / "in" / "c.json").mkdir()
    done = run(tmp_path / "in", tmp_path / "out")
    check_exact(done, [path])
    assert letters(done) == []


AS_COLUMNS = pytest.mark.parametrize(
    "user", ["user", "trim(user)"], ids=["by name", "by expression"]
)
FAILING = "/proc/self/mem"
"""A file whose first byte can't be read by anybody: EIO."""


def failing_run(folder: Path, user: str, **options: Any) -> Run:
    """Count files by name, one a batch, or by an expression."""
    given = kst.files(folder / "in", event_time="time", user=user, action="action")
    pipeline = kst.Pipeline(source=given, cascade=kst.Cascade("1 hour"), buckets=2)
    return pipeline.run(folder / "out", progress=False, max_files_per_batch=1, **options)


@AS_COLUMNS
def test_a_file_that_can_not_be_read_ends_the_run_and_the_next_one_goes_on_with_it(
    tmp_path: Path, user: str
) -> None:
    paths = write_files(tmp_path / "in", events(60), 2)
    last = tmp_path / "in" / "x.json"
    last.symlink_to(FAILING)
    with pytest.raises(UnreadableFile) as raised:
        failing_run(tmp_path, user)
    assert raised.value.message == f"'{last}' can't be read: Input/output error."
    assert f"--set-aside {last}." in str(raised.value.hint.at_terminal)  # type: ignore[union-attr]
    begun = kst.load_run(tmp_path / "out")
    check_exact(begun, paths)
    assert letters(begun) == []
    last.unlink()
    write_lines(last, [GOOD])
    done = failing_run(tmp_path, user)
    check_exact(done, [*paths, last])
    assert (done.summary().events, letters(done)) == (61, [])


@pytest.mark.parametrize(
    "user",
    ["user", pytest.param("trim(user)", marks=pytest.mark.long)],
    ids=["by name", "by expression"],
)
def test_files_are_given_up_and_taken_in_again_once_each(tmp_path: Path, user: str) -> None:
    paths = write_files(tmp_path / "in", events(60), 2)
    failing, broken = tmp_path / "in" / "x.json", tmp_path / "in" / "y.json.gz"
    failing.symlink_to(FAILING)
    broken.write_bytes(b"no gzip")
    given_up = failing_run(tmp_path, user, set_aside=str(tmp_path / "in" / "x*"))
    check_exact(given_up, paths)
    of_files = [("broken_file", "", "y.json.gz"), ("set_aside", "", "x.json")]
    assert letters(given_up) == of_files
    with pytest.raises(ConfigurationError, match=r"No file that .*00\.json' names is a dead") as no:
        failing_run(tmp_path, user, readmit=str(paths[0]))
    assert no.value.hint == f"Of this run, these are: {str(failing)!r}, {str(broken)!r}."
    failing.unlink()
    write_lines(failing, [GOOD])
    broken.write_bytes(gzip.compress(json.dumps(GOOD).encode()))
    done = failing_run(tmp_path, user, readmit=str(tmp_path / "in"))
    assert (done.summary().events, letters(done)) == (62, of_files)
    for _ in range(2):  # what counts now is not to count twice
        with pytest.raises(ConfigurationError, match="No file that"):
            failing_run(tmp_path, user, readmit=str(tmp_path / "in"))
    assert failing_run(tmp_path, user).summary().events == 62


def test_a_file_that_is_gone_once_it_was_taken_in_is_missing_while_others_are_there(
    tmp_path: Path,
) -> None:
    paths = write_files(tmp_path / "in", events(60), 3)
    (tmp_path / "in" / "x.json").symlink_to(FAILING)
    with pytest.raises(UnreadableFile):
        run(tmp_path / "in", tmp_path / "out")
    shutil.move(tmp_path / "in", tmp_path / "away")
    (tmp_path / "in").mkdir()  # as if its disk were not mounted
    with pytest.raises(UnreadableFile, match=r"in/\d\d\.json' can't be read: No such file"):
        run(tmp_path / "in", tmp_path / "out")
    (tmp_path / "in").rmdir()
    shutil.move(tmp_path / "away", tmp_path / "in")
    for path in (paths[1], tmp_path / "in" / "x.json"):
        path.unlink()
    done = run(tmp_path / "in", tmp_path / "out")
    check_exact(done, [paths[0], paths[2]])
    assert letters(done) == [("missing_file", "", "01.json"), ("missing_file", "", "x.json")]


def test_a_file_that_the_system_tells_nothing_of_is_set_aside_as_the_hint_says(
    tmp_path: Path,
) -> None:
    paths = write_files(tmp_path / "in", events(60), 1)
    loop = tmp_path / "in" / "a.json"
    loop.symlink_to(loop)
    with pytest.raises(UnreadableFile) as no:
        run(tmp_path / "in", tmp_path / "out")
    done = run(tmp_path / "in", tmp_path / "out", set_aside=no.value.alone)
    check_exact(done, paths)
    assert letters(done) == [("set_aside", "", "a.json")]


def test_a_file_of_a_batch_that_was_cut_off_is_not_taken_in_again(tmp_path: Path) -> None:
    paths = write_files(tmp_path / "in", events(60), 1)
    broken = tmp_path / "in" / "y.json.gz"
    broken.write_bytes(b"no gzip")
    out = tmp_path / "out"
    run(tmp_path / "in", out)
    for name in ("0", ".0.crc"):  # as if killed between the sink's mark and Spark's
        (out / "checkpoint" / "commits" / name).unlink()
    broken.write_bytes(gzip.compress(json.dumps(GOOD).encode()))
    with pytest.raises(ConfigurationError, match=r"No file that .* is a dead letter"):
        run(tmp_path / "in", out, readmit=str(broken))
    done = run(tmp_path / "in", out)
    assert (done.summary().events, letters(done)) == (61, [])
    assert sum(counted(done, "1 day").values()) == 60 + 1
    assert paths


def test_only_files_can_be_set_aside(tmp_path: Path) -> None:
    for empty in ("set_aside", "readmit"):
        with pytest.raises(ConfigurationError, match="An empty text would name every file"):
            run(tmp_path, tmp_path / "out", **{empty: " "})
    pipeline = kst.Pipeline(
        source=kst.kafka_topic("kafka://h:1/t", event_time="t", user="u", action="a")
    )
    with pytest.raises(ConfigurationError, match="in no files that could be set aside"):
        pipeline.run(tmp_path / "out", set_aside="*")


def test_hostile_names_of_users_actions_and_files_are_just_names(tmp_path: Path) -> None:
    rows: list[dict[str, Any] | str] = [
        {"time": GOOD["time"], "user": user, "action": action}
        for user in (*NAMES, "\u0000", "'; DROP TABLE counts; --", "\u202ertl", "=cmd()", "None")
        for action in ("<script>alert(1)</script>", "../../etc", "null")
    ]
    folder = tmp_path / "in put %20 ünï'code"
    path = write_lines(folder / "a b'c\"%d{}[].json", rows)
    done = run(folder, tmp_path / "out put %20 'ü' \"q\"")
    assert counted(done, "1 day") == {
        (1_740_787_200_000, row["user"], row["action"]): 1 for row in rows if isinstance(row, dict)
    }
    assert (len(done.dead_letters), path.exists()) == (0, True)


def test_an_output_that_is_a_file_or_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    write_lines(tmp_path / "in" / "a.json", [GOOD])
    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("mine")
    with pytest.raises(OutputError, match="is a file, not a folder"):
        run(tmp_path / "in", tmp_path / "file")
    with pytest.raises(OutputError, match="holds 1 other file, and no run"):
        run(tmp_path / "in", tmp_path / "full")
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["thesis.tex"]


ONE_RUN = """
    import sys
    import kstoolkit as kst
    from kstoolkit.errors import KstoolkitError
    from kstoolkit.pipeline.session import spark_session
    from tests.pipeline.harness import source
    spark_session("local[2]")
    pipeline = kst.Pipeline(source=source(sys.argv[1]), buckets=2)
    try:
        pipeline.run(sys.argv[2], max_files_per_batch=1, progress=False)
    except KstoolkitError as error:
        print(type(error).__name__, error, sep=": ")
    else:
        print("done")
"""

TWO_RUNS = """
    mount -t tmpfs -o size=1200k tmpfs "$2"
    "$PYTHON" -c "$ONE_RUN" "$1" "$2/out"
    mount -o remount,size=300m "$2"
    "$PYTHON" -c "$ONE_RUN" "$1" "$2/out"
    cp -r "$2/out" "$3"
"""

# A shell in which disks can be mounted that nobody else sees, whoever runs it.
MOUNTING = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-ec")


def can_mount() -> bool:
    """Return whether this machine lets its users mount disks of their own."""
    if not shutil.which("unshare"):
        return False
    return not subprocess.run([*MOUNTING, "mount -t tmpfs tmpfs /mnt"], check=False).returncode


@pytest.mark.slow
@pytest.mark.long
def test_a_full_disk_ends_the_run_with_one_sentence_and_loses_nothing(tmp_path: Path) -> None:
    if not can_mount():
        pytest.skip("no disk of one's own can be mounted")
    paths = write_files(tmp_path / "in", events(600, seed=2), 3)
    draw = random.Random(4)
    many = [{**GOOD, "user": f"{draw.getrandbits(256):x}"} for _ in range(15_000)]
    paths += [write_lines(tmp_path / "in" / "big.json", many)]
    (tmp_path / "disk").mkdir()
    places = (tmp_path / "in", tmp_path / "disk", tmp_path / "copy")
    told = subprocess.run(
        [*MOUNTING, dedent(TWO_RUNS), "sh", *places],
        env=os.environ
        | {"PYTHON": sys.executable, "PYTHONPATH": str(ROOT), "ONE_RUN": dedent(ONE_RUN)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    first, hint, last = told.stdout.strip().splitlines()
    assert first.startswith("RunFailed: Spark gave up: ")
    assert re.search(r"Only .* (B|KiB) are free where '.*/disk/out' lies\.$", first)
    assert hint.startswith("Hint: Nothing is lost: ")
    assert last == "done"
    done = kst.load_run(tmp_path / "copy")
    check_exact(done, paths)
    assert (done.summary().events, len(done.dead_letters)) == (15_600, 0)


def test_settings_that_can_not_be_written_are_said_in_a_sentence(tmp_path: Path) -> None:
    write_lines(tmp_path / "in" / "a.json", [GOOD])
    (tmp_path / "out" / ".run.json").mkdir(parents=True)
    with pytest.raises(OutputError, match=r"run\.json can't be written: Is a directory\."):
        run(tmp_path / "in", tmp_path / "out")
