from __future__ import annotations

import shutil
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import kstoolkit as kst
from kstoolkit.events.event import REASONS
from kstoolkit.pipeline.batches import MicroBatch
from kstoolkit.pipeline.failure import RestartLog
from kstoolkit.pipeline.status import RunState
from kstoolkit.widgets.runmonitor import RunMonitor
from tests.pipeline.harness import source, until, write_lines
from tests.plots.made import add_batch, add_findings, found, made_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kstoolkit.pipeline.run import Run

LEVELS = ("1 minute", "1 hour")
SOON = kst.Cascade(*LEVELS, flush=dict.fromkeys(LEVELS, "0 s"))
ROWS = [{"time": "2025-03-01T10:00:00Z", "user": "Ann", "action": "read"}] * 5
NEEDS_SPARK = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """Start live runs over ``in`` into ``out``; they are stopped in the end."""
    (tmp_path / "in").mkdir()
    begun: list[Run] = []

    def starting(**options: Any) -> Run:
        given = {"source": source(tmp_path / "in"), "cascade": SOON, "buckets": 2, **options}
        begun.append(kst.Pipeline(**given).start(tmp_path / "out", trigger="1 second"))
        return begun[-1]

    yield starting
    for run in begun:
        run.stop()


def figure(monitor: RunMonitor, what: str) -> str:
    assert monitor.status is not None
    return dict(monitor.status.rows())[what]


def press(monitor: RunMonitor, *told: str) -> None:
    monitor.face._handle_custom_msg({"pressed": list(told)}, [])


def button(monitor: RunMonitor, name: str) -> dict[str, Any] | None:
    made = monitor.face.part("buttons")["buttons"]
    return next((each for each in made if each["name"] == name), None)


def said(monitor: RunMonitor) -> str:
    return str(monitor.face.part("said").get("text", ""))


def events_are(monitor: RunMonitor, number: int) -> bool:
    return monitor.status is not None and monitor.status.events == number


class TestOfALiveRun:
    pytestmark = NEEDS_SPARK

    def test_it_shows_what_comes_in_and_stops_the_run_after_asking(
        self, start: Callable[..., Run], tmp_path: Path
    ) -> None:
        run = start()
        with RunMonitor(run, seconds=0.3) as monitor:
            write_lines(tmp_path / "in" / "a.json", [*ROWS, "no JSON"])
            until(lambda: events_are(monitor, 5), "5 events in the panel")
            until(lambda: figure(monitor, "waiting") == "0 files, 0 B", "nothing to wait")
            until(lambda: "days: event time reaches" in figure(monitor, "lag"), "the newest event")
            until(lambda: figure(monitor, "state rows").isdigit(), "the query's own figures")
            assert figure(monitor, "state") == "counting"
            assert "counting " in figure(monitor, "last batch")
            assert figure(monitor, "state memory").endswith("iB")
            assert figure(monitor, "dead letters").endswith(" 1")
            assert repr(monitor).startswith("RunMonitor(counting, 5 events in ")
            press(monitor, "buttons", "stop")
            assert (button(monitor, "stop") or {})["label"] == "Really stop it"
            press(monitor, "buttons", "keep")
            assert run.is_active
            assert (button(monitor, "stop") or {})["label"] == "Stop the run"
            assert said(monitor) == ""
            assert button(monitor, "keep") is None
            press(monitor, "buttons", "stop")
            press(monitor, "buttons", "stop")
            monitor.wait()
            monitor.look()
            assert figure(monitor, "state") == "stopped"
            assert "Started again" in said(monitor)
            assert (button(monitor, "stop") or {})["disabled"]
            until(lambda: not monitor._looking.is_busy, "the end of looking")
            monitor.look()
            assert "<img " in monitor.static_html()
            assert monitor.status is not None
            told = [each for each in monitor.status.batches if each.parts_seconds]
            assert told
            assert all(sum(each.parts_seconds.values()) >= each.seconds for each in told)
            later = {each.batch: each.seconds for each in run.batches()}
            assert {each.batch: each.seconds for each in monitor.status.batches} == later
        assert not monitor._stopping.is_busy
        assert not run.folder.is_held()

    def test_closing_it_lets_the_run_go_on(self, start: Callable[..., Run]) -> None:
        run = start()
        monitor = RunMonitor(run, seconds=60)
        monitor.close()
        assert run.is_active
        assert not monitor._looking.is_busy
        assert monitor.face.comm is None

    def test_a_run_that_failed_says_why_and_stopping_it_lets_go_of_its_folder(
        self, start: Callable[..., Run], tmp_path: Path
    ) -> None:
        run = start()
        with RunMonitor(run, seconds=0.3) as monitor:
            until(lambda: monitor.status and monitor.status.newest, "a batch")
            soon = len(run.batches()) + 3  # a batch that has not begun, and then can't
            place = tmp_path / "out" / "findings" / "epoch=0" / f"batch={soon}"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text("in the way")
            for number in range(4):
                write_lines(tmp_path / "in" / f"{number}.json", ROWS)
                more = 5 * (number + 1)
                until(lambda: run.summary().events == more or not run.is_active, "a batch")  # noqa: B023
            until(lambda: monitor.status and monitor.status.state is RunState.FAILED, "its end")
            monitor.look()
            assert figure(monitor, "state").startswith("failed: Spark gave up: ")
            assert "Nothing is lost" in said(monitor)
            assert run.folder.is_held()
            monitor.stop()
            monitor.wait()
            assert not run.folder.is_held()

    def test_another_process_may_watch_by_the_folder(
        self, start: Callable[..., Run], tmp_path: Path
    ) -> None:
        run = start()
        write_lines(tmp_path / "in" / "a.json", ROWS)
        with RunMonitor(kst.load_run(tmp_path / "out"), seconds=0.3) as monitor:
            until(lambda: events_are(monitor, 5), "5 events in the panel")
            assert figure(monitor, "state") == "counting, in another process"
            until(lambda: "unknown" not in figure(monitor, "state rows"), "state that was kept")
            assert (button(monitor, "stop") or {})["disabled"]
            monitor.stop()
            assert "Only the process that counts can stop" in said(monitor)
            assert run.is_active
            run.stop()
            monitor.look()
            assert figure(monitor, "state") == "not counting at present"


@pytest.fixture
def ended(tmp_path: Path) -> Run:
    batches = [MicroBatch(n, 1_000, 0.5, events=100) for n in range(3)]
    return made_run(tmp_path / "<b>out", batches=batches)


def test_a_folder_is_watched_and_named_as_text(ended: Run) -> None:
    with RunMonitor(ended) as monitor:
        monitor.look()
        assert "300 in 3 batches" in monitor.static_html()
        assert "<b>" not in monitor.static_html()
        assert "&lt;b&gt;out" in monitor.static_html()
        assert (button(monitor, "stop") or {})["disabled"]


def test_a_run_that_was_started_again_says_how_often_and_why_the_last_time(ended: Run) -> None:
    for reason in ("Kafka could not be read: TimeoutException.", "Spark's Java ended."):
        RestartLog(ended.folder.restarts).add(reason, 2, counts=True)
    with RunMonitor(ended, seconds=3600) as monitor:
        monitor.look()
        assert figure(monitor, "restarts").startswith("2, the last ")
        assert "ago: Spark&#x27;s Java ended." in monitor.static_html()


def test_how_often_it_looks_can_be_changed_while_it_waits(ended: Run) -> None:
    with RunMonitor(ended, seconds=3600) as monitor:
        monitor.look()
        first = monitor.status
        for typed in ("soon", "nan", "0", "1e9"):
            monitor._heard({"field": ["every", "every", typed]})
            assert "seconds" in said(monitor)
        monitor._heard({"field": ["every", "every", "0.2"]})
        assert monitor.face.part("every")["fields"][0]["value"] == "0.2"
        until(lambda: monitor.status is not first, "another look", seconds=10)
        seen = monitor.status
        until(lambda: monitor.status is not seen, "one more", seconds=10)


def test_looking_now_does_not_wait_for_the_time(ended: Run) -> None:
    with RunMonitor(ended, seconds=3600) as monitor:
        monitor.look()
        first = monitor.status
        press(monitor, "buttons", "look")
        until(lambda: monitor.status is not first, "another look", seconds=10)


def test_a_look_that_fails_is_said_and_the_next_one_may_do(ended: Run) -> None:
    with RunMonitor(ended, seconds=0.2) as monitor:
        monitor.look()
        place = ended.folder.path / "run.json"
        kept = place.read_text()
        place.write_text("nonsense")
        monitor.look()
        assert "run.json is damaged" in said(monitor)
        place.write_text(kept)
        before = monitor.status
        until(lambda: monitor.status is not before, "a look that does")
        until(lambda: said(monitor) == "", "nothing to complain of")


def test_it_appears_at_once_and_closing_ends_its_thread(ended: Run) -> None:
    before = threading.active_count()
    began = time.monotonic()
    monitor = RunMonitor(ended)
    assert time.monotonic() - began < 5  # the machine may be busy; unhurried it is far less
    monitor.close()
    assert threading.active_count() == before


def test_a_run_that_is_gone_is_said_and_the_figures_stay(tmp_path: Path) -> None:
    told = [MicroBatch(0, 0, 1.0, events=8)]
    run = made_run(tmp_path / "out", findings=[], batches=told)
    with RunMonitor(run, seconds=3600) as monitor:
        monitor.look()
        shutil.rmtree(run.folder.path)
        monitor.look()
        assert "there is no such folder" in monitor.static_html()
        assert "older figures are shown" in monitor.static_html()
        assert events_are(monitor, 8)


def test_the_number_of_every_reason_for_dead_letters_is_seen(tmp_path: Path) -> None:
    numbers = {name: 1_001 + number for number, name in enumerate(REASONS)}
    told = [MicroBatch(0, 0, 1.0, events=8, dead_letters=numbers)]
    with RunMonitor(made_run(tmp_path / "out", findings=[], batches=told)) as monitor:
        monitor.look()
        for number in numbers.values():
            assert f"{number:,}" in monitor.static_html()


def tiles(monitor: RunMonitor) -> dict[str, dict[str, Any]]:
    return {each["label"]: each for each in monitor.face.part("tiles")["tiles"]}


def told(monitor: RunMonitor) -> str:
    return "".join(text for text, _ in monitor.face.part("incident").get("told", ()))


def users(monitor: RunMonitor) -> list[str]:
    column = monitor.face.part("people")["columns"][0]
    return [column["words"][code] for code in column["codes"]]


def test_tiles_and_facts_have_the_figures_of_the_status(ended: Run) -> None:
    with RunMonitor(ended, seconds=3600) as monitor:
        monitor.look()
        assert monitor.status is not None
        rows = dict(monitor.status.rows())
        assert list(tiles(monitor)) == ["events/s", "last batch", "lag", "findings reported"]
        told = dict(monitor.face.part("figures")["rows"])
        assert told["state memory"].startswith(rows["state memory"])
        assert "tenth batch" not in told["state memory"], "what is unknown falls for no reason"
        assert rows.keys() == {"state", *tiles(monitor), *told}
        assert {told[name] == rows[name] for name in told if name != "state memory"} == {True}
        assert monitor.face.part("badge")["text"] == rows["state"]


def test_the_course_of_the_lag_grows_with_each_look(ended: Run) -> None:
    with RunMonitor(ended, seconds=3600) as monitor:
        monitor.look()
        looks = len(tiles(monitor)["lag"]["values"])
        assert looks > 0
        monitor.look()
        lag = tiles(monitor)["lag"]
        assert len(lag["values"]) == looks + 1
        assert monitor.status is not None
        assert lag["values"][-1] == monitor.status.lag_ms
        assert lag["times"][-1] == monitor.status.at_ms


BO = found(user="<i>Bo", count=7, log10_probability=-3.0)


def reported(number: int, findings: int = 1) -> MicroBatch:
    return MicroBatch(number, 1_000 * number, 1.0, events=8, findings=findings)


def test_incidents_are_read_again_once_a_batch_has_ended_and_the_choice_stays(
    tmp_path: Path,
) -> None:
    run = made_run(tmp_path / "out", findings=[found(), BO], batches=[reported(0, 2)])
    with RunMonitor(run, seconds=3600) as monitor:
        monitor.look()
        assert users(monitor) == ["Anna", "<i>Bo"]
        assert (monitor.face.part("people")["chosen"], told(monitor)) == (None, "")
        monitor.face._handle_custom_msg({"chosen": ["people", 2, "Cy"]}, [])
        assert told(monitor) == "", "a row that is gone by now"
        monitor.face._handle_custom_msg({"chosen": ["people", 1, "<i>Bo"]}, [])
        assert told(monitor).startswith("<i>Bo did “read” 7 times")
        assert "&lt;i&gt;Bo" in monitor.static_html()
        add_findings(run.folder.path, [found(user="Zoe", log10_probability=-90.0)], 1)
        before = monitor.face.part("people")
        monitor.look()
        assert monitor.face.part("people") == before, "no batch has ended since"
        add_batch(run.folder.path, reported(1))
        monitor.look()
        assert users(monitor) == ["Zoe", "Anna", "<i>Bo"]
        assert monitor.face.part("people")["chosen"] == 2
        assert monitor.face.chosen == {}
        assert told(monitor).startswith("<i>Bo did “read” 7 times")


def test_no_incident_and_incidents_that_cannot_be_read_are_said_apart(tmp_path: Path) -> None:
    run = made_run(tmp_path / "out", batches=[reported(0, 0)])
    with RunMonitor(run, seconds=3600) as monitor:
        monitor.look()
        assert monitor.face.part("people")["text"] == "No incident so far."
        run.folder.marks.write_text("nonsense")
        add_findings(run.folder.path, [BO])
        add_batch(run.folder.path, reported(1))
        monitor.look()
        assert "is no TOML" in monitor.face.part("people")["text"]
        assert tiles(monitor)["findings reported"]["text"] == "1", "the figures are new"
        assert said(monitor) == ""
        run.folder.marks.unlink()
        monitor.look()
        assert users(monitor) == ["<i>Bo"]


def test_dead_letters_are_opened_as_they_came_and_closed(tmp_path: Path) -> None:
    letters = {"no_time": 1, "no_user": 1}
    batch = MicroBatch(0, 0, 1.0, events=8, dead_letters=letters)
    run = made_run(tmp_path / "out", batches=[batch], reasons=[*letters])
    with RunMonitor(run, seconds=3600) as monitor:
        monitor.look()
        made = monitor.face.part("letters")["buttons"]
        assert [each["label"] for each in made] == [f"{REASONS[name]}: 1" for name in letters]
        press(monitor, "letters", "no_time")
        samples = monitor.face.part("samples")
        assert samples["cards"] == [
            {"title": "1 that differ, of 1", "rows": [["batch 0", "no_time"]]}
        ]
        assert "<bdi>no_time</bdi>" in monitor.static_html()
        monitor.look()
        assert monitor.face.part("samples") == samples, "a look closes nothing"
        pressed = [each["pressed"] for each in monitor.face.part("letters")["buttons"]]
        assert pressed == [True, False]
        press(monitor, "letters", "no_time")
        assert monitor.face.part("samples") == {}


def test_dead_letters_that_are_gone_are_said_where_they_would_stand(tmp_path: Path) -> None:
    batch = MicroBatch(0, 0, 1.0, events=8, dead_letters={"no_time": 1})
    run = made_run(tmp_path / "out", batches=[batch], reasons=["no_time"])
    with RunMonitor(run, seconds=3600) as monitor:
        monitor.look()
        (kept,) = (run.folder.path / "dead_letters").rglob("*.parquet")
        kept.write_bytes(b"nonsense")
        press(monitor, "letters", "no_time")
        assert monitor.face.part("samples")["kind"] == "said"
