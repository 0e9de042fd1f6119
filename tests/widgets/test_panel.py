"""What all panels have in common: a picture where no widget lives, and that nothing is left."""

from __future__ import annotations

import copy
import pickle
import threading
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest
from ipywidgets.widgets import widget as registry

from kstoolkit.errors import ConfigurationError
from kstoolkit.operations.capacity import plan_capacity
from kstoolkit.rocksdb.lab.workloads import Workload
from kstoolkit.widgets.capacity import CapacityPanel
from kstoolkit.widgets.findings import FindingsPanel
from kstoolkit.widgets.lab import CompactionLab
from kstoolkit.widgets.memory import MemoryPanel
from kstoolkit.widgets.panel import Background, Newest
from kstoolkit.widgets.profiles import ProfilePanel
from kstoolkit.widgets.runmonitor import RunMonitor
from kstoolkit.widgets.stores import StorePanel
from tests.plots.made import found, made_run
from tests.stores.streamsstores import write_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kstoolkit.widgets.panel import Panel


PANELS: dict[str, Callable[[Path], Panel]] = {
    "findings": lambda folder: FindingsPanel(made_run(folder / "out", findings=[found()])),
    "monitor": lambda folder: RunMonitor(made_run(folder / "out", findings=[])),
    "stores": StorePanel,
    "memory": lambda _: MemoryPanel(),
    "profile": lambda _: ProfilePanel(),
    "capacity": lambda _: CapacityPanel(plan_capacity(rate=1e6)),
    "lab": lambda _: CompactionLab(Workload(writes=2_000, keys=500)),
}

SHOWN = [
    "from kstoolkit.widgets.memory import MemoryPanel\npanel = MemoryPanel()\npanel",
    "panel.set(partitions=7)\npanel.wait()\npanel.close()",
    "panel",
]


@pytest.mark.parametrize("panel", PANELS)
def test_closing_leaves_no_widget_behind(panel: str, tmp_path: Path) -> None:
    make = PANELS[panel]
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    make(tmp_path / "first").close()  # what is made once for all
    before = {*registry._instances}
    made = make(tmp_path / "second")
    assert {*registry._instances} > before
    made.close()
    made.close()
    assert {*registry._instances} == before


def test_where_a_panel_was_displayed_its_last_state_remains_and_a_closed_one_shows_it_too() -> None:
    first, _, second = _outputs(SHOWN)
    assert [_kinds(each) for each in first] == [{"plain", "vnd.jupyter.widget-view+json"}, {"html"}]
    assert [_kinds(each) for each in second] == [{"html"}]
    for output in (first[1], second[0]):
        assert "7 x 1 x 1 = 7 RocksDB instances" in output.data["text/html"]


def test_the_picture_that_is_kept_of_a_panel_tells_what_it_read_once_it_was_shown(
    tmp_path: Path,
) -> None:
    write_store(tmp_path / "app" / "0_0" / "rocksdb" / "clicks", default={b"a": b"1"})
    made_run(tmp_path / "out", findings=[found(user="ada")])
    folders = str(tmp_path / "app"), str(tmp_path / "out")
    cells = [f"import kstoolkit as kst\nkst.explore({each!r})" for each in folders]
    stores, findings = ([each.data for each in outputs] for outputs in _outputs(cells))
    assert "application/vnd.jupyter.widget-view+json" in stores[0]
    assert "clicks" in stores[-1]["text/html"]
    assert "ada" in findings[-1]["text/html"]


@pytest.mark.parametrize("copied", [pickle.dumps, copy.deepcopy])
def test_a_panel_says_that_it_can_not_be_copied(copied: Callable[[Any], object]) -> None:
    with (
        ProfilePanel() as panel,
        pytest.raises(ConfigurationError, match=r"^ProfilePanel can't be pickled or copied"),
    ):
        copied(panel)


def test_what_is_closed_begins_nothing_more() -> None:
    done: list[bool] = []
    background = Background(print)
    assert background.start(lambda _: done.append(True))
    background.close()
    assert not background.start(lambda _: done.append(True))
    assert not background.every(0.01, lambda: done.append(True))
    assert done == [True]


def test_a_closed_panel_does_not_come_alive_again(tmp_path: Path) -> None:
    before = {*threading.enumerate()}
    lab = CompactionLab(Workload(writes=2_000, keys=500))
    monitor = RunMonitor(made_run(tmp_path / "out", findings=[]))
    for panel in (lab, monitor):
        panel.close()
    lab.run()
    lab.wait()
    monitor.look()
    assert {*threading.enumerate()} <= before
    assert lab.comparison is None


def _outputs(sources: list[str]) -> list[list[Any]]:
    import nbformat
    from nbclient import NotebookClient

    cells = [nbformat.v4.new_code_cell(each) for each in sources]  # type: ignore[no-untyped-call]
    notebook = nbformat.v4.new_notebook(cells=cells)  # type: ignore[no-untyped-call]
    NotebookClient(notebook, kernel_name="python3", timeout=60).execute()
    return [cell.outputs for cell in notebook.cells]


def _kinds(output: Any) -> set[str]:
    """Return in which forms something is displayed, but for text beside HTML."""
    kinds = {each.partition("/")[2] for each in output.data}
    return kinds - {"plain"} if "html" in kinds else kinds


def test_of_jobs_that_wait_the_newest_is_done() -> None:
    done: list[int] = []
    begun, may_end = Event(), Event()

    def first() -> None:
        begun.set()
        may_end.wait(10)
        done.append(0)

    newest = Newest(print)
    newest.ask(first)
    begun.wait(10)
    for number in (1, 2, 3):
        newest.ask(lambda number=number: done.append(number))  # type: ignore[misc]
    assert not newest.wait(0.01)
    may_end.set()
    assert newest.wait(10)
    assert done == [0, 3]


def test_a_job_that_fails_is_told_and_the_next_one_is_done() -> None:
    said: list[str] = []
    newest = Newest(said.append)
    for _ in range(20):
        newest.ask(lambda: 1 // 0)
        newest.wait(10)
        newest.ask(lambda: said.append("done"))
        assert newest.wait(10)
    assert said == ["ZeroDivisionError: integer division or modulo by zero", "done"] * 20


def test_after_the_end_nothing_is_begun() -> None:
    said: list[str] = []
    newest = Newest(said.append)
    newest.stop()
    newest.ask(lambda: said.append("done"))
    assert newest.wait(1)
    assert said == []
