"""Stores that were found, as a table for people, with a line for each thing that is unclear."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kstoolkit.cli.flags import in_flags
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kstoolkit.stores.discovery.found import FoundStore


DOUBTFUL = 0.5


def as_told(found: FoundStore, kind: str) -> FoundStore:
    """Return a store of the kind that somebody says, unless its own is known well.

    Raises
    ------
    ConfigurationError
        If there is no such kind.
    """
    from kstoolkit.formats.streams.kinds import kinds_named  # noqa: PLC0415 - loads Arrow

    kinds_named(kind)
    if found.kind is not None and not _is_doubtful(found):
        return found
    unknown = {name: why for name, why in found.unknown.items() if name != "kind"}
    return replace(found, kind=kind, confidence=1.0, reasons=("it was told",), unknown=unknown)


def store_table(found: Sequence[FoundStore], root: Path) -> tuple[list[str], list[list[str]]]:
    """Return the header and the lines of a table; columns that say nothing of any are left out."""
    columns = {
        name: cell
        for name, (cell, is_wanted) in _columns(root).items()
        if is_wanted is None or any(map(is_wanted, found))
    }
    return list(columns), [[cell(each) for cell in columns.values()] for each in found]


def unclear(found: Sequence[FoundStore]) -> Iterator[str]:
    """Yield why kinds are unknown, one line a reason."""
    reasons = Counter(
        each.unknown.get("kind", "nothing tells it") for each in found if each.kind is None
    )
    for why, count in reasons.items():
        whose = "1 store" if count == 1 else f"{format_count(count)} stores"
        yield f"The kind of {whose} is unknown: {in_flags(why).rstrip('.')}."


Column = tuple["Callable[[FoundStore], str]", "Callable[[FoundStore], bool] | None"]


def _columns(root: Path) -> dict[str, Column]:
    """Return what tells each cell, and whether a store has one of that column to tell."""
    return {
        "store": (lambda each: each.store, None),
        "kind": (_kind, None),
        "engine": (lambda each: each.engine, None),
        "application": (lambda each: each.application or "unknown", None),
        "part": (_part, None),
        "segments": (_segments, None),
        "size": (lambda each: format_bytes(each.size_bytes), None),
        "entries": (lambda each: format_count(each.num_entries), None),
        "starts (UTC)": (_starts, lambda each: bool(each.segments)),
        "versions": (_versions, lambda each: each.engine == "spark"),
        "offset": (_offset, lambda each: each.offset is not None),
        "closed": (_closed, lambda each: each.engine == "kafka-streams"),
        "folder": (lambda each: _below(each, root), None),
    }


def _kind(found: FoundStore) -> str:
    if found.kind is None:
        return "unknown"
    return f"{found.kind}?" if _is_doubtful(found) else found.kind


def _is_doubtful(found: FoundStore) -> bool:
    return found.confidence is not None and found.confidence < DOUBTFUL


def _part(found: FoundStore) -> str:
    return found.task or ("all" if found.partition is None else str(found.partition))


def _segments(found: FoundStore) -> str:
    return format_count(len(found.segments)) if found.segments else "none"


def _starts(found: FoundStore) -> str:
    """Return when the earliest segment starts, and the latest."""
    from kstoolkit.stores.growth.verdict import moment_text  # noqa: PLC0415 - loads Arrow

    if not found.segments:
        return "none"
    first, last = (moment_text(found.segments[at].start_ms).removesuffix(" UTC") for at in (0, -1))
    return first if first == last else f"{first} to {last}"


def _versions(found: FoundStore) -> str:
    if found.versions is None:
        return "unknown" if found.engine == "spark" else "none"
    oldest, newest = found.versions
    return str(newest) if oldest == newest else f"{oldest} to {newest}"


def _offset(found: FoundStore) -> str:
    return "none" if found.engine == "spark" else format_count(found.offset)


def _closed(found: FoundStore) -> str:
    if found.is_locked:
        return "in use"
    return "none" if found.engine == "spark" else found.closed or "unknown"


def _below(found: FoundStore, root: Path) -> str:
    return "." if found.path == str(root) else str(Path(found.path).relative_to(root))
