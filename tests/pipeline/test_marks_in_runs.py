"""What marks do to a run that goes on, in Spark: who is known is found no more, while it holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import kstoolkit as kst

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.pipeline.run import Run

RULES = [kst.Ceiling("1 hour", 20)]


def write(folder: Path, day: int) -> None:
    """Write a day on which Anna and Bo do much at noon, and little else."""
    folder.mkdir(exist_ok=True)
    lines = [
        json.dumps({"time": f"2026-03-0{day}T{hour:02d}:10:00Z", "user": user, "action": "x"})
        for user in ("Anna", "Bo")
        for hour in range(24)
        for _ in range(50 if hour == 12 else 1)
    ]
    (folder / f"{day}.json").write_text("\n".join(lines))


def go_on(folder: Path, day: int) -> Run:
    write(folder / "in", day)
    source = kst.files(str(folder / "in"), event_time="time", user="user", action="action")
    cascade = kst.Cascade("1 minute", "1 hour")
    pipeline = kst.Pipeline(source=source, cascade=cascade, rules=RULES, buckets=2)
    return pipeline.run(folder / "out", progress=False)


def noons(run: Run) -> list[tuple[str, int]]:
    return sorted((each.user, each.window_start.day) for each in run.findings)


@pytest.mark.usefixtures("spark")
def test_a_known_user_is_found_no_more_while_that_holds_and_what_if_knows_it(
    tmp_path: Path,
) -> None:
    run = go_on(tmp_path, 2)
    assert noons(run) == [("Anna", 2), ("Bo", 2)]
    run.mark("Anna", "known", until="2026-03-04", why="a test")
    run = go_on(tmp_path, 3)
    assert noons(run) == [("Anna", 2), ("Bo", 2), ("Bo", 3)]
    assert next(e.mark for e in run.incidents() if e.user == "Anna") == "known"
    asked = kst.what_if(run, RULES)
    assert len(asked.gained) == 0
    assert [each.user for each in asked.lost] == ["Anna"]
    run = go_on(tmp_path, 4)
    assert noons(run) == [("Anna", 2), ("Anna", 4), ("Bo", 2), ("Bo", 3), ("Bo", 4)]
    anna = next(each for each in run.incidents() if each.user == "Anna")
    assert (len(anna.findings), anna.mark) == (2, None)  # it went on when she was known no more
    assert run.unmark("Anna") == 1
    asked = kst.what_if(run, RULES)
    assert list(asked.figures["findings"]) == [5, 6]  # also of the third, when she was known
    assert len(asked.gained) == 0


@pytest.mark.long
@pytest.mark.usefixtures("spark")
def test_of_an_incident_a_mark_is_a_label_and_its_user_is_still_found(tmp_path: Path) -> None:
    run = go_on(tmp_path, 2)
    anna = next(each for each in run.incidents() if each.user == "Anna")
    run.mark(anna.id, "confirmed", why="she said so")
    bo = next(each for each in run.incidents() if each.user == "Bo")
    run.mark(bo, "known")
    run = go_on(tmp_path, 3)
    assert noons(run) == [("Anna", 2), ("Anna", 3), ("Bo", 2), ("Bo", 3)]
    told = kst.evaluate(run.findings, run.marks.labels(), since="2026-03-02", until="2026-03-04")
    (kind,) = told.kinds
    assert (kind.kind, kind.labels, kind.found) == ("confirmed", 1, 1)
    assert told.ordinary_alarms == {"known": 1}
