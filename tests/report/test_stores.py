from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING

import pytest
from rocksdict import Options, Rdict

import kstoolkit as kst
from kstoolkit.changelog.changelog import Changelog
from kstoolkit.errors import InputError, KstoolkitError
from kstoolkit.report import stores
from kstoolkit.report.report import Report
from kstoolkit.rocksdb.opening import open_store as open_rocksdb
from kstoolkit.stores.rows.statestore import StateStore
from kstoolkit.views.records import label_of, printed, told_of
from tests.changelog.changelogs import HOUR, MINUTE, write
from tests.replica.replicas import restored
from tests.report.pages import Page, check_harmless

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.rocksdb.lab.results import Comparison

TEN = 1_442_052_000_000


def made_store(path: Path, rows: dict[bytes, bytes]) -> Path:
    store = Rdict(str(path), Options(raw_mode=True))
    for key, value in rows.items():
        store[key] = value
    store.flush()
    store.close()
    return path


@pytest.fixture
def store(tmp_path: Path) -> Path:
    rows = {b"user-%03d" % n: (n).to_bytes(8, "big") for n in range(80)}
    return made_store(tmp_path / "counts", rows)


@pytest.fixture
def changelog(tmp_path: Path) -> Path:
    told = {
        MINUTE: {(TEN, "Anna", "read"): 4, (TEN + MINUTE, "<b>Bo</b>", "read"): 3},
        HOUR: {(TEN, "Anna", "read"): 4, (TEN, "<b>Bo</b>", "read"): 3},
    }
    return write(tmp_path / "run" / "changelog", 0, told).parents[1]


def page_of(thing: object) -> Page:
    page = Page(Report().add(thing).html())
    check_harmless(page)
    return page


def headings(page: Page) -> list[str]:
    links = [attrs["href"] for tag, attrs in page.elements if tag == "a"]
    return [str(link)[1:] for link in links]


def test_a_store_at_a_path_is_told_from_its_place_to_its_rows(store: Path) -> None:
    page = page_of(store)
    told = {"foundstore", "storesummary", "keystats", "levels", "growth", "rows"}
    assert len(told & {each.replace("-", "") for each in headings(page)}) == len(told)
    with kst.open_store(store) as opened:
        assert isinstance(opened, StateStore)
        figures = [*opened.summary().figures(), *opened.key_stats().figures()]
        verdict = kst.growth(opened).verdict
    for figure in figures:
        if isinstance(figure.value, int | float) and figure.name != "copied_bytes":
            assert f"{label_of(figure.name)}{printed(figure.value, figure.name)}" in page.text
    assert all(sentence in page.text for sentence in verdict)
    assert "First 50 rows shown, of more" in page.text
    assert "user-000" in page.text


def test_an_open_store_is_told_as_its_path_is(store: Path) -> None:
    with kst.open_store(store) as opened:
        told = page_of(opened)
        plain = Page(Report().add(opened, limit=3).html())
    assert headings(told) == headings(page_of(store))
    assert "First 3 rows shown, of more" in plain.text


def test_a_rocksdb_whose_rows_nobody_decodes_is_told_by_its_files(store: Path) -> None:
    with open_rocksdb(store) as opened:
        page = page_of(opened)
    assert "Files1" in page.text
    assert "rows" not in headings(page)


def test_reading_all_of_a_large_store_is_left_to_who_asks_for_it(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "_MOST_MEASURED_BYTES", 10)
    assert "Not measured: all of its" in page_of(store).text


def test_an_empty_store_is_told_as_empty(tmp_path: Path) -> None:
    page = page_of(made_store(tmp_path / "empty", {}))
    assert "The store has no rows." in page.text
    assert "No rows." in page.text


def test_the_folder_of_a_store_is_left_as_it_is(store: Path) -> None:
    before = {each.name: each.stat().st_mtime_ns for each in store.iterdir()}
    page_of(store)
    assert {each.name: each.stat().st_mtime_ns for each in store.iterdir()} == before


def test_a_folder_of_stores_is_a_table_of_them(store: Path) -> None:
    made_store(store.parent / "deep" / "others", {b"a": b"1"})
    page = page_of(store.parent)
    assert f"Stores in {store.parent.name}" in page.text
    assert headings(page)[:3] == ["what-to-do", "in-all", "stores"]
    assert "2 stores of " in page.text
    assert "counts" in page.text
    assert "others" in page.text


def test_a_changelog_tells_its_windows_and_who_did_most(changelog: Path) -> None:
    for thing in (changelog, Changelog(changelog)):
        page = page_of(thing)
        assert "Changelog of run" in page.text
        assert "1 batch, the newest number 0 of epoch 0" in page.text
        assert "1 hour2015-09-12 10:00:00 UTC2015-09-12 11:00:00 UTC" in page.text
        assert "Annaread4<b>Bo</b>read3" in page.text
        assert "Data from2015-09-12 10:00 UTC" in page.text


def test_a_replica_tells_its_levels_and_segments(changelog: Path, tmp_path: Path) -> None:
    place = tmp_path / "replica"
    with restored(changelog, place) as replica:
        segments = replica.segments()
        opened = page_of(replica)
    page = page_of(place)
    assert headings(page) == headings(opened)
    assert f"{len(segments)} segments" in page.text
    assert "2015-09-12 10:00:00 UTC" in page.text
    assert "Anna" in page_of(place / str(HOUR)).text


def test_what_two_stores_differ_in_is_told_by_its_first_rows(store: Path, tmp_path: Path) -> None:
    other = made_store(tmp_path / "others", {b"user-000": (9).to_bytes(8, "big")})
    with kst.open_store(store) as a, kst.open_store(other) as b, kst.diff_stores(a, b) as found:
        page = page_of(found)
        assert told_of(found) in page.text
        assert "First 50 rows shown, of more" in page.text


@pytest.fixture(scope="module")
def compared() -> Comparison:
    workload = kst.Workload("uniform", writes=2_000, keys=500)
    return kst.compare_profiles(workload, ["spark", "kafka_streams"], progress=False)


def test_a_comparison_states_the_figures_of_each_profile(compared: Comparison) -> None:
    page = page_of(compared)
    assert told_of(compared) in page.text
    assert "Profilesparkkafka_streams" in page.text.replace("56 figures.", "")
    for name in ("Write amplification", "SST", "Writes"):
        assert name in page.text
    assert "series" in headings(page)


def test_a_comparison_is_read_from_what_was_printed(compared: Comparison, tmp_path: Path) -> None:
    path = tmp_path / "compared.json"
    told = compared.to_dict()
    lines = [
        trial
        | {
            name: [each for each in told[name] if each["profile"] == trial["profile"]]
            for name in ("series", "levels")
        }
        for trial in told["trials"]
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    page, same = page_of(path), page_of(compared)
    assert "Comparison of profiles" in page.text
    tables = re_tables(page.html)
    assert tables == re_tables(same.html)
    assert "workload unknown" in page.text


def re_tables(html: str) -> list[str]:
    return [each.partition("</table>")[0] for each in html.split("<table>")[1:]]


@pytest.mark.parametrize(
    "text",
    ["", "no JSON", "[]", "3", "{}", '{"a": 1}', '{"trials": [3]}', '{"trials": []}\n3', "\udcff"],
)
def test_a_file_that_holds_no_comparison_is_said(text: str, tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError, match="holds no comparison"):
        Report("x").add(path)


def test_a_folder_without_anything_is_said(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(InputError, match=r"No RocksDB store|There is no"):
            Report("x").add(path)


def test_a_damaged_store_is_said_and_nothing_is_added(store: Path) -> None:
    shutil.rmtree(store)
    store.mkdir()
    (store / "CURRENT").write_text("nonsense")
    report = Report("x")
    with pytest.raises(KstoolkitError):
        report.add(store)
    assert repr(report) == "Report('x', 0 parts)"


def test_what_a_store_cannot_tell_is_said_and_all_else_is_told(tmp_path: Path) -> None:
    copy = tmp_path / "actions-1m"
    shutil.copytree("data/stores/kafka-streams/small-main-4_3_1/0_0/actions-1m", copy)
    for options in copy.glob("*/OPTIONS-*"):
        text = options.read_text(encoding="utf-8")
        options.write_text(text[: text.rindex("[CFOptions")], encoding="utf-8")
    page = page_of(copy)
    assert "Unknown: " in page.text
    assert all(title in page.text for title in ("In all", "Advice", "Levels", "Rows"))


def test_advice_comes_first_and_none_of_it_is_cut(tmp_path: Path) -> None:
    """All words of each piece, as the command line has them, whatever their length."""
    small = kst.Profile(write_buffer_size=64 << 10, max_bytes_for_level_base=16 << 10)
    store = Rdict(str(tmp_path), small.to_rocksdict())
    for number in range(3_000):
        store[b"%08d" % number] = bytes(100)
    store.close()
    with open_rocksdb(tmp_path) as opened:
        advice = opened.advice()
    page = page_of(tmp_path)
    assert advice
    for each in advice:
        told = [line.strip().partition(": ")[2] for line in str(each).splitlines()[1:]]
        assert [
            words for words in (str(each).splitlines()[0], *told) if words not in page.text
        ] == []
    assert [rule for rule in advice.unjudged if rule not in page.text] == []
    assert headings(page)[:2] == ["advice-list", "growth"]


def test_no_name_of_a_class_stands_on_a_page_of_a_store() -> None:
    with kst.open_store("data/stores/spark/count-by-user") as opened:
        told = page_of(opened).text.partition("About this report")[2]
    said = told.rpartition("About this report")[0]
    assert "In all" in said
    assert re.findall(r"\b[A-Z][a-z]+[A-Z]?\w*\([^)]*", said) == []


def test_a_store_in_several_rocksdb_is_told_of_each_and_in_all() -> None:
    with kst.open_store("data/stores/spark/count-by-user") as opened:
        page = page_of(opened)
        for name in ("0/2.zip", "1/2.zip", "In all", "Each RocksDB"):
            assert name in page.text
        assert "Entries120" in page.text
