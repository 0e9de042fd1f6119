"""A scratch folder through which a store is read, so that nothing of the store itself changes.

However rocksdict opens a folder, it writes into it. So it is given another: SST and blob files,
which never change once they are written, are hard-linked into it, or copied where they can't be
linked (another disk, somebody else's files); what is appended to (MANIFEST, WAL) and the few small
files beside are copied. A link leaves a file's bytes and its mtime as they are; ctime tells of the
link itself. The folder lies where Python's ``tempfile`` puts things (``TMPDIR``), and goes when the
store is closed.

A process that is killed leaves its folder behind. Process ids are used again and clocks are set, so
neither tells whether the owner still lives. The kernel does: a lock on a file in the folder goes
with the process that holds it. Whoever makes a folder locks it; whoever gets the lock of another
may remove that folder, for its owner is dead. So the next store that is opened clears it away.
"""

from __future__ import annotations

import fcntl
import os
import re
import resource
import shutil
import tempfile
import weakref
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rocksdict import AccessType, DBPath, DBRecoveryMode, Options, Rdict, WriteOptions

from kstoolkit.errors import Sentence, naming
from kstoolkit.rocksdb.faults import StoreResourceError, translated
from kstoolkit.rocksdb.files.finding import shared_names
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

_SCRATCH = Sentence("Give scratch= (or TMPDIR)", "Set TMPDIR to")


_SHADOWS = "kstoolkit-shadow-"
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


def new_scratch_rocksdb(folder: Path, memtable_bytes: int) -> Rdict:
    """Return a new RocksDB in a scratch folder, of which nothing need outlive the process."""
    options = Options(raw_mode=True)
    options.set_write_buffer_size(memtable_bytes)
    kept = Rdict(str(folder), options)
    without_log = WriteOptions()
    without_log.disable_wal = True  # type: ignore[method-assign, assignment]  # an attribute, whatever its stub says
    kept.set_write_options(without_log)
    return kept


def new_scratch_folder(
    parent: str | os.PathLike[str] | None, *, prefix: str = _SHADOWS
) -> ScratchFolder:
    """Return a new, empty folder that is claimed; what dead owners left beside it is removed.

    It is in ``parent``, or else where temporary files go; where none can be made, it is a
    StoreResourceError. Each purpose has a ``prefix`` of its own, and clears its own.

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
        _clear_abandoned(place, prefix=prefix)
        for _ in range(_ATTEMPTS):
            path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
            # A cleaner may take the folder, while it is empty, for a dead one's.
            with suppress(FileNotFoundError):
                lock = os.open(path / _LOCK, _OPEN | os.O_CREAT | os.O_EXCL, 0o600)
                if _is_locked_now(lock, path):
                    return ScratchFolder(path, lock, os.getpid())
                os.close(lock)
    except UnicodeEncodeError as error:
        message = f"No scratch folder can be used in {place!r}: its path is no UTF-8."
        raise _unusable(message, "another one.") from error
    except OSError as error:
        message = f"No scratch folder can be made in {parent or 'TMPDIR'}: {error.strerror}."
        raise _unusable(message, "a folder that exists and that you may write to.") from error
    message = f"Each scratch folder made in {parent or 'TMPDIR'} is taken away at once."
    raise _unusable(message, "a folder of your own.")


def _unusable(message: str, better: str) -> StoreResourceError:
    return StoreResourceError(message, hint=naming(f"{{scratch}} {better}", scratch=_SCRATCH))


def _clear_abandoned(parent: Path, *, prefix: str = _SHADOWS) -> None:
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


_IMMUTABLE = re.compile(r"\d+\.(sst|blob)")
_APPENDED = re.compile(r"MANIFEST-\d+|OPTIONS-\d+|\d+\.log|IDENTITY|CURRENT")
_WAL = re.compile(r"\d+\.log")
_SPARE_BYTES = 64 << 20  # left on the scratch disk for whoever else writes there


class Shadow:
    """A scratch folder with the files of a store as they were at one moment.

    ``others`` are folders beside the store's own with SST files, blob files or WALs: as their
    numbers are unique in a store, the files of all folders find room in one. ``copied_bytes`` is
    what was taken over in copies, which take room until the shadow is closed.
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
        self.copied_bytes = 0
        try:
            self._fill(original, others)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Remove the scratch folder; a second time does nothing."""
        self._remove()

    def _fill(self, original: Path, others: Sequence[Path]) -> None:
        """Take over the store's files: those that never change before and after those that do.

        What a compaction removes in between is not needed, or missed at the opening, which is then
        done again.
        """
        aliases = shared_names(original)
        self._take_immutable(original, others, aliases)
        for folder in others:
            for name in _names(folder, _WAL):
                self._copy(folder / name, name)
        for name in _names(original, _APPENDED):
            self._copy(original / name, name)
        self._take_immutable(original, others, aliases)

    def _take_immutable(self, own: Path, others: Sequence[Path], aliases: dict[str, str]) -> None:
        for folder in (own, *others):
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

    def _copy(self, file: Path, name: str) -> None:
        self._check_room(file)
        with suppress(FileNotFoundError):
            shutil.copyfile(file, self.path / name)
            self.copied_bytes += _size_bytes(self.path / name)

    def _check_room(self, file: Path) -> None:
        needed, free = _size_bytes(file), shutil.disk_usage(self.path).free
        if needed + _SPARE_BYTES > free:
            message = (
                f"No room in {self.path.parent} to copy {file.name} of {format_bytes(needed)}: "
                f"{format_bytes(free)} are free there, and {format_bytes(_SPARE_BYTES)} are to be "
                "left for others."
            )
            raise _unusable(message, "a folder on the store's own disk: no copies there.")


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


_MOST_PATHS = 4  # db_paths that RocksDB takes
_SHARE_OF_FILES = 4  # of the files that this process may open, the share that one store may take


def opened_families(
    scratch: Path, folder: Path, *, wal: DBRecoveryMode | None = None
) -> dict[str, Rdict]:
    """Return all column families by name; the first is the database itself.

    ``wal`` is what to make of a WAL that is not whole; None: it ends where it can't be read.
    """
    with translated(folder):
        names = Rdict.list_cf(str(scratch))
        options = _options(scratch)
        if wal is not None:
            options.set_wal_recovery_mode(wal)
        database = Rdict(
            str(scratch),
            options,
            column_families={name: _options(scratch) for name in names},
            access_type=AccessType.read_only(False),  # noqa: FBT003 - rocksdict takes no name
        )
        handles = {name: database.get_column_family(name) for name in names if name != "default"}
    return {"default": database} | handles


def _options(scratch: Path) -> Options:
    """Return options under which whatever a store was written with can be read."""
    options = Options(raw_mode=True)
    # The MANIFEST gives each file a path by number; one too high is read, but crashes the closing.
    options.set_db_paths([DBPath(str(scratch), 0)] * _MOST_PATHS)
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _SHARE_OF_FILES
    if sum(1 for _ in scratch.glob("*.sst")) > allowed:
        options.set_max_open_files(allowed)
    return options
