"""Incidents to go through, by user: one of them told and drawn, and its user marked."""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from kstoolkit.errors import KstoolkitError
from kstoolkit.findings.finding import Findings, between, ends_ms
from kstoolkit.findings.incidents import Incident, Incidents, incidents_of
from kstoolkit.findings.marks import MARKS
from kstoolkit.markup import Html, joined, shortened
from kstoolkit.moments import moment_of
from kstoolkit.records import counted
from kstoolkit.views.findings import People, done, events, strip, strips
from kstoolkit.views.parts import buttons, facts, sentence
from kstoolkit.views.still import still
from kstoolkit.widgets.panel import FIRST_LOOK_SECONDS, Face, Newest, Panel

if TYPE_CHECKING:
    from kstoolkit.findings.finding import Finding
    from kstoolkit.pipeline.run import Run
    from kstoolkit.pipeline.story import UserHistory
    from kstoolkit.views.parts import Part

_COLUMNS = (("people", "said"), ("which", "sentence", "marks", "strips", "done", "raw", "facts"))
_MOST_TABS = 12
_TOLD = ("certainty", "rules", "actions", "more than expected", "expected there", "newcomers")
_AGAIN, _UNDO, _RAW = "again", "undo", "raw"
_SAYS = {
    "known": "a user that no rule need find, that teaches nothing of others",
    "confirmed": "abnormal: a label for kst.evaluate",
    "muted": "found, without an alert",
}


class FindingsPanel(Panel):
    """Go through incidents by user, see the counts around one, and mark its user.

    Who most deserves a look comes first. The list is searched as one types, and narrowed by rules,
    windows, states and a stretch of time.

    Parameters
    ----------
    found
        A run, whose counts are then drawn around each incident; or findings alone.

    Examples
    --------
    >>> from kstoolkit.findings.finding import FINDINGS_SCHEMA
    >>> with FindingsPanel(Findings(FINDINGS_SCHEMA.empty_table())) as panel:
    ...     panel
    FindingsPanel(0 users, 0 incidents)
    """

    def __init__(self, found: Run | Findings) -> None:
        self._run = None if isinstance(found, Findings) else found
        self._given = _alone(found) if isinstance(found, Findings) else Incidents.none()
        self._people = People(Incidents.none())
        self._chosen: Incident | None = None
        self._story: UserHistory | Finding | None = None  # what is drawn
        self._lock, self._of, self._window = RLock(), Incidents.none(), (0, 0)
        self.face = Face(_COLUMNS, self._heard)
        self._reading = Newest(lambda why: self.face.say("said", why))
        name = "" if self._run is None else f" of {shortened(self._run.folder.path.name, 60)}"
        super().__init__(f"Findings{name}", [self.face], self._static)
        self.on_close(self._reading.stop)
        self.face.say("said", "Reading what was found …")
        self.refresh()
        self.wait(FIRST_LOOK_SECONDS)

    @property
    def found(self) -> Incidents:
        """All incidents, the one that most deserves a look first."""
        return self._people.incidents

    @property
    def chosen(self) -> Incident | None:
        """The incident that is looked at."""
        return self._chosen

    def refresh(self) -> None:
        """Read again what was found; it appears once it is read."""
        self._reading.ask(self._read)

    def wait(self, seconds: float | None = None) -> None:
        """Wait until what was asked for is read; not longer than told."""
        self._reading.wait(seconds)

    def choose(self, who: int | str, place: int = 0) -> None:
        """Look at a user, by name or row, and one of its incidents; both count from 0."""
        names = self._people.names
        row = names.index(who) if who in names else who
        if isinstance(row, str) or not 0 <= row < len(names):
            self.face.say("said", f"No {who!r}: there are {counted(len(names), 'users')}.")
            return
        with self._lock:
            self._of = self._people.of(row)
            self.face.mark("people", row)
            self._look_at(self._of[min(max(place, 0), len(self._of) - 1)])

    def mark(self, mark: str = "known") -> None:
        """Mark the user of the chosen incident: see :meth:`kstoolkit.Run.mark`."""
        if self._chosen is None or self._run is None or self._chosen.user is None:
            what = "run is given" if self._run is None else "user's incident is chosen"
            self.face.say("said", f"No {what}: nobody can be marked.")
            return
        with self.face.telling("said"):
            self._run.mark(self._chosen.user, mark, why=self._chosen.sentence)
            who, place = shortened(self._chosen.user, 60), str(self._run.folder.marks)
            self._read(f"{who} is {mark} now: {place!r} says so. Undo takes it back.")

    def unmark(self) -> None:
        """Take back what was said of the chosen incident's user."""
        if self._chosen is None or self._run is None or self._chosen.user is None:
            return
        with self.face.telling("said"):
            number = self._run.unmark(self._chosen.user)
            place = str(self._run.folder.marks)
            self._read(f"{counted(number, 'marks')} taken back, from {place!r}.")

    def _read(self, told: str = "") -> None:
        incidents = self._given if self._run is None else self._run.incidents()
        with self._lock:
            self._people = People(incidents)
            before = None if self._chosen is None else self._people.row_of(self._chosen)
            table = self._people.table(states=self._run is not None)
            self.face.put("people", table | {"chosen": before or 0})
            self.face.say("said", told or ("" if len(self._people) else "Nothing was found."))
            if len(self._people):
                self.choose(before or 0, self._nth(before))

    def _nth(self, row: int | None) -> int:
        """Return which of its user's incidents is looked at."""
        if row is None or self._chosen is None:
            return 0
        ids: list[str] = self._people.of(row).table["id"].to_pylist()
        return ids.index(self._chosen.id)

    def _heard(self, told: dict[str, Any]) -> None:
        if "chosen" in told:
            self.choose(int(told["chosen"][1]))
        if "window" in told:
            self._look_into(*told["window"][1:])
        name, what = told.get("pressed", ("", None))
        if name == "which":
            self._look_at(self._of[min(int(what), len(self._of) - 1)])
        elif what == _AGAIN:
            self.refresh()
        elif what == _RAW:
            self._reading.ask(self._read_events)
        elif what == _UNDO:
            self.unmark()
        elif name == "marks" and what in MARKS:
            self.mark(what)

    def _look_at(self, incident: Incident) -> None:
        self._chosen, peak = incident, incident.peak
        with self.face.hold_sync():  # all of it in one message
            self.face.put("which", self._which())
            self.face.put("sentence", sentence(incident.sentence, incident.who, peak.what))
            self.face.put("marks", self._marks())
            self.face.put("done", {})
            self.face.put("raw", {})
            self.face.put("facts", facts(each for each in incident.facts() if each[0] in _TOLD))
            with self.face.telling("said"):
                self.face.put("strips", self._strips(incident))

    def _look_into(self, level: int, start_ms: int) -> None:
        """Show what the user did in one of the windows, and offer the events themselves."""
        if self._run is None or self._chosen is None or self._chosen.user is None:
            return
        with self.face.telling("said"):
            window = self._run.settings.cascade.levels[level]
            counters = self._run.changelog.counters(window.size_ms, users={self._chosen.user})
            ends = counters.end_ms  # of sessions, the last event's time
            is_here = counters.start_ms == start_ms
            end_ms = (
                start_ms + window.size_ms
                if ends is None
                else int(ends[is_here].max(initial=start_ms)) + 1
            )
            self._window = (start_ms, end_ms)
            self.face.put("done", done(counters, start_ms, _when(*self._window)))
            ask = {"name": _RAW, "label": "Events", "title": "Read them once more from their files"}
            self.face.put("raw", buttons("Raw events", ask))

    def _read_events(self) -> None:
        """Show the raw events of the window that is looked into."""
        if self._run is None or self._chosen is None or self._chosen.user is None:
            return
        since, until = self._window
        try:
            found = self._run.events(self._chosen.user, since=since, until=until)
            number = sum(self.face.part("done")["columns"][1]["values"])
            self.face.put("raw", events(found, number, _when(since, until)))
        except KstoolkitError as error:
            self.face.say("raw", str(error))

    def _strips(self, incident: Incident) -> Part:
        self._story = incident.peak
        if self._run is None or incident.user is None:
            return strip(incident.peak)
        history = self._story = self._run.story(incident.peak, known=self.found.evidence)
        return strips(history, incident)

    def _which(self) -> Part:
        if len(self._of) == 1:
            return {}
        made = [
            {
                "label": f"{each.since:%d %b %H:%M}, {each.certainty}",
                "title": f"{each.id}, {each.state}",
                "pressed": each.id == (self._chosen and self._chosen.id),
            }
            for each in self._of[:_MOST_TABS]
        ]
        return buttons("Incidents of this user", *made)

    def _marks(self) -> Part:
        again = {"name": _AGAIN, "label": "Read again", "title": "Look for what was found since"}
        if self._run is None or self._chosen is None:
            return {}
        now, where = self._chosen.mark, str(self._run.folder.marks)
        nobody = self._chosen.user is None
        made = [
            {
                "name": mark,
                "label": mark.capitalize(),
                "title": f"{_SAYS[mark]}; written to {where}",
                "pressed": mark == now,
                "disabled": nobody,
            }
            for mark in MARKS
        ]
        undo = {"name": _UNDO, "label": "Undo", "title": f"Take the mark back from {where}"}
        return buttons("Mark its user", *made, undo | {"disabled": now is None}, again)

    def __repr__(self) -> str:
        told = f"{counted(len(self._people), 'users')}, {counted(len(self.found), 'incidents')}"
        chosen = "" if self._chosen is None else f"; {shortened(repr(self._chosen), 200)}"
        return f"FindingsPanel({told}{chosen})"

    def _static(self) -> Html:
        names = [name for names in _COLUMNS for name in names]
        return joined(*(still(self.face.part(name)) for name in names), self._picture())

    def _picture(self) -> Html:
        from kstoolkit.plots.axes import picture  # noqa: PLC0415 - draws: only when asked

        return Html() if self._story is None else picture(self._story.plot)


def _alone(found: Findings) -> Incidents:
    """Return findings that no run tells of as incidents, whose states are not known."""
    reached = pc.max(ends_ms(found.table)).as_py() or 0
    return incidents_of([found.table], reached_ms=reached, parts=found.parts or None)


def _when(since_ms: int, until_ms: int) -> str:
    return between(*map(moment_of, (since_ms, until_ms, until_ms - 1)))
