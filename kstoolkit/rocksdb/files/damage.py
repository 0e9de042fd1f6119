"""What is left of a damaged store: its rows past what can't be read, and in one line what is lost.

RocksDB ends an iteration at a block that it can't read, without an error; only the iterator's
status tells. Whoever reads rows reads them through :func:`rows_of`, where the end is always
checked. :func:`readable_rows` goes on behind the block. The keys there can be sought, but which
they are only the file's index knows, and nobody shows that. So the first key that can be sought
again is found by trying: a seek fails up to the block's last key, and nowhere behind it. In between
stand rows of other files, which RocksDB doesn't show, as it can't tell which is newer: they are
read from a view of the store without the block's file, made of links in the scratch folder.

SST files that are missing or can't be opened are taken off the MANIFEST's list: all others keep
their levels, so that of a key's values the newest that is left is shown. The store's own folder is
not touched: what RocksDB writes into are copies. Without a whole MANIFEST
nobody knows which files count, and the store is refused.
"""

from __future__ import annotations

import re
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rocksdict import DBRecoveryMode, ReadOptions

from kstoolkit.errors import FormatError
from kstoolkit.records import counted
from kstoolkit.rocksdb.faults import DamagedStoreError, translated
from kstoolkit.rocksdb.files.manifest import drop_tables, listed_tables, manifest_of, whole_manifest
from kstoolkit.rocksdb.files.shadow import opened_families
from kstoolkit.rocksdb.files.ssts import read_footer
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from pathlib import Path

    from rocksdict import Rdict

    from kstoolkit.rocksdb.files.manifest import ListedTable

_NAMED = 3
_MISSING = "is missing"


@dataclass(slots=True)
class Losses:
    """What was lost of a store, gathered while it is opened and read.

    ``sizes_bytes`` are all its SST files, lost ones too, and how large each is meant to be;
    ``tables`` the lost ones with why; ``beside`` parts of a sentence on what else is lost;
    ``blocks``, by file and place, how many bytes each block has that could not be read.
    """

    sizes_bytes: dict[str, int] = field(default_factory=dict)
    tables: dict[str, str] = field(default_factory=dict)
    beside: list[str] = field(default_factory=list)
    blocks: dict[tuple[str, int | None], int] = field(default_factory=dict)

    @property
    def text(self) -> str | None:
        """All of it, in one line; None if nothing is known to be lost.

        >>> losses = Losses(beside=["its WAL is torn"])
        >>> losses.blocks["000012.sst", 20304] = 4056
        >>> print(losses.text)
        its WAL is torn; 1 block of 000012.sst (4.0 KiB) can't be read: keys in it are absent ...
        >>> print(Losses().text)
        None
        """
        parts = [self._of_tables()] if self.tables else []
        parts += self.beside
        parts += [self._of_blocks()] if self.blocks else []  # the one part that grows
        return "; ".join(parts) or None

    def _of_tables(self) -> str:
        count, missing = len(self.tables), set(self.tables.values()) == {_MISSING}
        what = f"{'is' if count == 1 else 'are'} missing" if missing else "can't be read"
        names = [name if missing else f"{name} {how}" for name, how in self.tables.items()]
        lost = format_bytes(sum(self.sizes_bytes[name] for name in self.tables))
        whole = format_bytes(sum(self.sizes_bytes.values()))
        more = f" and {count - _NAMED:,} more" if count > _NAMED else ""
        whose = "it" if count == 1 else "they"
        return (
            f"{count:,} of {counted(len(self.sizes_bytes), 'SST files')} {what} "
            f"({', '.join(names[:_NAMED])}{more}; {lost} of {whole}): "
            f"keys that {whose} held are absent or show an older value, and deleted ones may be "
            "back"
        )

    def _of_blocks(self) -> str:
        files = sorted({name for name, _ in self.blocks})
        count, size = len(self.blocks), sum(self.blocks.values())
        more = f" and {len(files) - _NAMED:,} more" if len(files) > _NAMED else ""
        whose = "it" if count == 1 else "them"
        sizes = f" ({format_bytes(size)})" if size else ""
        return (
            f"{counted(count, 'blocks')} of {', '.join(files[:_NAMED])}{more}{sizes} can't be "
            f"read: keys in {whose} are absent or show an older value"
        )


_TABLE = re.compile(r"/(\d+)\.sst")


def mended_families(
    scratch: Path, folder: Path, fault: FormatError
) -> tuple[dict[str, Rdict], Losses]:
    """Return the column families of what is left of a store, and what was lost.

    Its files are in ``scratch``, which changes; ``folder`` is the user's store. If no SST file is
    left, or no whole MANIFEST says which there were, ``fault`` is raised: why it can't be opened.
    """
    manifest = whole_manifest(scratch)
    if manifest is None:
        raise fault
    try:
        with translated(folder):
            listed = listed_tables(manifest)
    except FormatError as error:
        raise fault from error
    losses = Losses({each.name: each.size_bytes for each in listed.values()})
    return _of_listed(manifest, listed, folder, losses, fault), losses


def _of_listed(
    manifest: Path, listed: dict[int, ListedTable], folder: Path, losses: Losses, fault: FormatError
) -> dict[str, Rdict]:
    """Return the column families without the SST files that can't be opened."""
    scratch, left = manifest.parent, dict(listed)
    bad = {number: why for number, each in listed.items() if (why := _wrong(scratch, each))}
    while True:
        drop_tables(manifest, [left.pop(number) for number in bad])
        losses.tables |= {listed[number].name: why for number, why in bad.items()}
        if losses.tables and not left:
            raise fault  # of all files it is likelier that they lie elsewhere
        try:
            return families_past_bad_wal(scratch, folder, losses)
        except DamagedStoreError as error:
            named = _TABLE.findall(str(error.__cause__))
            if not named or int(named[-1]) not in left:
                raise
            bad = {int(named[-1]): "can't be opened"}


def _wrong(scratch: Path, table: ListedTable) -> str | None:
    """Return what is wrong with an SST file as a whole; None if nothing shows from outside."""
    file = scratch / table.name
    if not file.is_file():
        return _MISSING
    size_bytes = file.stat().st_size
    if size_bytes != table.size_bytes:
        return f"has {size_bytes:,} of its {table.size_bytes:,} bytes"
    return None if read_footer(file) else "ends as no SST file does"


_PAUSE_S = 0.05
_HEADER_BYTES = 7  # of a WAL's first record; the last of them is its type
_LAST_PLAIN_TYPE = 4  # those after it are of WALs that are written over older ones
_BAD_WAL = "its WAL is torn or damaged: the rows in what can't be read of it are absent"


def families_past_bad_wal(scratch: Path, folder: Path, losses: Losses) -> dict[str, Rdict]:
    """Return all column families, with what can be read of a WAL that is not whole.

    RocksDB says nothing of a WAL that ends early, or that it ends itself where it is damaged: only
    whoever asks for a whole one is told.
    """
    wals = sorted(scratch.glob("*.log"))
    if any(map(_is_reused, wals)):
        return opened_families(scratch, folder)
    try:
        return opened_families(scratch, folder, wal=DBRecoveryMode.absolute_consistency())
    except DamagedStoreError:
        # If it isn't the WAL that is damaged, this fails too, and says so.
        found = opened_families(scratch, folder, wal=DBRecoveryMode.skip_any_corrupted_record())
    if not any(_grows(folder / each.name, each) for each in wals):
        losses.beside.append(_BAD_WAL)
    return found


def _is_reused(wal: Path) -> bool:
    """Return whether records of an older WAL may stand behind the end of this one."""
    with wal.open("rb") as file:
        head = file.read(_HEADER_BYTES)
    return len(head) == _HEADER_BYTES and head[-1] > _LAST_PLAIN_TYPE


def _grows(original: Path, copy: Path) -> bool:
    """Return whether a WAL is being written: then its copy may well end in a record."""
    with suppress(OSError):
        time.sleep(_PAUSE_S)
        return original.stat().st_size != copy.stat().st_size
    return False


_COPIED = re.compile(r"MANIFEST-\d+|CURRENT")
_LINKED = re.compile(r"\d+\.(sst|blob|log)|OPTIONS-\d+|IDENTITY")


class View:
    """The column families of a store, or of what is left of it without some SST files.

    They were opened from the scratch folder; ``folder`` is the store as the user knows it.
    """

    def __init__(self, families: Mapping[str, Rdict], scratch: Path, folder: Path) -> None:
        self.families, self.folder = families, folder
        self._scratch = scratch
        self._latest: tuple[str, View] | None = None

    def without(self, name: str) -> View | None:
        """Return the view without one SST file more; None if the store lists none of that name.

        Only the latest one is kept: damage in one file comes before that in the next.
        """
        if self._latest is not None and self._latest[0] == name:
            return self._latest[1]
        manifest = manifest_of(self._scratch)
        dropped = [each for each in listed_tables(manifest).values() if each.name == name]
        if not dropped:
            return None
        place = self._scratch / f"without-{dropped[0].number}"
        if not place.exists():
            self._fill(place)
            drop_tables(place / manifest.name, dropped)
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
                (place / each.name).symlink_to(each.absolute())
            elif _COPIED.fullmatch(each.name):
                shutil.copyfile(each, place / each.name)


def rows_of(
    handle: Rdict, *, prefix: bytes = b"", start: bytes | None = None
) -> Generator[tuple[bytes, bytes]]:
    """Yield the keys and values of one column family; memory is that of a row and some blocks.

    The ``handle`` was opened raw. Only keys with this ``prefix`` come, from ``start`` on. A block
    that can't be read raises what rocksdict does; rows before it have been yielded.
    """
    rows = handle.iter(_every_row())
    rows.seek(max(prefix, start or b""))
    while rows.valid():
        key = rows.key()
        if not key.startswith(prefix):
            return
        yield key, rows.value()
        rows.next()
    rows.status()


def _every_row() -> ReadOptions:
    """Return options under which a store with a prefix extractor shows all its rows, in order."""
    options = ReadOptions()
    options.set_total_order_seek(v=True)
    return options


_BLOCK = re.compile(r"/(?P<name>\d+\.\w+)(?: offset (?P<at>\d+) size (?P<size>\d+))?")
_MOST_BLOCKS = 10_000  # that are passed over, before the damage is raised after all
_LONGEST_KEY_BYTES = 1 << 14
_LAST_BYTE = 0xFF
Place = tuple[str, int | None]


def readable_rows(
    view: View,
    family: str,
    losses: Losses,
    *,
    prefix: bytes = b"",
    start: bytes | None = None,
    end: bytes | None = None,
) -> Generator[tuple[bytes, bytes]]:
    """Yield rows as :func:`~kstoolkit.rocksdb.files.damage.rows_of` does, past what can't be read.

    That is put into ``losses``; if it isn't told where the damage is, or there is too much of it,
    it is a DamagedStoreError. Only keys before ``end`` come.
    """
    handle = view.families[family]
    begin: bytes | None = max(prefix, start or b"")
    while begin is not None and (end is None or begin < end):
        row = None
        try:
            with translated(view.folder):
                for row in rows_of(handle, prefix=prefix, start=begin):
                    if end is not None and row[0] >= end:
                        return
                    yield row
        except FormatError as error:
            place = pass_over(error, losses)
            if place is None:
                raise
        else:
            return
        low = begin if row is None else row[0] + b"\0"
        begin = _after(handle, view.folder, place, low)
        with translated(view.folder):
            beside = view.without(place[0])
        if beside is not None:
            last = begin if end is None or (begin is not None and begin < end) else end
            yield from readable_rows(beside, family, losses, prefix=prefix, start=low, end=last)


def pass_over(error: FormatError, losses: Losses) -> Place | None:
    """Put among the losses what can't be read; None if it can't be passed over, else its place."""
    found = _place(str(error.__cause__))
    if found is None:
        return None
    place, size_bytes = found
    losses.blocks[place] = size_bytes
    return place if len(losses.blocks) <= _MOST_BLOCKS else None


def _place(text: str) -> tuple[Place, int] | None:
    # The scratch folder's own path may look like a file's: the last one counts.
    found = list(_BLOCK.finditer(text))
    if not found:
        return None
    name, at, size = found[-1]["name"], found[-1]["at"], found[-1]["size"]
    return (name, None if at is None else int(at)), int(size or 0)


def _after(handle: Rdict, path: Path, place: Place, low: bytes) -> bytes | None:
    """Return a key behind all of a block's, before all that come after; None if there is none.

    The last key whose seek fails is found byte by byte, and what follows it is returned. Keys up to
    ``low`` count as such that fail.
    """

    def fails(key: bytes) -> bool:
        rows = handle.iter(_every_row())  # one that failed goes on to fail
        try:
            with translated(path):
                rows.seek(key)
                if not rows.valid():
                    rows.status()
        except FormatError as error:
            found = _place(str(error.__cause__))
            return found is not None and found[0] == place
        return False

    failing = b""
    while len(failing) < _LONGEST_KEY_BYTES:
        known = failing + low[len(failing) : len(failing) + 1]
        if known > failing and low.startswith(known):
            floor = known[-1]
        elif fails(failing + b"\0"):
            floor = 0
        else:
            return failing + b"\0"
        failing += bytes([_last_failing(fails, failing, floor)])
    shorter = failing.rstrip(b"\xff")  # whose next is the first key after all that begin so
    return shorter[:-1] + bytes([shorter[-1] + 1]) if shorter else None


def _last_failing(fails: Callable[[bytes], bool], before: bytes, floor: int) -> int:
    """Return the last byte that keys which fail go on with; ``floor`` is one of them."""
    if floor == _LAST_BYTE or not fails(before + bytes([floor + 1])):
        return floor  # mostly so, as long as the keys are like those before the block
    low, high = floor + 1, _LAST_BYTE + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fails(before + bytes([middle])) else (low, middle)
    return low
