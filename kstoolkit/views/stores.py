"""Stores as parts of a view: a tree of those that were found, what each is, and rows in pages."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kstoolkit.moments import moment_text
from kstoolkit.records import counted
from kstoolkit.stores.rows.rows import value_text
from kstoolkit.units import format_bytes, format_count, format_share
from kstoolkit.views.parts import Part, code, coded, facts, numbers, seen, sizes, table, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kstoolkit.rocksdb.log.storelog import StoreLog
    from kstoolkit.stores.discovery.discovering import FoundStores
    from kstoolkit.stores.discovery.found import FoundStore
    from kstoolkit.stores.growth.verdict import Growth
    from kstoolkit.stores.rows.rows import StoreRow

_Span = tuple[int, int, str]
"""When something began, how long it took (both in ms), and what it was."""

_ORDINARY = 2  # kinds of spans below are what was found of a user
_SURE = 0.5
_OPEN, _TASKS = 40, 2
"""Of a longer tree what lies in tasks and operators is shut at first; how deep these stand."""
_UNREADABLE = "a file of it does not tell"
_KILLED = "not cleanly"


@dataclass(frozen=True, slots=True)
class Node:
    """A line of the tree: a store, or what several have in common; ``path`` can be opened."""

    name: str
    depth: int
    stores: tuple[FoundStore, ...]
    path: str | None = None

    @property
    def place(self) -> str:
        """What tells it from other lines, also after another look."""
        return f"{self.depth} {self.name} {self.path or self.stores[0].path}"

    @property
    def size_bytes(self) -> int:
        """How long the files of all its stores are."""
        return sum(each.size_bytes for each in self.stores)

    @property
    def is_store(self) -> bool:
        """Whether it is a store alone."""
        return len(self.stores) == 1 and self.path == self.stores[0].path

    @property
    def folder(self) -> Path:
        """The folder that holds all of it."""
        return Path(
            self.path or os.path.commonpath([Path(each.path).parent for each in self.stores])
        )

    @property
    def kind(self) -> str:
        """What it is for; with a question mark, if that is a guess; of several, how many."""
        if not self.is_store:
            return counted(len(self.stores), "stores")
        found = self.stores[0]
        sure = found.confidence is None or found.confidence >= _SURE
        return "unknown" if found.kind is None else found.kind if sure else f"{found.kind}?"


class StoreTree:
    """The stores that were found, in a tree by engine, application and task or operator."""

    def __init__(self, found: FoundStores, root: Path, name: str) -> None:
        self.found, self.root, self.name = found, root, name
        self.nodes = [*_below(sorted(found, key=_order), 0, root)]
        self.expired: dict[str, float] = {}
        """The share of rows that are expired, of stores of which that was measured."""

    def table(self, chosen: int | None = None) -> Part:
        """Return the tree as a table that is searched and sorted."""
        nodes, states = self.nodes, [*map(self._state, self.nodes)]
        paths = [os.path.relpath(each.path, self.root) if each.path else "" for each in nodes]
        columns = [
            words("store", [each.name for each in nodes], width="minmax(11em, 3fr)", middle=True),
            sizes("size", [each.size_bytes for each in nodes], width="5em"),
            words("kind", [each.kind for each in nodes], wide=True),
            words(
                "state", states, kind="badges", width="minmax(7.6em, 1fr)", hidden=not any(states)
            ),
            words("path", paths, hidden=True),
        ]
        tree = {"depths": [each.depth for each in nodes], "ids": [each.place for each in nodes]}
        search = {"search": ["store", "kind", "path"], "hint": "Name, kind, folder …"}
        made = table("Stores", "stores", columns, chosen=chosen, **tree, **search)
        after = [each.depth for each in nodes[1:]] + [0]
        leaves = sum(n <= each.depth for each, n in zip(nodes, after, strict=True))
        shut = [each.place for each in nodes if each.depth == _TASKS] if len(nodes) > _OPEN else []
        return made | {"leaves": leaves, "shut": shut}

    def row_of(self, node: Node | None) -> int | None:
        """Return where a line of another tree stands in this one."""
        places = [each.place for each in self.nodes]
        return places.index(node.place) if node is not None and node.place in places else None

    def named(self, store: str) -> list[int]:
        """Return where the stores with a name stand, or what lies in a folder."""
        whole = str(Path(store).absolute())
        at = [n for n, each in enumerate(self.nodes) if each.path in {store, whole}]
        named = [n for n, each in enumerate(self.nodes) if each.is_store and each.name == store]
        return at or named

    def told(self) -> str:
        """Say how many there are, and which folders nobody could look into."""
        size = format_bytes(sum(each.size_bytes for each in self.found))
        told = f"{counted(len(self.found), 'stores')} in {self.name}, {size}"
        if not (hidden := self.found.unreadable):
            return f"{told}."
        folder, why = next(iter(hidden.items()))
        folders = counted(len(hidden), "folders")
        return f"{told}; {folders} could not be looked into, {folder} among them: {why}."

    def _state(self, node: Node) -> str:
        """Return what is out of the ordinary: errors, damage, expired rows, that it is in use."""
        counts = {
            "errors": sum(each.errors or 0 for each in node.stores),
            "damaged": sum(each.unknown.get("num_entries") == _UNREADABLE for each in node.stores),
            "killed": sum(each.closed == _KILLED for each in node.stores),
            "in use": sum(bool(each.is_locked) for each in node.stores),
        }
        told = [
            name if node.is_store and name != "errors" else f"{number} {name}"
            for name, number in counts.items()
            if number
        ]
        share = self.expired.get(node.path or "")
        return ", ".join([*told, *([f"{format_share(share)} expired"] if share else [])])


def _below(stores: Sequence[FoundStore], depth: int, root: Path) -> Iterator[Node]:
    """Yield the lines of a tree; what has no name of its own is called from ``root`` on."""
    if not stores or depth == len(_groups(stores[0])):
        for each in stores:
            in_part = each.engine == "spark" and each.partition is not None
            part = f", partition {each.partition}" if in_part else ""
            yield Node(f"{each.store}{part}", depth, (each,), each.path)
        return
    for name, group in groupby(stores, key=lambda each: _groups(each)[depth]):
        together = tuple(group)
        yield Node(_from(root, name), depth, together, _opened_as_one(together, depth))
        yield from _below(together, depth + 1, root)


def _from(root: Path, name: str) -> str:
    """Return a folder as it is called from ``root``, and any other name as it is."""
    folder = Path(name)
    if not folder.is_absolute() or not folder.is_relative_to(root):
        return name
    return folder.name if folder == root else str(folder.relative_to(root))


def _groups(found: FoundStore) -> tuple[str, ...]:
    """Return the names of the groups that a store is in, the outermost first."""
    whose = found.application or str(Path(found.path).parent)
    if found.operator is not None:
        return found.engine, whose, f"operator {found.operator}"
    if found.engine == "kafka-streams" and found.application is not None:
        return found.engine, whose, "global" if found.task is None else f"task {found.task}"
    return found.engine, whose


def _order(found: FoundStore) -> tuple[str | int, ...]:
    numbers = (found.subtopology, found.operator, found.partition if found.task else None)
    place = (-1 if each is None else each for each in numbers)
    part = -1 if found.partition is None else found.partition
    whose = _groups(found)[1]
    # Replicas' levels are named by their lengths: their folders are these, in milliseconds.
    length = Path(found.path).name if found.engine == "kstoolkit" else ""
    in_order = int(length) if length.isdecimal() else 0
    within = (in_order, found.store, part, found.path)
    return found.engine, whose, found.topology or "", *place, *within


def _opened_as_one(stores: tuple[FoundStore, ...], depth: int) -> str | None:
    """Return the folder of an operator of Spark's, which opens all of its partitions."""
    if stores[0].operator is None or depth != len(_groups(stores[0])) - 1:
        return None
    folders = Path(stores[0].path).parents
    return next((str(each) for each in folders if each.parent.name == "state"), None)


def told_of_group(stores: Iterable[FoundStore], folder: str) -> Part:
    """Return what stores have in common that are looked at together."""
    found = list(stores)
    kinds = sorted({each.kind or "unknown" for each in found})
    size = format_bytes(sum(each.size_bytes for each in found))
    errors = [each.errors for each in found if each.errors is not None]
    told = [("kinds", ", ".join(kinds)), ("stores and partitions", format_count(len(found)))]
    told += [("size", size), ("errors in their logs", format_count(sum(errors)))]
    return facts([*told, ("folder", folder)])


def told_of_store(found: FoundStore, *more: tuple[str, str]) -> Part:
    """Return what a store is, whose, how it was left; what is unknown, with why."""
    told: list[tuple[str, str]] = [("engine", found.engine)]
    for name in ("application", "topology", "task", "operator", "partition"):
        value = getattr(found, name)
        told += [] if value is None else [(name, str(value))]
    sure = "" if found.confidence is None else f", {format_share(found.confidence)} sure"
    why = f": {'; '.join(found.reasons)}" if found.reasons else ""
    is_known = found.kind is not None
    told.append(("kind", f"{found.kind}{sure}{why}" if is_known else _known(found, "kind")))
    size, disk = format_bytes(found.size_bytes), format_bytes(found.disk_bytes)
    told.append(("size", f"{size}, {disk} on the disk"))
    if found.segments:
        told.append(("segments", format_count(len(found.segments))))
    told.append(("entries in its files", _known(found, "num_entries")))
    if found.versions is not None:
        told.append(("versions", " to ".join(str(each) for each in found.versions)))
    if found.engine == "kafka-streams":
        told += [("changelog offset", _known(found, "offset")), ("closed", _known(found, "closed"))]
    told += [("in use", _known(found, "is_locked")), ("errors in its log", _known(found, "errors"))]
    return facts([*told, *more])


def _known(found: FoundStore, name: str) -> str:
    value = getattr(found, name)
    if value is None:
        return f"unknown ({found.unknown.get(name, 'not told')})"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return format_count(value) if isinstance(value, int) else str(value)


def segments_of(found: FoundStore) -> Part:
    """Return the segments of a store, each with its size and when its rows are; nothing of none."""
    rows = list(found.segments)
    if not rows:
        return {}
    took = [1 if each.end_ms is None else each.end_ms - each.start_ms for each in rows]
    columns = [
        words("segment", [Path(each.path).name for each in rows], middle=True),
        sizes("size", [each.size_bytes for each in rows], width="5em"),
        _spans([[(each.start_ms, ms, "")] for each, ms in zip(rows, took, strict=True)]),
    ]
    return table("Segments", "segments", columns)


_LOGGED = ("flushes", "compactions", "moves", "stalls", "errors")
_KINDS = dict(zip(("flush", "compaction", "move", "stall"), _LOGGED, strict=False))
_MOST_LOGGED = 5_000


def timeline(logs: Iterable[StoreLog]) -> Part:
    """Return what logs tell of, by kind on one axis; nothing if they tell of nothing."""
    kinds: dict[str, list[_Span]] = {name: [] for name in _LOGGED}
    for log in logs:
        events: tuple[Any, ...] = (log.flushes(), log.compactions(), log.stalls(), log.errors())
        for each in chain(*events):
            if each.at is not None:
                took = int(getattr(each, "duration_ms", None) or 0)
                span = (int(each.at.timestamp() * 1_000), took, each.sentence)
                kinds[_KINDS.get(each.kind, "errors")].append(span)
    if not any(kinds.values()):
        return {}
    columns = [
        words("what", [*kinds], width="7em"),
        numbers("number", np.array([*map(len, kinds.values())]), width="5em"),
        _spans([sorted(rows)[-_MOST_LOGGED:] for rows in kinds.values()]),
    ]
    return table("When it was", "kinds", columns)


def expired_share(growth: Growth) -> float:
    """Return the share of a store's rows that are expired, as far as that is known."""
    past = growth.num_past_rows
    return past[0] / growth.num_rows if past and growth.num_rows else 0.0


def _spans(rows: Sequence[Sequence[_Span]]) -> Part:
    flat = [each for row in rows for each in row]
    origin, end = min(at for at, *_ in flat), max(at + took for at, took, _ in flat)
    firsts = [0]
    for row in rows:
        firsts.append(firsts[-1] + len(row))
    whats = coded([said for *_, said in flat])
    return {
        "kind": "spans",
        "name": "when",
        "label": "when (UTC)",
        "width": "minmax(7em, 3fr)",
        "unit": 1,
        "span": [origin, end + max((end - origin) // 50, 1)],
        "firsts": firsts,
        "starts": [at - origin for at, *_ in flat],
        "lengths": [took for _, took, _ in flat],
        "kinds": [_ORDINARY] * len(flat),
        "whats": whats["words"],
        "what": whats["codes"],
    }


_UTC = ", UTC"
_TIMES = (f"window start{_UTC}", f"window end{_UTC}", f"time{_UTC}")
_FIRST, _LAST = ("family", "partition", "key"), (*_TIMES, "value", "headers", "problem")
_LONGEST_CELL, _LONGEST_WHOLE, _RAW_BYTES = 120, 4_000, 1_024
_LINE_BYTES = 16


@dataclass(frozen=True, slots=True)
class ShownRow:
    """A row as the texts that are shown, by column, and whole; its bytes as far as is shown."""

    cells: dict[str, str]
    whole: tuple[tuple[str, str], ...]
    raw: tuple[tuple[str, int, bytes], ...]


def shown_row(row: StoreRow) -> ShownRow:
    """Return a row as it is shown; what has parts has a column a part."""
    moments = (row.window_start_ms, row.window_end_ms, row.timestamp_ms)
    times = (None if n is None else moment_text(n).removesuffix(" UTC") for n in moments)
    headers = None if row.headers is None else value_text([list(each) for each in row.headers])
    values = [
        ("family", row.family),
        ("partition", row.partition),
        *_parts("key", row.key),
        *zip(_TIMES, times, strict=True),
        *_parts("value", row.value),
        ("headers", headers),
        ("problem", row.problem),
    ]
    cells = {name: seen(str(told), _LONGEST_CELL) for name, told in values if told is not None}
    raw = [(name, each) for name, each in (("key", row.key_bytes), ("value", row.value_bytes))]
    shown = tuple((name, len(each), each[:_RAW_BYTES]) for name, each in raw if each is not None)
    when = [(name, str(text)) for name, text in values if name in _TIMES and text is not None]
    whole = [("key", _pretty(row.key)), *when, ("value", _pretty(row.value))]
    return ShownRow(cells, tuple(whole), shown)


def _parts(name: str, value: Any) -> list[tuple[str, str | None]]:
    """Return a value, or each of its parts by their names, those of parts of parts too."""
    if not isinstance(value, dict) or not value:
        return [(name, value_text(value))]
    inner = [
        (f"{part} {one}", each[one]) if isinstance(each, dict) else (str(part), each)
        for part, each in value.items()
        for one in (each if isinstance(each, dict) and each else [None])
    ]
    texts = ((part, each if isinstance(each, str) else value_text(each)) for part, each in inner)
    return [(f"{name}: {part}", told) for part, told in texts]


def _pretty(value: Any) -> str:
    told = value_text(value)
    if isinstance(value, dict | list | tuple) and len(told) <= _LONGEST_WHOLE:
        told = json.dumps(json.loads(told), indent=2, ensure_ascii=False)
    return told


def rows_table(rows: Sequence[ShownRow], told: str) -> Part:
    """Return rows as a table, with the columns that one of them has."""
    names = dict.fromkeys(name for row in rows for name in row.cells)
    order = sorted(names, key=_place_of)
    columns = [
        words(name.removesuffix(_UTC), [row.cells.get(name, "") for row in rows]) for name in order
    ]
    zone = " Times are UTC." if any(name.endswith(_UTC) for name in order) else ""
    return table(f"{told}{zone}", "rows", columns, chosen=None)


def _place_of(name: str) -> int:
    for place, each in enumerate((*_FIRST, *_LAST)):
        if name == each or name.startswith(f"{each}: "):
            return place
    return len(_FIRST) + len(_LAST)


def whole_row(row: ShownRow) -> tuple[Part, Part]:
    """Return a row as it is whole: its key and value, and their bytes in hex."""
    told = "\n\n".join(f"{name}\n{_cut(text)}" for name, text in row.whole)
    raw = "\n\n".join(
        f"{name}, {counted(n, 'bytes')}\n{_hex(each, n)}" for name, n, each in row.raw
    )
    return code("The row, whole", told), code("Its bytes", raw, wraps=False)


def _cut(text: str) -> str:
    more = len(text) - _LONGEST_WHOLE
    told = f"\n… and {format_count(more)} characters more" if more > 0 else ""
    return f"{text[:_LONGEST_WHOLE]}{told}"


def _hex(raw: bytes, of: int) -> str:
    """Return bytes in lines of hex: where each begins, its bytes, and what of them is ASCII."""
    lines = []
    for at in range(0, len(raw), _LINE_BYTES):
        part = raw[at : at + _LINE_BYTES]
        text = "".join(chr(each) if 32 <= each < 127 else "." for each in part)  # noqa: PLR2004 - ASCII
        lines.append(f"{at:04x}  {part.hex(' '):<{3 * _LINE_BYTES}} {text}")
    more = [] if len(raw) == of else [f"… and {counted(of - len(raw), 'bytes')} more"]
    return "\n".join([*lines, *more]) or "none"
