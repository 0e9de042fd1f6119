"""A store as it would be without some of its SST files: what stands beside a block of theirs.

Where a block can't be read, RocksDB shows no row of any file: it can't tell which is newer. A view
without the block's file shows those of all others. It is made in the scratch folder, of links.
"""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

from kstoolkit.rocksdb.files.handles import families_past_bad_wal
from kstoolkit.rocksdb.files.losses import Losses
from kstoolkit.rocksdb.files.versionedits import drop_tables, listed_tables

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rocksdict import Rdict


_COPIED = re.compile(r"MANIFEST-\d+|CURRENT")
_LINKED = re.compile(r"\d+\.(sst|blob|log)|OPTIONS-\d+|IDENTITY")


class View:
    """The column families of a store, or of what is left of it without some SST files.

    Parameters
    ----------
    families
        The column families by name.
    scratch
        The scratch folder that they were opened from.
    folder
        The store as the user knows it; an attribute too.
    """

    def __init__(self, families: Mapping[str, Rdict], scratch: Path, folder: Path) -> None:
        self.families, self.folder = families, folder
        self._scratch = scratch
        self._latest: tuple[str, View] | None = None

    def without(self, name: str) -> View | None:
        """Return the view without one SST file more; None if the store lists none of that name.

        Only the latest one is kept: damage in one file comes before that in the next.

        Raises
        ------
        KstoolkitError
            If it can't be opened.
        OSError
            If there is no room for it.
        """
        if self._latest is not None and self._latest[0] == name:
            return self._latest[1]
        manifest = (self._scratch / "CURRENT").read_text(encoding="utf-8").strip()
        listed = listed_tables(self._scratch / manifest).values()
        dropped = [each for each in listed if each.name == name]
        if not dropped:
            return None
        place = self._scratch / f"without-{dropped[0].number}"
        if not place.exists():
            self._fill(place)
            drop_tables(place / manifest, dropped)
        families = families_past_bad_wal(place, self.folder, Losses())
        self._latest = (name, View(families, place, self.folder))
        return self._latest[1]

    def close(self) -> None:
        """Close the views that were made of this one; not the families that it was made of."""
        if self._latest is not None:
            beside, self._latest = self._latest[1], None
            beside.close()
            for each in reversed(list(beside.families.values())):
                each.close()

    def _fill(self, place: Path) -> None:
        place.mkdir()
        for each in self._scratch.iterdir():
            if _LINKED.fullmatch(each.name):
                (place / each.name).hardlink_to(each)
            elif _COPIED.fullmatch(each.name):
                shutil.copyfile(each, place / each.name)
