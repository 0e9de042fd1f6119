"""Incidents by user as a table with a timeline each, and one of them told and drawn."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.findings.finding import LONGER, chance, ends_ms
from kstoolkit.findings.incidents import CERTAINTIES, MERGED, OPEN, RESOLVED
from kstoolkit.findings.peers import integers
from kstoolkit.formats.actions import in_words
from kstoolkit.records import counted
from kstoolkit.units import format_count
from kstoolkit.views.parts import Part, coded, numbers, said, seen, table, whole, words

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from kstoolkit.counters.counters import Counters
    from kstoolkit.findings.finding import Finding
    from kstoolkit.findings.incidents import Incident, Incidents
    from kstoolkit.findings.peers import Integers
    from kstoolkit.pipeline.story import LevelCounts, UserHistory

_MINUTE_MS, _HOUR_MS = 60_000, 3_600_000
_AROUND_MS = 6 * _HOUR_MS
_MOST_WINDOWS = 5_000  # of a level: some 50 KB
_LIMITS = ("Ceiling", LONGER)
_LONGEST_ACTIONS = 200
_LEAST = -10.0  # below that, a chance has one text


class People:
    """Whom incidents are about, who most deserves a look first, and the incidents of each.

    >>> from kstoolkit.findings.incidents import Incidents
    >>> People(Incidents.none()).table()["rows"]
    0
    """

    def __init__(self, incidents: Incidents) -> None:
        self.incidents, self.names = incidents, list[str]()
        self._of: Integers = np.empty(0, np.int64)
        if len(incidents):  # the first array that Arrow makes takes as long as a panel's other code
            self.incidents = incidents.top(len(incidents))
            keys = _keys(self.incidents).dictionary_encode()
            self.names = [each.partition(":")[2] for each in keys.dictionary.to_pylist()]
            self._of = np.asarray(keys.indices, np.int64)

    def __len__(self) -> int:
        return len(self.names)

    def has(self, row: int, name: str) -> bool:
        """Return whether a row still shows this name: rows of an older table may be others."""
        return 0 <= row < len(self) and seen(self.names[row]) == name

    def row_of(self, incident: Incident) -> int | None:
        """Return in which row an incident stands; ``None`` if it is not there any more."""
        place = pc.index(self.incidents.table["id"], incident.id).as_py()
        return None if place < 0 else int(self._of[place])

    def of(self, row: int) -> Incidents:
        """Return the incidents of a row, the one that most deserves a look first."""
        return self.incidents.where(self._of == row)

    def table(self, *, states: bool = True) -> Part:
        """Return the table of a view; ``states`` is whether incidents are open or resolved."""
        told, spans = self.incidents.table, _Spans(self.incidents, self._of, len(self))
        windows = np.bincount(self._of, integers(told, "windows"), len(self)).astype(np.int64)
        columns = [
            words("user", pa.array(self.names, pa.string()), width="minmax(6.5em, 1.2fr)"),
            self._certainty(),
            spans.column(),
            words("actions", spans.actions(), width="minmax(5em, 1fr)", wide=True),
            numbers("windows", windows, width="4.8em", wide=True, title="windows with findings"),
        ]
        chips = [spans.chip("rule"), spans.chip("window")]
        if states:
            state = pa.array(self._states(), pa.string())
            marked = pc.coalesce(pa.array(self._marks(), pa.string()), state)
            columns.append(words("state", marked, kind="badge", width="5.8em"))
            chips.append({"label": "state", "of": "row", **coded(state)})
        chips = [chip for chip in chips if len(chip["words"]) > 1]
        how = {"search": ["user", "actions"], "hint": "Search users, actions …", "chips": chips}
        return table("Users", "users", columns, **how)

    def _certainty(self) -> Part:
        """Return how sure it is of each, at best; the chance of its foremost finding is a hint."""
        told, evidence = self.incidents.table, self.incidents.evidence.table
        grade = np.full(len(self), len(CERTAINTIES) - 1)
        np.minimum.at(grade, self._of, integers(told, "grade"))
        first = np.unique(self._of, return_index=True)[1]
        peaks = evidence.take(told["peak"].take(pa.array(first)))
        limited = pc.is_in(peaks["kind"], value_set=pa.array(_LIMITS))
        told = pc.max_element_wise(pc.round(peaks["log10_probability"], 1), _LEAST)
        hints = pc.if_else(limited, None, told).combine_chunks().dictionary_encode("encode")
        titles = [
            "over a limit that was set"
            if each is None
            else f"chance of this or more: {chance(each)}"
            for each in hints.dictionary.to_pylist()
        ]
        return {
            "kind": "grade",
            "label": "certainty",
            "width": "5.6em",
            "words": list(CERTAINTIES),
            "codes": grade.tolist(),
            "titles": titles,
            "hints": hints.indices.to_pylist(),
        }

    def _states(self) -> list[str]:
        """Return how each stands: open if one of its incidents is."""
        told = self.incidents.table
        order = pa.array([OPEN, RESOLVED, MERGED])
        state = np.full(len(self), len(order) - 1)
        np.minimum.at(state, self._of, np.asarray(pc.index_in(told["state"], order), np.int64))
        return [order[code].as_py() for code in state.tolist()]

    def _marks(self) -> list[str | None]:
        """Return what was said of each: it stands in the place of its state."""
        told = self.incidents.table
        marks: list[str | None] = [None] * len(self)
        marked = np.flatnonzero(np.asarray(told["mark"].is_valid()))
        for row, mark in zip(self._of[marked], told["mark"].take(pa.array(marked)), strict=True):
            marks[row] = mark.as_py()
        return marks


def _keys(incidents: Incidents) -> pa.Array:
    """Return what tells whom each is about: no user is taken for a campaign of that name."""
    user = incidents.table["user"].combine_chunks()
    keys = pc.binary_join_element_wise("user", user, ":")
    campaigns = np.flatnonzero(np.asarray(user.is_null()))
    told = [f"campaign:{incidents[place].who}" for place in campaigns.tolist()]
    return pc.replace_with_mask(keys, user.is_null(), pa.array(told, pa.string()))


class _Spans:
    """The windows of findings, by row and time, in minutes since the first of them."""

    def __init__(self, incidents: Incidents, of: Integers, rows: int) -> None:
        first, last = (integers(incidents.table, name) for name in ("first", "last"))
        size, row = last - first, np.repeat(of, last - first)
        place = np.arange(len(row)) + np.repeat(first - np.cumsum(size) + size, size)
        start = integers(incidents.evidence.table, "window_start_ms")[place]
        order = np.lexsort((start, row))
        self._place, self._row, self._rows = place[order], row[order], rows
        self._findings = incidents.evidence.table.take(pa.array(self._place))
        self._whats = incidents.evidence.in_words.take(pa.array(self._place)).combine_chunks()
        self._start, self._end = start[order], np.asarray(ends_ms(self._findings), np.int64)

    def column(self) -> Part:
        begin, end = int(self._start.min(initial=2**62)), int(self._end.max(initial=0))
        begin, end = (0, _HOUR_MS) if begin > end else (begin, end)
        margin = max((end - begin) // 50, _MINUTE_MS)
        origin = (begin - margin) // _MINUTE_MS * _MINUTE_MS
        limited = pc.is_in(self._findings["kind"], value_set=pa.array(_LIMITS))
        whats = coded(self._whats)
        return {
            "kind": "spans",
            "label": "when (UTC)",
            "width": "minmax(7em, 2.2fr)",
            "span": [origin, end + margin],
            "firsts": np.searchsorted(self._row, np.arange(self._rows + 1)).tolist(),
            "starts": ((self._start - origin) // _MINUTE_MS).tolist(),
            "lengths": (-((self._start - self._end) // _MINUTE_MS)).tolist(),
            "kinds": np.asarray(limited).astype(int).tolist(),
            "counts": whole(integers(self._findings, "count")),
            "whats": whats["words"],
            "what": whats["codes"],
        }

    def chip(self, name: str) -> Part:
        return {"label": name, "of": "span", **coded(self._findings[name])}

    def actions(self) -> pa.Array:
        """Return what was done, by row; of very many, what fits."""
        told = pa.table({"row": self._row, "what": self._whats}).group_by("row", use_threads=False)
        named = told.aggregate([("what", "distinct")]).sort_by("row")["what_distinct"]
        joined = pc.binary_join(named.combine_chunks(), ", ")
        return pc.utf8_slice_codeunits(joined, 0, _LONGEST_ACTIONS)


def strips(history: UserHistory, incident: Incident) -> Part:
    """Return counts at every level as strips on one axis, around an incident, with its peak.

    Of very many windows those around it are sent: no level says of others that there are none.
    Where the counts of its own window are not kept, it stands alone.
    """
    peak, what = incident.peak, "all actions" if history.action is None else history.action
    own = [each.times_ms for each in history.levels if each.window.label == peak.window]
    if not any((times_ms == peak.window_start_ms).any() for times_ms in own):
        return strip(peak)
    levels, is_whole = _around(history.levels, incident)
    counted = [level for level in levels if level.times_ms.size]
    begin = min([peak.window_start_ms, *(int(each.times_ms.min()) for each in counted)])
    end = max([peak.window_end_ms, *(int(each.window_ends_ms.max()) for each in counted)])
    return {
        "kind": "strips",
        "label": f"Counts of {seen(history.user)}, {seen(what)}",
        "outlined": [peak.window_start_ms, peak.window_end_ms],
        "strips": [_level(level) for level in levels],
        "span": [begin, end],
        "zoom": [incident.since_ms - _AROUND_MS, incident.until_ms + _AROUND_MS],
        "level": [level.window.label for level in levels].index(peak.window),
        "all": "All time" if is_whole else "All that is here",
    }


def _around(
    levels: Sequence[LevelCounts], incident: Incident
) -> tuple[Sequence[LevelCounts], bool]:
    """Return levels without windows far from an incident, if these are very many."""
    first, last = -(2**62), 2**62
    for each in levels:
        place = int(np.searchsorted(each.times_ms, incident.since_ms))
        if each.times_ms.size > _MOST_WINDOWS:
            before, after = place - _MOST_WINDOWS // 2, place + _MOST_WINDOWS // 2
            first = max(first, int(each.times_ms[max(before, 0)]))
            last = min(last, int(each.window_ends_ms[min(after, each.times_ms.size - 1)]))
    kept = [(each.window_ends_ms > first) & (each.times_ms < last) for each in levels]
    return [each.where(rows) for each, rows in zip(levels, kept, strict=True)], first < 0 < last


def strip(finding: Finding) -> Part:
    """Return a finding alone as a strip: nothing but its own window is known of it."""
    start, end = finding.window_start_ms, finding.window_end_ms
    length = max(end - start, _MINUTE_MS)
    return {
        "kind": "strips",
        "label": f"Count of {seen(finding.user)}, {seen(finding.what)}",
        "outlined": [start, end],
        "strips": [
            {
                **_limits(finding),
                "label": finding.window,
                "said": [f"expected {finding.expected}"],
                "none": "unknown (findings alone tell no other window)",
                "length": length,
                **_moments(np.array([start])),
                "ends": [end] if finding.session_end_ms is not None else None,
                "counts": [finding.count],
                "flagged": [0],
            }
        ],
        "span": [start - length, start + 2 * length],
    }


def done(counters: Counters, when: str) -> Part:
    """Return what a user did in one window, by how often."""
    told = counters.to_table()
    what = pc.cast(told["action"], pa.string()).combine_chunks()
    what = what if counters.parts is None else in_words(what, len(counters.parts))
    summed = told.append_column("what", what).group_by("what").aggregate([("count", "sum")])
    summed = summed.sort_by([("count_sum", "descending"), ("what", "ascending")])
    columns = [words("action", summed["what"]), numbers("events", integers(summed, "count_sum"))]
    return table(f"Done {when}", "actions", columns)


def events(found: pd.DataFrame, of: int, when: str) -> Part:
    """Return raw events as a table, of so many that were counted; of each file just its name."""
    if not len(found):
        return said(f"None of {counted(of, 'events')} is found in the files now: they are gone.")
    day = "" if len(set(found["time"].dt.date)) == 1 else "%Y-%m-%d "
    times = pa.array(found["time"].dt.strftime(f"{day}%H:%M:%S"), pa.string())
    files = pa.array([PurePath(each).name for each in found["file"]], pa.string())
    columns = [words("time (UTC)", times, width="11em" if day else "6em")]
    columns += [words("action", pa.array(found["action"], pa.string())), words("file", files)]
    some = format_count(len(found))
    return table(f"{some} of {counted(of, 'events')} {when}", "events", columns)


def _level(level: LevelCounts) -> Part:
    flagged = np.flatnonzero(np.isin(level.times_ms, level.flagged_ms))
    told = [f"expected {level.expected}"] if level.expected_high is not None else []
    told += [] if level.ceiling is None else [f"ceiling {format_count(level.ceiling)}"]
    return {
        **_limits(level),
        **_moments(level.times_ms),
        "label": level.window.label,
        "said": told,
        "none": _none(level),
        "length": level.window.size_ms,
        "ends": whole(level.ends_ms) if level.ends_ms is not None else None,
        "counts": whole(level.counts),
        "flagged": flagged.tolist(),
    }


def _none(level: LevelCounts) -> str:
    """Return what is so where a level has no windows: an incident's user did something, if all."""
    if level.min_count > 1:
        return f"fewer than {level.min_count} events"
    return "no events" if level.times_ms.size else "none is kept"


def _moments(times_ms: Integers) -> Part:
    """Return moments as so many units after the first: a report holds thousands of them."""
    origin = int(times_ms[0]) if times_ms.size else 0
    unit = int(np.gcd.reduce(times_ms - origin)) or 1
    return {"origin": origin, "unit": unit, "starts": whole((times_ms - origin) // unit)}


def _limits(of: LevelCounts | Finding) -> Part:
    at = getattr(of, "expected_at_ms", None)
    told = {"low": of.expected_low, "high": of.expected_high, "ceiling": of.ceiling}
    return told | {"at": None if at is None else list(at)}
