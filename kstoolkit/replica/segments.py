"""What is in one segment of a replica, on disk or in memory, and how counts come in and out.

On disk a segment is a RocksDB of bundles, which can be read without any other file. Keys are
:mod:`kstoolkit.formats.keys`'s, values :mod:`kstoolkit.formats.countbundle`'s. Shorter keys than
any of those say what belongs to the segment as a whole:

``position``
    The newest (epoch, batch) of the changelog in it, and how many writes made it, as JSON.
``actions`` · number (4 bytes, big-endian)
    Texts of actions, as JSON; ids go on from one such piece to the next.

The dictionary of actions stands in the segment, as its few hundred bytes buy a lot: the segment
explains itself, is dropped or set aside whole, and needs no file to be in step with. A bundle is
written in one batch with the texts that it needs or in a later one, and the position in the last.
There is no write-ahead log: what is written counts once it is flushed, and RocksDB flushes in the
order of writing. So, whenever the process ends, a position is there only with all that it covers.

However rocksdict opens a folder, it writes a file into it. A replica may lie where its readers may
not write, and many readers at once need not write over each other. So they open a folder of links:
SST files, which never change once they are written, are links to those of the segment; the small
MANIFEST, to which a writer appends, is a copy. It lies where Python's ``tempfile`` puts things
(``TMPDIR``), takes no room to speak of, and goes with whoever reads; what a killed reader left goes
when the next one comes.
"""

from __future__ import annotations

import json
import re
import weakref
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
from rocksdict import AccessType, Rdict, ReadOptions, WriteBatch, WriteOptions

from kstoolkit.counters.counters import prune
from kstoolkit.errors import FormatError
from kstoolkit.formats import countbundle
from kstoolkit.formats.actions import values_of
from kstoolkit.formats.columns import run_places
from kstoolkit.formats.countbundle import Bundles
from kstoolkit.formats.keys import (
    SHORTEST_REPLICA_KEY_BYTES,
    decode_replica_keys,
    encode_replica_keys,
    is_of_window,
)
from kstoolkit.replica.records import Mark, SegmentState, UserCounts
from kstoolkit.rocksdb.faults import (
    DamagedStoreError,
    MissingFileError,
    StorePermissionError,
    StoreResourceError,
    translated,
)
from kstoolkit.rocksdb.files.shadow import new_scratch_folder
from kstoolkit.rocksdb.files.summary import footprint_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from rocksdict import Options, RdictIter

    from kstoolkit.changelog.reader import Dated, Position
    from kstoolkit.rocksdb.files.shadow import ScratchFolder

Pairs = tuple[list[bytes], list[bytes]]  # keys, and the bundle of each


def check_ids(largest: int, actions: Sequence[str]) -> None:
    """Check that an id of an action has a text; one without is a FormatError."""
    if largest >= len(actions):
        message = f"A bundle names action {largest}; the segment has {len(actions)} actions."
        raise FormatError(message, hint="The segment is damaged: restore the replica.")


class MemorySegment:
    """A segment in memory, for short windows that are looked at often and never missed."""

    def __init__(self) -> None:
        self.actions: list[str] = []
        self.mark: Mark | None = None
        self._rows: dict[bytes, bytes] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, key: bytes) -> bytes | None:
        """Return the bundle of a key."""
        return self._rows.get(key)

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """Return the bundles of some keys."""
        return [self._rows.get(key) for key in keys]

    def write(self, rows: Pairs, actions: Sequence[str], position: Position) -> Mark:
        """Write bundles, which may use some actions that are new; return what is in it then."""
        self.mark = Mark(*position, (self.mark.writes if self.mark else 0) + 1)
        self.actions += actions
        self._rows |= zip(*rows, strict=True)
        return self.mark

    def beginning_with(self, prefix: bytes) -> Pairs:
        """Return the keys that begin so, in their order, and the bundle of each."""
        keys = sorted(key for key in self._rows if key.startswith(prefix))
        return keys, [self._rows[key] for key in keys]

    def pages(self, rows: int) -> Iterator[Pairs]:
        """Yield keys and bundles in the order of keys, so many at a time."""
        keys = sorted(self._rows)
        for first in range(0, len(keys), rows):
            chosen = keys[first : first + rows]
            yield chosen, [self._rows[key] for key in chosen]


_PREFIX = "kstoolkit-replica-"
_LOOK_S = 10
_MANIFEST = re.compile(rb"(MANIFEST-\d{6,20})\n")


def _linked(segment: Path) -> ScratchFolder:
    """Return a scratch folder with the files of a segment as they were at one moment.

    The segment's own folder is only read. If it is gone, lacks a file or may not be read, or if no
    scratch folder can be made, one of :mod:`kstoolkit.rocksdb.faults` says so.
    """
    folder = new_scratch_folder(None, prefix=_PREFIX, looks_each_s=_LOOK_S)
    try:
        _fill(folder.path, segment)
    except BaseException:
        folder.remove()
        raise
    return folder


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


_POSITION, _ACTIONS = b"position", b"actions"
_AT_ONCE = 100_000  # rows of a write batch


class DiskSegment:
    """A segment in a RocksDB.

    ``options`` take bytes in and out. ``writing`` makes it if missing; else its folder stays as it
    is, read through links. What RocksDB refuses is an error of :mod:`kstoolkit.rocksdb.faults`.
    """

    def __init__(self, path: Path, options: Options, *, writing: bool = False) -> None:
        self.path = path
        self._unlink = None
        if writing:
            path.mkdir(parents=True, exist_ok=True)
            place, access = path, AccessType.read_write()
        else:
            links = _linked(path)
            self._unlink = weakref.finalize(self, links.remove)
            place, access = links.path, AccessType.read_only(error_if_log_file_exist=False)
        # Unnamed families would be opened as the OPTIONS file says, which has no filter policy.
        families = {"default": options}
        with translated(path):
            self._db = Rdict(str(place), options, column_families=families, access_type=access)
        self._without_log = WriteOptions()
        self._without_log.disable_wal = True  # type: ignore[method-assign, assignment] # a property

    @cached_property
    def actions(self) -> list[str]:
        """The texts of actions, by id."""
        texts: list[str] = []
        self._pieces = 0
        with translated(self.path):
            while (piece := self._db.get(_piece(self._pieces))) is not None:
                texts += json.loads(piece)
                self._pieces += 1
        return texts

    @property
    def mark(self) -> Mark | None:
        """What is in it; ``None`` if nothing whole is."""
        with translated(self.path):
            told = self._db.get(_POSITION)
        return None if told is None else Mark(*json.loads(told))

    def check_holds(self, mark: Mark) -> None:
        """Check that all that a mark says is in it: a torn MANIFEST opens as it was, in silence."""
        found = self.mark
        if found is None or found < mark:
            raise _damaged(self.path, "it lacks what was written last")

    def get(self, key: bytes) -> bytes | None:
        """Return the bundle of a key."""
        try:  # entering translated() takes as long as a get
            found: bytes | None = self._db.get(key)
        except Exception:
            with translated(self.path):
                raise
        return found

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """Return the bundles of some keys."""
        with translated(self.path):
            found: list[bytes | None] = self._db.get(keys)  # type: ignore[arg-type, assignment]
        return found

    def write(self, rows: Pairs, actions: Sequence[str], position: Position) -> Mark:
        """Write bundles, which may use some actions that are new; return what is in it then."""
        keys, values = rows
        known, before = self.actions, self.mark
        mark = Mark(*position, (before.writes if before else 0) + 1)
        with translated(self.path):
            batch = WriteBatch(raw_mode=True)
            if actions:
                batch.put(_piece(self._pieces), json.dumps(list(actions)).encode())
                self._pieces += 1
                known += actions
            for first in range(0, len(keys), _AT_ONCE):
                if first:
                    self._db.write(batch, self._without_log)
                    batch = WriteBatch(raw_mode=True)
                chosen, put = slice(first, first + _AT_ONCE), batch.put
                for key, value in zip(keys[chosen], values[chosen], strict=True):
                    put(key, value)  # once a bundle: rocksdict has no other way in
            batch.put(_POSITION, json.dumps(mark).encode())
            self._db.write(batch, self._without_log)
        return mark

    def pages(self, rows: int) -> Iterator[Pairs]:
        """Yield keys and bundles in order, so many at a time; what is damaged is raised."""
        keys: list[bytes] = []
        values: list[bytes] = []
        for cursor in self._all_in_order():
            key = cursor.key()
            if len(key) >= SHORTEST_REPLICA_KEY_BYTES:
                keys.append(key)
                values.append(cursor.value())
            if len(keys) >= rows:
                yield keys, values
                keys, values = [], []
        if keys:
            yield keys, values

    def beginning_with(self, prefix: bytes) -> Pairs:
        """Return the keys that begin so, in their order, and the bundle of each."""
        keys: list[bytes] = []
        values: list[bytes] = []
        for cursor in self._all_in_order(prefix):
            if not cursor.key().startswith(prefix):
                break
            keys.append(cursor.key())
            values.append(cursor.value())
        return keys, values

    def check(self) -> None:
        """Read every block once; one that is not what was written is a DamagedStoreError."""
        for _ in self._all_in_order():
            pass

    def _all_in_order(self, first: bytes = b"") -> Iterator[RdictIter]:
        """Yield a cursor at each row from a key on, past any index of prefixes and block cache."""
        options = ReadOptions()
        options.set_total_order_seek(v=True)
        options.fill_cache(False)  # type: ignore[call-arg] # noqa: FBT003 - takes no name
        cursor = self._db.iter(options)
        cursor.seek(first)
        while cursor.valid():
            yield cursor
            cursor.next()
        with translated(self.path):
            cursor.status()

    def flush(self) -> None:
        """Have on disk what was written."""
        with translated(self.path):
            self._db.flush(wait=True)

    def figures(self) -> tuple[int | None, int]:
        """Return the estimated number of keys, and the size of the SST files in bytes."""
        with translated(self.path):
            keys = self._db.property_int_value("rocksdb.estimate-num-keys")
            return keys, sum(int(file["size"]) for file in self._db.live_files())

    def close(self) -> None:
        """Close it; RocksDB first flushes what it has in memory."""
        try:
            with translated(self.path):
                self._db.close()
        finally:
            if self._unlink is not None:
                self._unlink()


Segment: TypeAlias = MemorySegment | DiskSegment
"""Bundles by key, and the texts that their ids stand for."""


def _piece(number: int) -> bytes:
    return _ACTIONS + number.to_bytes(4, "big")


@dataclass(frozen=True, slots=True, eq=False)
class Filling:
    """Counts by key, ready to go into a segment.

    There is a key for each user and window, in RocksDB's order or nearly so, which RocksDB takes
    faster. Action ids in ``bundles`` are places in ``actions``.
    """

    keys: pa.Array
    bundles: Bundles
    start_ms: NDArray[np.int64]
    actions: pa.Array

    @classmethod
    def of(cls, dated: Dated) -> Filling:
        """Group counts by user and window."""
        counters = dated.counters.pruned()
        new = (np.diff(counters.user) != 0) | (np.diff(counters.start_ms) != 0)
        first = np.flatnonzero(np.r_[len(dated) > 0, new])
        size = np.diff(first, append=len(dated))
        start_ms = counters.start_ms[first]
        keys = encode_replica_keys(counters.users, counters.user[first], start_ms)
        updated_ms = np.maximum.reduceat(dated.changed_ms, first) if first.size else start_ms
        ends, has_parts = counters.end_ms, counters.parts is not None
        version = countbundle.version_of(has_parts=has_parts, has_ends=ends is not None)
        lasted = None if ends is None else (ends - counters.start_ms).astype(np.uint64)
        bundles = Bundles(size, counters.action, counters.count, updated_ms, version, lasted)
        return cls(keys, bundles, start_ms, counters.actions).take(_order(keys))

    def by_segment(self, segment_ms: int) -> Iterator[tuple[int, Filling]]:
        """Yield (segment start, what goes into it), the earliest segment first."""
        if not self.start_ms.size:
            return
        begins_ms = self.start_ms - self.start_ms % segment_ms
        order = np.argsort(begins_ms, kind="stable")
        starts, first = np.unique(begins_ms[order], return_index=True)
        for start, chosen in zip(starts, np.split(order, first[1:]), strict=True):
            yield int(start), self.take(chosen)

    def into(self, segment: Segment, position: Position, *, fresh: bool) -> Mark:
        """Write the counts into a segment, as of a position, and return what is in it then.

        If ``fresh``, these are all that the keys have; else what they have is kept beside.
        """
        ids, added = self._ids_in(segment.actions)
        bundles = replace(self.bundles, action_id=ids[self.bundles.action_id])
        keys = self.keys.to_pylist()
        if not fresh:
            found = segment.get_many(keys)
            if any(value is not None for value in found):
                bundles = _merged(bundles, found, segment.actions, len(added))
        values = countbundle.encode_many(bundles).to_pylist()
        return segment.write((keys, values), added, position)

    def take(self, chosen: NDArray[np.intp]) -> Filling:
        """Return the chosen keys with what belongs to them, in the order of the choice."""
        known, size = self.bundles, self.bundles.size
        rows = run_places((np.cumsum(size) - size)[chosen], size[chosen])
        told = known.action_id[rows], known.count[rows], known.updated_at_ms[chosen]
        lasted = None if known.lasted_ms is None else known.lasted_ms[rows]
        bundles = Bundles(size[chosen], *told, known.version, lasted)
        keys, start_ms = self.keys.take(pa.array(chosen)), self.start_ms[chosen]
        return Filling(keys, bundles, start_ms, self.actions)

    def _ids_in(self, known: list[str]) -> tuple[NDArray[np.int32], list[str]]:
        """Return the id that each of our texts then has in a segment, and the texts new to it."""
        used, places = prune(self.actions, self.bundles.action_id)
        places_of = np.zeros(len(self.actions), np.int32)
        places_of[self.bundles.action_id] = places
        ids = {text: number for number, text in enumerate(known)}
        texts = used.to_pylist()
        added = [text for text in texts if text not in ids]
        ids |= {text: len(known) + number for number, text in enumerate(added)}
        in_segment = np.array([ids[text] for text in texts], np.int32)
        return in_segment[places_of] if len(texts) else places_of, added


def _merged(fresh: Bundles, found: list[bytes | None], known: list[str], added: int) -> Bundles:
    """Return bundles with what their keys had before, where nothing newer is told."""
    had = np.flatnonzero([value is not None for value in found])
    old = countbundle.decode_many([value for value in found if value is not None])
    check_ids(int(old.action_id.max(initial=0)), known)
    owner = np.r_[np.repeat(had, old.size), np.repeat(np.arange(len(found)), fresh.size)]
    action_id = np.r_[old.action_id, fresh.action_id]
    place = owner * (len(known) + added) + action_id
    order = np.argsort(place, kind="stable")
    last = order[np.append(np.diff(place[order]) != 0, True)]
    size = np.bincount(owner[last], minlength=len(found))
    count = np.r_[old.count, fresh.count]
    lasted = None
    if old.lasted_ms is not None and fresh.lasted_ms is not None:
        lasted = np.r_[old.lasted_ms, fresh.lasted_ms][last]
    return Bundles(size, action_id[last], count[last], fresh.updated_at_ms, fresh.version, lasted)


def _order(keys: pa.Array) -> NDArray[np.intp]:
    """Return the order of keys by their first eight bytes: salt, and the user's first four."""
    _, offsets, data = keys.buffers()
    begins = np.frombuffer(offsets, np.int64)[keys.offset : keys.offset + len(keys)]
    if not len(keys):
        return np.zeros(0, np.intp)
    words = np.ndarray(data.size - 7, ">u8", data, strides=(1,))  # one at every byte
    return np.argsort(words[begins].astype(np.uint64), kind="stable")


Found = tuple[bytes | None, list[str]]  # a bundle, and the texts of the actions of its segment
_NOTHING = {"updated_at_ms": "there are no counts of this user in this window"}


def look_up(segment: Segment, key: bytes) -> Found:
    """Return the bundle of a key, with what it takes to read it."""
    value = segment.get(key)
    return value, [] if value is None else segment.actions


def counts_of(user: str, start_ms: int, end_ms: int, found: Found) -> UserCounts:
    """Return the counts of a bundle; a damaged one is a FormatError."""
    value, actions = found
    if value is None:
        return UserCounts(user, start_ms, end_ms, {}, None, dict(_NOTHING))
    ids, counts, updated_ms, _ = countbundle.decode(value)
    named = _named(_texts(ids, actions), value[0])
    return UserCounts(user, start_ms, end_ms, dict(zip(named, counts, strict=True)), updated_ms)


def sessions_of(user: str, start_ms: int, found: Found) -> list[UserCounts]:
    """Return the sessions of a bundle, one for each time that they end; damage is a FormatError."""
    value, actions = found
    ids, counts, updated_ms, lasted = countbundle.decode(value or b"")
    named = _named(_texts(ids, actions), (value or b"0")[0])
    by_end: dict[int, dict[Any, int]] = {}
    for action, often, lasted_ms in zip(named, counts, lasted or [], strict=True):
        if often:
            by_end.setdefault(start_ms + lasted_ms, {})[action] = often
    return [UserCounts(user, start_ms, end, told, updated_ms) for end, told in by_end.items()]


def _texts(ids: list[int], actions: list[str]) -> list[str]:
    try:
        return [actions[place] for place in ids]
    except IndexError:
        check_ids(max(ids), actions)
        raise


def _named(texts: list[str], version: int) -> list[Any]:
    """Return actions as they are told: those of several parts as tuples of their values."""
    return list(map(values_of, texts)) if countbundle.has_parts(version) else texts


def counts_of_page(rows: Pairs, actions: list[str], start_ms: int, end_ms: int) -> list[UserCounts]:
    """Return the counts of those of some rows that are of one window, read as columns."""
    keys, values = rows
    chosen = [place for place, key in enumerate(keys) if is_of_window(key, start_ms)]
    if not chosen:
        return []
    users, _ = decode_replica_keys([keys[place] for place in chosen])
    bundles = countbundle.decode_many([values[place] for place in chosen])
    check_ids(int(bundles.action_id.max(initial=0)), actions)
    known = np.empty(len(actions), object)
    known[:] = _named(actions, bundles.version)
    texts = known[bundles.action_id].tolist()
    counts = bundles.count.tolist()
    spans = pairwise([0, *np.cumsum(bundles.size).tolist()])
    rows_of_users = zip(users, spans, bundles.updated_at_ms.tolist(), strict=True)
    return [
        UserCounts(user, start_ms, end_ms, dict(zip(texts[a:b], counts[a:b], strict=True)), at_ms)
        for user, (a, b), at_ms in rows_of_users
    ]


def segment_state(segment: Segment, window: str, span_ms: range, folder: Path) -> SegmentState:
    """Return what there is to say of a segment."""
    about = (window, span_ms.start, span_ms.stop)
    epoch, batch = (segment.mark or (None, None))[:2]
    if isinstance(segment, MemorySegment):
        why = {"sst_bytes": "it is in memory", "disk_bytes": "it is in memory"}
        return SegmentState(*about, None, len(segment), None, None, epoch, batch, why)
    keys, sst_bytes = segment.figures()
    try:
        disk_bytes = footprint_of(folder).disk_bytes
    except FileNotFoundError as error:  # expired, or set aside, since it was opened
        message = f"The segment {folder} is gone."
        raise MissingFileError(message, hint="Ask again, or restore the replica.") from error
    why = {} if keys is not None else {"bundles": "RocksDB has no estimate"}
    return SegmentState(*about, str(folder), keys, sst_bytes, disk_bytes, epoch, batch, why)
