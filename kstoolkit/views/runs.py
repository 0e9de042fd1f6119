"""How a run stands, as tiles with the course of each figure; and its dead letters."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

from kstoolkit.events.event import REASONS
from kstoolkit.units import format_count, format_span
from kstoolkit.views.parts import Part, buttons, facts, seen

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kstoolkit.pipeline.status import RunStatus

    Course = list[tuple[int, float, str]]

_TILES = ("events/s", "last batch", "lag", "findings reported")
_CAME = ("raw", "file", "detail")
_FLUSHED = "; less after each tenth batch, which flushes memtables for a snapshot"


def tiles(status: RunStatus, lags: Iterable[tuple[int, int]]) -> Part:
    """Return the figures that tell most, each with its course, whose newest value is the figure.

    ``lags`` are those of the newest looks, by the times of these: batches keep none.

    >>> from kstoolkit.pipeline.status import RunState, RunStatus
    >>> tiles(RunStatus(state=RunState.RESTING, at_ms=0), [])["tiles"][0]["note"]
    '(no batch yet)'
    """
    told, courses = dict(status.rows()), _courses(status, lags)
    made = [_tile(name, told[name], course) for name, course in zip(_TILES, courses, strict=True)]
    return {"kind": "tiles", "tiles": made}


def _tile(name: str, figure: str, course: Course) -> Part:
    text = course[-1][2] if course else "unknown" if figure.startswith("unknown ") else figure
    times, values, said = zip(*course, strict=True) if course else ((), (), ())
    note = figure.removeprefix(text).lstrip(";:, ")
    told = {"label": name, "text": text, "note": seen(note, 300)}
    return told | {"times": list(times), "values": list(values), "texts": list(said)}


def _courses(status: RunStatus, lags: Iterable[tuple[int, int]]) -> tuple[Course, ...]:
    """Return (time, value, its text) of each figure that has a tile."""
    batches, found = status.batches, [each.findings for each in status.batches]
    sums = accumulate(found, initial=status.findings - sum(found))
    rates = [(each.batch_ms, each.events_per_second) for each in batches if each.events]
    return (
        [(ms, rate, format_count(rate)) for ms, rate in rates if rate is not None],
        [(each.batch_ms, each.seconds, f"{each.seconds:,.2f} s") for each in batches],
        [(ms, lag, format_span(lag / 1_000) if lag else "none") for ms, lag in lags],
        [(each.batch_ms, n, format_count(n)) for each, n in zip(batches, [*sums][1:], strict=True)],
    )


def figures(status: RunStatus) -> Part:
    """Return the other figures: how it goes on, what waits, what its state takes."""
    apart = {"state", *_TILES, *(["dead letters"] if any(status.dead_letters.values()) else [])}
    told = {what: figure for what, figure in status.rows() if what not in apart}
    told["state memory"] += "" if told["state memory"].startswith("unknown") else _FLUSHED
    return facts(told.items())


def letters(counts: Mapping[str, int], opened: str | None = None) -> Part:
    """Return the reasons for dead letters, each of which opens samples; one of them is open."""
    told = [
        {
            "name": name,
            "label": f"{REASONS.get(name, name)}: {format_count(number)}",
            "title": "Close them" if name == opened else "Show some, as they came",
            "pressed": name == opened,
        }
        for name, number in counts.items()
        if number
    ]
    return buttons("Dead letters, by reason", *told, head=True)


def samples(number: int, rows: Iterable[Mapping[str, Any]]) -> Part:
    """Return some dead letters of a reason as they came, of so many, with where they came from."""
    came = [(each["batch"], filter(None, map(each.get, _CAME))) for each in rows]
    told = [[f"batch {batch}", seen(" · ".join(texts), 1_000)] for batch, texts in came]
    of = f"{len(told)} that differ, of {format_count(number)}"
    return {"kind": "cards", "cards": [{"title": of, "rows": told}]}
