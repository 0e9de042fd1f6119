"""The report that a command line asks for: of what lies at some paths."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from kstoolkit.errors import ConfigurationError, InputError
from kstoolkit.report.paths import quoted_path
from kstoolkit.report.places import is_run
from kstoolkit.report.report import Report
from kstoolkit.stores.comparing.comparing import diff_stores
from kstoolkit.stores.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Sequence


_TWO = 2


def report_on(
    things: Sequence[str],
    *,
    html: str | None = None,
    title: str | None = None,
    compare: bool = False,
) -> Path:
    """Write a report of what lies at some paths, and return where it is.

    Parameters
    ----------
    things
        The paths.
    html
        Where to write it; ``None`` is ``report.html`` in the folder of the one run.
    title
        What it is called; ``None`` is what it is.
    compare
        Whether to show in which rows two stores differ.

    Raises
    ------
    ConfigurationError
        If nobody says where to write it, or there aren't two stores to compare.
    InputError
        If a path leads nowhere, or to nothing that a report can show.
    KstoolkitError
        What reading a thing, or writing the file, raises.
    """
    if compare and len(things) != _TWO:
        message = f"--compare is about two stores, and the paths given are {len(things)}."
        raise ConfigurationError(message, hint="Give two stores, or leave it out.")
    target = _target(things, html)
    command = None if _are_a_run(things) else _command(things, target, title, compare=compare)
    report = Report(title, command=command)
    for each in things:
        report.add(Path(each))
    if compare:
        _compare(report, *things)
    return report.write(target)


def _target(things: Sequence[str], html: str | None) -> str:
    """Return where to write; all paths are looked at before any work begins."""
    for each in things:
        if not Path(each).exists():
            message = f"There is no {each!r} to report on."
            hint = "Give a run's output folder, a store, a changelog, a replica or a comparison."
            raise InputError(message, hint=hint)
    if html is not None:
        return html
    if not _are_a_run(things):
        message = "Where to write the report? --html is missing."
        raise ConfigurationError(message, hint="Give --html FILE; only a run has a place for it.")
    return f"{things[0]}/report.html"


def _are_a_run(things: Sequence[str]) -> bool:
    return len(things) == 1 and is_run(Path(things[0]))


def _compare(report: Report, one: str, other: str) -> None:
    with open_store(one) as a, open_store(other) as b, diff_stores(a, b) as found:
        report.add(found, title="In which rows they differ")


def _command(things: Sequence[str], html: str, title: str | None, *, compare: bool) -> str:
    words = ["kstoolkit report", *map(quoted_path, things), "--html", quoted_path(html)]
    words += ["--title", shlex.quote(title)] if title is not None else []
    return " ".join([*words, *(["--compare"] if compare else [])])
