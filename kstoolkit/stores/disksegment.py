"""One segment of a replica on disk: a RocksDB of bundles, which can be read without any other file.

Keys are :mod:`kstoolkit.formats.keys`'s, values :mod:`kstoolkit.formats.countbundle`'s.
Shorter keys than any of those say what belongs to the segment as a whole:

``position``
    The newest (epoch, batch) of the changelog that is in it, and how many writes it took to be
    what it is, as JSON.
``actions`` · number (4 bytes, big-endian)
    Texts of actions, as JSON; ids go on from one such piece to the next.

The dictionary of actions stands in the segment, as its few hundred bytes buy a lot: the segment
explains itself, is dropped or set aside whole, and needs no file to be in step with. A bundle is
written in one batch with the texts that it needs or in a later one, and the position in the last.
There is no write-ahead log: what is written counts once it is flushed, and RocksDB flushes in the
order of writing. So, whenever the process ends, a position is there only with all that it covers.
"""

from __future__ import annotations

import json
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING

from rocksdict import AccessType, Rdict, ReadOptions, WriteBatch, WriteOptions

from kstoolkit.formats.keys import SHORTEST_REPLICA_KEY_BYTES
from kstoolkit.rocksdb.faults import DamagedStoreError, fault_of, translated
from kstoolkit.stores.links import Links
from kstoolkit.stores.segment import Mark

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from rocksdict import Options

    from kstoolkit.changelog.news import Position
    from kstoolkit.stores.segment import Pairs


_POSITION, _ACTIONS = b"position", b"actions"
_AT_ONCE = 100_000  # rows of a write batch


class DiskSegment:
    """A segment in a RocksDB.

    Parameters
    ----------
    path
        Its folder.
    options
        How to open it; bytes in, bytes out.
    writing
        Whether to open it for writing; it is made if it isn't there. Else nothing in its folder
        changes: it is read through links.

    Raises
    ------
    KstoolkitError
        One of :mod:`kstoolkit.rocksdb.faults`, if RocksDB refuses.
    """

    def __init__(self, path: Path, options: Options, *, writing: bool = False) -> None:
        self.path = path
        self._links = None if writing else Links(path)
        if writing:
            path.mkdir(parents=True, exist_ok=True)
        place = str(path if self._links is None else self._links.path)
        access = (
            AccessType.read_write()
            if writing
            else AccessType.read_only(error_if_log_file_exist=False)
        )
        # Unnamed families would be opened as the OPTIONS file says, which has no filter policy.
        families = {"default": options}
        with translated(path):
            self._db = Rdict(place, options, column_families=families, access_type=access)
        self._told = _Told(str(path))
        self._without_log = WriteOptions()
        self._without_log.disable_wal = True  # type: ignore[method-assign, assignment] # a property

    @cached_property
    def actions(self) -> list[str]:
        """The texts of actions, by id."""
        texts: list[str] = []
        self._pieces = 0
        with translated(self.path):
            for number in count():
                piece = self._db.get(_piece(number))
                if piece is None:
                    return texts
                texts += json.loads(piece)
                self._pieces = number + 1
        raise AssertionError  # count() does not end

    @property
    def mark(self) -> Mark | None:
        """What is in it; ``None`` if nothing whole is."""
        with translated(self.path):
            told = self._db.get(_POSITION)
        return None if told is None else Mark(*json.loads(told))

    def check_holds(self, mark: Mark) -> None:
        """Check that all is in it that a mark says.

        Raises
        ------
        DamagedStoreError
            If not. A MANIFEST that lost its end opens as it once was, without a sign.
        """
        found = self.mark
        if found is None or found < mark:
            message = f"The segment {self.path} is damaged: it lacks what was written last."
            raise DamagedStoreError(message, hint="Restore the replica: it is rebuilt alone.")

    def get(self, key: bytes) -> bytes | None:
        """Return the bundle of a key."""
        with self._told:
            found: bytes | None = self._db.get(key)
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
                put = batch.put  # once a bundle: rocksdict has no other way in
                for key, value in zip(
                    keys[first : first + _AT_ONCE], values[first : first + _AT_ONCE], strict=True
                ):
                    put(key, value)
            batch.put(_POSITION, json.dumps(mark).encode())
            self._db.write(batch, self._without_log)
        return mark

    def pages(self, rows: int) -> Iterator[Pairs]:
        """Yield keys and bundles in the order of keys, so many at a time.

        Raises
        ------
        DamagedStoreError
            If a block is not what was written; without this, iteration would just end there.
        """
        keys: list[bytes] = []
        values: list[bytes] = []
        cursor = self._db.iter(_whole_order())
        cursor.seek_to_first()
        while cursor.valid():
            key = cursor.key()
            if len(key) >= SHORTEST_REPLICA_KEY_BYTES:
                keys.append(key)
                values.append(cursor.value())
            if len(keys) >= rows:
                yield keys, values
                keys, values = [], []
            cursor.next()
        with translated(self.path):
            cursor.status()
        if keys:
            yield keys, values

    def check(self) -> None:
        """Read every block once.

        Raises
        ------
        DamagedStoreError
            If one is not what was written.
        """
        cursor = self._db.iter(_whole_order())
        cursor.seek_to_first()
        while cursor.valid():
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
            if self._links is not None:
                self._links.close()


class _Told:
    """What :func:`translated` does, made once for all gets: making it takes as long as a get."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    def __enter__(self) -> None:
        """Begin; there is nothing to do."""

    def __exit__(self, kind: object, error: BaseException | None, where: object) -> None:
        known = fault_of(error, self.path) if isinstance(error, Exception) else None
        if known is not None:
            raise known from error


def _whole_order() -> ReadOptions:
    """Return options for reading everything, past any index of prefixes and any block cache."""
    options = ReadOptions()
    options.set_total_order_seek(v=True)
    options.fill_cache(False)  # type: ignore[call-arg] # noqa: FBT003 - takes no name
    return options


def _piece(number: int) -> bytes:
    return _ACTIONS + number.to_bytes(4, "big")
