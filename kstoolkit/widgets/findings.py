"""Incidents to go through, by user: one of them told and drawn, and its user marked."""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from kstoolkit.errors import KstoolkitError
from kstoolkit.findings.finding import Findings, between, ends_ms
from kstoolkit.findings.incidents import Incident, Incidents, incidents_of
from kstoolkit.findings.marks import MARKS
from kstoolkit.markup import shortened
from kstoolkit.moments import moment_of
from kstoolkit.records import counted
from kstoolkit.views.findings import People, done, events, strip, strips
from kstoolkit.views.parts import Part, buttons, facts, said, sentence
from kstoolkit.widgets.panel import LONGEST_WAIT_SECONDS, Face, Newest, Panel

if TYPE_CHECKING:
    from kstoolkit.findings.finding import Finding
    from kstoolkit.pipeline.run import Run
    from kstoolkit.pipeline.story import UserHistory

_COLUMNS = (("people",), ("which", "sentence", "marks", "said", "strips", "done", "raw", "facts"))
_MOST_TABS = 12
_TOLD = ("certainty", "rules", "actions", "more than expected", "expected at the peak", "newcomers")
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
        self._lock, self._asked = RLock(), 0
        self._of, self._window = Incidents.none(), (0, 0)
        self.face = Face(_COLUMNS, self._heard)
        self._reading = Newest(lambda why: self.face.say("said", why))
        name = "" if self._run is None else f" of {shortened(self._run.folder.path.name, 60)}"
        super().__init__(f"Findings{name}", [self.face], lambda: self.face.still(self._story))
        self.on_close(self._reading.stop)
        self.face.say("said", "Reading what was found …")
        self.refresh()

    @property
    def found(self) -> Incidents:
        """All incidents, the one that most deserves a look first."""
        return self._told.incidents

    @property
    def chosen(self) -> Incident | None:
        """The incident that is looked at."""
        return self._chosen if len(self._told) else None

    @property
    def _told(self) -> People:
        """Who was found, once that was read for the first time."""
        if not len(self._people):
            self.wait(LONGEST_WAIT_SECONDS)
        return self._people

    def refresh(self) -> None:
        """Read again what was found; it appears once it is read."""
        self._reading.ask(self._read)

    def wait(self, seconds: float | None = None) -> None:
        """Wait until what was asked for is read; not longer than told."""
        self._reading.wait(seconds)

    _await_look = wait

    def choose(self, who: int | str, place: int = 0) -> None:
        """Look at a user, by name or row, and one of its incidents; both count from 0."""
        names = self._told.names
        row = names.index(who) if who in names else who
        if isinstance(row, str) or not 0 <= row < len(names):
            self.face.say("said", f"No {who!r}: there are {counted(len(names), 'users')}.")
            return
        with self._lock:
            self._of = self._people.of(row)
            self.face.mark("people", row)
            self._look_at(self._of[min(max(place, 0), len(self._of) - 1)])

    @property
    def _whose(self) -> tuple[Run, str] | None:
        """The run and the user that are looked at, if there are both."""
        user = None if self.chosen is None else self.chosen.user
        return None if self._run is None or user is None else (self._run, user)

    def mark(self, mark: str = "known") -> None:
        """Mark the user of the chosen incident: see :meth:`kstoolkit.Run.mark`."""
        if self._whose is None or self.chosen is None:
            what = "run is given" if self._run is None else "user's incident is chosen"
            self.face.say("said", f"No {what}: nobody can be marked.")
            return
        run, user = self._whose
        with self.face.telling("said"):
            run.mark(user, mark, why=self.chosen.sentence)
            now = f"{shortened(user, 60)} is {mark} now: {str(run.folder.marks)!r} says so."
            self._read(f"{now} Undo takes it back.")

    def unmark(self) -> None:
        """Take back what was said of the chosen incident's user."""
        if self._whose is not None:
            run, user = self._whose
            with self.face.telling("said"):
                number = counted(run.unmark(user), "marks")
                self._read(f"{number} taken back, from {str(run.folder.marks)!r}.")

    def _read(self, told: str = "") -> None:
        with self._lock:
            self._asked += 1
            mine = self._asked
        incidents = self._given if self._run is None else self._run.incidents()
        with self._lock:
            if mine < self._asked:  # what was read since, by another thread, is newer
                return
            self._people = People(incidents)
            before = None if self._chosen is None else self._people.row_of(self._chosen)
            table = self._people.table(states=self._run is not None)
            self.face.put("people", table | {"chosen": before or 0})
            self.face.say("said", told or ("" if len(self._people) else "Nothing was found."))
            if before is not None and self._chosen is not None:  # it stays the one looked at
                ids: list[str] = self._people.of(before).table["id"].to_pylist()
                self.choose(before, ids.index(self._chosen.id))
            elif len(self._people):
                self.choose(0)

    def _heard(self, told: dict[str, Any]) -> None:
        name, what = told.get("pressed", ("", None))
        with self._lock:
            if "chosen" in told and self._people.has(*told["chosen"][1:]):
                self.choose(told["chosen"][1])
            elif "window" in told:
                self._look_into(*told["window"][1:])
            elif name == "which" and what < len(self._of):
                self._look_at(self._of[what])
            elif what == _AGAIN:
                self.refresh()
            elif what == _RAW:
                of = (self._whose, self._window, self.face.part("done"))
                self._reading.ask(lambda: self._read_events(*of))
            elif what == _UNDO:
                self.unmark()
            elif name == "marks" and what in MARKS:
                self.mark(what)

    def _look_at(self, incident: Incident) -> None:
        self._chosen, self._window, drawn = incident, (0, 0), Part()
        with self.face.telling("said"):
            drawn = self._strips(incident)
        self.face.show(
            which=self._which(),
            sentence=sentence(incident.sentence, incident.who, incident.peak.what),
            marks=self._marks(),
            done={},
            raw={},
            facts=facts(each for each in incident.facts() if each[0] in _TOLD),
            strips=drawn,
        )

    def _look_into(self, level: int, start_ms: int) -> None:
        """Show what the user did in one of the windows, and offer the events themselves."""
        if self._whose is None:
            return
        run, user = self._whose
        with self.face.telling("said"):
            window = run.settings.cascade.levels[level]
            counters = run.changelog.counters(window.size_ms, users={user})
            here = counters.take(counters.start_ms == start_ms)
            end_ms = start_ms + window.size_ms
            if here.end_ms is not None:  # of sessions, the last event's time
                end_ms = int(here.end_ms.max(initial=start_ms)) + 1
            self._window = (start_ms, end_ms)
            self.face.put("done", done(here, _when(*self._window)))
            ask = {"name": _RAW, "label": "Events", "title": "Read them once more from their files"}
            self.face.put("raw", buttons("Raw events", ask))

    def _read_events(
        self, whose: tuple[Run, str] | None, window: tuple[int, int], told: Part
    ) -> None:
        """Show the raw events of a window, if it is still the one that is looked into."""
        if whose is None or not told:
            return
        run, user = whose
        try:
            found = run.events(user, since=window[0], until=window[1])
            shown = events(found, sum(told["columns"][1]["values"]), _when(*window))
        except KstoolkitError as error:
            shown = said(str(error))
        with self._lock:
            if (whose, window) == (self._whose, self._window):
                self.face.put("raw", shown)

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
        people = self._people
        told = f"{counted(len(people), 'users')}, {counted(len(people.incidents), 'incidents')}"
        chosen = "" if self._chosen is None else f"; {shortened(repr(self._chosen), 200)}"
        return f"FindingsPanel({told}{chosen})"


def _alone(found: Findings) -> Incidents:
    """Return findings that no run tells of as incidents, whose states are not known."""
    reached = pc.max(ends_ms(found.table)).as_py() or 0
    return incidents_of([found.table], reached_ms=reached, parts=found.parts or None)


def _when(since_ms: int, until_ms: int) -> str:
    return between(*map(moment_of, (since_ms, until_ms, until_ms - 1)))
