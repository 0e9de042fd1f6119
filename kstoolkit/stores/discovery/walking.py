"""The folders under a path in which a store lies, one after the other, none of them opened."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


_REPLICA = "replica.json"
_CHECKPOINT = {"state", "offsets"}
"""Folders that every checkpoint of a stateful query of Spark has."""


def _never() -> bool:
    return False


class Layout(StrEnum):
    """How a folder keeps state."""

    ROCKSDB = "one RocksDB store"
    REPLICA = "a replica of kstoolkit's"
    SPARK = "a checkpoint of Spark's"


@dataclass(slots=True)
class Walk:
    """A walk through the folders under a path; links to folders are not followed.

    Parameters
    ----------
    is_stopped
        Says whether to end; asked before each folder.
    num_folders
        How many folders it has looked into so far.
    unreadable
        The folders that it could not look into, and why.
    """

    is_stopped: Callable[[], bool] = _never
    num_folders: int = 0
    unreadable: dict[str, str] = field(default_factory=dict)

    def below(self, root: Path) -> Iterator[tuple[Path, Layout]]:
        """Yield each folder that holds state, in the order of names, depth first.

        What lies below such a folder is its own business, and not looked into.
        """
        waiting = [root]
        while waiting and not self.is_stopped():
            here = waiting.pop()
            self.num_folders += 1
            names, folders = self._inside(here)
            layout = _layout(names, folders)
            if layout is not None:
                yield here, layout
            else:
                waiting += [here / name for name in sorted(folders, reverse=True)]

    def _inside(self, folder: Path) -> tuple[set[str], set[str]]:
        """Return the names in a folder, and which of them are folders."""
        try:
            with os.scandir(folder) as entries:
                found = {each.name: each.is_dir(follow_symlinks=False) for each in entries}
        except (FileNotFoundError, NotADirectoryError):  # it was removed meanwhile
            return set(), set()
        except OSError as error:
            self.unreadable[str(folder)] = error.strerror or str(error)
            return set(), set()
        return set(found), {name for name, is_folder in found.items() if is_folder}


def _layout(names: set[str], folders: set[str]) -> Layout | None:
    if _REPLICA in names:
        return Layout.REPLICA
    if folders >= _CHECKPOINT:
        return Layout.SPARK
    return Layout.ROCKSDB if "CURRENT" in names - folders else None
