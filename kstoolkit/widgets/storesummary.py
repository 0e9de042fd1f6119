"""What a panel says of a store: whose it is, how sure that is, its size, how it was left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kstoolkit.markup import Html, element, isolated
from kstoolkit.stores.discovery.discovering import discover
from kstoolkit.stores.rows.rows import Estimating
from kstoolkit.stores.rows.segmentedstore import SegmentedStore
from kstoolkit.stores.spark.sparkstore import SparkStore
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kstoolkit.stores.discovery.found import FoundStore
    from kstoolkit.stores.opening import OpenedStore
    from kstoolkit.widgets.storetree import Node


_MOST_SEGMENTS = 50
_LONGEST_FACT = 500

Fact = tuple[str, str]
"""What it is about, and what is so."""


def facts_of_path(path: str, is_stopped: Callable[[], bool] | None = None) -> list[Fact]:
    """Return what a look at a store tells, or at an operator of Spark's: what its partitions share.

    Parameters
    ----------
    path
        The folder.
    is_stopped
        As :func:`kstoolkit.discover` takes it.

    Raises
    ------
    InputError
        If the folder is gone.
    """
    found = discover(path, look=True, is_stopped=is_stopped)
    here = [each for each in found if each.path == path]
    if here:
        return facts_of_store(here[0])
    kinds = sorted({each.kind or "unknown" for each in found})
    size = format_bytes(sum(each.size_bytes for each in found))
    facts = [("kind", ", ".join(kinds)), ("stores and partitions", format_count(len(found)))]
    return [*facts, ("size", size), ("folder", path)]


def facts_of_store(found: FoundStore) -> list[Fact]:
    """Return what was found of a store; what is unknown says why.

    Examples
    --------
    >>> from kstoolkit.stores.discovery.found import FoundStore
    >>> found = FoundStore("/s/x", "rocksdb", None, "x", size_bytes=5, is_locked=True)
    >>> facts_of_store(found)[:2]
    [('engine', 'rocksdb'), ('kind', 'unknown (not told)')]
    """
    facts: list[Fact] = [("engine", found.engine)]
    for name in ("application", "topology", "task", "operator", "partition"):
        value = getattr(found, name)
        facts += [] if value is None else [(name, str(value))]
    facts.append(("kind", _kind_and_confidence(found)))
    facts += [("why", each) for each in found.reasons]
    size, disk = format_bytes(found.size_bytes), format_bytes(found.disk_bytes)
    facts.append(("size", f"{size}, {disk} on the disk"))
    if found.segments:
        facts.append(("segments", format_count(len(found.segments))))
    facts.append(("entries in its files", _known(found, "num_entries")))
    if found.versions is not None:
        facts.append(("versions", " to ".join(str(each) for each in found.versions)))
    if found.engine == "kafka-streams":
        facts.append(("changelog offset", _known(found, "offset")))
        facts.append(("closed", _known(found, "closed")))
    facts.append(("in use", _known(found, "is_locked")))
    return [*facts, ("folder", found.path)]


def facts_of_reading(store: OpenedStore) -> list[Fact]:
    """Return how the rows of an open store are read: what was told, and what is guessed."""
    facts: list[Fact] = []
    told = store.read_as
    for part, serde, number in (("keys", told.key_serde, 0), ("values", told.value_serde, 1)):
        name = (store.key_serde, store.value_serde)[number].name
        why = "as it was told" if serde is not None else _guessed(store, number)
        facts.append((f"{part} read as", f"{name}, {why}"))
    return [*facts, ("rows", _rows(store))]


def facts_html(name: str, facts: Sequence[Fact]) -> Html:
    """Return facts as a table: why something is unknown may take more than a cell of the data.

    Examples
    --------
    >>> facts_html("counts", [("size", "5 B")])[-61:]
    '<tr><td>size</td><td><bdi>5 B</bdi></td></tr></tbody></table>'
    """
    names = (Html("store"), isolated(name, _LONGEST_FACT))
    head = element("tr", *(element("th", each, scope="col") for each in names))
    rows = [
        element("tr", element("td", what), element("td", isolated(said, _LONGEST_FACT)))
        for what, said in facts
    ]
    return element("table", element("thead", head), element("tbody", *rows), class_="kst-facts")


def facts_of_group(node: Node) -> list[Fact]:
    """Return what several stores have in common, and the largest of them."""
    largest = sorted(node.stores, key=lambda each: -each.size_bytes)[:10]
    size = format_bytes(sum(each.size_bytes for each in node.stores))
    facts = [("stores", format_count(len(node.stores))), ("size", size)]
    return facts + [("among the largest", repr(each)) for each in largest]


def _kind_and_confidence(found: FoundStore) -> str:
    if found.kind is None:
        return _known(found, "kind")
    return found.kind if found.confidence is None else f"{found.kind}, {found.confidence:.0%} sure"


def _known(found: FoundStore, name: str) -> str:
    value = getattr(found, name)
    if value is None:
        return f"unknown ({found.unknown.get(name, 'not told')})"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return format_count(value) if isinstance(value, int) else str(value)


def _guessed(store: Any, number: int) -> str:
    if isinstance(store, SparkStore):
        return "by the schema in the checkpoint"
    if store.kind == "window" and not hasattr(store, "recognised"):
        return "as kstoolkit writes them"
    guess = store.guesses[number]
    return f"a guess, {guess.confidence:.0%} sure: {'; '.join(guess.reasons)}"


def _rows(store: OpenedStore) -> str:
    if isinstance(store, SegmentedStore) and len(store.segments) > _MOST_SEGMENTS:
        return "not estimated: each segment would have to be opened"
    source = store.source
    if isinstance(store, SparkStore):
        return str(store.count())
    estimate = source.estimated_rows() if isinstance(source, Estimating) else None
    if estimate is None:
        return "unknown (nothing estimates them)"
    return f"about {format_count(estimate)}, by RocksDB's estimate"
