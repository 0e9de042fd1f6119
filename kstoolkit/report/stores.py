"""Stores, replicas and changelogs on a page; and a comparison of profiles, read from its JSON."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from kstoolkit.errors import InputError, KstoolkitError
from kstoolkit.markup import Html, isolated, joined, text
from kstoolkit.records import Record, Records, counted
from kstoolkit.report import frames
from kstoolkit.report.figures import plotted
from kstoolkit.report.frames import record_part, records_part, rows_part
from kstoolkit.report.page import LONGEST_TITLE, ReportPart, Section, joint, keyed, living, renamed
from kstoolkit.report.tables import nothing, shown_path
from kstoolkit.rocksdb.lab.results import Comparison, LevelWork, Moment, Trial
from kstoolkit.rocksdb.store import Store
from kstoolkit.stores.discovery.discovering import discover
from kstoolkit.stores.growth.growth import growth
from kstoolkit.units import format_bytes
from kstoolkit.views.records import rows_of, told_of
from kstoolkit.windows import length_label

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from kstoolkit.changelog.changelog import Changelog
    from kstoolkit.operations.checkup import CheckedStore, Checkup
    from kstoolkit.replica.windowstore import WindowReader
    from kstoolkit.report.page import Ids
    from kstoolkit.stores.opening import OpenedStore
    from kstoolkit.stores.views import HasViews

_MOST_MEASURED_BYTES = 256 << 20
"""Of a larger store, a report does not read all rows: that is ``kstoolkit growth``'s."""

_OF_STORES = [
    *("task", "store", "kind", "size_bytes", "num_entries", "memory_bytes", "restore_ms"),
    *("oldest_ms", "errors", "stalls", "behind_records", "closed", "advice", "growth"),
]
_SEARCHED = ["store", "task", "size_bytes", "memory_bytes", "advice"]
_LOOKS: tuple[dict[str, Any], ...]
_LOOKS = ({"width": "minmax(9em, 3fr)"}, {"wide": True}, {}, {"wide": True}, {"width": "4em"})
_CLAUSE = re.compile(r"(: |\. |\.$).*", re.DOTALL)
"""What follows the first clause of a verdict, all of which the store's own report tells."""

_Row = TypeVar("_Row", bound=Record)


def store_part(store: OpenedStore, ids: Ids, limit: int | None) -> ReportPart:
    """Return what the page says of an open store: its place, its files, its growth, its rows."""
    found = [each for each in discover(store.path) if each.path == str(store.path.absolute())]
    places = [renamed(record_part(each, ids, limit), "Place") for each in found]
    parts: list[ReportPart] = []
    if isinstance(store, Store):
        parts = _told_by_rocksdb(store, ids, limit)
    elif store.no_rocksdb is None:
        parts = _told_by_several(store, ids, limit)
    parts.insert(1, _growth(store, sum(each.size_bytes for each in found), ids, limit))
    parts += [*places, rows_part(store.rows(), ids, limit)]
    return _whole(f"Store {store.name}", told_of(store), parts, ids)


def rocksdb_part(store: Store, ids: Ids, limit: int | None) -> ReportPart:
    """Return what the page says of a RocksDB whose rows nobody is to decode."""
    parts = _told_by_rocksdb(store, ids, limit)
    return _whole(f"Store {store.path.name}", told_of(store), parts, ids)


def checkup_part(found: Checkup, ids: Ids, limit: int | None) -> ReportPart:
    """Return what the page says of an application: what to do first, then what it takes in all."""
    told = f"{counted(len(found.stores), 'stores')} of {format_bytes(found.size_bytes)}"
    if found.memory_bytes is not None:
        told += f", which may take {format_bytes(found.memory_bytes)} of memory"
    urgent = sum(each.is_urgent for each in found.steps)
    told += f": {counted(len(found.steps), 'things')} to do, {urgent} urgent"
    silent = {rule: why for why, rules in found.unjudged.items() for rule in rules}
    cards = [frames.card(each, urgent=each.is_urgent) for each in found.steps]
    what = cards or [nothing("Nothing to do, as far as could be judged.")]
    rate = f"A restore writes {found.restore_rate_is}." if found.restore_rate_is else ""
    told_of_each = {
        "What to do": joined(*what, frames.unjudged(silent)),
        "In all": joined(frames.figures_of(found), plotted(found, ids.new("plan")), nothing(rate)),
        "Stores": _checked(found.stores, limit),
    }
    parts = [_part(*each, ids) for each in told_of_each.items()]
    return _whole(f"Checkup of {shown_path(found.path)}", told, parts, ids)


def _checked(stores: Records[CheckedStore], limit: int | None) -> Html:
    """Return what is told of each store, those with most to do and the largest first."""
    told = [replace(each, growth=_CLAUSE.sub("", each.growth or "unknown")) for each in stores]
    told.sort(key=lambda each: (-each.advice, -each.size_bytes))
    shown = Records(told, stores.kind)[: frames.SHOWN_ROWS if limit is None else limit]
    still = frames.listed(shown, len(told), _OF_STORES)
    if len(shown) == len(told):
        return still
    part = rows_of(Records(told, stores.kind).to_pandas()[_SEARCHED])
    named = {"noun": stores.kind, "label": "Stores"}
    columns = [each | look for each, look in zip(part["columns"], _LOOKS, strict=True)]
    return living(still, part | named | {"columns": columns})


def replica_part(replica: WindowReader, ids: Ids, limit: int | None) -> ReportPart:
    """Return what the page says of an open replica: its levels and its segments."""
    parts = [
        renamed(records_part(discover(replica.path), ids, limit), "Levels"),
        records_part(replica.segments(), ids, limit),
    ]
    return _whole(f"Replica {replica.path.name}", told_of(replica), parts, ids)


def changelog_part(changelog: Changelog, ids: Ids, limit: int | None) -> ReportPart:
    """Return what the page says of a changelog: its windows and batches, and who did most."""
    lengths, batches = changelog.window_lengths_ms(), changelog.batches
    parts = [_table("Windows", _windows(changelog, lengths), ids, limit)]
    if lengths:
        parts.append(_table("Users and actions", _busiest(changelog, lengths[-1]), ids, limit))
    told = counted(len(batches), "batches")
    if batches:
        told += f", the newest number {batches[-1].number} of epoch {batches[-1].epoch}"
    folder = changelog.path.absolute()
    name = folder.parent.name if folder.name == "changelog" else folder.name
    return _whole(f"Changelog of {name}", f"{shown_path(changelog.path)}: {told}", parts, ids)


def _told_by_rocksdb(store: Store, ids: Ids, limit: int | None) -> list[ReportPart]:
    return [
        _if_told("Advice", lambda: records_part(store.advice(), ids, limit), ids),
        renamed(record_part(store.summary(), ids, limit), "Summary"),
        _if_told("Key stats", lambda: record_part(store.key_stats(), ids, limit), ids),
        records_part(store.levels(), ids, limit),
    ]


def _told_by_several(store: HasViews, ids: Ids, limit: int | None) -> list[ReportPart]:
    """Return what RocksDB tells of all that a store lies in, and of each."""
    each = store.each(lambda one: one.summary())
    return [
        _if_told("Advice", lambda: records_part(store.advice(), ids, limit), ids),
        renamed(record_part(each.total, ids, limit), "In all"),
        renamed(records_part(each, ids, limit), "Each RocksDB"),
        _if_told("Key stats", lambda: records_part(store.key_stats(), ids, limit), ids),
        renamed(records_part(store.each(lambda one: one.levels()), ids, limit), "Levels"),
    ]


def _if_told(title: str, make: Callable[[], ReportPart], ids: Ids) -> ReportPart:
    """Return a part of a store; where a damaged one can't tell, why: the others are still shown."""
    try:
        return renamed(make(), title)
    except KstoolkitError as error:
        return _part(title, nothing(f"Unknown: {error.message}"), ids)


def _part(title: str, body: Html, ids: Ids) -> ReportPart:
    section = Section(key=ids.new(keyed(title)), heading=text(title), body=body)
    return ReportPart(title=title, section=section)


def _growth(store: OpenedStore, size_bytes: int, ids: Ids, limit: int | None) -> ReportPart:
    if size_bytes <= _MOST_MEASURED_BYTES:
        return record_part(growth(store), ids, limit)
    read = f"all of its {format_bytes(size_bytes)} would have to be read. kstoolkit growth does."
    return _part("Growth", nothing(f"Not measured: {read}"), ids)


def _windows(changelog: Changelog, lengths: Iterable[int]) -> pa.Table:
    spans = [(length, changelog.span_ms(length)) for length in lengths]
    told = [(length, *span) for length, span in spans if span is not None]
    moments = pa.timestamp("ms", tz="UTC")
    return pa.table(
        {
            "window": [length_label(length) for length, *_ in told],
            "first_start": pa.array([first for _, first, _ in told], moments),
            "last_end": pa.array([last + n if n > 0 else None for n, _, last in told], moments),
        }
    )


def _busiest(changelog: Changelog, window_ms: int) -> pa.Table:
    """Return each user's and action's count over all windows of a length, the highest first."""
    totals = changelog.counters(window_ms).over_time()
    count, users = pa.array(totals.count.astype("int64")), totals.users.take(pa.array(totals.user))
    table = pa.table({"user": users, **totals.columns(), "count": count})
    return table.sort_by([("count", "descending")])


def _table(title: str, frame: pa.Table, ids: Ids, limit: int | None) -> ReportPart:
    part = _part(title, frames.grid_of(frame, limit).html(), ids)
    return replace(part, span_ms=frames.frame_span(frame))


def _whole(title: str, lead: str, parts: list[ReportPart], ids: Ids) -> ReportPart:
    inner = tuple(each.section for each in parts)
    heading, said = isolated(title, LONGEST_TITLE), isolated(lead, 300)
    section = Section(key=ids.new(keyed(title)), heading=heading, inner=inner)
    span_ms = joint(each.span_ms for each in parts)
    return ReportPart(title=title, section=section, span_ms=span_ms, lead=said)


class _ToldTrials(Comparison):
    """Trials of a workload that nobody told."""

    def __init__(
        self, trials: Records[Trial], series: Records[Moment], levels: Records[LevelWork]
    ) -> None:
        Records.__init__(self, trials.rows, "trials")
        self.series, self.levels = series, levels

    def to_dict(self) -> dict[str, Any]:
        told = {"trials": self.to_dicts(), "series": self.series.to_dicts()}
        return told | {"levels": self.levels.to_dicts()}

    def __repr__(self) -> str:
        return f"Comparison({', '.join(each.profile for each in self)}; workload unknown)"


def read_comparison(path: Path) -> Comparison:
    """Return the comparison that a file holds, a trial a line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        told = [dict(json.loads(line)) for line in lines if line.strip()]
        trials = Records([_record(Trial, row) for row in told], "trials")
        series = Records([_record(Moment, each) for each in _listed(told, "series")], "moments")
        levels = Records([_record(LevelWork, each) for each in _listed(told, "levels")], "levels")
    except (TypeError, ValueError, AttributeError) as error:
        raise _no_comparison(path) from error
    if not trials:
        raise _no_comparison(path)
    return _ToldTrials(trials, series, levels)


def _record(kind: type[_Row], told: dict[str, Any]) -> _Row:
    names = [each.name for each in fields(kind)]  # type: ignore[arg-type] # records are dataclasses
    return kind(**{name: told[name] for name in names if name in told})


def _listed(told: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [each for row in told for each in row.get(name) or ()]


def _no_comparison(path: Path) -> InputError:
    message = f"{path} holds no comparison of profiles."
    hint = "Give what compare-profiles --json of this version printed, or a folder: a run, a store."
    return InputError(message, hint=hint)
