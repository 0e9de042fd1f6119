"""A scratch folder of links through which a segment is read, so that reading changes nothing.

However rocksdict opens a folder, it writes a file into it. A replica may lie where its readers may
not write, and many readers at once need not write over each other. So they open a folder of their
own: SST files, which never change once they are written, are links to those of the segment; the
small MANIFEST, to which a writer appends, is a copy. All those of a process lie in one scratch
folder where Python's ``tempfile`` puts things (``TMPDIR``), take no room to speak of, and go with
whoever reads; what a killed reader left goes when the next one comes.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import threading
import weakref
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kstoolkit.rocksdb.faults import DamagedStoreError, StorePermissionError, StoreResourceError
from kstoolkit.rocksdb.files.shadow import new_scratch_folder

if TYPE_CHECKING:
    from collections.abc import Iterator


_PREFIX = "kstoolkit-replica-"
_MANIFEST = re.compile(rb"(MANIFEST-\d{6,20})\n")


class Links:
    """A folder with the files of a segment as they were at one moment.

    Parameters
    ----------
    segment
        The segment's folder; only read.

    Attributes
    ----------
    path
        The scratch folder, for rocksdict.

    Raises
    ------
    DamagedStoreError
        If the segment is gone, or lacks a file.
    StorePermissionError
        If this user may not read it.
    StoreResourceError
        If the scratch folder can't be made.
    """

    def __init__(self, segment: Path) -> None:
        place = _place()
        self.path = place.new_folder()
        self._remove = weakref.finalize(self, place.remove, self.path)
        try:
            _fill(self.path, segment)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Remove the scratch folder; a second time does nothing."""
        self._remove()


class _Place:
    """The scratch folder of this process, which goes with the last of the links in it."""

    def __init__(self) -> None:
        self._folder = new_scratch_folder(None, prefix=_PREFIX)
        weakref.finalize(self, self._folder.remove)

    @property
    def serves(self) -> bool:
        """Whether it is there, this process's, and where temporary files go now."""
        path = self._folder.path
        is_there = path.parent == Path(tempfile.gettempdir()) and path.is_dir()
        return is_there and self._folder.owner == os.getpid()

    def new_folder(self) -> Path:
        """Return a new folder inside."""
        with _resources_told():
            return Path(tempfile.mkdtemp(dir=self._folder.path))

    def remove(self, path: Path) -> None:
        """Remove a folder inside; in a forked child nothing, for it is the parent's."""
        if self._folder.owner == os.getpid():
            shutil.rmtree(path, ignore_errors=True)


_PLACES: weakref.WeakSet[_Place] = weakref.WeakSet()
_ONE_AT_A_TIME = threading.Lock()


def _place() -> _Place:
    with _ONE_AT_A_TIME:
        found = next((each for each in _PLACES if each.serves), None)
        if found is None:
            found = _Place()
            _PLACES.add(found)
        return found


@contextmanager
def _resources_told() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        message = f"No scratch folder can be made to read a replica with: {error.strerror}."
        hint = "Set TMPDIR to a folder that exists and that you may write to."
        raise StoreResourceError(message, hint=hint) from error


def _fill(scratch: Path, segment: Path) -> None:
    """Copy what the segment says of itself before linking what it speaks of."""
    try:
        current = _MANIFEST.fullmatch((segment / "CURRENT").read_bytes())
        if current is None:
            raise _damaged(segment, "CURRENT does not name a MANIFEST")
        manifest = current[1].decode()
        (scratch / manifest).write_bytes((segment / manifest).read_bytes())
        (scratch / "CURRENT").write_bytes(current[0])
        for file in segment.absolute().iterdir():
            if file.suffix == ".sst":
                (scratch / file.name).symlink_to(file)
    except (FileNotFoundError, NotADirectoryError) as error:
        name = Path(error.filename or "CURRENT").name
        raise _damaged(segment, f"it has no {name}") from error
    except PermissionError as error:
        message = f"The segment {segment} may not be read by this user: {error.filename}."
        hint = "Read permission on the replica's folders and files is enough; ask its owner."
        raise StorePermissionError(message, hint=hint) from error
    except OSError as error:
        message = f"The segment {segment} can't be read through {scratch}: {error.strerror}."
        raise StoreResourceError(message, hint="Make room there, or set TMPDIR.") from error


def _damaged(segment: Path, why: str) -> DamagedStoreError:
    message = f"The segment {segment} is damaged: {why}."
    return DamagedStoreError(message, hint="Restore the replica: it is rebuilt alone.")
