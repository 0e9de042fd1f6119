from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import kstoolkit as kst
from kstoolkit.errors import ConfigurationError, InputError, KstoolkitError
from kstoolkit.rocksdb.faults import StoreClosedError
from kstoolkit.widgets.storerows import StoreGrowth, _StoppableSource
from kstoolkit.widgets.stores import _MOST_LISTED, StorePanel
from tests.stores.kafkastreams.archives import State, states
from tests.stores.spark.madecheckpoints import make_checkpoint
from tests.stores.streamsstores import MINUTE_MS, START_MS, write_minutes, write_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

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
    """A store of 45 users, in two column families."""
    rows = {f"user-{n:02}".encode(): n.to_bytes(8, "big") for n in range(45)}
    return write_store(tmp_path / "users", default=rows, other={b"k": b"v"})


@pytest.fixture
def minutes(tmp_path: Path) -> Path:
    """A window store of 3 users in 3 segments, as Kafka Streams lays it out."""
    return write_minutes(tmp_path / "app" / "0_1" / "clicks", ["anna", "annika", "bo"])


def keys(panel: StorePanel) -> list[str]:
    return [row["key"].strip("'") for row in panel.page]


def test_a_store_that_stands_alone_is_shown_at_once_in_pages(
    opened: Callable[..., StorePanel], users: Path
) -> None:
    panel = opened(users.parent)
    assert keys(panel) == [f"user-{n:02}" for n in range(20)]
    assert panel.controls.previous.disabled
    for first in (20, 40):
        panel.controls.next.click()
        panel.wait()
        assert keys(panel)[0] == f"user-{first}"
    assert len(panel.page) == 5
    assert panel.controls.next.disabled
    assert "Rows 41 to 45." in panel.static_html()
    panel.controls.previous.click()
    panel.wait()
    assert repr(panel).endswith("1 store; users, rows 21 to 40, and more)")
    panel.previous()
    panel.wait()
    panel.previous()
    panel.wait()
    assert keys(panel)[0] == "user-00"


def test_the_first_picture_shows_the_store_and_what_was_found(users: Path) -> None:
    with StorePanel(users.parent) as panel:
        assert "Rows 1 to 20, and more." in panel.static_html()
        assert repr(panel).endswith("1 store; users, rows 1 to 20, and more)")


def test_a_store_is_chosen_by_its_name_while_it_is_still_looked_for(
    users: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kstoolkit.widgets.stores.FIRST_LOOK_SECONDS", 0)
    write_store(users.parent / "another", default={b"a": b"1"})
    with StorePanel(users.parent) as panel:
        panel.choose("users")
        panel.wait()
        assert keys(panel)[0] == "user-00"


def test_what_was_written_since_is_shown_once_it_is_read_again(
    opened: Callable[..., StorePanel], users: Path
) -> None:
    panel = opened(users.parent)
    panel.search("zoe")
    panel.wait()
    assert not panel.page
    write_store(users, default={b"zoe": (1).to_bytes(8, "big")})
    write_store(users.parent / "another", default={b"a": b"1"})
    panel.list.again.click()
    panel.wait()
    assert keys(panel) == ["zoe"]
    assert "2 stores" in repr(panel)


def test_stores_are_gone_through_by_buttons(opened: Callable[..., StorePanel], users: Path) -> None:
    write_store(users.parent / "another", default={b"a": b"1"})
    panel = opened(users.parent)
    first, *_, last = (panel.list.nodes.index(each) for each in panel.list.nodes if each.is_store)
    for _ in range(first + 1):
        panel.list.below.click()
    panel.wait()
    assert keys(panel) == ["a"]
    for _ in range(len(panel.list.nodes)):
        panel.list.below.click()
    assert panel.list.tree.index == last == len(panel.list.nodes) - 1
    panel.list.above.click()
    assert panel.list.tree.index == last - 1


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
    panel.controls.sought.value = "anna"
    panel.wait()
    assert {row["key"] for row in panel.page} == {"'anna'"}
    assert len(panel.page) == 18
    panel.controls.by.value = True
    panel.controls.sought.value = "ann"
    panel.wait()
    assert {row["key"] for row in panel.page} <= {"'anna'", "'annika'"}
    assert len(panel.page) == 20
    assert not panel.controls.next.disabled
    panel.search("0x626f")
    panel.wait()
    assert {row["key"] for row in panel.page} == {"'bo'"}
    panel.search("nobody")
    panel.wait()
    assert not panel.page
    assert "No such rows." in panel.static_html()


def test_serdes_and_the_length_of_windows_are_chosen_and_bytes_stand_beside(
    opened: Callable[..., StorePanel], minutes: Path
) -> None:
    panel = opened(minutes)
    assert "window end, UTC" not in panel.page[0]
    panel.controls.window_size.value = "10 minutes"
    panel.wait()
    assert panel.page[0]["window start, UTC"] == "2023-11-14 23:00"
    assert panel.page[0]["window end, UTC"] == "2023-11-14 23:10"
    panel.controls.value_serde.value = "bytes"
    panel.wait()
    raw = (START_MS // MINUTE_MS).to_bytes(8, "big")
    assert panel.page[0]["value"] == f"0x{raw.hex()}"
    assert raw.hex(" ") not in panel.static_html()
    panel.controls.raw.value = True
    assert raw.hex(" ") in panel.static_html()
    panel.read_as(value_serde=None, window_size=None)
    panel.wait()
    assert panel.page[0]["value"] == str(START_MS // MINUTE_MS)


def test_what_makes_no_sense_is_said_and_the_panel_goes_on(
    opened: Callable[..., StorePanel], users: Path
) -> None:
    panel = opened(users)
    panel.controls.window_size.value = "soon"
    panel.wait()
    assert "&#x27;soon&#x27;" in panel.static_html()
    assert not panel.page
    panel.controls.window_size.value = ""
    panel.controls.key_serde.value = "long"
    panel.search("anna")
    panel.wait()
    assert "no such number" in panel.static_html()
    panel.search("9" * 100_000 + "x")
    panel.wait()
    assert "no such number" in panel.static_html()
    assert len(panel.rows.said.value) < 1_000
    panel.controls.key_serde.value = ""
    panel.search("user-07")
    panel.wait()
    assert keys(panel) == ["user-07"]
    assert "no such number" not in panel.static_html()
    with pytest.raises(ConfigurationError, match="none of the choices"):
        panel.read_as(key_serde="morse")
    with pytest.raises(ConfigurationError, match="Nothing is called 'color'"):
        panel.read_as(color="blue")
    panel.choose(users / "absent")
    panel.wait()
    assert "absent" in panel.static_html()


def test_a_column_family_can_be_chosen(opened: Callable[..., StorePanel], users: Path) -> None:
    panel = opened(users)
    assert panel.controls.family.layout.display == ""
    panel.controls.family.value = "other"
    panel.wait()
    assert keys(panel) == ["k"]


def test_the_tree_groups_what_is_found_and_a_filter_thins_it(
    opened: Callable[..., StorePanel], tmp_path: Path
) -> None:
    for place in ("0_0", "0_10", "0_2"):
        write_minutes(tmp_path / "app" / place / "clicks", ["anna"], segments=1)
    make_checkpoint(tmp_path / "query")
    write_store(tmp_path / "alone", default={b"a": b"1"})
    panel = opened(tmp_path)
    lines = [each.label.strip("\u00a0") for each in panel.list.nodes]
    assert "4 stores" not in repr(panel)
    assert "5 stores" in repr(panel)
    assert any(line.startswith("operator 0: 1 store") for line in lines)
    assert any(line.startswith("alone (key-value") for line in lines)
    tasks = [line for line in lines if line.startswith("task")]
    assert [line.partition(":")[0] for line in tasks] == ["task 0_0", "task 0_2", "task 0_10"]
    assert panel.store is None
    panel.list.filter.value = "QUERY"
    assert [each.depth for each in panel.list.nodes] == [0, 1, 2, 3]
    assert "1 of them match" in panel.list.said.value
    panel.list.tree.index = 0
    assert "among the largest" in panel.static_html()
    panel.list.tree.index = 3
    panel.wait()
    assert keys(panel) == [
        '{"user": "Cy"}',
        '{"user": "Dee"}',
        '{"user": "Anna"}',
        '{"user": "Aaron"}',
    ]
    panel.list.filter.value = ""
    assert panel.list.nodes[panel.list.tree.index].path == str(tmp_path / "query/state/0/0")
    panel.choose("alone")
    panel.wait()
    assert keys(panel) == ["a"]
    panel.choose("clicks")
    assert "3 stores are called" in panel.static_html()


def test_versions_of_sparks_can_be_chosen_and_keys_given_as_json(
    opened: Callable[..., StorePanel], tmp_path: Path
) -> None:
    panel = opened(make_checkpoint(tmp_path / "query"))
    assert [label for label, _ in panel.controls.version.options] == ["latest", "4", "3", "2", "1"]
    assert panel.controls.window_size.layout.display == "none"
    panel.controls.version.value = 1
    panel.wait()
    assert keys(panel) == ['{"user": "Anna"}']
    assert panel.page[0]["value"] == '{"count": 1}'
    panel.controls.version.value = ""
    panel.search('{"user": "Dee"}')
    panel.wait()
    assert panel.page[0]["value"] == '{"count": 4}'
    panel.search('{"user"')
    panel.wait()
    assert "is no JSON" in panel.static_html()
    panel.search("An", prefix=True)
    panel.wait()
    assert "binary rows" in panel.static_html()


def test_all_partitions_of_an_operator_are_read_by_its_line(
    opened: Callable[..., StorePanel], tmp_path: Path
) -> None:
    make_checkpoint(tmp_path / "query")
    panel = opened(tmp_path)
    line = next(each for each in panel.list.nodes if each.name == "operator 0")
    panel.list.tree.index = panel.list.nodes.index(line)
    panel.wait()
    assert [row["partition"] for row in panel.page] == ["0"] * 4
    assert "aggregation" in panel.static_html()


def test_growth_is_a_few_sentences_and_leaves_with_the_store(
    opened: Callable[..., StorePanel], minutes: Path, users: Path
) -> None:
    panel = opened(minutes.parents[2])
    assert users.parent == minutes.parents[2]
    panel.grow()
    assert "Choose a store first" in panel.static_html()
    panel.choose("clicks")
    panel.growing.button.click()
    panel.wait()
    assert panel.growth is not None
    assert panel.growth.num_rows == 54
    assert panel.growth.verdict[0].replace("'", "&#x27;")[:20] in panel.static_html()
    panel.choose("users")
    panel.wait()
    assert not panel.growing.growth
    assert "<li>" not in panel.static_html()


def test_why_growth_is_unknown_is_not_overwritten_by_that_it_is_being_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def gone(_: object) -> Any:
        message = "The store is gone."
        raise InputError(message)

    begin = threading.Thread.start

    def begin_and_end(thread: threading.Thread) -> None:
        begin(thread)
        thread.join()

    monkeypatch.setattr(threading.Thread, "start", begin_and_end)
    measuring = StoreGrowth(lambda: gone)
    measuring.measure()
    assert "The store is gone." in measuring.shown.value
    measuring.close()


def test_a_store_that_is_open_stays_so_and_is_read_as_it_was_told(users: Path) -> None:
    with kst.open_store(users, value_serde="bytes") as store:
        with StorePanel(store) as panel:
            panel.wait()
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
    panel.wait()
    panel.grow()
    panel.next()
    store = panel.store
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


def test_a_panel_of_many_stores_appears_at_once_and_lists_the_first(tmp_path: Path) -> None:
    for n in range(3):
        write_store(tmp_path / f"store-{n}", default={b"a": b"1"})
    for n in range(_MOST_LISTED):
        (tmp_path / f"linked-{n}").mkdir()
        for each in (tmp_path / "store-0").iterdir():
            os.link(each, tmp_path / f"linked-{n}" / each.name)
    begun = time.thread_time()
    with StorePanel(tmp_path) as panel:
        assert time.thread_time() - begun < 0.2, "another thread looks: that takes twice as long"
        panel.wait()
        assert len(panel.list.nodes) == _MOST_LISTED
        assert f"the first {_MOST_LISTED} lines" in panel.static_html()
        panel.list.filter.value = "store-2"
        assert len([each for each in panel.list.nodes if each.is_store]) == 1


def test_closing_ends_the_search_among_thousands_of_stores(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("kstoolkit.widgets.stores.FIRST_LOOK_SECONDS", 0)
    for n in range(3_000):
        (tmp_path / str(n)).mkdir()
        (tmp_path / str(n) / "CURRENT").touch()
    before = set(threading.enumerate())
    panel = StorePanel(tmp_path)
    begun = time.perf_counter()
    panel.close()
    assert set(threading.enumerate()) <= before
    assert time.perf_counter() - begun < 1
    assert panel.list.found is None


def test_users_that_look_like_markup_are_shown_as_text(
    opened: Callable[..., StorePanel], tmp_path: Path
) -> None:
    rows = {user.encode(): user.encode() for user in HOSTILE}
    panel = opened(write_store(tmp_path / "<b>bold", default=rows))
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
    assert str(users) in panel.static_html()
    assert not panel.page
    assert 'role="status"' in panel.rows.said.value


@pytest.mark.filterwarnings("ignore::kstoolkit.stores.rows.readable.LeftOutWarning")
def test_what_is_left_out_of_a_store_is_said_beside_its_rows(
    opened: Callable[..., StorePanel], minutes: Path
) -> None:
    (minutes / "clicks.1").mkdir()
    panel = opened(minutes)
    assert "1 part left out. clicks.1: it has no CURRENT file." in panel.rows.said.value
    assert "1 part left out" in panel.static_html()
    assert panel.page


def test_a_folder_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no folder"):
        StorePanel(tmp_path / "absent")


def test_a_folder_without_stores_says_so(opened: Callable[..., StorePanel], tmp_path: Path) -> None:
    panel = opened(tmp_path)
    assert "0 stores in" in panel.static_html()
    assert repr(panel).endswith("0 stores; none chosen)")


@pytest.mark.parametrize("state", states("3.9.2"), ids=str)
def test_every_store_of_a_real_state_directory_is_described_and_read(
    state: State, tmp_path_factory: pytest.TempPathFactory, opened: Callable[..., StorePanel]
) -> None:
    panel = opened(state.directory(tmp_path_factory))
    expected = {each["store"]: each for each in state.stores(tmp_path_factory)}
    read = 0
    for node in panel.list.nodes:
        if not node.is_store:
            continue
        panel.list.tree.index = panel.list.nodes.index(node)
        panel.wait()
        html = panel.static_html()
        assert "% sure" in html
        assert "changelog offset" in html
        assert "closed" in html
        assert node.name in expected
        read += len(panel.page)
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
    source: Any = _StoppableSource(Endless(), lambda: next(answers))
    rows = source.read(None)
    assert (source.name, next(rows), next(rows)) == ("counts", "some rows", "some rows")
    with pytest.raises(KstoolkitError, match="counts is not read any further"):
        next(rows)
