"""What a topic is told of incidents: of each that a batch changed, what it is by now.

::

    the batch's findings ───────────▶ users ──▶ their findings ──▶ incidents before and after
    open incidents that are over now ──┘                              │
    (part-incidents.json of the batch before)      what differs ◀─────┘

What the next batch needs is kept with this one, so one that Spark repeats begins from the same, and
tells the same again. If rules or marks are others by then, what it told before is told anew, or
taken back. Where nothing was kept, all incidents there are are told.
"""

from __future__ import annotations

import json
from operator import ge
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kstoolkit.changelog.changelog import BatchFolders, asked, numbered_rows
from kstoolkit.findings.finding import as_stored
from kstoolkit.findings.incidents import GAP, OPEN, Incidents, incidents_of
from kstoolkit.units import parse_duration

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from kstoolkit.changelog.changelog import Batch

KEPT, _VERSION = "part-incidents.json", 1
_BESIDE = {"mark", "newcomers"}
"""What people say, and what the counts alone tell."""


def told_findings(
    out: Path, before: tuple[int, int] | None = None, users: Collection[str] | None = None
) -> list[pa.Table]:
    """Return what batches told of findings, in their order, with the number of its batch.

    By default it is all; else of batches before an epoch and number, or of users so named.
    """

    def read(batches: list[Batch]) -> list[pa.Table]:
        some = (b for b in batches if before is None or (b.epoch, b.number) < before)
        told = (
            as_stored(pa.table(rows)).append_column("batch", rows.column("batch"))
            for rows in numbered_rows(some)
        )
        mine = None if users is None else pa.array(users)
        return [t if mine is None else t.filter(pc.is_in(t["user"], mine)) for t in told]

    return asked(BatchFolders(out / "findings").marked, read)


def changed_incidents(
    of: tuple[Path, int, int],
    files: Sequence[Path],
    folders: tuple[Path, Path],
    now: dict[str, int],
    parts: Sequence[str] | None,
) -> list[Path]:
    """Write what a batch changed of incidents as records, ``key`` and ``value``; return the file.

    There is none if nothing changed. The batch is ``of`` a run's folder, an epoch and a number, and
    ``files`` have its findings. In the ``folders``, the batch before kept what this one begins
    from, and this one keeps what the next one needs; if it was begun before, what it kept then is
    there. ``now`` is up to when events have come, and the clock.
    """
    out, epoch, number = of
    (then, still, _), again = _kept(folders[0]), _kept(folders[1])[2]
    told = [as_stored(pq.read_table(path)) for path in files]
    told = [each.append_column("batch", pa.repeat(pa.scalar(number), len(each))) for each in told]
    users = {user for each in told for user in each["user"].to_pylist()}
    users |= {user for user, *ends in still.values() if any(map(ge, now.values(), ends))}
    users |= set(again.values())
    some = told_findings(out, (epoch, number), users if then else None) if users or not then else []
    earlier = incidents_of(some, parts=parts, **(then or now))
    found = incidents_of([*some, *told], parts=parts, **now)
    still = {name: each for name, each in still.items() if each[0] not in users} | _open(found)
    after, before, every = _rows(found), _rows(earlier), again | _whose(earlier) | _whose(found)
    is_same = {
        each for each in every if then and after.get(each) == before.get(each)
    } - again.keys()
    names = {each: user for each, user in every.items() if each not in is_same}
    (folders[1] / KEPT).write_text(json.dumps([now, still, names]), encoding="utf-8")
    if not names:
        return []
    told_of = _by_id(found.where(np.asarray(pc.is_in(found.table["id"], pa.array(list(names))))))
    values = pa.array([told_of.get(each) for each in names], pa.string())
    waiting = folders[1] / "part-outgoing.parquet"
    pq.write_table(pa.table({"key": [f"incident:{n}" for n in names], "value": values}), waiting)
    return [waiting]


def _kept(folder: Path) -> tuple[dict[str, int], dict[str, list[Any]], dict[str, str]]:
    """Return how far a batch was, its open incidents, and of which it told, with their users.

    It is nothing if it kept nothing, or what it kept is damaged: then, all are told again.
    """
    try:
        then, still, *told = json.loads((folder / KEPT).read_text(encoding="utf-8"))
        kept = {name: int(then[name]) for name in ("reached_ms", "clock_ms")}
        is_open = {n: [user, int(end), int(last)] for n, (user, end, last) in still.items()}
        return kept, is_open, dict(*told)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}, {}, {}


def _open(found: Incidents) -> dict[str, list[Any]]:
    """Return of open incidents whose findings they have, and by which times they are over."""
    table, gap_ms = found.table.filter(pc.equal(found.table["state"], OPEN)), parse_duration(GAP)
    last_ms = pc.max_element_wise(table["until_ms"], table["told_ms"])
    ends = (pc.add(each, gap_ms) for each in (table["until_ms"], last_ms))
    columns = (table["id"], found.evidence.table["user"].take(table["first"]), *ends)
    return {name: told for name, *told in zip(*(c.to_pylist() for c in columns), strict=True)}


def _whose(found: Incidents) -> dict[str, str]:
    """Return of incidents whose findings they have."""
    users = found.evidence.table["user"].take(found.table["first"])
    return dict(zip(found.table["id"].to_pylist(), users.to_pylist(), strict=True))


def _rows(found: Incidents) -> dict[str, dict[str, Any]]:
    """Return what there is of each incident, without its evidence, which has its batch's clock."""
    number = pc.subtract(found.table["last"], found.table["first"])
    rows = found.table.drop_columns(["first", "last", "peak"]).append_column("findings", number)
    return {each["id"]: each for each in rows.to_pylist()}


def _by_id(found: Incidents) -> dict[str, str]:
    told = {}
    for each in found.to_dicts():
        fields = {name: value for name, value in each.items() if name not in _BESIDE}
        record = {"record": "incident", "version": _VERSION, **fields}
        told[each["id"]] = json.dumps(record, ensure_ascii=False)
    return told
