from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rocksdict import Options, Rdict

from kstoolkit.errors import ConfigurationError, InputError
from kstoolkit.operations.capacity import plan_capacity
from kstoolkit.records import Records
from kstoolkit.rocksdb.lab.results import Comparison
from kstoolkit.rocksdb.lab.workloads import Workload
from kstoolkit.rocksdb.memory.planning import plan_memory
from kstoolkit.rocksdb.opening import open_store as open_rocksdb
from kstoolkit.rocksdb.profiles.named import profile_named
from kstoolkit.stores.discovery.discovering import discover
from kstoolkit.stores.opening import open_store
from kstoolkit.widgets.exploring import (
    _LIES_AT,
    _PANELS,
    _fitting,
    explore,
    findings_panel,
    memory_panel,
    profile_panel,
    store_panel,
)
from tests.plots.made import found, made_run

if TYPE_CHECKING:
    from kstoolkit.pipeline.run import Run


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "stores" / "counts"
    path.parent.mkdir()
    written = Rdict(str(path), Options(raw_mode=True))
    written[b"anna"] = (3).to_bytes(8, "big")
    written.flush()
    written.close()
    return path


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return made_run(tmp_path / "out", findings=[found()])


@dataclass
class Query:
    """As much of a query of Spark's as tells that a run is live."""

    isActive: bool = True  # noqa: N815 - Spark's name


def test_every_kind_of_thing_there_is_a_panel_for_exists() -> None:
    for name in (*_PANELS, *_LIES_AT):
        module, _, kind = name.rpartition(".")
        assert isinstance(getattr(import_module(module), kind), type)


def test_a_run_gets_a_monitor_while_it_is_live_and_its_findings_afterwards(run: Run) -> None:
    live: Any = replace(run, query=Query())  # type: ignore[arg-type]
    assert _fitting(live) == ("runmonitor.RunMonitor", live)
    assert _fitting(run) == ("findings.FindingsPanel", run)
    assert _fitting(run.findings)[0] == "findings.FindingsPanel"
    for given in (run.folder.path, str(run.folder.path)):
        assert _fitting(given) == ("findings.FindingsPanel", run)


def test_a_store_or_a_folder_of_stores_gets_its_panel(store: Path) -> None:
    assert _fitting(store) == ("stores.StorePanel", store)
    assert _fitting(str(store.parent)) == ("stores.StorePanel", store.parent)
    for opened in (open_store(store), open_rocksdb(store)):
        with opened:
            assert _fitting(opened) == ("stores.StorePanel", opened)


def test_stores_that_were_discovered_are_looked_at_where_they_lie(store: Path) -> None:
    stores = discover(store.parent)
    assert _fitting(stores) == ("stores.StorePanel", store.parent)
    assert _fitting(stores[0]) == ("stores.StorePanel", store)


def test_a_profile_or_its_name_a_plan_and_a_workload_get_theirs(store: Path) -> None:
    workload = Workload()
    compared = Comparison(workload, [], Records([], "moments"), Records([], "levels"))
    with open_store(store) as opened:
        assert _fitting(opened.memory())[0] == "memory.MemoryPanel"
    things: list[tuple[object, str]] = [
        ("spark", "profiles.ProfilePanel"),
        (profile_named("spark"), "profiles.ProfilePanel"),
        (plan_memory("spark"), "memory.MemoryPanel"),
        (workload, "lab.CompactionLab"),
        (compared, "lab.CompactionLab"),
    ]
    for thing, panel in things:
        assert _fitting(thing) == (panel, thing)


def test_a_folder_with_the_name_of_a_profile_is_meant_by_a_path(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(store.parent)
    store.rename("spark")
    assert _fitting("spark")[0] == "profiles.ProfilePanel"
    assert _fitting(Path("spark"))[0] == "stores.StorePanel"


@pytest.mark.parametrize(
    ("thing", "name"), [(7, "an int"), (None, "a NoneType"), (b"path", "a bytes"), ([], "a list")]
)
def test_anything_else_is_refused_with_what_it_takes(thing: object, name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"no panel for {name}") as caught:
        explore(thing)
    assert "a store, its path, or a folder of stores" in str(caught.value)


def test_what_is_not_there_is_said(store: Path) -> None:
    for given in ("", "nowhere", store.parent / "nowhere"):
        with pytest.raises(InputError, match="There is no folder"):
            explore(given)
    with pytest.raises(InputError, match="is a file, not a folder"):
        explore(store / "CURRENT")


def test_each_panel_is_made(run: Run, store: Path) -> None:
    things = (run, run.findings, store, store.parent, "spark", plan_memory("spark"), Workload())
    made = []
    for thing in (*things, plan_capacity(rate=1e6)):
        with explore(thing) as panel:
            made.append(type(panel).__name__)
    assert made == [
        *("FindingsPanel", "FindingsPanel", "StorePanel", "StorePanel"),
        *("ProfilePanel", "MemoryPanel", "CompactionLab", "CapacityPanel"),
    ]


def test_a_run_has_findings_and_stores(run: Run) -> None:
    for given in (run, run.findings, str(run.folder.path)):
        with findings_panel(given) as panel:
            assert type(panel).__name__ == "FindingsPanel"
    with store_panel(run.folder.path) as panel:
        assert type(panel).__name__ == "StorePanel"


def test_the_memory_of_a_store_at_a_path_is_looked_at_and_the_store_closed(store: Path) -> None:
    for given in (None, store, str(store), discover(store.parent)[0], plan_memory("spark")):
        with memory_panel(given) as panel:
            assert type(panel).__name__ == "MemoryPanel"


def test_each_panel_says_what_it_has_no_use_for(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigurationError, match="Workload is no run, and no findings"):
        findings_panel(Workload())
    with pytest.raises(InputError, match="No run in"):
        findings_panel(tmp_path / "empty")
    with pytest.raises(ConfigurationError, match="Run is no store"):
        store_panel(run)
    with pytest.raises(ConfigurationError, match="Run is no store, and no plan"):
        memory_panel(run)
    with pytest.raises(ConfigurationError, match="no panel for an int"):
        profile_panel(7)
    with pytest.raises(ConfigurationError, match="nonsense"):
        profile_panel("nonsense")


def test_without_ipywidgets_one_sentence_says_how_to_get_them() -> None:
    program = """
import sys
sys.modules["ipywidgets"] = None
import kstoolkit as kst
try:
    kst.explore("spark")
except kst.errors.EnvironmentFault as error:
    print(error)
"""
    told = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ,
    )
    assert told.stdout == ('Panels need ipywidgets, which pip install "kstoolkit[lab]" installs.\n')
