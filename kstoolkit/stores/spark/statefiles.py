"""The files of one partition of one store: which versions they hold, and what makes up a version.

A version is a snapshot of it, or that of an older one and all changes since. Names of files begin
with the version. With unique ids, as in ``7_<id>.changelog``, a version may have files of several
attempts: the commit log tells the id of the newest, each changelog those of the ones before it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstoolkit.formats.spark.statefiles import read_changelog
from kstoolkit.rocksdb.faults import MissingFileError, translated
from kstoolkit.stores.spark.readfile import read_with

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


_NAME = re.compile(r"(\d{1,18})(?:_([\w-]+))?\.(zip|snapshot|changelog|delta)")
_SNAPSHOTS, _CHANGES = ("zip", "snapshot"), ("changelog", "delta")


@dataclass(frozen=True, slots=True)
class Chain:
    """What makes up a version.

    Parameters
    ----------
    snapshot
        What it begins with; None: with nothing.
    changes
        What was changed since, the oldest first.
    """

    snapshot: Path | None
    changes: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class StateFiles:
    """The files in the folder of a store's partition.

    Parameters
    ----------
    folder
        Where they lie.
    snapshots, changes
        Those that hold a version whole, and those that hold what it changed.
    """

    folder: Path
    snapshots: dict[int, dict[str | None, Path]]
    changes: dict[int, dict[str | None, Path]]

    @classmethod
    def of(cls, folder: Path) -> StateFiles:
        """Return the files in a folder.

        Raises
        ------
        MissingFileError
            If there is no such folder.
        """
        found: dict[str, dict[int, dict[str | None, Path]]] = {
            kind: defaultdict(dict) for kind in (*_SNAPSHOTS, *_CHANGES)
        }
        try:
            with translated(folder):
                names = [each.name for each in folder.iterdir()]
        except (FileNotFoundError, NotADirectoryError) as error:
            message = f"The checkpoint lacks the folder {folder}."
            raise MissingFileError(message, hint="Was it not copied with the rest?") from error
        for name in names:
            if match := _NAME.fullmatch(name):
                found[match[3]][int(match[1])][match[2]] = folder / name
        return cls(folder, *({**found[a], **found[b]} for a, b in (_SNAPSHOTS, _CHANGES)))

    def versions(self, committed: Iterable[int]) -> list[int]:
        """Return which of the versions that were committed the files hold, the oldest first.

        Which attempt's files they are is not looked at.

        Examples
        --------
        >>> from pathlib import Path
        >>> at = {None: Path("any")}
        >>> StateFiles(Path(), {3: at}, {2: at, 4: at, 6: at}).versions(range(9))
        [0, 3, 4]
        """
        held, wanted = {0}, set(committed)
        for version in sorted(self.snapshots.keys() | self.changes.keys()):
            if version in self.snapshots or version - 1 in held:
                held.add(version)
        return sorted(held & wanted)

    def chain(self, version: int, unique_id: str | None = None) -> Chain:
        """Return what makes up a version.

        Parameters
        ----------
        version
            Which one; 0 is the empty store.
        unique_id
            The id in the names of its files; None if they have none.

        Raises
        ------
        MissingFileError
            If a file that it takes is not there.
        FormatError
            If a changelog that tells of the files before it can't be read.
        """
        ids = {version: unique_id}
        changes: list[Path] = []
        for at in range(version, 0, -1):
            known = ids.get(at)
            if snapshot := self.snapshots.get(at, {}).get(known):
                return Chain(snapshot, tuple(reversed(changes)))
            path = self.changes.get(at, {}).get(known)
            if path is None:
                raise self._missing(version, at)
            if known is not None:
                ids |= read_with(path, lambda raw: dict(read_changelog(raw).lineage))
            changes.append(path)
        return Chain(None, tuple(reversed(changes)))

    def _missing(self, version: int, at: int) -> MissingFileError:
        message = (
            f"Version {version} of the state in {self.folder} can't be read: it has neither a "
            f"snapshot nor a changelog of version {at}."
        )
        whole = sorted(self.snapshots)
        hint = f"There are snapshots of {', '.join(map(str, whole[-9:])) or 'no version'}."
        return MissingFileError(message, hint=f"{hint} Spark removes what is old; was this copied?")
