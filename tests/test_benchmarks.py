"""The benchmarks run, on few events; what they measure is no matter of a test."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import psutil
import pytest
from scipy.stats import kstest

from tests.benchmarks.contestant import WINDOWS
from tests.benchmarks.duckdb_groupby import QUERY
from tests.benchmarks.events import START_MS, Events, events_in
from tests.benchmarks.growth import Case, Growth, wrong_in
from tests.benchmarks.growth import markdown as table_of_growth
from tests.benchmarks.lab import SHOWN, profiles
from tests.benchmarks.latency import FILE_SECONDS, due_seconds, phase_tenths
from tests.benchmarks.replicas import Rates
from tests.benchmarks.standing import Standing, Totals
from tests.benchmarks.standing import markdown as table_of_peers
from tests.benchmarks.statebytes import StateBytes
from tests.benchmarks.table import Row, disagreements, markdown
from tests.benchmarks.workloads import Workload

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[1]
SPENDING = """
import subprocess, sys, time
from tests.benchmarks.contestant import mark
mark("begun")
mark("counted", events=0)
burn = "import time; end = time.process_time() + 0.5\\nwhile time.process_time() < end: pass"
subprocess.run([sys.executable, "-c", burn], check=True)
held = bytes(range(256)) * (200 << 12)
time.sleep(1)
mark("counted", events=1_000_000)
mark("told", counters={"1 minute": 3})
"""


# As Spark's Python daemon: the system tells nobody what its workers used that have ended.
IGNORING = """
import signal, subprocess, sys, time
from tests.benchmarks.contestant import mark
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
mark("begun")
mark("counted", events=0)
burn = "import time; end = time.process_time() + 0.5\\nwhile time.process_time() < end: pass"
child = subprocess.Popen([sys.executable, "-c", burn + "\\ntime.sleep(4)"])
child.wait()
time.sleep(1)
mark("counted", events=1_000_000)
mark("told", counters={"1 minute": 3})
"""

LEAVING = """
import subprocess
from tests.benchmarks.contestant import mark
mark("begun")
left = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL)
open("{path}", "w").write(str(left.pid))
mark("counted", events=1)
mark("told", counters={{}})
"""

KILLED = """
import json, subprocess, sys, time
from pathlib import Path
from tests.benchmarks.contestant import mark
mark("begun")
left = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL)
open("{path}", "a").write(str(left.pid) + "\\n")
held = Path("{state}")
events = int(held.read_text()) if held.exists() else 0
while events < 100:
    events += 10
    time.sleep(0.2)
    held.write_text(str(events))
    mark("counted", events=events)
left.kill()
mark("told", counters={{"1 minute": 3}}, totals={{"1 minute": events}})
"""

# Killed midway, and started again; what it was beside is measured along.
KILLING = """
import json, sys
from dataclasses import asdict
from pathlib import Path
from tests.benchmarks.measuring import Beside, measure
folder = Path(sys.argv[2])
beside = Beside(folders=(folder,))
command = [sys.executable, "-c", sys.argv[1]]
runs = [measure(command, folder / "log", cwd=".", beside=beside, kill_at=at) for at in (50, None)]
print(json.dumps([asdict(run) for run in runs]))
"""

SHAPE = """
    SELECT min(time), max(time), count(DISTINCT action), max(of_user) FROM (
        SELECT *, count(*) OVER (PARTITION BY "user") AS of_user FROM read_parquet('{files}'))
"""

WRITING = """
from pathlib import Path
from tests.benchmarks.contestant import mark
import time
folder = Path("{folder}") / "state"
mark("begun")
folder.mkdir()
for number in range(4):
    hidden = folder / f".{{number}}.zip.8f2a.tmp"
    hidden.write_bytes(b"x" * 50_000)
    time.sleep(0.7)
    hidden.write_bytes(b"x" * 100_000)
    hidden.rename(folder / f"{{number}}.zip")
    if number >= 2:
        time.sleep(0.7)
        (folder / f"{{number - 2}}.zip").unlink()
mark("counted", events=1)
mark("told", counters={{}})
"""

# What a contestant wrote below a folder, and what was left there at the most.
WRITTEN = """
import json, sys
from dataclasses import asdict
from pathlib import Path
from tests.benchmarks.measuring import Beside, measure
folder = Path(sys.argv[2])
beside = Beside(folders=(folder / "state",))
measured = measure([sys.executable, "-c", sys.argv[1]], folder / "log", cwd=".", beside=beside)
print(json.dumps(asdict(measured)))
"""

# Measuring adopts orphans and ends whatever a contestant leaves: a whole process's business.
MEASURING = """
import json, sys
from dataclasses import asdict
from pathlib import Path
from tests.benchmarks.measuring import measure
from tests.benchmarks.table import Row
measured = measure([sys.executable, "-c", sys.argv[1]], Path(sys.argv[2]), cwd=".")
print(json.dumps(asdict(Row.of("contestant", measured))))
"""


def row(name: str, counters: dict[str, int]) -> Row:
    return Row(
        name=name,
        wall_seconds=10.0,
        cpu_seconds_per_million=2.0,
        peak_bytes=1 << 30,
        first_batch_seconds=5.0,
        first_batch_cpu_seconds=6.0,
        steady_events_per_second=1e6,
        steady_cpu_seconds_per_million=1.0,
        counters=counters,
        facts={},
    )


def test_the_same_events_are_made_again(tmp_path: Path) -> None:
    events = Events(events=1_000, users=100, files=3)
    first = events.write(tmp_path / "a")
    second = events.write(tmp_path / "b")
    assert events_in(first) == 1_000
    names = sorted(path.name for path in first.iterdir())
    assert len(names) == 3
    assert all((first / name).read_bytes() == (second / name).read_bytes() for name in names)


def test_the_children_of_a_contestant_count_too(tmp_path: Path) -> None:
    done = measure_apart(SPENDING, tmp_path)
    spent = json.loads(done.stdout)
    assert spent["steady_cpu_seconds_per_million"] >= 0.5
    assert spent["peak_bytes"] > 200 << 20
    assert spent["wall_seconds"] >= 1


def test_a_child_that_nobody_waits_for_counts_too(tmp_path: Path) -> None:
    done = measure_apart(IGNORING, tmp_path)
    spent = json.loads(done.stdout)
    assert 0.45 <= spent["steady_cpu_seconds_per_million"] < 1.0, "in ticks of a hundredth"
    assert done.returncode == 0, done.stderr


def test_a_contestant_that_fails_says_why(tmp_path: Path) -> None:
    done = measure_apart("raise SystemExit('out of luck')", tmp_path)
    assert done.returncode == 1
    assert "ContestantFailed" in done.stderr
    assert done.stderr.rstrip().endswith("out of luck")


def test_what_a_contestant_leaves_is_ended(tmp_path: Path) -> None:
    done = measure_apart(LEAVING.format(path=tmp_path / "pid"), tmp_path)
    assert done.returncode == 0, done.stderr
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


@pytest.mark.kill
def test_a_contestant_that_is_killed_midway_goes_on_where_it_was(tmp_path: Path) -> None:
    source = KILLED.format(path=tmp_path / "pids", state=tmp_path / "state")
    command = [sys.executable, "-c", KILLING, source, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    before, after = json.loads(done.stdout)
    assert 50 <= before["marks"][-1]["facts"]["events"] < 100
    assert [each["name"] for each in after["marks"]][-1] == "told"
    assert after["marks"][1]["facts"]["events"] > before["marks"][-1]["facts"]["events"]
    assert after["disk_bytes"] >= len("100")
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 2
    assert not any(map(psutil.pid_exists, pids))


def test_what_was_written_is_known_also_where_it_is_gone(tmp_path: Path) -> None:
    source = WRITING.format(folder=tmp_path)
    command = [sys.executable, "-c", WRITTEN, source, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    measured = json.loads(done.stdout)
    assert measured["written_bytes"] == 400_000
    assert measured["disk_bytes"] <= 350_000
    assert len(list((tmp_path / "state").iterdir())) == 2


def standing(totals: Totals, after_kill: Totals | None = None, **facts: Any) -> Standing:
    told = replace(row("contestant", totals.counters), facts=facts)
    back = None if after_kill is None else 4.5
    return Standing(
        row=told,
        totals=totals,
        broker_cpu_seconds_per_million=None,
        disk_bytes=None,
        topic_bytes=0,
        others_cores=0.0,
        back_seconds=back,
        after_kill=after_kill,
    )


def test_who_drops_events_or_counts_them_twice_is_marked_with_how_many() -> None:
    truth = Totals({"1 minute": 3, "1 hour": 2}, {"1 minute": 9, "1 hour": 9})
    fewer = Totals({"1 minute": 2, "1 hour": 2}, {"1 minute": 5, "1 hour": 9})
    more = Totals({"1 minute": 3, "1 hour": 2}, {"1 minute": 1_010, "1 hour": 9})
    rows = [standing(truth, truth), standing(fewer, more, dropped=4)]
    exact, off = table_of_peers(rows, truth).splitlines()[2:]
    assert exact.count(" exact ") == 2
    assert " 1 minute: -4 events, -1 counters (4 dropped) " in off
    assert " 1 minute: +1,001 events, +0 counters " in off
    assert " 4.5 s " in off


@pytest.mark.parametrize(
    ("theirs", "agrees"),
    [
        ({"1 minute": 3, "1 hour": 2}, True),
        ({"1 minute": 2, "1 hour": 3}, False),
        ({"all": 5}, True),
        ({"all": 6}, False),
    ],
)
def test_other_numbers_of_counters_are_told(theirs: dict[str, int], *, agrees: bool) -> None:
    rows = [row("ours", {"1 minute": 3, "1 hour": 2}), row("theirs", theirs)]
    assert (disagreements(rows) == []) is agrees


def test_the_table_has_a_line_for_each_contestant() -> None:
    lines = markdown([row("ours", {}), row("theirs", {})]).splitlines()
    assert len(lines) == 4
    assert "1.00 x" in lines[3]
    assert len({line.count("|") for line in lines}) == 1


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(240)
def test_contestants_agree_on_few_events(tmp_path: Path) -> None:
    contestants = ["ours", "Spark batch, three group-bys, warm", "DuckDB, three group-bys"]
    told = run_benchmark(tmp_path, contestants)
    assert [each["name"] for each in told["rows"]] == contestants
    assert told["machine"]["java"]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.kafka
def test_kafka_streams_counts_what_duckdb_does(tmp_path: Path) -> None:
    rows = run_peers(tmp_path, ["Kafka Streams"], "--events", "5000", "--no-kill")
    assert [each["row"]["name"] for each in rows] == ["Kafka Streams", "DuckDB"]
    streams = rows[0]
    assert streams["beside"] == "exact"
    assert streams["row"]["facts"]["dropped"] == 0
    assert streams["row"]["facts"]["changelog_records"] >= sum(
        streams["totals"]["counters"].values()
    )
    assert streams["disk_bytes"] > 0
    assert streams["topic_bytes"] > 0


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.kill
@pytest.mark.timeout(1_200)
def test_peers_agree_on_few_events_also_after_a_kill(tmp_path: Path) -> None:
    exact = ["kstoolkit, files", "Flink SQL, cascaded TUMBLE", "Spark streaming, files"]
    rows = run_peers(tmp_path, [*exact, "Kafka Streams"], "--events", "160000")
    told = {each["row"]["name"]: each for each in rows}
    assert {each["beside"] for each in rows} == {"exact"}
    assert {told[name]["beside_after_kill"] for name in exact} == {"exact"}
    # At least once: what was counted since its last commit is counted again.
    again, once = (told[name]["after_kill"] for name in ("Kafka Streams", "kstoolkit, files"))
    assert again["counters"] == once["counters"]
    assert all(again["events"][label] >= events for label, events in once["events"].items())
    for name in (*exact, "Kafka Streams"):
        assert told[name]["back_seconds"] > 0
        assert told[name]["killed_at"] >= 78_400
        assert told[name]["disk_bytes"] > 0
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def run_peers(folder: Path, peers: Sequence[str], *options: str) -> list[dict[str, Any]]:
    out = folder / "figures.json"
    command = [sys.executable, "-m", "tests.benchmarks.peers", "--cache", str(folder), *options]
    command += ["--out", str(out), "--plot", str(folder / "plot.png"), "--files", "4"]
    command += ["--files-per-batch", "1"]
    for name in peers:
        command += ["--only", name]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(out.read_text(encoding="utf-8"))["rows"]  # type: ignore[no-any-return]


def measure_apart(contestant: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", MEASURING, contestant, str(folder / "log")]
    return subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)


def run_benchmark(folder: Path, contestants: Sequence[str]) -> dict[str, Any]:
    out = folder / "figures.json"
    command = [sys.executable, "-m", "tests.benchmarks", "--events", "20000", "--no-live"]
    command += ["--cache", str(folder), "--out", str(out), "--files", "4"]
    for name in contestants:
        command += ["--only", name]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(out.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def test_the_lab_prints_each_figure_of_each_style_for_each_workload() -> None:
    sizes = ["--writes", "20000", "--keys", "10000", "--memtable-bytes", str(64 << 10)]
    told = told_by("tests.benchmarks.lab", *sizes, "--kinds", "uniform", "skewed")
    for kind in ("uniform", "skewed"):
        assert f"Workload({kind}, 20,000 writes" in told
    for name in SHOWN:
        (line, _) = [line for line in told.splitlines() if line.startswith(f"  {name} ")]
        assert "nan" not in line
        assert line.count("(") in {0, len(profiles(64 << 10))}, (
            "a ratio to the first, if it is not 0"
        )


def test_replicas_are_measured_under_each_profile_that_is_asked_for() -> None:
    sizes = ["--users", "500", "--gets", "300"]
    told = told_by("tests.benchmarks.replicas", *sizes, "--profiles", "replica", "point_lookup")
    assert told.startswith("500 users, 3,000 records, 300 gets\n\nreplica\n")
    assert "\npoint_lookup\n" in told
    for field in fields(Rates)[1:]:
        rates = [
            line.split()[1] for line in told.splitlines() if line.startswith(f"  {field.name} ")
        ]
        assert len(rates) == 2
        assert all(float(rate.replace(",", "")) > 0 for rate in rates)


def test_files_arrive_at_any_phase_of_a_trigger_and_at_a_steady_rate() -> None:
    due = due_seconds(400)
    assert (due // FILE_SECONDS == np.arange(400)).all()
    for begun in (1_700_000_000.0, 1_700_000_000.37):
        phases = (begun + due) % 1
        assert kstest(phases, "uniform").pvalue > 0.05
        assert min(phase_tenths(begun + due, "1 second")) >= 20
    assert sum(phase_tenths(due, "10 seconds")) == 400


@pytest.mark.parametrize(
    "workload",
    [
        Workload(events=60_000, users=1_000, files=7, hottest=0.3),
        Workload(events=60_000, users=50_000, actions=10_000, files=4, days=365),
    ],
    ids=["hot", "wide and long"],
)
def test_numpy_counts_of_the_events_it_makes_what_duckdb_does(
    tmp_path: Path, workload: Workload
) -> None:
    told = workload.write(tmp_path / "events")
    database = duckdb.connect()
    database.execute("SET TimeZone = 'UTC'")
    files = tmp_path / "events" / "*.parquet"
    for label in WINDOWS:
        query = QUERY.format(label=label, files=files)
        counters, number, _, _ = database.execute(query).fetchone() or ()
        assert (counters, number) == (told.counters[label], told.events[label])
    first, last, actions, hottest = database.execute(SHAPE.format(files=files)).fetchone() or ()
    assert 0.99 * timedelta(days=workload.days) < last - first < timedelta(days=workload.days)
    assert last < datetime.fromtimestamp(START_MS / 1000, UTC) + timedelta(days=1)
    assert actions > 0.99 * workload.actions
    assert hottest / workload.events == pytest.approx(workload.hottest or 0.179, abs=0.01)


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("by", "windows"), [([], [*WINDOWS]), (["--by-the-hour"], [*WINDOWS][1:])])
def test_growth_is_told_of_each_batch_with_numpys_totals(
    tmp_path: Path, by: list[str], windows: list[str]
) -> None:
    out = tmp_path / "figures.json"
    small = ["--only", "10^5 users", "--scale", "0.001", "--files-per-batch", "1", *by]
    there = ["--out", str(out), "--folder", str(tmp_path)]
    told = told_by("tests.benchmarks.growth", *small, *there)
    (found,) = json.loads(out.read_text(encoding="utf-8"))["rows"]
    assert found["beside"] == "exact"
    assert found["totals"] == found["truth"]
    assert found["truth"]["events"] == dict.fromkeys(windows, 20_000)
    assert len(found["batch_seconds"]) == 19, "also of those that were folded meanwhile"
    assert found["row"]["steady_cpu_seconds_per_million"] > 0
    assert found["written_bytes"] > found["state"]["on_disk_bytes"] > 0
    assert found["state"]["live_bytes"] > 0
    assert " exact " in told
    assert list(tmp_path.iterdir()) == [out], "the events and the run are gone"


def test_growth_with_other_totals_or_too_much_memory_is_an_error() -> None:
    truth = Totals({"1 minute": 3}, {"1 minute": 9})
    fewer = Totals({"1 minute": 2}, {"1 minute": 8})
    fine = growth(truth, truth, peak_bytes=6 << 30)
    assert list(wrong_in([fine])) == []
    off, large = growth(fewer, truth), growth(truth, truth, peak_bytes=7 << 30)
    assert list(wrong_in([fine, off, large])) == [
        "contestant: 1 minute: -1 events, -1 counters",
        "contestant: 7.0 GiB of memory, of 6.0 GiB",
    ]
    cells = [line.count("|") for line in table_of_growth([fine, off]).splitlines()]
    assert cells == [cells[0]] * 4


def growth(totals: Totals, truth: Totals, peak_bytes: int = 1 << 30) -> Growth:
    return Growth(
        name="contestant",
        case=Case(Workload(events=9)),
        row=replace(row("contestant", totals.counters), peak_bytes=peak_bytes),
        totals=totals,
        truth=truth,
        state=StateBytes(rows=1, live_bytes=100, on_disk_bytes=200),
        written_bytes=300,
        batch_seconds=(1.0, 2.5),
        batch_cpu_seconds=(2.0, 4.0),
    )


def told_by(module: str, *arguments: str) -> str:
    """Return what a benchmark printed."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
def test_a_months_folder_is_made_folded_and_asked(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.benchmarks.years", "--batches", "80"]
    command += ["--folder", str(tmp_path / "out")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    figures = json.loads(done.stdout)
    assert figures["files"] < 300
    assert {"summary_seconds", "counts --user_seconds", "users_seconds"} <= figures.keys()
