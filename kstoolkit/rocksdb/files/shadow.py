"""A scratch folder through which a store is read, so that nothing of the store itself changes.

However rocksdict opens a folder, it writes into it. So it is given another: SST and blob files,
which never change once they are written, are hard-linked into it, or copied where they can't be
linked (another disk, somebody else's files); what is appended to (MANIFEST, WAL) and the few small
files beside are copied. A link leaves a file's bytes and its time of change as they are. The folder
lies where Python's ``tempfile`` puts things (``TMPDIR``), and goes when the store is closed.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import weakref
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kstoolkit.rocksdb.faults import StoreResourceError
from kstoolkit.units import format_bytes

__all__ = ["Shadow"]

_IMMUTABLE = re.compile(r"\d+\.(sst|blob)")
_APPENDED = re.compile(r"MANIFEST-\d+|OPTIONS-\d+|\d+\.log|IDENTITY|CURRENT")
_PREFIX = "kstoolkit-shadow-"
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

    def __init__(self, original: Path, *, scratch: str | os.PathLike[str] | None = None) -> None:
        self.path = _scratch_folder(scratch)
        self._remove = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)
        self._taken = _Taken()
        try:
            self._fill(original)
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

    def _fill(self, original: Path) -> None:
        """Take over the store's files: those that never change before and after those that do.

        A compaction may add files in between, and remove others; what is gone by then is either
        not needed or missed when the store is opened, and then all is done again.
        """
        self._take_immutable(original)
        for name in _names(original, _APPENDED):
            self._copy(original / name)
        self._take_immutable(original)

    def _take_immutable(self, original: Path) -> None:
        for name in _names(original, _IMMUTABLE):
            if not (self.path / name).exists():
                self._link(original / name)

    def _link(self, file: Path) -> None:
        try:
            (self.path / file.name).hardlink_to(file)
        except FileNotFoundError:
            return  # compacted away since it was listed
        except OSError:
            self._copy(file)  # another disk, or a file that this user may read and not link
        else:
            self._taken.linked_bytes += _size_bytes(self.path / file.name)

    def _copy(self, file: Path) -> None:
        self._check_room(file)
        with suppress(FileNotFoundError):
            shutil.copyfile(file, self.path / file.name)
            self._taken.copied_bytes += _size_bytes(self.path / file.name)

    def _check_room(self, file: Path) -> None:
        needed, free = _size_bytes(file), shutil.disk_usage(self.path).free
        if needed + _SPARE_BYTES > free:
            message = (
                f"No room in {self.path.parent} to copy {file.name} of {format_bytes(needed)}: "
                f"{format_bytes(free)} are free."
            )
            hint = "Give scratch= (or TMPDIR) a folder on the store's own disk: no copies there."
            raise StoreResourceError(message, hint=hint)


def _scratch_folder(parent: str | os.PathLike[str] | None) -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    except OSError as error:
        message = f"No scratch folder can be made in {parent or 'TMPDIR'}: {error.strerror}."
        hint = "Give scratch= (or TMPDIR) a folder that exists and that you may write to."
        raise StoreResourceError(message, hint=hint) from error


def _names(folder: Path, wanted: re.Pattern[str]) -> list[str]:
    """Return the wanted files in the order that is safe to copy them in while the owner writes.

    WAL files come first: a MANIFEST that is older than its WAL would need files that are gone.
    CURRENT comes before the MANIFEST that it names.
    """
    with os.scandir(folder) as entries:
        names = [each.name for each in entries if wanted.fullmatch(each.name)]
    return sorted(names)


def _size_bytes(file: Path) -> int:
    with suppress(FileNotFoundError):
        return file.stat().st_size
    return 0
