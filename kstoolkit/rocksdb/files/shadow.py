"""A scratch folder through which a store is read, so that nothing of the store itself changes.

However rocksdict opens a folder, it writes into it. So it is given another. SST and blob files,
which never change, are held open, and links in there lead to the descriptors: they are read where
they lie, on any disk, also once a compaction deletes them. What is appended to (MANIFEST, WAL) and
the few small files beside are copied; all is, where a system shows no descriptors as files (macOS)
or allows too few. Copies are said before, if they are large, and refused if they take more than
half of what is free. The folder lies where Python's ``tempfile`` puts things (``TMPDIR``), and goes
when the store is closed.

Hard links work on one disk alone, change the files' ctime, and keep on disk what the store deletes,
however the reader ends; descriptors end with it. 2,000 SST files open in 1 to 2 s on ext4, where
each link takes an inode. A held file takes room, too, once deleted: see :class:`LetsGo`.

A process that is killed leaves its folder behind: copies, and links that lead nowhere. Process ids
are used again and clocks are set, so neither tells whether the owner still lives. The kernel does:
a lock on a file in the folder goes with the process that holds it. Whoever makes a folder locks it;
whoever gets the lock of another may remove that folder, for its owner is dead. So the next store
that is opened clears it away.
"""

from __future__ import annotations

import fcntl
import os
import re
import resource
import shutil
import sys
import tempfile
import threading
import warnings
import weakref
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from math import inf
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING

from rocksdict import AccessType, DBPath, DBRecoveryMode, Options, Rdict, WriteOptions

from kstoolkit.errors import CopyWarning, Sentence, naming
from kstoolkit.rocksdb.faults import StoreResourceError, translated
from kstoolkit.rocksdb.files.finding import shared_names
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_SCRATCH = Sentence("Give scratch= (or TMPDIR)", "Give --scratch (or TMPDIR)")

_SHADOWS = "kstoolkit-shadow-"  # how the names of folders begin through which stores are read
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
    parent: str | os.PathLike[str] | None, *, prefix: str = _SHADOWS, looks_each_s: float = 0
) -> ScratchFolder:
    """Return a new, empty folder that is claimed; what dead owners left beside it is removed.

    It is in ``parent``, or else where temporary files go; where none can be made, it is a
    StoreResourceError. Each purpose has a ``prefix`` of its own, and clears its own; one that takes
    hundreds at once need not look for them each time.

    >>> folder = new_scratch_folder(None)
    >>> folder.path.is_dir()
    True
    >>> folder.remove()
    >>> folder.path.exists()
    False
    """
    place: str | Path = "TMPDIR"
    try:
        place = Path(tempfile.gettempdir() if parent is None else parent)
        str(place).encode()  # rocksdict takes no other paths
        if monotonic() - _CLEARED_AT.get((place, prefix), -inf) >= looks_each_s:
            _clear_abandoned(place, prefix=prefix)
            _CLEARED_AT[place, prefix] = monotonic()
        for _ in range(_ATTEMPTS):
            path = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
            # A cleaner may take the folder, while it is empty, for a dead one's.
            with suppress(FileNotFoundError):
                lock = os.open(path / _LOCK, _OPEN | os.O_CREAT | os.O_EXCL, 0o600)
                # Where the disk knows no locks, no cleaner gets one either.
                if (locked := _locked(lock)) is None or (locked and _is_the_lock_of(lock, path)):
                    return ScratchFolder(path, lock, os.getpid())
                os.close(lock)
    except UnicodeEncodeError as error:
        message = f"No scratch folder can be used in {place!r}: its path is no UTF-8."
        raise _unusable(message, "another one.") from error
    except OSError as error:
        message = f"No scratch folder can be made in {place}: {error.strerror}."
        raise _unusable(message, "a folder that exists and that you may write to.") from error
    message = f"Each scratch folder made in {place} is taken away at once."
    raise _unusable(message, "a folder of your own.")


_CLEARED_AT: dict[tuple[Path, str], float] = {}  # of each folder and prefix


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


def _locked(lock: int) -> bool | None:
    """Lock a folder; False if another has its lock, None where the disk knows no locks."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
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


_UNSAID_BYTES = 16 << 20  # copied in a moment
_DESCRIPTORS = Path("/proc/self/fd")  # where an open file can be opened again, deleted or not


class _Allowance:
    """How many files are held, and for that while as many allowed as RocksDB needs beside them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held = self._before = 0

    def add(self, count: int) -> bool:
        """Count so many files more, or fewer; False if there may not be so many."""
        with self._lock:
            held, (soft, hard) = self._held + count, resource.getrlimit(resource.RLIMIT_NOFILE)
            before = (self._before or soft) & sys.maxsize  # -1: no limit
            wanted = min(max(before, held * _SHARE_OF_FILES), hard & sys.maxsize)
            if count > 0 and held > wanted // 2:
                return False
            if wanted != soft & sys.maxsize:
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            self._held, self._before = held, before if wanted > before else 0
            return True


_ALLOWANCE = _Allowance()


class TakenFiles:
    """Files of a store, taken into a scratch folder: held open where they lie, or copied.

    ``copied_bytes`` is what copies take there.
    """

    def __init__(self, into: Path, store: Path) -> None:
        self.copied_bytes = 0
        self._into, self._store = into, store
        self._held: list[int] = []
        self.close = weakref.finalize(self, _close, self._held)

    @property
    def are_deleted(self) -> bool:
        """Whether one that is held was deleted, and takes room on disk for that alone."""
        return not all(os.fstat(each).st_nlink for each in self._held)

    def hold(self, files: Mapping[str, Path]) -> None:
        """Take files that never change, by their names here; one that is gone by now is left."""
        new = {name: each for name, each in files.items() if not (self._into / name).exists()}
        if not _DESCRIPTORS.is_dir() or not _ALLOWANCE.add(len(new)):
            self.copy(new)
            return
        before = len(self._held)
        try:
            for name, file in new.items():
                with suppress(FileNotFoundError):  # compacted away since it was listed
                    self._held.append(os.open(file, os.O_RDONLY | os.O_CLOEXEC))
                    (self._into / name).symlink_to(_DESCRIPTORS / str(self._held[-1]))
        finally:
            _ALLOWANCE.add(len(self._held) - before - len(new))

    def copy(self, files: Mapping[str, Path]) -> None:
        """Copy files, by their names here; one that is gone by now is left."""
        self.make_room(sum(map(_size_bytes, files.values())))
        for name, file in files.items():
            with suppress(FileNotFoundError):
                shutil.copyfile(file, self._into / name)
                self.copied_bytes += _size_bytes(self._into / name)

    def make_room(self, needed: int) -> None:
        """Say that so many bytes are about to be written here, or refuse, if they are too many."""
        free = shutil.disk_usage(self._into).free
        message = (
            f"To read {self._store}, {format_bytes(needed)} are to be copied to "
            f"{self._into.parent}, where {format_bytes(free)} are free"
        )
        if needed > (free - self.copied_bytes) / 2:
            message += ": that is more than half."
            raise _unusable(message, "a folder with more room.")
        if needed > _UNSAID_BYTES:
            warnings.warn(f"{message}.", CopyWarning, stacklevel=2)


def _close(held: list[int]) -> None:
    _ALLOWANCE.add(-len(held))
    while held:
        os.close(held.pop())


_IDLE_S, _LOOK_S = 40.0, 10.0  # together less than a minute


class LetsGo:
    """What holds files of a store, and lets them go if one is deleted and nobody asks for a while.

    Whoever asks then sees the store as it is then.
    """

    is_let_go = False

    def __init__(self) -> None:
        self._guard = threading.RLock()
        self._num_asking = 0
        self._asked_at = monotonic()
        _WATCHED.add(self)
        _watch(os.getpid())

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Hold what is asked, taken anew if it was let go."""
        with self._guard:
            if self.is_let_go:
                self._take_anew()
                self.is_let_go = False
            self._num_asking += 1
        try:
            yield
        finally:
            with self._guard:
                self._num_asking -= 1
                self._asked_at = monotonic()

    def let_go_if_idle(self) -> None:
        """Let go of all files, if one was deleted, and nobody has asked for most of a minute."""
        with self._guard:
            idle = not self._num_asking and monotonic() - self._asked_at > _IDLE_S
            if idle and not self.is_let_go and self._taken.are_deleted:
                self._let_go()
                self.is_let_go = True

    @property
    def _taken(self) -> TakenFiles:
        raise NotImplementedError

    def _let_go(self) -> None:
        """Close what holds them; a ValueError if it is being read."""

    def _take_anew(self) -> None:
        """Open it as it is now."""


_WATCHED: weakref.WeakSet[LetsGo] = weakref.WeakSet()


@cache
def _watch(_process: int) -> None:
    """Look after whoever holds files, from now on; once in a process."""
    threading.Thread(target=_look, name="kstoolkit-shadows", daemon=True).start()


def _look() -> None:
    while True:
        sleep(_LOOK_S)
        _look_once()  # which holds none of them while this sleeps


def _look_once() -> None:
    with suppress(RuntimeError):  # one is added just now: then the next time
        for each in list(_WATCHED):
            with suppress(Exception):  # it is being read: then the next time
                each.let_go_if_idle()


_IMMUTABLE = re.compile(r"\d+\.(sst|blob)")
_APPENDED = re.compile(r"MANIFEST-\d+|OPTIONS-\d+|\d+\.log|IDENTITY|CURRENT")
_WAL = re.compile(r"\d+\.log")


class Shadow:
    """A scratch folder with the files of a store as they were at one moment.

    ``others`` are folders beside the store's own with SST files, blob files or WALs: as their
    numbers are unique in a store, the files of all folders find room in one.
    """

    def __init__(
        self, original: Path, *, scratch: str | os.PathLike[str] | None, others: Sequence[Path] = ()
    ) -> None:
        folder = new_scratch_folder(scratch)
        self.path = folder.path
        self.files = TakenFiles(folder.path, original)
        self._remove = weakref.finalize(self, folder.remove)
        try:
            self._fill(original, others)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Remove the scratch folder; a second time does nothing."""
        self._remove()
        self.files.close()

    def _fill(self, original: Path, others: Sequence[Path]) -> None:
        """Take over the store's files: those that never change before and after those that do.

        What a compaction removes in between is not needed, or missed at the opening, then repeated.
        """
        aliases = shared_names(original)
        self.files.hold(_immutable(original, others, aliases))
        wals = {name: each / name for each in others for name in _names(each, _WAL)}
        self.files.copy(wals | {name: original / name for name in _names(original, _APPENDED)})
        self.files.hold(_immutable(original, others, aliases))


def _immutable(own: Path, others: Sequence[Path], aliases: dict[str, str]) -> dict[str, Path]:
    """Return the files that never change by their names; what lies in an earlier folder wins."""
    shared = {name: each / alias for each in others for name, alias in aliases.items()}
    folders = reversed((own, *others))
    return shared | {name: each / name for each in folders for name in _names(each, _IMMUTABLE)}


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
