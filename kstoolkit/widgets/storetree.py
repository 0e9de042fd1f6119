"""Stores that were found as a tree: by engine, application and task, for a list to choose from."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from kstoolkit.markup import plain, shortened
from kstoolkit.records import counted
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kstoolkit.stores.discovery.found import FoundStore


MOST_LISTED = 500
"""More lines than anybody scrolls through: a filter finds the others."""

_LONGEST_NAME = 48
_INDENT = "\u00a0" * 4  # a list drops spaces that are plain
_SURE = 0.5


@dataclass(frozen=True, slots=True)
class Node:
    """A line of the tree: a store, or what several stores have in common.

    Parameters
    ----------
    name
        What it is called.
    depth
        How far it is from the root.
    stores
        The store, or those below it.
    path
        What can be opened: the store's folder, or that of an operator of Spark's; None if nothing.
    """

    name: str
    depth: int
    stores: tuple[FoundStore, ...]
    path: str | None = None

    @property
    def place(self) -> tuple[int, str, str]:
        """What tells it from other lines, also after another look."""
        return self.depth, self.name, self.path or self.stores[0].path

    @property
    def label(self) -> str:
        """The line, for a list."""
        name = shortened(plain(self.name), _LONGEST_NAME)
        size = format_bytes(sum(each.size_bytes for each in self.stores))
        if self.is_store:
            return f"{_INDENT * self.depth}{name} ({_kind(self.stores[0])}, {size})"
        return f"{_INDENT * self.depth}{name}: {counted(len(self.stores), 'stores')}, {size}"

    @property
    def is_store(self) -> bool:
        """Whether it is a store itself."""
        return len(self.stores) == 1 and self.path == self.stores[0].path


def store_tree(stores: Iterable[FoundStore], root: Path | None = None) -> list[Node]:
    """Return the lines of a tree: engines, their applications, tasks or operators, and stores.

    Parameters
    ----------
    stores
        The stores.
    root
        Where they were found: what has no other name is named by its folder from there.

    Examples
    --------
    >>> from kstoolkit.stores.discovery.found import FoundStore
    >>> found = [
    ...     FoundStore("/s/app/0_1/counts", "kafka-streams", "app", "counts", subtopology=0,
    ...                partition=1, kind="window", size_bytes=2048),
    ... ]
    >>> for node in store_tree(found):
    ...     print(node.label.replace("\u00a0", " "))
    kafka-streams: 1 store, 2.0 KiB
        app: 1 store, 2.0 KiB
            task 0_1: 1 store, 2.0 KiB
                counts (window, 2.0 KiB)
    """
    return list(_below(sorted(stores, key=_order), 0, root or Path()))


def matching(stores: Iterable[FoundStore], text: str) -> list[FoundStore]:
    """Return the stores of which something that a person would look for has each of some words.

    Examples
    --------
    >>> from kstoolkit.stores.discovery.found import FoundStore
    >>> found = [FoundStore(f"/s/{name}", "rocksdb", None, name) for name in ("Counts", "x")]
    >>> [each.store for each in matching(found, "counts")], len(matching(found, " "))
    (['Counts'], 2)
    """
    words = text.casefold().split()
    return [each for each in stores if all(word in _looked_for(each) for word in words)]


def _below(stores: Sequence[FoundStore], depth: int, root: Path) -> Iterator[Node]:
    if not stores or depth == len(_groups(stores[0])):
        yield from (Node(_name(each), depth, (each,), each.path) for each in stores)
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
    return (
        found.engine,
        whose,
        found.topology or "",
        *place,
        in_order,
        found.store,
        part,
        found.path,
    )


def _name(found: FoundStore) -> str:
    in_part = found.engine == "spark" and found.partition is not None
    return f"{found.store}, partition {found.partition}" if in_part else found.store


def _opened_as_one(stores: tuple[FoundStore, ...], depth: int) -> str | None:
    """Return the folder of an operator of Spark's, which opens all of its partitions."""
    number = stores[0].operator
    if number is None or depth != len(_groups(stores[0])) - 1:
        return None
    folders = Path(stores[0].path).parents
    return next((str(each) for each in folders if each.parent.name == "state"), None)


def _kind(found: FoundStore) -> str:
    if found.kind is None:
        return "kind unknown"
    sure = found.confidence is None or found.confidence >= _SURE
    return found.kind if sure else f"{found.kind}?"


def _looked_for(found: FoundStore) -> str:
    told = (found.engine, *_groups(found)[1:], _name(found), found.kind or "", found.path)
    return " ".join(told).casefold()
