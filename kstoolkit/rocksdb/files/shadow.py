"""A scratch folder through which a store is read, so that nothing of the store itself changes.

However rocksdict opens a folder, it writes into it. So it is given another: SST and blob files,
which never change once they are written, are hard-linked into it, or copied where they can't be
linked (another disk, somebody else's files); what is appended to (MANIFEST, WAL) and the few small
files beside are copied. A link leaves a file's bytes and its mtime as they are; ctime tells of the
link itself. The folder lies where Python's ``tempfile`` puts things (``TMPDIR``), and goes when the
store is closed; if its owner is killed, when the next store is opened.
"""

from __future__ import annotations

import os
import re
import shutil
import weakref
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstoolkit.rocksdb.faults import StoreResourceError
from kstoolkit.rocksdb.files.scratchfolder import new_scratch_folder
from kstoolkit.rocksdb.files.sparksnapshot import shared_names
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


_IMMUTABLE = re.compile(r"\d+\.(sst|blob)")
_APPENDED = re.compile(r"MANIFEST-\d+|OPTIONS-\d+|\d+\.log|IDENTITY|CURRENT")
_WAL = re.compile(r"\d+\.log")
_SPARE_BYTES = 64 << 20  # left on the scratch disk for whoever else writes there


@dataclass(slots=True)
class _Taken:
    linked_bytes: int = 0
    copied_bytes: int = 0


class Shadow:
    """A scratch folder with the files of a store as they were at one moment.

    Parameters
    ----------
    original
        The store's folder; only read.
    scratch
        Where to make the scratch folder; None is where temporary files go.
    others
        Other folders that the store has SST files, blob files or WALs in. Numbers of files are
        unique in a store, so that those of all folders find room in one.

    Attributes
    ----------
    path
        The scratch folder, for rocksdict.

    Raises
    ------
    OSError
        If the store can't be read.
    StoreResourceError
        If the scratch folder can't be made, or has no room for what has to be copied.
    """

    def __init__(
        self,
        original: Path,
        *,
        scratch: str | os.PathLike[str] | None = None,
        others: Sequence[Path] = (),
    ) -> None:
        folder = new_scratch_folder(scratch)
        self.path = folder.path
        self._remove = weakref.finalize(self, folder.remove)
        self._taken = _Taken()
        try:
            self._fill(original, others)
        except BaseException:
            self.close()
            raise

    @property
    def linked_bytes(self) -> int:
        """How much was taken over in links, which take no room."""
        return self._taken.linked_bytes

    @property
    def copied_bytes(self) -> int:
        """How much was taken over in copies, which take room until the shadow is closed."""
        return self._taken.copied_bytes

    def close(self) -> None:
        """Remove the scratch folder; a second time does nothing."""
        self._remove()

    def _fill(self, original: Path, others: Sequence[Path]) -> None:
        """Take over the store's files: those that never change before and after those that do.

        A compaction may add files in between, and remove others; what is gone by then is either
        not needed or missed when the store is opened, and then all is done again.
        """
        aliases = shared_names(original)
        self._take_immutable(original, others, aliases)
        for folder in others:
            for name in _names(folder, _WAL):
                self._copy(folder / name, name)
        for name in _names(original, _APPENDED):
            self._copy(original / name, name)
        self._take_immutable(original, others, aliases)

    def _take_immutable(
        self, original: Path, others: Sequence[Path], aliases: dict[str, str]
    ) -> None:
        for folder in (original, *others):
            for name in _names(folder, _IMMUTABLE):
                self._link(folder / name, name)
        for folder in others:
            for name, alias in aliases.items():
                self._link(folder / alias, name)

    def _link(self, file: Path, name: str) -> None:
        there = self.path / name
        if there.exists():
            return
        try:
            there.hardlink_to(file)
        except FileNotFoundError:
            return  # compacted away since it was listed
        except OSError:
            self._copy(file, name)  # another disk, or a file that this user may read and not link
        else:
            self._taken.linked_bytes += _size_bytes(there)

    def _copy(self, file: Path, name: str) -> None:
        self._check_room(file)
        with suppress(FileNotFoundError):
            shutil.copyfile(file, self.path / name)
            self._taken.copied_bytes += _size_bytes(self.path / name)

    def _check_room(self, file: Path) -> None:
        needed, free = _size_bytes(file), shutil.disk_usage(self.path).free
        if needed + _SPARE_BYTES > free:
            message = (
                f"No room in {self.path.parent} to copy {file.name} of {format_bytes(needed)}: "
                f"{format_bytes(free)} are free there, and {format_bytes(_SPARE_BYTES)} are to be "
                "left for others."
            )
            hint = "Give scratch= (or TMPDIR) a folder on the store's own disk: no copies there."
            raise StoreResourceError(message, hint=hint)


def _names(folder: Path, wanted: re.Pattern[str]) -> list[str]:
    """Return the wanted files in the order that is safe to copy them in while the owner writes.

    WAL files come first: a MANIFEST that is older than its WAL would need files that are gone.
    CURRENT comes before the MANIFEST that it names.
    """
    with os.scandir(folder) as entries:
        # A pipe among them would be waited for.
        names = [each.name for each in entries if wanted.fullmatch(each.name) and each.is_file()]
    return sorted(names)


def _size_bytes(file: Path) -> int:
    with suppress(FileNotFoundError):
        return file.stat().st_size
    return 0
