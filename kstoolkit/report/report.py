"""A report of anything: things in, one self-contained HTML file out.

What a page shows of a thing goes by its kind; of a path, by what lies there: a run, a replica, a
changelog, stores, or a comparison of profiles. A report needs no network, reads well
without its one script, suits light and dark screens, and prints on A4.
"""

from __future__ import annotations

import platform
import shlex
import warnings
from dataclasses import replace
from datetime import UTC, datetime
from functools import singledispatch
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pandas as pd
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kstoolkit.changelog.changelog import Changelog
from kstoolkit.errors import CheckpointError, ConfigurationError, InputError, LargeReportWarning
from kstoolkit.findings.finding import Finding, Findings
from kstoolkit.markup import Html, element, isolated, joined, plain, shortened, text
from kstoolkit.operations.checkup import Checkup, checkup
from kstoolkit.records import Record, Records, counted
from kstoolkit.replica.windowstore import WindowReader
from kstoolkit.report import stores
from kstoolkit.report.cards import finding_part, findings_part
from kstoolkit.report.figures import figure_of, plotted, titles, whole
from kstoolkit.report.frames import frame_span, grid_of, line, record_part, records_part, rows_part
from kstoolkit.report.page import (
    NO_HTML,
    Ids,
    Origin,
    ReportPart,
    Section,
    apart,
    joint,
    keyed,
    page_of,
    renamed,
    rendered,
    with_lead,
    write_page,
)
from kstoolkit.report.tables import facts, moment, period, quoted_path, shown_path
from kstoolkit.rocksdb.faults import NoStoreError
from kstoolkit.rocksdb.store import Store
from kstoolkit.stores.comparing.comparing import diff_stores
from kstoolkit.stores.comparing.storediff import StoreDiff
from kstoolkit.stores.discovery.discovering import discover
from kstoolkit.stores.opening import open_store
from kstoolkit.stores.rows.readable import HasRows, Rows
from kstoolkit.stores.rows.statestore import StateStore
from kstoolkit.views.records import printed, words

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from kstoolkit.pipeline.run import Run

_LONGEST_COLUMN, _NAMED_COLUMNS = 24, 3
_LARGEST_BYTES = 5_000_000
"""What every mailbox takes; a larger report says which of its parts makes it so."""
_NAMED, _TITLED = 6, 3
_LONGEST_NAME = 60


def _path_part(path: Path, ids: Ids, limit: int | None) -> ReportPart:
    if _is_run(path):
        from kstoolkit.pipeline.run import load_run  # noqa: PLC0415 - loads much: when asked

        return _run_part(load_run(path), ids, limit)
    if (path / "replica.json").exists():
        with WindowReader.open(path) as replica:
            return stores.replica_part(replica, ids, limit)
    if path.is_file():
        trials = stores.read_comparison(path)
        return renamed(records_part(trials, ids, limit), "Comparison of profiles")
    if any(path.glob("epoch=*")):
        return stores.changelog_part(Changelog.open(path), ids, limit)
    return _stores_part(path, ids, limit)


def _is_run(path: Path) -> bool:
    return (path / "run.json").exists()


def _run_part(run: Run, ids: Ids, limit: int | None) -> ReportPart:
    from kstoolkit.report.runs import run_part  # noqa: PLC0415 - loads much: when asked

    return run_part(run, ids, limit)


def _stores_part(path: Path, ids: Ids, limit: int | None) -> ReportPart:
    try:
        with open_store(path) as store:
            return stores.store_part(store, ids, limit)
    except (NoStoreError, CheckpointError):
        if not path.is_dir():
            raise
        found = discover(path)
        if all(each.path == str(path.absolute()) for each in found):
            raise
    part = stores.checkup_part(checkup(path), ids, limit)
    return renamed(part, f"Stores in {path.absolute().name}")


@singledispatch
def _part_of(thing: Any, ids: Ids, limit: int | None) -> ReportPart:
    module, kind = type(thing).__module__, type(thing).__name__
    if (module, kind) == ("kstoolkit.pipeline.run", "Run"):  # not imported for this alone
        return _run_part(thing, ids, limit)
    told = _told(thing, limit) if module.startswith("kstoolkit.") else None
    if told is not None:
        title = words(kind)
        key = ids.new(keyed(title))
        body = joined(line(thing), plotted(thing, key), told)
        return ReportPart(title=title, section=Section(key=key, heading=text(title), body=body))
    message = f"A report can't show a {kind} of {module}."
    hint = "Give a run, a record, a table of pandas or Arrow, a plot of matplotlib, a path or text."
    if module.startswith("pyspark."):
        hint = "Give some of its rows: frame.limit(1_000).toPandas()."
    raise ConfigurationError(message, hint=hint)


def _paragraphs(told: str) -> Html:
    """Return text as paragraphs, which blank lines part; nothing in it is markup."""
    blocks = [" ".join(each.split()) for each in told.replace("\r\n", "\n").split("\n\n")]
    return joined(*(element("p", isolated(each, 10_000)) for each in blocks if each))


def _text_part(told: str, ids: Ids, _limit: int | None) -> ReportPart:
    section = Section(key=ids.new("text"), heading=NO_HTML, body=_paragraphs(told))
    return ReportPart(title="Text", section=section)


def _table_part(table: pd.DataFrame | pa.Table, ids: Ids, limit: int | None) -> ReportPart:
    grid = grid_of(table, limit)
    # Nobody named it: it is called by its columns.
    known = [shortened(plain(each), _LONGEST_COLUMN) for each in grid.names if each.strip()]
    more = f" and {len(known) - _NAMED_COLUMNS} more" if len(known) > _NAMED_COLUMNS else ""
    title = f"Table of {', '.join(known[:_NAMED_COLUMNS])}{more}" if known else "Table"
    section = Section(key=ids.new("table"), heading=isolated(title), body=grid.html())
    return ReportPart(title=title, section=section, span_ms=frame_span(table))


def _plot_part(plot: Axes | Figure, ids: Ids, _limit: int | None) -> ReportPart:
    figure = plot if isinstance(plot, Figure) else whole(plot)
    title, key = titles(figure) or "Plot", ids.new("plot")
    section = Section(key=key, heading=isolated(title), body=figure_of(figure, name=key))
    return ReportPart(title=title, section=section)


_PARTS: dict[type, Callable[[Any, Ids, int | None], ReportPart]] = {
    str: _text_part,
    Path: _path_part,
    pd.DataFrame: _table_part,
    pa.Table: _table_part,
    Axes: _plot_part,
    Figure: _plot_part,
    Record: record_part,
    Checkup: stores.checkup_part,
    Records: records_part,
    Findings: findings_part,
    Finding: finding_part,
    Rows: rows_part,
    StoreDiff: rows_part,
    Store: stores.rocksdb_part,
    StateStore: stores.store_part,  # a Store as well
    HasRows: stores.store_part,
    WindowReader: stores.replica_part,
    Changelog: stores.changelog_part,
}
for _kind, _function in _PARTS.items():
    _part_of.register(_kind, _function)


def _told(thing: Any, limit: int | None) -> Html | None:
    """Return the facts of anything else of kstoolkit's; ``None`` if it tells none."""
    if callable(getattr(thing, "rows", None)):
        return _facts(dict(thing.rows()))
    if hasattr(thing, "changes"):
        unknown = {name: f"unknown ({why})" for name, why in thing.unknown.items()}
        return _facts(thing.changes() | unknown)
    if hasattr(thing, "to_pandas"):
        return grid_of(thing.to_pandas(), limit).html()
    return _facts(thing.to_dict()) if hasattr(thing, "to_dict") else None


def _facts(told: dict[str, Any]) -> Html:
    return facts((name, isolated(printed(value, name), 300)) for name, value in told.items())


class Report:
    """A report: one HTML file of what is added; it needs no network, and reads without scripts.

    Parameters
    ----------
    title
        What it is about; by default the titles of what it holds.
    command
        What makes it again, if not the calls that made it.

    Raises
    ------
    ConfigurationError
        If a title or a command is no text.

    Examples
    --------
    >>> import pandas as pd
    >>> counts = pd.DataFrame({"user": ["anna"], "count": [3]})
    >>> report = Report("Edits").add("What was <counted>.").add(counts, title="Counts")
    >>> report
    Report('Edits', 2 parts: Text, Counts)
    >>> "What was &lt;counted&gt;." in report.html()
    True
    """

    def __init__(self, title: str | None = None, *, command: str | None = None) -> None:
        _check_texts(title=title, command=command)
        self.title = title
        self.command = command
        self._parts: list[ReportPart] = []
        self._calls: list[str] = []
        self._ids = Ids({"origin"})

    def add(
        self,
        thing: Any,
        *,
        title: str | None = None,
        text: str | None = None,
        limit: int | None = None,
    ) -> Self:
        """Add a thing as it is now, and return the report.

        Parameters
        ----------
        thing
            A run; findings; any record, or several; an open store, a replica, a changelog, or the
            ``Path`` of one, of a run, of a folder of stores, or of what ``compare-profiles --json``
            printed; a DataFrame of pandas, a table of Arrow; Axes or a figure of matplotlib; or
            text, whose paragraphs blank lines part.
        title
            What to call it; by default what it is.
        text
            What to say about it, above it.
        limit
            At most so many rows (by default 50), or findings, users and dead letters (20); the
            report says how many there are.

        Raises
        ------
        ConfigurationError
            If a report can't show such a thing, or the limit is below 1.
        KstoolkitError
            What reading the thing raises.
        """
        _check_texts(title=title, text=text)
        if limit is not None and limit < 1:
            message = f"limit is {limit}: a report shows 1 row or more of what it shows."
            raise ConfigurationError(message, hint="Give 1 or more, or leave it out.")
        part = _part_of(thing, self._ids, limit)
        if title is not None:
            part = renamed(part, title)
        if text is not None:
            body = joined(_paragraphs(text), part.section.body)
            part = replace(part, section=replace(part.section, body=body))
        self._parts.append(part)
        self._calls.append(f".add({_called(thing)})")
        return self

    def html(self) -> str:
        """Return the whole page."""
        origin = self._origin
        given = origin.command or "unknown (not started from a command)"
        command = element("p", "Made by ", element("code", isolated(given, 2_000)))
        versions = [(name, isolated(version)) for name, version in origin.versions]
        ends = zip(("Data from", "Data to"), origin.span_ms or (), strict=False)
        times = [(label, moment(time_ms)) for label, time_ms in ends]
        body = joined(facts([("Made", _made(origin)), *times, *versions]), command)
        about = Section(key="origin", heading=text("About this report"), body=body, kind="origin")
        if (alone := self._alone) is None:
            return page_of(self._title, _covered(origin), [*map(with_lead, self._parts), about])
        return page_of(self._title, alone.lead or _covered(origin), apart(alone, about))

    def write(
        self, path: str | os.PathLike[str], *, max_bytes: int | None = _LARGEST_BYTES
    ) -> Path:
        """Write the page to a file, and return where it is; one that is there is replaced whole.

        Parameters
        ----------
        path
            The file, in a folder that is there.
        max_bytes
            Warn with :class:`~kstoolkit.errors.LargeReportWarning`, which names the largest part,
            if the file is larger; ``None`` never does.

        Raises
        ------
        OutputError
            If the file can't be written.
        """
        page = self.html().encode()
        if max_bytes is not None and len(page) > max_bytes:
            warnings.warn(self._large(len(page)), LargeReportWarning, stacklevel=2)
        return write_page(Path(path), page)

    @property
    def _title(self) -> str:
        if self.title is not None:
            return self.title
        titles = [shortened(part.title, _LONGEST_NAME) for part in self._parts]
        more = ["…"] if len(titles) > _TITLED else []
        return ", ".join([*titles[:_TITLED], *more]) or "Report"

    @property
    def _alone(self) -> ReportPart | None:
        """Return the only part, if its title can be the page's."""
        (part,) = self._parts if len(self._parts) == 1 else (None,)
        if part is None or not part.section.inner:
            return None
        return part if not part.section.body or part.title == self._title else None

    @property
    def _origin(self) -> Origin:
        known = [part.origin for part in self._parts if part.origin is not None]
        if len(known) == len(self._parts) == 1:
            return replace(known[0], command=self.command or known[0].command)
        versions = {"kstoolkit": version("kstoolkit")}
        for each in known:
            versions |= dict(each.versions)
        title = "" if self.title is None else repr(self.title)
        return Origin(
            generated_at=datetime.now(UTC),
            versions=[*(versions | {"Python": platform.python_version()}).items()],
            command=self.command or f"kst.Report({title}){''.join(self._calls)}",
            span_ms=joint(part.span_ms for part in self._parts),
        )

    def _large(self, size_bytes: int) -> str:
        sizes = [(len(rendered(each.section).encode()), each.title) for each in self._parts]
        largest_bytes, name = max(sizes, key=lambda each: each[0])
        return (
            f"The report takes {_megabytes(size_bytes)}; its largest part, "
            f"{shortened(name, _LONGEST_NAME)!r}, takes {_megabytes(largest_bytes)}. "
            "Of a table add(..., limit=...) shows fewer rows; a plot of fewer points is smaller."
        )

    def __repr__(self) -> str:
        names = [shortened(each.title, _LONGEST_NAME) for each in self._parts]
        named = ", ".join([*names[:_NAMED], *(["…"] if len(names) > _NAMED else [])])
        parts = counted(len(names), "parts")
        return f"Report({self._title!r}, {parts}{': ' if names else ''}{' '.join(named.split())})"

    def _repr_html_(self) -> str:
        listed = element("ol", *(element("li", isolated(each.title)) for each in self._parts))
        return joined(element("p", repr(self)), listed)


def _check_texts(**given: object) -> None:
    for name, told in given.items():
        if told is not None and not isinstance(told, str):
            message = f"The {name} of a report's part is {told!r}, which is no text."
            raise ConfigurationError(message, hint="Give a str.")


def _covered(origin: Origin) -> Html:
    if origin.span_ms is None:
        return joined("Made ", _made(origin))
    return joined("Data from ", period(*origin.span_ms))


def _made(origin: Origin) -> Html:
    return moment(round(origin.generated_at.timestamp()) * 1_000)


def _called(thing: object) -> str:
    if isinstance(thing, Path):
        return f"Path({shown_path(thing)!r})"
    if isinstance(thing, str):
        return shortened(repr(thing), _LONGEST_NAME)
    return type(thing).__name__


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1_000_000:.1f} MB"


def report_of(run: Run) -> Report:
    """Return the report of a run, under its whole title."""
    from kstoolkit.report.runs import title_of  # noqa: PLC0415 - loads much: when asked

    return Report(title_of(run.settings)).add(run)


def report_on(
    things: Sequence[str],
    *,
    html: str | None = None,
    title: str | None = None,
    compare: bool = False,
    options: Mapping[str, str] | None = None,
) -> Path:
    """Write a report of what lies at some paths, and return where it is.

    Without ``html`` it becomes ``report.html`` in the folder of the one run. ``compare`` shows in
    which rows two stores differ. ``options`` are settings of the connection to topics of runs, by
    default those of the file that ``KSTOOLKIT_KAFKA_CONFIG`` names.
    """
    if compare and len(things) != 2:  # noqa: PLR2004 - as it says
        message = f"--compare is about two stores, and the paths given are {len(things)}."
        raise ConfigurationError(message, hint="Give two stores, or leave it out.")
    target, command = _target(things, html), None
    if not _are_a_run(things):
        words = ["kstoolkit report", *map(quoted_path, things), "--html", quoted_path(target)]
        words += [] if title is None else ["--title", shlex.quote(title)]
        command = " ".join([*words, *(["--compare"] if compare else [])])
    report = Report(title, command=command)
    for each in things:
        report.add(_connected(Path(each), options))
    if compare:
        with open_store(things[0]) as a, open_store(things[1]) as b, diff_stores(a, b) as found:
            report.add(found, title="In which rows they differ")
    return report.write(target)


def _connected(path: Path, options: Mapping[str, str] | None) -> Path | Run:
    """Return what lies at a path: a run with the settings of its connection, if there are any."""
    if options is None or not _is_run(path):
        return path
    from kstoolkit.pipeline.run import load_run  # noqa: PLC0415 - loads much: when asked

    return load_run(path, options=options)


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
    return len(things) == 1 and _is_run(Path(things[0]))
