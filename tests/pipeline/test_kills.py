"""Runs killed with kill -9 at twenty seeded moments, and started again until they are done.

A batch's number appears in ``checkpoint/offsets`` when it begins, and in ``checkpoint/commits``
when it is over; in between the operator counts, the sink writes, and the batch is marked. The
moments are looked for there, so that they come while something is at stake.
"""

from __future__ import annotations

import fcntl
import os
import random
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

import kstoolkit as kst
from kstoolkit.changelog.changelog import DONE
from tests.pipeline.harness import (
    BEGIN,
    check_exact,
    counted,
    events,
    kill_group,
    letters,
    newest,
    source,
    spawned,
    told,
    until,
    write_files,
    write_lines,
)

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from kstoolkit.pipeline.run import Run

pytestmark = [pytest.mark.spark, pytest.mark.kill, pytest.mark.slow]

BAD = (
    "{",
    '{"time": "2025-03-01", "action": "read"}',
    '{"time": "2099-01-01", "user": "a", "action": "b"}',
)
BROKEN_GZIP = b"\x1f\x8b\x08\x00broken"

EVENTS = 6_000
RULES = (
    kst.Ceiling("1 hour", 12),
    kst.Unusual("1 hour", 50),
    kst.Unusual("1 hour", 50, by=[], group="^user "),
    kst.Drift("1 hour", 1.5, 500),
    kst.TooEven("1 hour", 500),
    kst.Campaign("1 hour", 500),
    kst.Distinct("page", "1 hour", 50),
)

PROGRAM = """
    import sys
    from pathlib import Path
    from kstoolkit.pipeline.session import spark_session
    from tests.pipeline.test_kills import pipeline
    spark_session("local[2]")
    folder = Path(sys.argv[1])
    pipeline(folder).run(folder / "out", max_files_per_batch=1, progress=False)
"""


def pipeline(folder: Path) -> kst.Pipeline:
    """Return what is run, killed and run again."""
    return kst.Pipeline(source=source(folder / "in"), rules=RULES, buckets=3)


@dataclass(frozen=True, slots=True)
class Moment:
    """When to kill: what must have happened, and how long after that.

    Where Python alone is killed, its Java has yet to find out when the next run begins.
    """

    phase: str
    batches: int
    seconds: float
    python_alone: bool

    def wait(self, out: Path, process: subprocess.Popen[str]) -> None:
        """Return when the moment has come, or the process has ended before."""
        begun = newest(out / "checkpoint" / "commits")
        happened = _PHASES[self.phase]

        def is_there() -> bool:
            return process.poll() is not None or happened(out, begun + self.batches)

        until(is_there, f"{self}", seconds=240, every=0.002)
        time.sleep(self.seconds)

    def kill(self, process: subprocess.Popen[str]) -> None:
        """Kill the process, with or without what it has started."""
        if self.python_alone:
            process.kill()
            process.communicate()
        else:
            kill_group(process)


def _begun(out: Path, batch: int) -> bool:
    return newest(out / "checkpoint" / "offsets") >= batch


def _written(out: Path, batch: int) -> bool:
    return any(any(folder.glob("*")) for folder in _changes(out, batch))


def _half_marked(out: Path, batch: int) -> bool:
    return (out / "statistics" / "epoch=0" / f"batch={batch}" / DONE).exists()


def _marked(out: Path, batch: int) -> bool:
    return any((folder / DONE).exists() for folder in _changes(out, batch))


def _changes(out: Path, batch: int) -> list[Path]:
    """Return the changelog's folders from a batch on: one that counts nothing leaves none."""
    folders = (out / "changelog" / "epoch=0").glob("batch=*")
    return [folder for folder in folders if int(folder.name.partition("=")[2]) >= batch]


def _committed(out: Path, batch: int) -> bool:
    return newest(out / "checkpoint" / "commits") >= batch


_PHASES: dict[str, Callable[[Path, int], bool]] = {
    "start-up": lambda _out, _batch: True,
    "operator": _begun,
    "sink": _written,
    "marking": _half_marked,
    "marked": _marked,
    "between": _committed,
}


TWENTY = {"start-up": 3, "operator": 6, "sink": 4, "marking": 2, "marked": 3, "between": 2}
FOUR = {"operator": 2, "sink": 1, "marked": 1}


def moments(seed: int, kinds: dict[str, int]) -> list[Moment]:
    """Return so many moments of each kind, most of them in the midst of a batch."""
    draw = random.Random(seed)
    longest = {"start-up": 8.0, "operator": 1.5, "sink": 0.2, "between": 0.5}
    found = [
        Moment(
            kind,
            # Mostly at the first batch of a process, so that the input outlasts them all.
            draw.choice([1, 1, 1, 2]),
            draw.random() * longest.get(kind, 0.0),
            python_alone=place == 0,
        )
        for kind, number in kinds.items()
        for place in range(number)
    ]
    draw.shuffle(found)
    return found


def is_free(out: Path) -> bool:
    """Return whether nobody holds the folder's lock, as the kernel sees it."""
    if not (out / ".lock").exists():
        return True
    lock = os.open(out / ".lock", os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        return True
    finally:
        os.close(lock)


def rising() -> list[dict[str, str]]:
    """Return events of somebody who does one an hour, then eight: 290."""
    hours = [hour for hour in range(80) for _ in range(1 if hour < 50 else 8)]
    times = [(BEGIN + timedelta(hours=hour, minutes=5)).isoformat() for hour in hours]
    return [{"time": time, "user": "riser", "action": "read"} for time in times]


def write_input(folder: Path, files: int) -> list[Path]:
    """Write files of events, two of them with bad records, and a damaged one."""
    rows = [*events(EVENTS - 290, seed=7, hours=80), *rising()]
    rows = [row | {"page": f"/{number % 37}"} for number, row in enumerate(rows)]
    paths = write_files(folder, rows, files)
    for number in (3, files - 2):
        kept = rows[number::files]
        write_lines(paths[number], [*kept[:5], *BAD, *kept[5:]])
    (folder / "05-broken.json.gz").write_bytes(BROKEN_GZIP)
    return paths


@pytest.mark.timeout(1_200)
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "kinds", [FOUR, pytest.param(TWENTY, marks=pytest.mark.long)], ids=["four", "twenty"]
)
def test_kills_change_nothing(tmp_path: Path, kinds: dict[str, int]) -> None:
    # So many that the input outlasts them.
    paths, out = write_input(tmp_path / "in", min(5 + sum(kinds.values()), 14)), tmp_path / "out"
    ahead: list[str] = []
    for moment in moments(20, kinds):
        with spawned(PROGRAM, tmp_path) as process:
            moment.wait(out, process)
            assert process.poll() is None, f"it ended before {moment}: {process.communicate()[1]}"
            moment.kill(process)
        assert is_free(out), f"the lock outlived its holder at {moment}"
        checkpoint = out / "checkpoint"
        if newest(checkpoint / "offsets") > newest(checkpoint / "commits"):
            ahead.append(moment.phase)
    # Between a mark and its commit there is little time: of one such kill, it may come too late.
    wanted = {kind for kind in ("operator", "sink", "marked") if kinds[kind] > 1}
    assert wanted <= set(ahead), "kills came with no offset uncommitted"
    run = pipeline(tmp_path).run(out, max_files_per_batch=1, progress=False)
    check_once(run, paths, tmp_path)


def check_once(run: Run, paths: list[Path], folder: Path) -> None:
    """Raise unless everything is as after a run that nobody disturbed."""
    check_exact(run, paths)
    calm = pipeline(folder).run(folder / "calm", max_files_per_batch=1, progress=False)
    assert len(letters(run)) == 2 * len(BAD) + 1
    assert letters(run) == letters(calm)
    assert told(run) == told(calm)
    keys = [(f.rule, f.user, f.action, f.window, f.window_start_ms) for f in run.findings]
    assert len(keys) == len(set(keys)) > 0
    mine, theirs = run.summary(), calm.summary()
    assert (mine.events, mine.batches, mine.counters_in) == (
        EVENTS,
        len(paths) + 1,
        theirs.counters_in,
    )
    assert (mine.dead_letters, mine.late) == (theirs.dead_letters, theirs.late)
    assert {each.kind for each in run.findings} == {type(rule).__name__ for rule in RULES}
    of_hours, single = counted(run, "1 hour"), [each for each in run.findings if each.by is None]
    for found in single:
        is_count = found.kind in {"Ceiling", "Unusual"}
        key = found.window_start_ms, found.user, found.action
        assert not is_count or found.count == of_hours[key]
