"""A comparison of profiles from what ``kstoolkit compare-profiles --json`` printed."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from kstoolkit.errors import ConfigurationError, InputError
from kstoolkit.records import Record, Records
from kstoolkit.rocksdb.lab.comparing import Comparison
from kstoolkit.rocksdb.lab.results import LevelWork, Moment, Trial
from kstoolkit.rocksdb.lab.workloads import REPLAYED, Workload

if TYPE_CHECKING:
    from pathlib import Path


_Row = TypeVar("_Row", bound=Record)


class ToldTrials(Comparison):
    """Trials of a workload that nobody told.

    Parameters
    ----------
    trials, series, levels
        As in :class:`~kstoolkit.rocksdb.lab.comparing.Comparison`.
    """

    def __init__(
        self, trials: Records[Trial], series: Records[Moment], levels: Records[LevelWork]
    ) -> None:
        Records.__init__(self, trials.rows, "trials")
        self.series, self.levels = series, levels

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values: trials, series, levels."""
        names = ("series", "levels")
        return {"trials": self.to_dicts()} | {
            name: getattr(self, name).to_dicts() for name in names
        }

    def __repr__(self) -> str:
        return f"Comparison({', '.join(each.profile for each in self)}; workload unknown)"


def read_comparison(path: Path) -> Comparison:
    """Return the comparison that a file holds: a trial a line, or ``Comparison.to_dict()``.

    Raises
    ------
    InputError
        If it holds none.
    """
    told = _objects(path)
    rows = told[0].get("trials", told)
    try:
        trials = Records([_record(Trial, row) for row in rows], "trials")
        series = Records([_record(Moment, each) for each in _listed(told, "series")], "moments")
        levels = Records([_record(LevelWork, each) for each in _listed(told, "levels")], "levels")
        workload = _workload(told[0].get("workload"))
    except (TypeError, KeyError, AttributeError, ConfigurationError) as error:
        raise _no_comparison(path) from error
    if workload is None:
        return ToldTrials(trials, series, levels)
    return Comparison(workload, trials.rows, series, levels)


def _objects(path: Path) -> list[dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
        try:
            found = [json.loads(text)]
        except ValueError:
            found = [json.loads(line) for line in text.splitlines() if line.strip()]
    except ValueError as error:
        raise _no_comparison(path) from error
    if not found or not all(isinstance(each, dict) for each in found):
        raise _no_comparison(path)
    return found


def _record(kind: type[_Row], told: dict[str, Any]) -> _Row:
    names = [each.name for each in fields(kind)]  # type: ignore[arg-type] # records are dataclasses
    return kind(**{name: told[name] for name in names if name in told})


def _listed(told: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [each for row in told for each in row.get(name) or ()]


def _workload(told: dict[str, Any] | None) -> Workload | None:
    if told is None:
        return None
    return Workload(**told, rows=() if told["kind"] == REPLAYED else None)


def _no_comparison(path: Path) -> InputError:
    message = f"{path} holds no comparison of profiles."
    hint = "Give what compare-profiles --json of this version printed, or a folder: a run, a store."
    return InputError(message, hint=hint)
