"""Findings to go through: choose some, look at one with its evidence, mark its user as known."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from shlex import quote
from threading import RLock
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from ipywidgets import Combobox, Dropdown, Layout, NaiveDatetimePicker, Select
from traitlets import TraitError

from kstoolkit.errors import ConfigurationError
from kstoolkit.findings.finding import FINDINGS_SCHEMA, Choice, Findings, evidence, in_short
from kstoolkit.findings.marks import KNOWN
from kstoolkit.markup import Html, joined, plain, sentence, shortened
from kstoolkit.markup import element as html
from kstoolkit.records import counted
from kstoolkit.units import format_count
from kstoolkit.widgets.panel import (
    FIRST_LOOK_SECONDS,
    Newest,
    Panel,
    Shown,
    button,
    pictures,
    table_html,
    tick_box,
    wrapping,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kstoolkit.findings.finding import Finding
    from kstoolkit.pipeline.run import Run


_MOST_LISTED = 200
_LONGEST_OPTION = 48
_LONGEST_OFFERED = 100
_MOST_OFFERED = 200
_COLUMNS = ("user", "action", "window", "start (UTC)", "count", "expected")


def _option_label(text: str) -> str:
    return plain(shortened(text, _LONGEST_OPTION))


def _label(finding: Finding, *, known: bool) -> str:
    who = f"{_option_label(finding.user)}, “{_option_label(finding.what)}”"
    against = f"expected {finding.expected}"
    if finding.ceiling is not None:
        against = f"ceiling {format_count(finding.ceiling)}"
    when = f"{finding.window_start:%Y-%m-%d %H:%M}, {finding.window}"
    known_or_not = "known: " if known else ""
    return f"{known_or_not}{who}: {format_count(finding.count)} ({against}), {when}"


def _findings_table(findings: Sequence[Finding], of: int) -> Html:
    if not findings:
        return Html()
    rows = [
        (f.user, f.what, f.window, f"{f.window_start:%Y-%m-%d %H:%M}", f.count, f.expected)
        for f in findings
    ]
    note = f"the first {len(findings)} of {format_count(of)}" if len(findings) < of else ""
    return table_html(_COLUMNS, rows, note)


def _seen(found: int, of: int, left_out: int) -> str:
    """Return how many findings there are to see, and which are not listed."""
    told = f"{format_count(found)} of {counted(of, 'findings')}"
    if found > _MOST_LISTED:
        told += f"; the {_MOST_LISTED} most severe are listed, filters show others"
    if left_out:
        told += f"; {format_count(left_out)} about known users left out"
    return f"{told}."


def _story_html(finding: Finding) -> Html:
    told = sentence(finding.sentence, finding.user, *finding.values())
    return joined(html("p", told), table_html(("what", "figure"), evidence(finding)))


def _story_key(finding: Finding) -> tuple[str, str, str, int, int]:
    """Return what a finding is known by, while its count may grow."""
    at = finding.window_start_ms
    return (finding.rule, finding.user, finding.action, finding.window_ms, at)


def _window_labels(findings: Findings) -> list[str]:
    labels = findings.table["window"].to_pylist()
    lengths = dict(zip(labels, findings.table["window_ms"].to_pylist(), strict=True))
    return sorted(lengths, key=lambda label: lengths[label])


def _most_frequent(findings: Findings, column: str) -> list[str]:
    """Return the most frequent names, without very long ones: others can be typed."""
    names = findings.in_words if column == "action" else findings.table[column]
    table = pc.value_counts(names.combine_chunks())
    counts = sorted(table.to_pylist(), key=lambda each: (-each["counts"], each["values"]))
    texts = [each["values"] for each in counts]
    return [name for name in texts if len(name) <= _LONGEST_OFFERED][:_MOST_OFFERED]


_LABELS = {"description_width": "84px"}
_MAY_BE_NONE = {"since", "until"}
_ALL = ""
"""The value that chooses all; None would be that nothing is chosen, which shows an empty list."""


class _Filters:
    """Controls and the choice that they make."""

    def __init__(self, changed: Callable[[], object]) -> None:
        self._changed, self._offering = changed, False
        self.rule = _dropdown("Rule", "all rules")
        self.window = _dropdown("Window", "all windows")
        self.user = _name("User")
        self.action = _name("Action")
        self.since = NaiveDatetimePicker(description="From (UTC)", style=_LABELS)
        self.until = NaiveDatetimePicker(description="Until (UTC)", style=_LABELS)
        self.known = tick_box("Show known")
        names = ("rule", "window", "user", "action", "since", "until", "known")
        self.controls: dict[str, Any] = {name: getattr(self, name) for name in names}
        for control in self.controls.values():
            control.observe(self._tell, "value")

    def choice(self) -> Choice:
        return Choice(
            rule=self.rule.value or None,
            window=self.window.value or None,
            user=self.user.value,
            action=self.action.value,
            since_ms=_moment_ms(self.since.value),
            until_ms=_moment_ms(self.until.value),
        )

    def set(self, **values: Any) -> None:
        for name, value in values.items():
            if name not in self.controls:
                message = f"There is no filter {name!r}."
                raise ConfigurationError(message, hint=f"Filters: {', '.join(self.controls)}.")
            shown = shortened(repr(value), 60)
            if isinstance(value, str) and not _is_text(value):
                message = f"The {name} {shown} is no text: it has half a letter."
                raise ConfigurationError(message, hint="No name has it in UTF-8; leave it out.")
            chosen = _ALL if value is None and name not in _MAY_BE_NONE else value
            if isinstance(value, datetime) and value.tzinfo is not None:
                chosen = value.astimezone(UTC).replace(tzinfo=None)
            try:
                self.controls[name].value = chosen
            except TraitError as error:
                message = f"No finding has the {name} {shown}."
                raise ConfigurationError(message, hint="None chooses all.") from error

    def offer(self, findings: Findings) -> None:
        """Offer what the findings have; what is chosen stays so, if it is still there."""
        self._offering = True
        _offer(self.rule, sorted(set(findings.table["rule"].to_pylist())))
        _offer(self.window, _window_labels(findings))
        self.user.options = _most_frequent(findings, "user")
        self.action.options = _most_frequent(findings, "action")
        self._offering = False

    def _tell(self, _: object) -> None:
        if not self._offering:
            self._changed()


def _is_text(given: str) -> bool:
    """Return whether a name can be so: one with half a pair of surrogates can't be written."""
    try:
        given.encode()
    except UnicodeEncodeError:
        return False
    return True


def _dropdown(label: str, everything: str) -> Dropdown:
    return Dropdown(options=[(everything, _ALL)], value=_ALL, description=label, style=_LABELS)


def _offer(control: Dropdown, values: list[str]) -> None:
    before, everything = control.value, control.options[0]
    control.options = [everything, *((_option_label(value), value) for value in values)]
    control.value = before if before in values else _ALL


def _name(label: str) -> Combobox:
    return Combobox(
        description=label,
        placeholder="all; a name or part of it",
        continuous_update=False,
        style=_LABELS,
    )


def _moment_ms(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.replace(tzinfo=UTC).timestamp() * 1000)


_LONGEST_NAME = 60


_MOST_STATIC = 20
_NONE = pa.Table.from_batches([], FINDINGS_SCHEMA)  # empty_table() loads pandas


class FindingsPanel(Panel):
    """Choose findings, see the evidence of one, and mark its user as known.

    The most severe come first; of many, the first 200 are listed, which is said.

    Parameters
    ----------
    found
        A run, whose counts are then drawn around each finding; or findings alone.

    Examples
    --------
    >>> with FindingsPanel(Findings(FINDINGS_SCHEMA.empty_table())) as panel:
    ...     panel
    FindingsPanel(0 of 0 findings)
    """

    def __init__(self, found: Run | Findings) -> None:
        self._run = None if isinstance(found, Findings) else found
        self._given = found if isinstance(found, Findings) else Findings(_NONE)
        self._all = self._found = Findings(_NONE)
        self._chosen: Finding | None = None
        self._asked: Finding | None = None
        self._known: set[str] = set()
        self._lock, self._sets = RLock(), False
        self._status, self._said, self._told, self._plot = Shown(), Shown(), Shown(), Shown()
        self._reading, self._drawing = Newest(self._said.say), Newest(self._plot.say)
        self._make_list()
        name = "" if self._run is None else f" of {shortened(self._run.folder.path.name, 60)}"
        super().__init__(f"Findings{name}", self._children(), self._static)
        self.on_close(self._reading.stop)
        self.on_close(self._drawing.stop)
        self._status.say("Reading what was found …")
        self.refresh()
        self.wait(FIRST_LOOK_SECONDS)

    def _make_list(self) -> None:
        self.filters = _Filters(self._show)
        self.again = button("Read again", "Look for what was found since", self.refresh, "auto")
        wide = Layout(width="auto", max_width="760px")
        self.list = Select(description="Findings", rows=8, layout=wide, style=_LABELS)
        self.list.observe(self._pick, "value")
        # In JupyterLab the arrow keys go to the notebook's cells, not to a list that has the focus.
        above, below = "Look at the finding above", "Look at the finding below"
        self.previous = button("Previous", above, lambda: self._go(-1), "auto")
        self.next = button("Next", below, lambda: self._go(+1), "auto")
        why = (
            "No finding of this user is shown any more" if self._run else "Of a run's findings only"
        )
        self.known = button("Mark user as known", why, self.mark, "auto")

    def _children(self) -> list[Any]:
        more = [] if self._run is None else [self.again]
        chosen = self.filters
        rows = [
            wrapping(chosen.rule, chosen.window, chosen.user, chosen.action),
            wrapping(chosen.since, chosen.until, chosen.known, *more),
            wrapping(self.previous, self.next, self.known),
        ]
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
        with self._said.telling():
            self.filters.set(**filters)

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
        """Mark the user of the chosen finding as known: see :meth:`kstoolkit.Run.mark`."""
        if self._chosen is None or self._run is None:
            what = "finding is chosen" if self._run else "run is given"
            self._said.say(f"No {what} whose user could be marked.")
            return
        with self._said.telling():
            user, place = self._chosen.user, self._run.folder.marks
            self._run.mark(user, KNOWN, why=self._chosen.sentence)
            self._show_known()
            who = plain(shortened(user, _LONGEST_NAME))
            undo = f"kstoolkit unmark {quote(self._run.folder.shown)} {quote(who)}"
            self._said.say(f"{who} is known now: {str(place)!r} says so. To undo it: {undo}")

    def _read(self) -> None:
        found = self._given if self._run is None else self._run.findings
        ranked = found.top(len(found))
        with self._lock:
            self._all, self._asked = ranked, None
            self.filters.offer(ranked)
        self._show_known()

    def _show_known(self) -> None:
        self._said.put(Html())
        if self._run is not None:
            with self._said.telling():
                self._known = self._run.marks.known
        self._show()

    def _show(self) -> None:
        with self._lock:
            wanted = self.filters.choice().of(self._all)
            hidden = () if self.filters.known.value else self._known
            self._found = Choice().of(wanted, without_users=hidden)
            first = list(self._found[:_MOST_LISTED])
            left_out = len(wanted) - len(self._found)
            self._status.say(_seen(len(self._found), len(self._all), left_out))
            self._list(first)

    def _list(self, first: list[Finding]) -> None:
        """List findings, and go on looking at the one that is looked at, if it is among them."""
        stories = [_story_key(each) for each in first]
        before = None if self._chosen is None else _story_key(self._chosen)
        place = stories.index(before) if before in stories else 0
        self._sets = True
        labels = [_label(each, known=each.user in self._known) for each in first]
        self.list.options = [(label, number) for number, label in enumerate(labels)]
        self.list.value = place if first else None
        self._sets = False
        self._look_at(first[place] if first else None)

    def _pick(self, change: dict[str, Any]) -> None:
        if not self._sets and change["new"] is not None:
            self._look_at(self._found[change["new"]])

    def _look_at(self, finding: Finding | None) -> None:
        self._chosen = finding
        self.known.disabled = finding is None or self._run is None
        self._told.put(Html() if finding is None else _story_html(finding))
        if finding is None or finding != self._asked:
            self._asked = finding
            self._drawing.ask(lambda: self._draw(finding))

    def _draw(self, finding: Finding | None) -> None:
        if finding is None:
            self._plot.put(Html())
            return
        story = finding if self._run is None else self._run.story(finding)
        self._plot.draw(lambda ax: story.plot(ax=ax))

    def __repr__(self) -> str:
        told = f"{format_count(len(self._found))} of {counted(len(self._all), 'findings')}"
        chosen = "" if self._chosen is None else f"; {shortened(in_short(self._chosen), 200)}"
        return f"FindingsPanel({told}{chosen})"

    def _static(self) -> Html:
        listed = _findings_table(self._found[:_MOST_STATIC], len(self._found))
        more = pictures(self._said, self._told, self._plot)
        return joined(self._status.html(), listed, more)
