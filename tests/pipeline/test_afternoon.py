"""An afternoon in minutes: a live run, who hammers, and whoever looks after it; two kills.

Hours of a day are written one after the other, from noon until after midnight. Twenty people do a
little in each of them. At 21:00 Mallory begins to hammer. All that is done about it is done by
commands while the run counts; Alertmanager is the real one, and counts are held against DuckDB's.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import kstoolkit as kst
from kstoolkit.errors import KstoolkitError
from tests.alertmanager import Alertmanager, found
from tests.cli.commands import COLUMNS, given, rows, started
from tests.pipeline.alerted import Listener, listening
from tests.pipeline.harness import check_exact, kill_group, until, write_lines

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.kill]

NOON = (datetime.now(UTC) - timedelta(days=2)).replace(hour=12, minute=0, second=0, microsecond=0)
PEOPLE = [f"person {n}" for n in range(20)]
HAMMERS, GRABS = range(9, 14), (10, 13)
"""In which hours after noon Mallory hammers, and Trudy grabs some things at once."""


def hour(number: int) -> list[dict[str, str]]:
    """Return what is done in an hour after noon."""
    acts = [(who, minute, 1) for who in PEOPLE for minute in (5, 25, 45)]
    acts += [("Mallory", minute, 90) for minute in (10, 30, 50) if number in HAMMERS]
    acts += [("Trudy", 15, 40)] if number in GRABS else []
    at = NOON + timedelta(hours=number)
    return [
        {"time": (at + timedelta(minutes=minute, seconds=n // 2)).isoformat(), **what}
        for who, minute, times in acts
        for n in range(times)
        for what in [{"user": who, "action": "read"}]
    ]


class Afternoon:
    """The folders, what has come so far, and the command that counts it."""

    def __init__(self, folder: Path, manager: Alertmanager) -> None:
        self.folder, self.out, self.manager = folder, folder / "out", manager
        self.rules, self.hours, self.events = folder / "rules.toml", 0, 0

    def allow(self, count: int, text: str = "") -> None:
        """Write the rules: so much within ten minutes, and who is told."""
        rule = f"[[rule]]\nkind = 'Ceiling'\nwindow = '10 minutes'\ncount = {count}\n{text}"
        alert = f"[[alert]]\nurl = '{self.manager.url}'\nlink = 'http://wiki/{{incident}}'\n"
        self.rules.write_text(f"{rule}\n{alert}")

    @contextmanager
    def counting(self) -> Iterator[subprocess.Popen[bytes]]:
        """Have the command count meanwhile, which ends as a service is ended."""
        how = ("--follow", "--trigger", "500 milliseconds", "--rules", self.rules, "--quiet")
        windows = ("--windows", "10 minutes, 1 hour", "--buckets", 2)
        process = started("run", self.folder / "in", *COLUMNS, *windows, "--out", self.out, *how)
        try:
            yield process
        finally:
            if process.stderr is not None and not process.stderr.closed:
                process.terminate()
                process.communicate(timeout=120)

    def come(self, until_hour: int) -> None:
        """Have hours come, and wait until they are counted."""
        for number in range(self.hours, until_hour):
            came = hour(number)
            write_lines(self.folder / "in" / f"{number:02d}.json", came)
            self.events += len(came)
        until(lambda: self.counted() == self.events, f"hour {until_hour}")
        self.hours = until_hour

    def counted(self) -> int:
        try:
            return kst.load_run(self.out).summary().events
        except KstoolkitError:  # it has not begun
            return -1

    def incident(self, user: str) -> dict[str, Any]:
        (told,) = rows(given("incidents", self.out, "--user", user, "--json").out)
        return told

    def alerts(self) -> dict[str, str]:
        """Return what Alertmanager has: which incident of whom."""
        labels = [each["labels"] for each in self.manager.alerts()]
        return {each["user"]: each["incident"] for each in labels}

    def states(self) -> list[str]:
        return [each["annotations"]["state"] for each in self.manager.alerts()]


def notified(listener: Listener) -> list[tuple[str, str]]:
    """Return who was notified of, and how it stood, each change once."""
    alerts = [alert for each in listener.taken for alert in each.told["alerts"]]
    return list(dict.fromkeys((each["labels"]["user"], each["status"]) for each in alerts))


@pytest.mark.long
def test_an_afternoon_is_played_through(tmp_path: Path) -> None:
    found() or pytest.skip("no prometheus-alertmanager")
    with listening() as listener, Alertmanager(tmp_path / "manager", listener.url) as manager:
        day = Afternoon(tmp_path, manager)
        day.allow(60)
        with day.counting() as process:
            day.come(9)
            assert day.alerts() == {}
            day.come(10)  # it is 22:00: Mallory has hammered for an hour
            until(lambda: "Mallory" in day.alerts(), "the alert")
            opened = day.incident("Mallory")
            assert opened["state"] == "open"
            assert day.alerts() == {"Mallory": opened["id"]}
            until(lambda: notified(listener) == [("Mallory", "firing")], "the notification")
            kill_group(process)

        with day.counting() as process:
            marked = given("mark", day.out, opened["id"], "muted", "--why", "Max is on it")
            assert marked.code == 0, marked.err
            day.come(11)
            until(lambda: day.alerts() == {}, "the alert to be over")
            until(lambda: ("Mallory", "resolved") in notified(listener), "that to be told")
            day.allow(30)  # now Trudy's forty at once are too many
            day.come(12)
            kill_group(process)

        with day.counting() as process:
            day.come(13)
            day.allow(20, "burst = 'x'")  # which no Ceiling takes
            day.come(14)  # it is 02:00
            day.allow(30)
            until(lambda: "Trudy" in day.alerts(), "the other alert")
            grown = day.incident("Mallory")
            assert grown["id"] == opened["id"]
            assert grown["mark"] == "muted"
            assert grown["windows"] == 15
            midnight = (NOON + timedelta(hours=12)).timestamp() * 1_000
            assert grown["since_ms"] == opened["since_ms"] < midnight < grown["until_ms"]
            day.come(18)
            until(lambda: day.incident("Trudy")["state"] == "resolved", "the end of it")
            until(lambda: day.states() == ["resolved"], "Alertmanager to know")
            process.terminate()
            said = process.communicate(timeout=120)[1].decode()
            assert "burst" in said

        # Whoever is grouped with others for five minutes hears of Trudy: her alert lasts ten.
        mallory = [("Mallory", "firing"), ("Mallory", "resolved")]
        assert notified(listener) == [*mallory, ("Trudy", "firing")]
        check_what_is_left(day)


def check_what_is_left(day: Afternoon) -> None:
    """Check what the folder tells the day after: counts, incidents, rules, what was confirmed."""
    run = kst.load_run(day.out)
    check_exact(run, sorted((day.folder / "in").glob("*.json")))
    assert {each.user for each in run.incidents()} == {"Mallory", "Trudy"}
    assert {each.state for each in run.incidents()} == {"resolved"}
    versions = [json.loads(line) for line in (day.out / "rules.jsonl").read_text().splitlines()]
    allowed = {each["version"]: each["rules"][0]["count"] for each in versions}
    assert list(allowed.values()) == [60, 30]
    by = {(each.user, each.ceiling): allowed[str(each.rules_version)] for each in run.findings}
    assert all(ceiling == count for (_, ceiling), count in by.items())
    assert set(by) == {("Mallory", 60), ("Mallory", 30), ("Trudy", 30)}

    confirmed = given("mark", day.out, day.incident("Mallory")["id"], "confirmed")
    assert confirmed.code == 0
    assert day.incident("Mallory")["mark"] == "confirmed"
    (told,) = rows(given("evaluate", day.out, "--json").out)
    (kind,) = told["findings"]["kinds"]
    assert (kind["kind"], kind["labels"], kind["found"]) == ("confirmed", 1, 1)
    story = given("story", day.out, "Mallory")
    assert "confirmed" in story.out
