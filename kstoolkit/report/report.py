"""A report of anything: things in, one self-contained HTML file out."""

from __future__ import annotations

import platform
import warnings
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from kstoolkit.errors import ConfigurationError, LargeReportWarning
from kstoolkit.markup import Html, element, isolated, joined, shortened, text
from kstoolkit.report.content import Origin
from kstoolkit.report.file import write_page
from kstoolkit.report.moments import moment, period
from kstoolkit.report.page import page_of
from kstoolkit.report.part import apart, joint, renamed, with_lead
from kstoolkit.report.parts import paragraphs, part_of
from kstoolkit.report.paths import shown_path
from kstoolkit.report.section import Ids, Section, rendered
from kstoolkit.report.sections import origin_section

if TYPE_CHECKING:
    import os

    from kstoolkit.report.part import Part


LARGEST_BYTES = 5_000_000
"""What every mailbox takes; a larger report says which of its parts makes it so."""

_NAMED, _TITLED = 6, 3
_LONGEST_NAME = 60


class Report:
    """A report: what is added to it becomes one HTML file that needs no network and no script.

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
        for name, given in (("title", title), ("command", command)):
            _check_text(name, given)
        self.title = title
        self.command = command
        self._parts: list[Part] = []
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
        for name, given in (("title", title), ("text", text)):
            _check_text(name, given)
        if limit is not None and limit < 1:
            message = f"limit is {limit}: a report shows 1 row or more of what it shows."
            raise ConfigurationError(message, hint="Give 1 or more, or leave it out.")
        part = part_of(thing, self._ids, limit)
        if title is not None:
            part = renamed(part, title)
        if text is not None:
            body = joined(paragraphs(text), part.section.body)
            part = replace(part, section=replace(part.section, body=body))
        self._parts.append(part)
        self._calls.append(f".add({_called(thing)})")
        return self

    def html(self) -> str:
        """Return the whole page."""
        origin = self._origin
        about = Section(
            key="origin",
            heading=text("About this report"),
            body=origin_section(origin),
            kind="origin",
        )
        alone = self._alone
        if alone is None:
            shown = [with_lead(each) for each in self._parts]
            return page_of(self._title, _covered(origin), [*shown, about])
        return page_of(self._title, alone.lead or _covered(origin), [*apart(alone), about])

    def write(self, path: str | os.PathLike[str], *, max_bytes: int | None = LARGEST_BYTES) -> Path:
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
    def _alone(self) -> Part | None:
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
        span_ms = joint(part.span_ms for part in self._parts)
        first_ms, last_ms = span_ms or (None, None)
        return Origin(
            generated_at=datetime.now(UTC),
            versions=[*(versions | {"Python": platform.python_version()}).items()],
            command=self.command or self._call,
            first_event_ms=first_ms,
            last_event_ms=last_ms,
        )

    @property
    def _call(self) -> str:
        title = "" if self.title is None else repr(self.title)
        return f"kst.Report({title}){''.join(self._calls)}"

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
        parts = f"{len(names)} part{'' if len(names) == 1 else 's'}"
        return f"Report({self._title!r}, {parts}{': ' if names else ''}{' '.join(named.split())})"

    def _repr_html_(self) -> str:
        listed = element("ol", *(element("li", isolated(each.title)) for each in self._parts))
        return joined(element("p", repr(self)), listed)


def _check_text(name: str, given: object) -> None:
    if given is not None and not isinstance(given, str):
        message = f"The {name} of a report's part is {given!r}, which is no text."
        raise ConfigurationError(message, hint="Give a str.")


def _covered(origin: Origin) -> Html:
    """Return the time that the data cover, or else when the report was made."""
    first, last = origin.first_event_ms, origin.last_event_ms
    if first is None or last is None:
        return joined("Made ", moment(round(origin.generated_at.timestamp()) * 1_000))
    return joined("Data from ", period(first, last))


def _called(thing: object) -> str:
    if isinstance(thing, Path):
        return f"Path({shown_path(thing)!r})"
    if isinstance(thing, str):
        return shortened(repr(thing), _LONGEST_NAME)
    return type(thing).__name__


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1_000_000:.1f} MB"
