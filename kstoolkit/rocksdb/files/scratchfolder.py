"""Folders for a while: each is claimed by a lock, so that those of killed owners can be removed.

A process that is killed leaves its folder behind. Process ids are used again and clocks are set, so
neither tells whether the owner still lives. The kernel does: a lock on a file in the folder goes
with the process that holds it. Whoever makes a folder locks it; whoever gets the lock of another
may remove that folder, for its owner is dead.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kstoolkit.rocksdb.faults import StoreResourceError

SHADOWS = "kstoolkit-shadow-"
"""How the names of folders begin through which stores are read."""

_LOCK = "kstoolkit.lock"
_ATTEMPTS = 20
_OPEN = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class ScratchFolder:
    """A folder that is this process's own as long as ``lock``, a file descriptor, is open."""

    path: Path
    lock: int
    owner: int

    def remove(self) -> None:
        """Remove the folder; in a forked child nothing, for it is the parent's."""
        if os.getpid() == self.owner:
            _remove(self.path, self.lock)


def new_scratch_folder(
    parent: str | os.PathLike[str] | None, *, prefix: str = SHADOWS
) -> ScratchFolder:
    """Return a new, empty folder that is claimed; what dead owners left beside it is removed.

    Parameters
    ----------
    parent
        Where to make it; None is where temporary files go.
    prefix
        How its name begins: each purpose has a beginning of its own, and clears its own.

    Raises
    ------
    StoreResourceError
        If it can't be made there.

    Examples
    --------
    >>> folder = new_scratch_folder(None)
    >>> folder.path.is_dir()
    True
    >>> folder.remove()
    >>> folder.path.exists()
    False
    """
    try:
        place = Path(tempfile.gettempdir() if parent is None else parent)
        str(place).encode()  # rocksdict takes no other paths
        clear_abandoned(place, prefix=prefix)
        for _ in range(_ATTEMPTS):
            path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
            with suppress(
                FileNotFoundError
            ):  # a cleaner took the still empty folder for a dead one's
                lock = os.open(path / _LOCK, _OPEN | os.O_CREAT | os.O_EXCL, 0o600)
                if _is_locked_now(lock, path):
                    return ScratchFolder(path, lock, os.getpid())
                os.close(lock)
    except UnicodeEncodeError as error:
        message = f"No scratch folder can be used in {place!r}: its path is no UTF-8."
        raise StoreResourceError(message, hint="Give scratch= (or TMPDIR) another one.") from error
    except OSError as error:
        message = f"No scratch folder can be made in {parent or 'TMPDIR'}: {error.strerror}."
        hint = "Give scratch= (or TMPDIR) a folder that exists and that you may write to."
        raise StoreResourceError(message, hint=hint) from error
    message = f"Each scratch folder made in {parent or 'TMPDIR'} is taken away at once."
    raise StoreResourceError(message, hint="Give scratch= (or TMPDIR) a folder of your own.")


def clear_abandoned(parent: Path, *, prefix: str = SHADOWS) -> None:
    """Remove this user's scratch folders in ``parent`` whose owners are dead; no others."""
    with suppress(OSError), os.scandir(parent) as entries:
        for each in entries:
            if each.name.startswith(prefix):
                with suppress(OSError):  # gone, or not ours to look at
                    _clear(each)


def _clear(entry: os.DirEntry[str]) -> None:
    is_folder = entry.is_dir(follow_symlinks=False)
    if not is_folder or entry.stat(follow_symlinks=False).st_uid != os.getuid():
        return
    path = Path(entry.path)
    try:
        lock = os.open(path / _LOCK, _OPEN)
    except FileNotFoundError:
        path.rmdir()  # killed before it locked; one with anything in it stays
        return
    if _locked(lock) and _is_the_lock_of(lock, path):
        _remove(path, lock)
    else:
        os.close(lock)


def _is_locked_now(lock: int, path: Path) -> bool:
    """Lock a folder just made; False if a cleaner was faster.

    Where the disk knows no locks, no cleaner gets one either.
    """
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return _is_the_lock_of(lock, path)


def _locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_the_lock_of(lock: int, path: Path) -> bool:
    """Return whether the folder still has this lock: another cleaner may have been here."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(lock), (path / _LOCK).stat())
    return False


def _remove(path: Path, lock: int) -> None:
    """Remove a folder, its lock last: who is killed on the way leaves one that can be cleared."""
    with suppress(OSError):
        for each in os.scandir(path):
            if each.is_dir(follow_symlinks=False):
                shutil.rmtree(each, ignore_errors=True)
            elif each.name != _LOCK:
                Path(each).unlink()
        # A child of the dead owner may still be writing: then it stays for the next cleaner.
        if [each.name for each in path.iterdir()] == [_LOCK]:
            (path / _LOCK).unlink()
            path.rmdir()
    os.close(lock)
