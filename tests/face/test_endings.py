"""How commands end: the exit code, and what they say on stderr, of mistakes and of what goes well.

Paths below the test's folder begin with ``TMP``. None of these starts Spark or asks a broker; what
Ctrl-C and the end of restarts come to (130, 143, 75) takes whole processes, and is not here.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

from tests.face.asking import ROOT, answered
from tests.face.goldens import check, typers_words
from tests.face.keptrun import kept_run

if TYPE_CHECKING:
    from pathlib import Path

EVENT = '{"time":"2026-03-01T00:00:00Z","user":"Anna","action":"read"}\n'
GIVEN = "--event-time time --user user --action action --quiet --out TMP/new"
RUN = "TMP/kstoolkit-run-of-0.1/out"
REPLICA = "TMP/kstoolkit-run-of-0.1/replica"
KEPT = "data/stores/kafka-streams/small-main-4_3_1/0_0/rocksdb/user-count"
CHECKPOINT = "data/stores/spark/hours-by-user"
SNAPSHOTS = "data/stores/spark/count-by-user"

WELL = [
    "--version",
    f"summary {RUN}",
    f"findings {RUN} --json",
    f"users {RUN} --limit 1",
    f"counts {RUN} --window '1 hour' --csv",
    f"counts {RUN} --window '1 hour' --user nobody",
    f"find {RUN}",
    f"restore {RUN} TMP/replica",
    f"restore {RUN} TMP/replica --retention '1 minute=1 hour,2 hours=1 day'",
    f"get {REPLICA} --user nobody --window '1 hour' --at 2026-03-03T10:00Z",
    f"inspect {KEPT}",
    f"memory {KEPT}",
    f"advice {KEPT}",
    f"log {KEPT}",
    "checkup data/stores/kafka-streams --restore-rate 20MiB",
    f"inspect {CHECKPOINT}",
    f"inspect {SNAPSHOTS}",
    f"log {SNAPSHOTS}",
    "stores data/stores",
    "stores TMP/empty",
    f"rows {KEPT} --limit 0",
    f"rows {KEPT} --key-serde long --limit 1",
    f"growth {CHECKPOINT}",
    f"diff {CHECKPOINT} --versions 5 7",
    f"diff {REPLICA}/3600000 {RUN} --window-size '1 hour'",
    f"export {KEPT} --to TMP/rows.csv",
    "profile bounded_memory --to spark",
    "simulate --events 100 --users 10 --out TMP/simulated",
    f"report {RUN} --html TMP/report.html",
    f"compact {RUN}",
    f"compact {RUN} --json",
]
WRONG_TO_TYPE = [
    "frobnicate",
    "findings",
    f"findings {RUN} --colour",
    f"findings {RUN} --limit 0",
    f"findings {RUN} --limit many",
    "data frobnicate",
    f"profile bounded_memory --to go --json {RUN}",
    f"compare-profiles spark --workload odd {RUN}",
    "run TMP/events.json",
    f"run TMP/events.json {GIVEN} --buckets 0",
    f"run TMP/events.json {GIVEN} --format xml",
    f"run TMP/events.json {GIVEN} --time-unit weeks",
    f"restore {RUN} TMP/replica --metrics-port 65536",
    f"export {KEPT}",
    f"get {REPLICA} --user Anna --window '1 hour'",
]
WRONG_ABOUT_RUNS = [
    "summary TMP/nothing",
    "findings TMP/empty",
    "users TMP/events.json",
    "counts TMP/nothing --window '1 hour'",
    f"counts {RUN}",
    f"counts {RUN} --window '2 hours'",
    f"counts {RUN} --window fortnight",
    f"counts {RUN} --window '1 hour' --json --csv",
    "find TMP/nothing",
    f"find {RUN} --rules TMP/no.toml",
    f"find {RUN} --rules TMP/events.json",
    f"what-if {RUN}",
    f"what-if {RUN} --rules TMP/no.toml",
    "report TMP/nothing",
    "compact TMP/nothing",
    f"run TMP/no.json {GIVEN}",
    f"run TMP/empty {GIVEN}",
    f"run TMP/events.json {GIVEN} --user usr",
    f"run TMP/events.json {GIVEN} --out TMP/other",
    f"run TMP/events.json {GIVEN} --out TMP/events.json",
    f"run TMP/events.json {GIVEN} --windows 7minutes,1hour",
    f"run TMP/events.json {GIVEN} --windows 1minute,,1hour",
    f"run TMP/events.json {GIVEN} --trigger 5s",
    f"run TMP/events.json {GIVEN} --give-up-after 1s",
    f"run TMP/events.json {GIVEN} --max-future soon",
    f"run TMP/events.json {GIVEN} --rules TMP/no.toml",
    f"run data/sample {GIVEN} --out {RUN}",
]
WRONG_ABOUT_STORES = [
    "inspect TMP/nothing",
    "inspect TMP/empty",
    "levels TMP/events.json",
    f"inspect {KEPT} --column-family no",
    f"memory {KEPT} --profile fast",
    "log TMP/empty",
    "stores TMP/nothing",
    "stores ''",
    "rows TMP/nothing",
    f"rows {KEPT} --kind odd",
    f"rows {KEPT} --key 0xzz",
    f"rows {KEPT} --since soon",
    f"rows {KEPT} --window-size soon",
    f"rows {KEPT} --value-serde odd",
    f"rows {CHECKPOINT} --version 99",
    f"""rows {CHECKPOINT} --key '{{"usr": "anna"}}'""",
    f"growth {CHECKPOINT} --by usr",
    f"growth {KEPT} --retention soon",
    f"diff {KEPT}",
    f"diff {KEPT} TMP/nothing",
    f"export {KEPT} --to TMP/rows.xls",
    f"export {KEPT} --to TMP/events.json",
    f"export {KEPT} --to TMP/events.jsonl",
    "restore TMP/nothing TMP/another",
    f"restore {RUN} TMP/other",
    f"restore {RUN} TMP/replica --retention '1 minute'",
    f"restore {RUN} TMP/replica --profile fast",
    f"restore {RUN} TMP/replica --every '1 second'",
    "get TMP/nothing --user Anna --window '1 hour' --at 2026-03-03T10:00Z",
    f"get {REPLICA} --user Anna --window '2 hours' --at 2026-03-03T10:00Z",
    f"get {REPLICA} --user Anna --window '1 hour' --at noon",
]
WRONG_ABOUT_OTHERS = [
    "profile fast",
    "profile spark --total-mb 5",
    "profile spark --class Options",
    "profile TMP/empty",
    "compare-profiles fast",
    "compare-profiles spark --window '1 hour'",
    "compare-profiles spark --replay TMP/nothing --writes 5",
    "data fetch wikitiker",
    "simulate --sample --users 5 --out TMP/simulated",
    "simulate --events 3 --users 50 --files 9999 --out TMP/simulated",
    "simulate --duration soon --out TMP/simulated",
    "produce TMP/events.json --to TMP/topic --event-time time --user user",
    "lag kafka://127.0.0.1:1",
    "lag 127.0.0.1:1 --group g",
    f"lag {RUN}",
    f"reset {RUN} --to earliest",
    "reset kafka://127.0.0.1:1 --group g --to soon",
    "broker status --dir TMP/events.json",
    "broker stop --dir TMP/nothing",
]
TOLD = {
    "well": WELL,
    "wrong-to-type": WRONG_TO_TYPE,
    "wrong-about-runs": WRONG_ABOUT_RUNS,
    "wrong-about-stores": WRONG_ABOUT_STORES,
    "wrong-about-others": WRONG_ABOUT_OTHERS,
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a run and its replica, events, an empty folder and one that is no run's."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").touch()
    (tmp_path / "events.json").write_text(EVENT)
    (tmp_path / "events.jsonl").write_text(EVENT)
    kept_run(tmp_path)
    return tmp_path


def ending(line: str, place: Path) -> str:
    """Return a command line, the code that it ends with, and what it says on stderr."""
    answer = answered(*shlex.split(line.replace("TMP", str(place))))
    said = answer.err.replace(str(place), "TMP").replace(f"{ROOT}/", "")
    return f"$ kstoolkit {line}\nexit code {answer.code}\n{said}\n"


@pytest.mark.parametrize("name", TOLD)
def test_commands_end_as_they_did(name: str, place: Path) -> None:
    told = "".join(ending(line, place) for line in TOLD[name])
    check(f"endings/{name}.txt", told, whose=typers_words())
