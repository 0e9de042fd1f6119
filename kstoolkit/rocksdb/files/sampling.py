"""How many rows of a column family are alive: counted, or estimated from a sample of its blocks.

An SST file's index names the key that ends each of its data blocks (RocksDB's
``block_based_table_builder.cc``), so blocks can be drawn at random, those of each file as often as
it has entries. From each that is drawn a few blocks are read through the whole store: RocksDB shows
the rows that are alive, and counts what it steps over, older versions and tombstones, in
``rocksdb.number.iter.skip``. The mean share of what is alive, times the entries that there are, is
the estimate: as dense parts of the store are drawn more often, it leans to none of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import sqrt
from random import Random
from statistics import fmean, stdev
from typing import TYPE_CHECKING

import pyarrow as pa
from rocksdict import AccessType, Options, Rdict, ReadOptions

from kstoolkit.errors import FormatError
from kstoolkit.records import Figure, Source
from kstoolkit.rocksdb.faults import translated
from kstoolkit.rocksdb.files.ssts import entries_of, index_handle, varint_at
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kstoolkit.rocksdb.files.ssts import Sst

_DRAWN = 400
_BLOCKS_READ = 4
_NEVER = 1 << 40  # skips before RocksDB seeks anew, and what it then passes over goes uncounted
_SKIPPED = re.compile(r"^rocksdb\.number\.iter\.skip COUNT : (\d+)", re.MULTILINE)
_TWO_SIDED = 1.96  # standard errors to either side, in 95 of 100 samples
_TRAILER = 8  # sequence number and type behind a key
_CODECS = {1: "snappy", 4: "lz4_raw", 7: "zstd"}


@dataclass(frozen=True, slots=True)
class LiveRows:
    """How many rows are alive; of an estimate with its bounds, in 95 of 100 samples.

    >>> print(LiveRows(1_200_000, 1_100_000, 1_300_000, is_sample=True))
    1,200,000 (1,100,000 to 1,300,000, by a sample)
    """

    number: int
    least: int
    most: int
    is_sample: bool = False

    def figures(self) -> tuple[Figure, ...]:
        """Return what is known as evidence."""
        told = {"live_rows": self.number}
        told |= {"live_rows_error": (self.most - self.least) // 2} if self.is_sample else {}
        return tuple(Figure(*each, Source.STORE) for each in told.items())

    def __str__(self) -> str:
        about = format_count(self.number)
        if not self.is_sample:
            return about
        return f"{about} ({format_count(self.least)} to {format_count(self.most)}, by a sample)"


def estimated_live_rows(
    folder: Path, family: str, ssts: Sequence[Sst], *, seed: int = 1
) -> LiveRows:
    """Return an estimate of the rows of a column family whose files are in a scratch folder.

    If the files' indexes can't be read, it is a FormatError.
    """
    entries = sum(each.num_entries for each in ssts)
    drawn = _drawn(folder, ssts, Random(seed))  # noqa: S311 - a sample
    options = _counting()
    with translated(folder):
        names = Rdict.list_cf(str(folder))
        families = {name: options if name == family else _counting() for name in names}
        mode = AccessType.read_only(False)  # noqa: FBT003 - rocksdict takes no name
        store = Rdict(str(folder), options, column_families=families, access_type=mode)
        try:
            handle = store if family == "default" else store.get_column_family(family)
            shares = [
                share for span in drawn if (share := _share(handle, options, *span)) is not None
            ]
            if handle is not store:
                handle.close()
        finally:
            store.close()
    if len(shares) < 2:  # noqa: PLR2004 - what has a spread
        message = "too few of the blocks could be sampled"
        raise FormatError(message)
    mean, error = fmean(shares), _TWO_SIDED * stdev(shares) / sqrt(len(shares))
    least, most = max(0.0, mean - error), min(1.0, mean + error)
    number, low, high = (round(entries * each) for each in (mean, least, most))
    return LiveRows(number, low, high, is_sample=True)


def _counting() -> Options:
    options = Options(raw_mode=True)
    options.enable_statistics()
    options.set_max_sequential_skip_in_iterations(_NEVER)
    return options


def _drawn(folder: Path, ssts: Sequence[Sst], draws: Random) -> Iterator[tuple[bytes, bytes]]:
    """Yield spans of keys: a block that is drawn, and some behind it."""
    places = sorted(draws.choices(range(len(ssts)), [each.num_entries for each in ssts], k=_DRAWN))
    for place in dict.fromkeys(places):
        ends = [b"", *index_keys(folder / ssts[place].name)]
        for _ in range(places.count(place)):
            at = draws.randrange(len(ends) - 1)
            start = ends[at] if at else ssts[place].smallest_key
            yield start, ends[min(at + _BLOCKS_READ, len(ends) - 1)] + b"\0"


def _share(store: Rdict, options: Options, start: bytes, end: bytes) -> float | None:
    """Return which share of the entries between two keys is alive; None if there are none."""
    before, how = _skipped(options), ReadOptions()
    how.set_total_order_seek(v=True)
    how.fill_cache(False)  # type: ignore[call-arg]  # noqa: FBT003 - not as its stub says
    how.set_iterate_upper_bound(end)
    rows, alive = store.iter(how), 0
    rows.seek(start)
    while rows.valid():
        alive += 1
        rows.next()
    rows.status()
    del rows  # which is when RocksDB hands in what it counted
    entries = alive + _skipped(options) - before
    return alive / entries if entries else None


def _skipped(options: Options) -> int:
    found = _SKIPPED.search(options.get_statistics() or "")
    return int(found[1]) if found else 0


def index_keys(path: Path) -> list[bytes]:
    """Return the keys of an SST file's index, each at or behind the last one of a block.

    If it can't be made out, as one in partitions, it is a FormatError.
    """
    try:
        with path.open("rb") as file:
            start, size, is_user_key, is_delta = index_handle(file)
            file.seek(start)
            block = _unpacked(file.read(size + 1))
        keys = [key for key, _ in entries_of(block, is_delta=is_delta)]
        return keys if is_user_key else [each[:-_TRAILER] for each in keys]
    except (IndexError, KeyError, ValueError, OSError) as error:
        message = f"the index of {path.name} can't be made out: it is damaged, or in partitions"
        raise FormatError(message) from error


def _unpacked(stored: bytes) -> bytes:
    """Return a block as it was before compression, which its trailer's first byte names."""
    block, kind = stored[:-1], stored[-1]
    if not kind:
        return block
    size, at = varint_at(block, 0)
    packed = block if _CODECS[kind] == "snappy" else block[at:]  # Snappy keeps its size itself
    return bytes(pa.Codec(_CODECS[kind]).decompress(packed, decompressed_size=size))
