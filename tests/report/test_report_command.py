from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kstoolkit.pipeline.run import load_run
from kstoolkit.report import report as reporting
from kstoolkit.report.report import Report
from tests.changelog.changelogs import HOUR
from tests.cli.commands import given, harmless
from tests.report.made import TEN, Made, unusual
from tests.report.pages import Page, check_harmless
from tests.report.test_stores import made_store

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def run(tmp_path: Path) -> Path:
    made = Made(tmp_path / "out")
    made.counts({HOUR: {(TEN, "Anna", "read"): 61}})
    made.statistics(events=61)
    made.findings([unusual("Anna", -9, window_start_ms=TEN)])
    return made.out


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return made_store(tmp_path / "counts", {b"anna": (3).to_bytes(8, "big")})


def page_at(path: Path) -> Page:
    page = Page(path.read_text(encoding="utf-8"))
    check_harmless(page)
    return page


def test_a_run_is_reported_into_its_own_folder(run: Path) -> None:
    answer = given("report", run)
    assert answer == (0, f"The report is in {run}/report.html.\n", "")
    page = page_at(run / "report.html")
    assert "Abnormal users in edits.json.gz" in page.text
    assert "Made by kstoolkit run data/edits.json.gz" in page.text


def test_a_run_is_told_alike_from_its_folder_and_as_it_is_in_a_session(run: Path) -> None:
    opened, folder = load_run(run), Report().add(run)
    text = Page(folder.html()).text
    for each in (Report().add(opened), Report().add(opened, limit=1)):
        assert Page(each.html()).text.partition("Made")[0] == text.partition("Made")[0]
    page = page_at(opened.report(run / "report.html"))
    links = [attrs["href"] for tag, attrs in page.elements if tag == "a"][:4]
    assert links == ["#incidents", "#users", "#appendix", "#summary"]


def test_a_store_is_reported_where_it_was_asked_for(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = given("report", store, "--html", tmp_path / "it's.html")
    assert (answer.code, answer.err) == (0, "")
    page = page_at(tmp_path / "it's.html")
    assert "Store counts" in page.text
    assert """Made by kstoolkit report counts --html 'it'"'"'s.html'""" in page.text
    assert f"Made by kstoolkit report {store}" not in page.text


def test_several_things_are_reported_together_under_a_title(run: Path, store: Path) -> None:
    target = run.parent / "report.html"
    answer = given("report", run, store, "--html", target, "--title", "<b>Both")
    assert answer.code == 0, answer.err
    page = page_at(target)
    assert "<h1><bdi>&lt;b&gt;Both</bdi></h1>" in page.html
    assert "PySpark" in page.text
    assert "Store counts" in page.text
    assert not (run / "report.html").exists()


def test_two_stores_are_compared_if_that_is_asked(store: Path) -> None:
    other = made_store(store.with_name("other"), {b"anna": (5).to_bytes(8, "big")})
    target = store.with_name("report.html")
    answer = given("report", store, other, "--compare", "--html", target)
    assert answer.code == 0, answer.err
    page = page_at(target)
    assert "In which rows they differ" in page.text
    assert "1 changed" in page.text


def test_a_large_report_is_announced_and_written(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = reporting.Report.write
    monkeypatch.setattr(
        reporting.Report, "write", lambda self, path: write(self, path, max_bytes=10)
    )
    target = store.with_name("report.html")
    answer = given("report", store, "--html", target)
    assert answer.code == 0
    assert "Note: The report takes" in answer.err
    assert target.exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["{store}"], "--html is missing"),
        (["{store}", "{store}"], "--html is missing"),
        (["{store}", "--compare", "--html", "x.html"], "about two stores"),
        (["nothing\x1b[2J"], "There is no 'nothing\\x1b[2J'"),
        (["{store}", "nothing", "--html", "x.html"], "There is no 'nothing'"),
        (["{folder}", "--html", "x.html"], "No RocksDB store"),
        (["{store}/CURRENT", "--html", "x.html"], "holds no comparison"),
        (["{store}", "--html", "no/x.html"], "can't be written"),
        ([], "THING"),
    ],
)
def test_a_mistake_is_a_sentence_and_leaves_nothing(
    arguments: list[str], said: str, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "here"
    (place / "folder").mkdir(parents=True)
    monkeypatch.chdir(place)
    names = {"store": store, "folder": place / "folder"}
    answer = given("report", *(each.format(**names) for each in arguments))
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err
    assert harmless(answer.err)
    assert [each.name for each in place.iterdir()] == ["folder"]
