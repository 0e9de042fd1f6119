"""How a run stands, as tiles with what they were over its newest batches; and its dead letters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kstoolkit.events.event import REASONS
from kstoolkit.units import format_count
from kstoolkit.views.parts import Part, buttons, facts, seen, table, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kstoolkit.pipeline.status import RunStatus

_TILES: dict[str, str | None] = {
    "events/s": "events_per_second",
    "last batch": "seconds",
    "lag": None,
    "findings reported": "findings",
}
"""What stands large, and which figure of a batch tells its course."""
_NOTE = re.compile(r"; |, |: | \(| (?=in )")
_FLUSHED = "; less after each tenth batch, which flushes memtables for a snapshot"


def tiles(status: RunStatus) -> Part:
    """Return the figures that tell most, each with its course over the newest batches.

    >>> from kstoolkit.pipeline.status import RunState, RunStatus
    >>> tiles(RunStatus(state=RunState.RESTING, at_ms=0))["tiles"][0]["text"]
    'unknown'
    """
    told = dict(status.rows())
    return {"kind": "tiles", "tiles": [_tile(name, told[name], status) for name in _TILES]}


def _tile(name: str, figure: str, status: RunStatus) -> Part:
    text, *note = _NOTE.split(figure, maxsplit=1)
    field = _TILES[name]
    known = [each for each in status.batches if field and getattr(each, field) is not None]
    return {
        "label": name,
        "text": seen(text),
        "note": seen("".join(note).rstrip(")"), 300),
        "times": [each.clock_ms for each in known],
        "values": [float(getattr(each, field)) for each in known] if field else [],
    }


def figures(status: RunStatus) -> Part:
    """Return the other figures: how it goes on, what waits, what its state takes."""
    told = [(what, figure) for what, figure in status.rows() if what not in _TILES]
    memory = {"state memory": _FLUSHED} if len(status.batches) > 1 else {}
    return facts((what, f"{figure}{memory.get(what, '')}") for what, figure in told[1:])


def letters(counts: Mapping[str, int]) -> Part:
    """Return the reasons for dead letters, each of which opens samples."""
    told = [
        {"name": name, "label": f"{REASONS.get(name, name)}: {format_count(number)}"}
        for name, number in counts.items()
        if number
    ]
    return buttons("Dead letters, by reason", *told)


def samples(reason: str, rows: Iterable[Mapping[str, Any]]) -> Part:
    """Return some dead letters of a reason as they came."""
    told = list(rows)
    raws, files = (pa.array([each[n] or "" for each in told], pa.string()) for n in ("raw", "file"))
    columns = [words("record", raws, width="minmax(10em, 3fr)"), words("file", files)]
    return table(f"Dead letters: {REASONS.get(reason, reason)}", "records", columns)
