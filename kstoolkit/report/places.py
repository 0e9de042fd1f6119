"""What lies at a path, for a report: a run, a replica, a changelog, stores, a comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.changelog.changelog import Changelog
from kstoolkit.errors import CheckpointError
from kstoolkit.replica.windowstore import WindowReader
from kstoolkit.report.comparisons import read_comparison
from kstoolkit.report.facts import records_part
from kstoolkit.report.part import renamed
from kstoolkit.report.runs import run_part
from kstoolkit.report.stores import changelog_part, replica_part, store_part
from kstoolkit.rocksdb.faults import NoStoreError
from kstoolkit.stores.discovery.discovering import discover
from kstoolkit.stores.opening import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.pipeline.run import Run
    from kstoolkit.report.part import Part
    from kstoolkit.report.section import Ids


def path_part(path: Path, ids: Ids, limit: int | None) -> Part:
    """Return what the page says of what lies at a path.

    Raises
    ------
    InputError
        If nothing lies there that a report can show.
    KstoolkitError
        What reading it raises.
    """
    if is_run(path):
        from kstoolkit.pipeline.run import load_run  # noqa: PLC0415 - loads much: when asked

        return run_folder_part(load_run(path), ids, limit)
    if (path / "replica.json").exists():
        with WindowReader.open(path) as replica:
            return replica_part(replica, ids, limit)
    if path.is_file():
        comparison = records_part(read_comparison(path), ids, limit)
        return renamed(comparison, "Comparison of profiles")
    if any(path.glob("epoch=*")):
        return changelog_part(Changelog.open(path), ids, limit)
    return _stores_part(path, ids, limit)


def is_run(path: Path) -> bool:
    """Return whether a run's output lies there."""
    return (path / "run.json").exists()


def run_folder_part(run: Run, ids: Ids, limit: int | None) -> Part:
    """Return what the page says of a run; a live one is reported as far as it is."""
    from kstoolkit.pipeline.reporting import SHOWN, report_of  # noqa: PLC0415 - joins two rooms

    return run_part(report_of(run, top=SHOWN if limit is None else limit), ids, limit)


def _stores_part(path: Path, ids: Ids, limit: int | None) -> Part:
    try:
        with open_store(path) as store:
            return store_part(store, ids, limit)
    except (NoStoreError, CheckpointError):
        if not path.is_dir():
            raise
        found = discover(path)
        if all(each.path == str(path.absolute()) for each in found):
            raise
    return renamed(records_part(found, ids, limit), f"Stores in {path.absolute().name}")
