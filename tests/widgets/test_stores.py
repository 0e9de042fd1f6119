from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import kstoolkit as kst
from kstoolkit.errors import ConfigurationError, InputError, KstoolkitError
from kstoolkit.rocksdb.faults import StoreClosedError
from kstoolkit.widgets.storerows import StoppableSource
from kstoolkit.widgets.stores import StorePanel
from tests.stores.kafkastreams.archives import State, states
from tests.stores.spark.madecheckpoints import make_checkpoint
from tests.stores.streamsstores import MINUTE_MS, START_MS, write_minutes, write_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

OWN, *LARGER = states("3.9.2")
HOSTILE = {
    "<script>alert(1)</script>": "&lt;script&gt;alert(1)&lt;/script&gt;",
    "\"quotes' & co": "&quot;quotes",
    "right\u202eleft": "u202e",
    "long" * 2_500: "characters left out",
}
"""Users as nobody wishes for, and what is shown of them."""


@pytest.fixture
def opened() -> Iterator[Callable[..., StorePanel]]:
    """Open panels that have found their stores, and close them."""
    panels = []

    def open_panel(*given: object) -> StorePanel:
        panels.append(StorePanel(*given))  # type: ignore[arg-type]
        panels[-1].wait()
        return panels[-1]

    yield open_panel
    for panel in panels:
        panel.close()


@pytest.fixture
def users(tmp_path: Path) -> Path:
    """A store of 450 users, in two column families."""
    rows = {f"user-{n:03}".encode(): n.to_bytes(8, "big") for n in range(450)}
    return write_store(tmp_path / "users", default=rows, other={b"k": b"v"})


@pytest.fixture
def minutes(tmp_path: Path) -> Path:
    """A window store of 3 users in 3 segments, as Kafka Streams lays it out."""
    return write_minutes(tmp_path / "app" / "0_1" / "clicks", ["anna", "annika", "bo"])


def keys(panel: StorePanel) -> list[str]:
    return [row["key"].strip("'") for row in panel.page]


def rows_of(panel: StorePanel, **read_as: object) -> list[dict[str, str]]:
    panel.turn("Rows")
    panel.read_as(**read_as)
    panel.wait()
    return panel.page


def press(panel: StorePanel, place: str, what: str) -> None:
    """Do what a click does: the browser sends the same."""
    panel._heard({"pressed": [place, what]})
    panel.wait()


def enter(panel: StorePanel, name: str, value: object) -> None:
    panel._heard({"field": ["form", name, value]})
    panel.wait()


def click(panel: StorePanel, place: str, row: int) -> None:
    part = panel.face.part(place)
    first = part["columns"][0]
    panel._heard({"chosen": [place, row, first["words"][first["codes"][row]]]})
    panel.wait()


def field(panel: StorePanel, name: str) -> dict[str, Any]:
    found: dict[str, Any]
    (found,) = (each for each in panel.face.part("form")["fields"] if each["name"] == name)
    return found


def lines(panel: StorePanel) -> list[str]:
    assert panel.tree is not None
    return [each.name for each in panel.tree.nodes]


def shown(panel: StorePanel) -> list[dict[str, Any]]:
    """What stands in the places of a tab, as far as there is something."""
    return [part for n in range(16) if (part := panel.face.part(f"shown{n}"))]


def said(panel: StorePanel) -> str:
    told: str = panel.face.part("said").get("text", "")
    return told


def test_a_store_that_stands_alone_is_shown_at_once_in_pages(
    opened: Callable[..., StorePanel], users: Path
) -> None:
    panel = opened(users.parent)
    assert panel.tab == "Overview"
    assert "entries in its files" in panel.static_html()
    press(panel, "tabs", "Rows")
    assert keys(panel) == [f"user-{n:03}" for n in range(200)]
    turns = panel.face.part("turn")["buttons"]
    assert [each["disabled"] for each in turns] == [True, False]
    for first in (200, 400):
        press(panel, "turn", "next")
        assert keys(panel)[0] == f"user-{first}"
    assert len(panel.page) == 50
    assert panel.face.part("turn")["buttons"][1]["disabled"]
    assert panel.face.part("rows")["label"] == "Rows 401 to 450."
    press(panel, "turn", "previous")
    assert repr(panel).endswith("1 store; users, rows 201 to 400, and more)")
    panel.previous()
    panel.wait()
    panel.previous()
    panel.wait()
    assert keys(panel)[0] == "user-000"


def test_a_row_is_shown_whole_with_its_bytes(
    opened: Callable[..., StorePanel], users: Path
) -> None:
    panel = opened(users)
    rows_of(panel)
    click(panel, "rows", 7)
    assert panel.face.part("row")["text"] == "key\n'user-007'\n\nvalue\n7"
    shown = panel.face.part("bytes")["text"]
    assert "0000  75 73 65 72 2d 30 30 37" in shown
    assert "user-007" in shown
    assert shown.endswith("00 00 00 00 00 00 00 07                          ........")
    press(panel, "turn", "next")
    assert panel.face.part("bytes") == {}


def test_a_store_is_chosen_by_its_name_while_it_is_still_looked_for(users: Path) -> None:
    write_store(users.parent / "another", default={b"a": b"1"})
    with StorePanel(users.parent) as panel:
        panel.choose("users")
        rows_of(panel)
        assert keys(panel)[0] == "user-000"


def test_what_was_written_since_is_shown_once_it_is_read_again(
    opened: Callable[..., StorePanel], users: Path
) -> None:
    panel = opened(users.parent)
    panel.search("zoe")
    panel.wait()
    assert not panel.page
    write_store(users, default={b"zoe": (1).to_bytes(8, "big")})
    write_store(users.parent / "another", default={b"a": b"1"})
    press(panel, "look", "again")
    assert keys(panel) == ["zoe"]
    assert "2 stores" in repr(panel)


def test_keys_that_are_bytes_are_searched_for_as_text(
    opened: Callable[..., StorePanel], tmp_path: Path
) -> None:
    panel = opened(write_store(tmp_path / "odd", default={b"<b>\xff": b"1", b"<b>": b"2"}))
    panel.read_as(key_serde="bytes")
    panel.search("<b>")
    panel.wait()
    assert [row["key"] for row in panel.page] == ["0x3c623e"]
    panel.search("<b>", prefix=True)
    panel.wait()
    assert len(panel.page) == 2


def test_keys_are_searched_for_whole_or_by_their_beginning(
    opened: Callable[..., StorePanel], minutes: Path
) -> None:
    panel = opened(minutes)
    enter(panel, "sought", "anna")
    assert panel.tab == "Rows"
    assert {row["key"] for row in panel.page} == {"'anna'"}
    assert len(panel.page) == 18
    enter(panel, "is_prefix", True)
    enter(panel, "sought", "ann")
    assert {row["key"] for row in panel.page} == {"'anna'", "'annika'"}
    panel.search("0x626f")
    panel.wait()
    assert {row["key"] for row in panel.page} == {"'bo'"}
    panel.search("nobody")
    panel.wait()
    assert not panel.page
    assert said(panel) == "No such rows."


def test_serdes_and_the_length_of_windows_are_chosen(
    opened: Callable[..., StorePanel], minutes: Path
) -> None:
    panel = opened(minutes)
    assert "window end, UTC" not in rows_of(panel)[0]
    enter(panel, "window_size", "10 minutes")
    assert panel.page[0]["window start, UTC"] == "2023-11-14 23:00"
    assert panel.page[0]["window end, UTC"] == "2023-11-14 23:10"
    enter(panel, "value_serde", "bytes")
    raw = (START_MS // MINUTE_MS).to_bytes(8, "big")
    assert panel.page[0]["value"] == f"0x{raw.hex()}"
    assert field(panel, "value_serde")["value"] == "bytes"
    rows_of(panel, value_serde=None, window_size=None)
    assert panel.page[0]["value"] == str(START_MS // MINUTE_MS)


def test_what_makes_no_sense_is_said_and_the_panel_goes_on(
    opened: Callable[..., StorePanel], users: Path
) -> None:
    panel = opened(users)
    enter(panel, "window_size", "soon")
    assert "'soon'" in said(panel)
    assert not panel.page
    enter(panel, "window_size", "")
    enter(panel, "key_serde", "long")
    panel.search("anna")
    panel.wait()
    assert "no such number" in said(panel)
    panel.search("9" * 100_000 + "x")
    panel.wait()
    assert "no such number" in said(panel)
    assert len(said(panel)) < 1_000
    enter(panel, "key_serde", None)
    panel.search("user-007")
    panel.wait()
    assert keys(panel) == ["user-007"]
    assert said(panel) == ""
    with pytest.raises(ConfigurationError, match="none of the choices"):
        panel.read_as(key_serde="morse")
    with pytest.raises(ConfigurationError, match="Nothing is called 'color'"):
        panel.read_as(color="blue")
    with pytest.raises(ConfigurationError, match="no tab 'Colors'"):
        panel.turn("Colors")
    panel.choose(users / "absent")
    panel.wait()
    assert "absent" in said(panel)


def test_a_column_family_can_be_chosen(opened: Callable[..., StorePanel], users: Path) -> None:
    panel = opened(users)
    rows_of(panel)
    assert not field(panel, "family")["hidden"]
    enter(panel, "family", "other")
    assert keys(panel) == ["k"]


def test_the_tree_groups_what_is_found(opened: Callable[..., StorePanel], tmp_path: Path) -> None:
    for place in ("0_0", "0_10", "0_2"):
        write_minutes(tmp_path / "app" / place / "clicks", ["anna"], segments=1)
    make_checkpoint(tmp_path / "query")
    write_store(tmp_path / "alone", default={b"a": b"1"})
    panel = opened(tmp_path)
    assert "5 stores" in repr(panel)
    assert [each for each in lines(panel) if each.startswith("task")] == [
        *("task 0_0", "task 0_2", "task 0_10")
    ]
    tree = panel.face.part("tree")
    assert tree["leaves"] == 5
    assert tree["depths"][lines(panel).index("task 0_0")] == 2
    assert panel.store is None
    click(panel, "tree", lines(panel).index("task 0_0") - 1)
    assert panel.face.part("tabs")["tabs"][1]["name"] == "Checkup"
    press(panel, "tabs", "Checkup")
    assert "3 stores in" in panel.static_html()
    assert "memory over the bound" not in panel.static_html()
    over = "memory over the bound"
    for typed, says in (("1 MiB", over), ("much", "is no size"), ("", "3 stores in")):
        panel._heard({"field": ["form", "bound", typed]})
        panel.wait()
        assert says in panel.static_html()
        assert panel.face.part("form")["fields"][0]["value"] == typed
    click(panel, "tree", lines(panel).index("query") + 2)
    rows_of(panel)
    assert [row["key: user"] for row in panel.page] == ["Cy", "Dee", "Anna", "Aaron"]
    assert panel.page[0]["value: count"].isdecimal()
    panel.choose("alone")
    rows_of(panel)
    assert keys(panel) == ["a"]
    panel.choose("clicks")
    assert "3 stores are called" in said(panel)


def test_a_choice_of_an_older_table_is_none_of_this_one(
    opened: Callable[..., StorePanel], users: Path
) -> None:
    panel = opened(users.parent)
    panel._heard({"chosen": ["tree", 0, "another engine"]})
    panel.wait()
    assert repr(panel).endswith("users)")


def test_versions_of_sparks_can_be_chosen_and_keys_given_as_json(
    opened: Callable[..., StorePanel], tmp_path: Path
) -> None:
    panel = opened(make_checkpoint(tmp_path / "query"))
    rows_of(panel)
    told = [label for _, label in field(panel, "version")["options"]]
    assert told == ["latest", "4", "3", "2", "1"]
    assert field(panel, "window_size")["hidden"]
    enter(panel, "version", 1)
    assert [row["key: user"] for row in panel.page] == ["Anna"]
    assert panel.page[0]["value: count"] == "1"
    enter(panel, "version", None)
    panel.search('{"user": "Dee"}')
    panel.wait()
    assert panel.page[0]["value: count"] == "4"
    panel.search('{"user"')
    panel.wait()
    assert "is no JSON" in said(panel)
    panel.search("An", prefix=True)
    panel.wait()
    assert "binary rows" in said(panel)


def test_all_partitions_of_an_operator_are_read_by_its_line(
    opened: Callable[..., StorePanel], tmp_path: Path
) -> None:
    make_checkpoint(tmp_path / "query")
    panel = opened(tmp_path)
    click(panel, "tree", lines(panel).index("operator 0"))
    assert "aggregation" in panel.static_html()
    assert [row["partition"] for row in rows_of(panel)] == ["0"] * 4


def test_levels_log_memory_and_advice_are_those_of_its_files(
    opened: Callable[..., StorePanel], users: Path
) -> None:
    panel = opened(users)
    press(panel, "tabs", "Levels")
    files = next(each for each in shown(panel) if each.get("noun") == "levels")
    (counts,) = (each["values"] for each in files["columns"] if each["name"] == "num_files")
    assert sum(counts) == len([*users.glob("*.sst")])
    press(panel, "tabs", "Log")
    kinds = shown(panel)[0]["columns"]
    logged = dict(zip(kinds[0]["words"], kinds[1]["values"], strict=True))
    log = "".join(each.read_text() for each in users.glob("LOG*"))
    assert logged["flushes"] == log.count("flush_finished") > 0
    assert logged["errors"] == 0
    press(panel, "tabs", "Memory")
    assert ["Formula"] in [each[:1] for part in shown(panel) for each in part.get("rows", ())]
    press(panel, "tabs", "Advice")
    assert "Nothing to do, by its files and its log." in panel.static_html()
    assert said(panel) == ""


def test_growth_is_a_few_sentences_and_leaves_with_the_store(
    opened: Callable[..., StorePanel], minutes: Path, users: Path
) -> None:
    panel = opened(minutes.parents[2])
    assert users.parent == minutes.parents[2]
    panel.grow()
    assert "no tab 'Growth'" in said(panel)
    panel.choose("clicks")
    press(panel, "tabs", "Growth")
    assert panel.growth is not None
    assert panel.growth.num_rows == 54
    assert panel.growth.verdict[0].replace("'", "&#x27;")[:20] in panel.static_html()
    share = panel.growth.num_past_rows
    assert share is not None
    states = panel.face.part("tree")["columns"][3]["words"]
    assert [each for each in states if "expired" in each] == [
        f"{100 * share[0] / 54:.0f} % expired"
    ]
    panel.choose("users")
    panel.wait()
    assert panel.growth is not None
    assert panel.growth.store == "users"


def test_a_store_that_is_open_stays_so_and_is_read_as_it_was_told(users: Path) -> None:
    with kst.open_store(users, value_serde="bytes") as store:
        with StorePanel(store) as panel:
            rows_of(panel)
            assert panel.store is store
            assert panel.page[1]["value"] == "0x0000000000000001"
            panel.read_as(family="other")
            panel.wait()
            assert panel.store is not store
            assert panel.page[0]["value"] == "0x76"
            panel.grow()
            panel.wait()
            assert panel.growth is not None
        assert store.rows(limit=1).count() == 1


def test_closing_frees_the_store_and_ends_all_threads(
    minutes: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    before = set(threading.enumerate())
    panel = StorePanel(minutes)
    rows_of(panel)
    store = panel.store
    panel.grow()
    panel.next()
    assert list(scratch.iterdir())
    panel.close()
    panel.close()
    assert panel.store is None
    assert not list(scratch.iterdir())
    assert store is not None
    with pytest.raises(StoreClosedError):
        list(store.rows())
    assert _ended_soon(before)
    panel.search("anna")
    assert panel.page == []


def test_a_panel_of_many_stores_appears_at_once(tmp_path: Path) -> None:
    for n in range(3):
        write_store(tmp_path / f"store-{n}", default={b"a": b"1"})
    for n in range(500):
        (tmp_path / f"linked-{n}").mkdir()
        for each in (tmp_path / "store-0").iterdir():
            os.link(each, tmp_path / f"linked-{n}" / each.name)
    begun = time.thread_time()
    with StorePanel(tmp_path) as panel:
        assert time.thread_time() - begun < 0.2, "another thread looks: that takes twice as long"
        panel.wait()
        assert panel.face.part("tree")["leaves"] == 503
        assert "the first 20 of" in panel.static_html()


def test_a_tab_of_an_open_store_is_turned_to_before_its_folder_is_looked_through(
    users: Path,
) -> None:
    with kst.open_store(users) as store:
        begun = time.monotonic()
        with StorePanel(store) as panel:
            panel._heard({"pressed": ["tabs", "Rows"]})
            took = time.monotonic() - begun
            panel.wait()
            assert panel.tab == "Rows"
    assert took < 5, "the thread that looks waited for what waits for it"


def test_closing_ends_the_search_among_thousands_of_stores(tmp_path: Path) -> None:
    for n in range(3_000):
        (tmp_path / str(n)).mkdir()
        (tmp_path / str(n) / "CURRENT").touch()
    before = set(threading.enumerate())
    panel = StorePanel(tmp_path)
    begun = time.perf_counter()
    panel.close()
    assert set(threading.enumerate()) <= before
    assert time.perf_counter() - begun < 1
    assert panel.tree is None


def test_users_that_look_like_markup_are_shown_as_text(
    opened: Callable[..., StorePanel], tmp_path: Path
) -> None:
    rows = {user.encode(): user.encode() for user in HOSTILE}
    panel = opened(write_store(tmp_path / "<b>bold", default=rows))
    rows_of(panel)
    html = panel.static_html()
    for shown in HOSTILE.values():
        assert shown in html
    assert "<script>" not in html
    assert "\u202e" not in html
    assert "<b>bold" not in html
    assert len(html) < 20_000


def test_a_damaged_store_says_so(opened: Callable[..., StorePanel], users: Path) -> None:
    for each in users.glob("*.sst"):
        each.write_bytes(each.read_bytes()[:-40])
    panel = opened(users)
    rows_of(panel)
    assert str(users) in said(panel)
    assert not panel.page


@pytest.mark.filterwarnings("ignore::kstoolkit.stores.rows.readable.LeftOutWarning")
def test_what_is_left_out_of_a_store_is_said_beside_its_rows(
    opened: Callable[..., StorePanel], minutes: Path
) -> None:
    (minutes / "clicks.1").mkdir()
    panel = opened(minutes)
    rows_of(panel)
    assert "1 part left out. clicks.1: it has no CURRENT file." in said(panel)
    assert panel.page


def test_a_folder_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no folder"):
        StorePanel(tmp_path / "absent")


def test_a_folder_without_stores_says_so(opened: Callable[..., StorePanel], tmp_path: Path) -> None:
    panel = opened(tmp_path)
    assert "0 stores in" in panel.static_html()
    assert repr(panel).endswith("0 stores; none chosen)")


@pytest.mark.parametrize(
    "state", [OWN, *(pytest.param(each, marks=pytest.mark.long) for each in LARGER)], ids=str
)
def test_every_store_of_a_real_state_directory_is_described_and_read(
    state: State, tmp_path_factory: pytest.TempPathFactory, opened: Callable[..., StorePanel]
) -> None:
    panel = opened(state.directory(tmp_path_factory))
    expected = {each["store"]: each for each in state.stores(tmp_path_factory)}
    assert panel.tree is not None
    read = 0
    for row, node in enumerate(panel.tree.nodes):
        if not node.is_store:
            continue
        press(panel, "tabs", "Overview")
        click(panel, "tree", row)
        html = panel.static_html()
        assert "% sure" in html
        assert "changelog offset" in html
        assert "closed" in html
        assert node.name in expected
        read += len(rows_of(panel))
    assert read > 0


def _ended_soon(before: set[threading.Thread]) -> bool:
    end = time.monotonic() + 5
    while time.monotonic() < end:
        if set(threading.enumerate()) <= before:
            return True
        time.sleep(0.01)
    return False


def test_rows_that_nobody_wants_any_more_are_read_no_further() -> None:
    class Endless:
        name = "counts"

        def read(self, _: object) -> Iterator[str]:
            while True:
                yield "some rows"

    answers = iter([False, False, True])
    source: Any = StoppableSource(Endless(), lambda: next(answers))
    rows = source.read(None)
    assert (source.name, next(rows), next(rows)) == ("counts", "some rows", "some rows")
    with pytest.raises(KstoolkitError, match="counts is not read any further"):
        next(rows)
