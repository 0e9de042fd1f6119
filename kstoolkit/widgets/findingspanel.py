"""Findings to go through: choose some, look at one with its evidence, mark its user as known."""

from __future__ import annotations

import time
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from ipywidgets import Button, HBox, Layout, Select

from kstoolkit.errors import ConfigurationError, KstoolkitError
from kstoolkit.findings.finding import FINDINGS_SCHEMA, Choice, Findings, in_short
from kstoolkit.findings.rules import rules_from_json
from kstoolkit.markup import Html, joined, shortened
from kstoolkit.records import counted
from kstoolkit.units import format_count
from kstoolkit.widgets.findingfilters import LABELS, FindingFilters
from kstoolkit.widgets.findinglabels import (
    MOST_LISTED,
    finding_labels,
    findings_table,
    seen,
    story_html,
    story_key,
)
from kstoolkit.widgets.knownusers import KnownUsers
from kstoolkit.widgets.newest import Newest
from kstoolkit.widgets.panel import Panel
from kstoolkit.widgets.showing import Shown

if TYPE_CHECKING:
    from kstoolkit.findings.finding import Finding
    from kstoolkit.findings.rules import Rule
    from kstoolkit.pipeline.run import Run, UserHistory


_MOST_STATIC = 20
_NONE = pa.Table.from_batches([], FINDINGS_SCHEMA)  # empty_table() loads pandas
_FIRST_LOOK_SECONDS = 0.6
"""How long a cell may wait, so that its saved picture shows more than that it is being read."""
_WIDTH_INCHES, _FRAME_INCHES, _STRIP_INCHES = 7.2, 1.1, 0.72


class FindingsPanel(Panel):
    """Choose findings, see the evidence of one, and mark its user as known.

    The most severe come first; of many, the first 200 are listed, which is said.

    Parameters
    ----------
    found
        A run, whose counts are then drawn around each finding; or findings alone.
    rules
        The file of rules that users marked as known are exempted in. By default ``rules.toml``
        beside the run's folder, or in the current one.

    Examples
    --------
    >>> with FindingsPanel(Findings(FINDINGS_SCHEMA.empty_table())) as panel:
    ...     panel
    FindingsPanel(0 of 0 findings)
    """

    def __init__(self, found: Run | Findings, *, rules: str | Path | None = None) -> None:
        self._run = None if isinstance(found, Findings) else found
        self._given = found if isinstance(found, Findings) else Findings(_NONE)
        self._all = self._found = Findings(_NONE)
        self._chosen: Finding | None = None
        self._asked: Finding | None = None
        self._exempt: set[str] = set()
        self._lock, self._sets = RLock(), False
        self._status, self._said, self._told, self._plot = Shown(), Shown(), Shown(), Shown()
        self._reading, self._drawing = Newest(self._said.say), Newest(self._plot.say)
        self._make_list()
        folder = Path.cwd()
        begin_with: tuple[Rule, ...] = ()
        if self._run is not None:
            folder = self._run.folder.path.parent
            begin_with = rules_from_json(self._run.settings.rules)
        self.known = KnownUsers(
            rules or folder / "rules.toml", begin_with, self._show_known, self.mark
        )
        name = "" if self._run is None else f" of {shortened(self._run.folder.path.name, 60)}"
        super().__init__(f"Findings{name}", self._children(), self._static)
        self.on_close(self._reading.stop)
        self.on_close(self._drawing.stop)
        self._status.say("Reading what was found …")
        self.refresh()
        self.wait(_FIRST_LOOK_SECONDS)

    def _make_list(self) -> None:
        self.filters = FindingFilters(self._show)
        self.again = _step("Read again", "Look for what was found since")
        wide = Layout(width="auto", max_width="760px")
        self.list = Select(description="Findings", rows=8, layout=wide, style=LABELS)
        self.list.observe(self._pick, "value")
        # In JupyterLab the arrow keys go to the notebook's cells, not to a list that has the focus.
        self.previous = _step("Previous", "Look at the finding above")
        self.next = _step("Next", "Look at the finding below")
        self.previous.on_click(lambda _: self._go(-1))
        self.next.on_click(lambda _: self._go(+1))
        self.again.on_click(lambda _: self.refresh())

    def _children(self) -> list[Any]:
        more = [] if self._run is None else [self.again]
        chosen = self.filters
        rows = [
            HBox([chosen.rule, chosen.window, chosen.user, chosen.action]),
            HBox([chosen.since, chosen.until, chosen.known, *more]),
            HBox([self.previous, self.next, self.known.button, self.known.path]),
        ]
        for row in rows:
            row.add_class("kst-wraps")
        return [*rows[:2], self._status, self.list, rows[2], self._said, self._told, self._plot]

    @property
    def found(self) -> Findings:
        """The findings that the filters leave, the most severe first."""
        return self._found

    @property
    def chosen(self) -> Finding | None:
        """The finding that is looked at."""
        return self._chosen

    def refresh(self) -> None:
        """Read again what was found; it appears once it is read."""
        self._reading.ask(self._read)

    def wait(self, seconds: float | None = None) -> None:
        """Wait until what was asked for is read and drawn; not longer than told."""
        end = None if seconds is None else time.monotonic() + seconds
        for work in (self._reading, self._drawing):
            work.wait(None if end is None else max(end - time.monotonic(), 0))

    def set(self, **filters: Any) -> None:
        """Set filters: ``rule``, ``window``, ``user``, ``action``, ``since``, ``until``, ``known``.

        What makes no sense is said, and changes nothing. Moments are UTC.
        """
        try:
            self.filters.set(**filters)
        except ConfigurationError as error:
            self._said.say(str(error))

    def choose(self, place: int) -> None:
        """Look at one of the listed findings, the first of which is 0."""
        if not 0 <= place < len(self.list.options):
            self._said.say(f"No finding {place}: {len(self.list.options)} are listed, from 0 on.")
            return
        self.list.value = place

    def _go(self, places: int) -> None:
        if self.list.index is not None and 0 <= self.list.index + places < len(self.list.options):
            self.choose(self.list.index + places)

    def mark(self) -> None:
        """Exempt the user of the chosen finding, in the file of rules."""
        if self._chosen is None:
            self._said.say("No finding is chosen whose user could be marked.")
            return
        try:
            said = self.known.add(self._chosen)
        except KstoolkitError as error:
            self._said.say(str(error))
            return
        self._show_known()
        self._said.say(said)

    def _read(self) -> None:
        found = self._given if self._run is None else self._run.findings
        ranked = found.top(len(found))
        with self._lock:
            self._all, self._asked = ranked, None
            self.filters.offer(ranked)
        self._show_known()

    def _show_known(self) -> None:
        self._said.put(Html())
        try:
            self._exempt = self.known.among(self._all.table["user"].unique().to_pylist())
        except KstoolkitError as error:
            self._exempt = set()
            self._said.say(str(error))
        self._show()

    def _show(self) -> None:
        with self._lock:
            wanted = self.filters.choice().of(self._all)
            hidden = () if self.filters.known.value else self._exempt
            self._found = Choice().of(wanted, without_users=hidden)
            first = list(self._found[:MOST_LISTED])
            left_out = len(wanted) - len(self._found)
            self._status.say(seen(len(self._found), len(self._all), left_out))
            self._list(first)

    def _list(self, first: list[Finding]) -> None:
        """List findings, and go on looking at the one that is looked at, if it is among them."""
        stories = [story_key(each) for each in first]
        before = None if self._chosen is None else story_key(self._chosen)
        place = stories.index(before) if before in stories else 0
        self._sets = True
        labels = finding_labels(first, self._exempt)
        self.list.options = [(label, number) for number, label in enumerate(labels)]
        self.list.value = place if first else None
        self._sets = False
        self._look_at(first[place] if first else None)

    def _pick(self, change: dict[str, Any]) -> None:
        if not self._sets and change["new"] is not None:
            self._look_at(self._found[change["new"]])

    def _look_at(self, finding: Finding | None) -> None:
        self._chosen = finding
        self.known.button.disabled = finding is None
        self._told.put(Html() if finding is None else story_html(finding))
        if finding is None or finding != self._asked:
            self._asked = finding
            self._drawing.ask(lambda: self._draw(finding))

    def _draw(self, finding: Finding | None) -> None:
        if finding is None:
            self._plot.put(Html())
            return
        story: Finding | UserHistory = finding
        levels = 1 + len(finding.other_levels)
        if self._run is not None:
            story = history = self._run.story(finding)
            levels = len(history.levels)
        size = (_WIDTH_INCHES, _FRAME_INCHES + _STRIP_INCHES * levels)
        self._plot.draw(lambda ax: story.plot(ax=ax), size)

    def __repr__(self) -> str:
        told = f"{format_count(len(self._found))} of {counted(len(self._all), 'findings')}"
        chosen = "" if self._chosen is None else f"; {shortened(in_short(self._chosen), 200)}"
        return f"FindingsPanel({told}{chosen})"

    def _static(self) -> Html:
        return joined(
            self._status.html(),
            findings_table(self._found[:_MOST_STATIC], len(self._found)),
            self._said.html(),
            self._told.html(),
            self._plot.html(),
        )


def _step(description: str, tooltip: str) -> Button:
    return Button(description=description, tooltip=tooltip, layout=Layout(width="auto"))
