"""Which panel fits a thing: a run, findings, a store, a profile, a plan, a workload."""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import ConfigurationError, EnvironmentFault, InputError
from kstoolkit.records import Viewed

if TYPE_CHECKING:
    from kstoolkit.widgets.panel import Panel

_RUN = "kstoolkit.pipeline.run.Run"
_FINDINGS = "findings.FindingsPanel"
_STORES = "stores.StorePanel"
_MEMORY = "memory.MemoryPanel"
_MONITOR = "runmonitor.RunMonitor"
_PROFILE = "profiles.ProfilePanel"
_LAB = "lab.CompactionLab"

_PANELS = {
    "kstoolkit.findings.finding.Findings": _FINDINGS,
    "kstoolkit.operations.capacity.CapacityPlan": "capacity.CapacityPanel",
    "kstoolkit.rocksdb.lab.results.Comparison": _LAB,
    "kstoolkit.rocksdb.lab.workloads.Workload": _LAB,
    "kstoolkit.rocksdb.memory.measured.MemoryParts": _MEMORY,
    "kstoolkit.rocksdb.memory.planning.MemoryPlan": _MEMORY,
    "kstoolkit.rocksdb.profiles.profile.Profile": _PROFILE,
    "kstoolkit.rocksdb.store.Store": _STORES,
    "kstoolkit.stores.rows.readable.HasRows": _STORES,
}
"""The panel of each kind of thing, by names: what is not looked at is not imported."""

_LIES_AT = {
    "kstoolkit.stores.discovery.found.FoundStore": "path",
    "kstoolkit.stores.discovery.discovering.FoundStores": "root",
    "kstoolkit.replica.windowstore.WindowReader": "path",
}
"""Things that are looked at where they lie, and what tells where that is."""

_TAKES = (
    "Give a run or its folder; findings; a store, its path, or a folder of stores; a profile or "
    "the name of one; what plan_memory(), store.memory() or plan_capacity() returned; a workload; "
    "or any record."
)


def explore(thing: object) -> Panel:
    """Return the panel that fits: display it by leaving it on the last line of a cell.

    Parameters
    ----------
    thing
        A live run (its monitor), one that has ended or its folder (its findings), findings; an
        opened store, the path of one or of a folder of stores; a profile, or the name of one, also
        where a folder has that name (``Path(name)`` is the folder); what ``plan_memory()``,
        ``store.memory()`` or ``plan_capacity()`` returned; a workload or a comparison (the
        compaction lab); or any other record: its figures, its rows as a table, its plot.

    Raises
    ------
    ConfigurationError
        If there is no panel for it.
    EnvironmentFault
        If ipywidgets is not installed.
    InputError
        If there is nothing at the path.

    Examples
    --------
    >>> with explore("low_disk") as panel:
    ...     panel
    ProfilePanel(low_disk: 12 options that differ from kafka_streams)
    """
    return _panel(*_fitting(thing))


def _fitting(thing: object) -> tuple[str, object]:
    """Return which panel fits a thing, as ``module.Class``, and what it is to be given."""
    if isinstance(thing, str | os.PathLike):
        return _at(thing)
    kinds = [f"{each.__module__}.{each.__qualname__}" for each in type(thing).__mro__]
    if _RUN in kinds:
        run: Any = thing
        goes_on = run.is_active or run.folder.is_held()  # here, or in another process
        return _MONITOR if goes_on else _FINDINGS, run
    for kind in kinds:
        if kind in _PANELS:
            return _PANELS[kind], thing
        if kind in _LIES_AT:
            return _STORES, _folder(getattr(thing, _LIES_AT[kind]))
    if isinstance(thing, Viewed):
        return "records.RecordPanel", thing
    name = type(thing).__name__
    message = f"There is no panel for {'an' if name[:1].lower() in 'aeiou' else 'a'} {name}."
    raise ConfigurationError(message, hint=_TAKES)


def findings_panel(found: object) -> Panel:
    """Return the panel of the findings of a run, of its folder, or of findings alone."""
    if isinstance(found, str | os.PathLike):
        found = _loaded(found)
    return _panel(_FINDINGS, _fit(found, "run, and no findings", _FINDINGS, _MONITOR))


def store_panel(store: object) -> Panel:
    """Return the panel of an opened store, or of those that lie at a path."""
    if isinstance(store, str | os.PathLike):  # the folder of a run has stores, too
        return _panel(_STORES, _folder(store))
    return _panel(_STORES, _fit(store, "store", _STORES))


def memory_panel(given: object = None) -> Panel:
    """Return the panel of the memory of a store, of a plan, or of nothing yet.

    A store at a path is opened whenever it is measured; of a folder above several, all are.
    """
    if given is None:
        return _panel(_MEMORY)
    if isinstance(given, str | os.PathLike):
        folder = _folder(given)
        if not _imported("stores.discovery.discovering.discover")(folder):
            _imported("stores.opening.open_store")(folder)  # says what is wrong with it
        return _panel(_MEMORY, folder)
    return _panel(_MEMORY, _fit(given, "store, and no plan", _STORES, _MEMORY))


def profile_panel(profile: object = "spark") -> Panel:
    """Return the panel of a profile, or of the one with a name."""
    if not isinstance(profile, str):
        profile = _fit(profile, "profile", _PROFILE)
    return _panel(_PROFILE, profile)


def _at(given: str | os.PathLike[str]) -> tuple[str, object]:
    if given in _imported("rocksdb.profiles.named.profile_names")():
        return _PROFILE, given
    folder = _folder(given)
    if (folder / "run.json").is_file():
        return _fitting(_loaded(folder))
    return _STORES, folder


def _fit(thing: object, what: str, *panels: str) -> object:
    """Return what one of these panels is to be given for a thing, or say what it is not."""
    panel, given = _fitting(thing)
    if panel not in panels:
        message = f"{type(thing).__name__} is no {what}."
        raise ConfigurationError(message, hint=_TAKES)
    return given


def _loaded(path: str | os.PathLike[str]) -> Any:
    return _imported("pipeline.run.load_run")(_folder(path))


def _folder(given: str | os.PathLike[str]) -> Path:
    path = Path(given)
    if not str(given) or not path.exists():
        message = f"There is no folder {str(given)!r}."
        raise InputError(message, hint="Give the folder of a run, of a store, or above stores.")
    if not path.is_dir():
        message = f"{str(given)!r} is a file, not a folder."
        raise InputError(message, hint="Give the folder that it lies in.")
    return path


def _panel(name: str, *given: object) -> Panel:
    if find_spec("ipywidgets") is None:
        message = 'Panels need ipywidgets, which pip install "kstoolkit[lab]" installs.'
        raise EnvironmentFault(message)
    panel: Panel = _imported(f"widgets.{name}")(*given)
    return panel


def _imported(name: str) -> Any:
    module, _, what = name.rpartition(".")
    return getattr(import_module(f"kstoolkit.{module}"), what)
