"""How large a column family's keys and values are, which prefixes are hot, how much is deleted.

Reading every row of a large store takes long. A sample takes runs of neighbouring rows that begin
at keys spread over the files, so that each part of the store is seen; it says how many it took.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from kstoolkit.records import Record, Records, Source, counted, of_source
from kstoolkit.rocksdb.files.damage import rows_of
from kstoolkit.rocksdb.files.ssts import entries_in
from kstoolkit.units import check_whole, format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rocksdict import Rdict

    from kstoolkit.rocksdb.files.ssts import Sst

    Row = tuple[bytes, bytes]

_RUNS = 64  # runs of neighbouring rows in a sample: each costs a seek, which may read a block


@dataclass(frozen=True, slots=True, repr=False)
class Sizes(Record):
    """How sizes are spread: the least, the middle one, the mean, nearly all, the largest."""

    min_bytes: int = of_source(Source.STORE)
    median_bytes: int = of_source(Source.STORE)
    mean_bytes: float = of_source(Source.STORE)
    p99_bytes: int = of_source(Source.STORE)
    max_bytes: int = of_source(Source.STORE)

    def __repr__(self) -> str:
        low, middle, high = map(format_bytes, (self.min_bytes, self.median_bytes, self.max_bytes))
        return f"Sizes({low} to {high}, median {middle})"


@dataclass(frozen=True, slots=True)
class HotPrefix(Record):
    """Rows whose keys begin alike: how many of the sample, and which share of it."""

    prefix: bytes
    num_rows: int = of_source(Source.STORE)
    share: float = of_source(Source.STORE)


@dataclass(frozen=True, slots=True, repr=False)
class KeyStats(Record):
    """The keys and values of a column family.

    ``is_complete`` says that every row was read. Tombstones are counted in all SST files, whatever
    was sampled; ``densest_file`` has the largest share of them.
    """

    column_family: str
    num_sampled: int = of_source(Source.STORE)
    is_complete: bool = of_source(Source.STORE)
    key_sizes: Sizes | None = of_source(Source.STORE)
    value_sizes: Sizes | None = of_source(Source.STORE)
    hot_prefixes: Records[HotPrefix] = of_source(Source.STORE)
    num_entries: int = of_source(Source.STORE)
    num_deletions: int = of_source(Source.STORE)
    tombstone_density: float | None = of_source(Source.STORE)
    densest_file: str | None = of_source(Source.STORE)
    densest_file_tombstone_density: float | None = of_source(Source.STORE)
    unknown: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        if not self.num_sampled:
            return f"KeyStats({self.column_family!r}, no rows)"
        rows = counted(self.num_sampled, "rows")
        all_of_them = f"all {rows}" if self.num_sampled > 1 else f"its only {rows[2:]}"
        read = all_of_them if self.is_complete else f"a sample of {rows}"
        return (
            f"KeyStats({self.column_family!r}, {read}, "
            f"keys {self.key_sizes}, values {self.value_sizes})"
        )


def key_stats_of(
    family: str,
    handle: Rdict,
    ssts: Sequence[Sst],
    *,
    sample: int = 10_000,
    prefix_bytes: int = 4,
    top: int = 10,
) -> KeyStats:
    """Return what a sample of a column family's rows, and its SST files, tell of its keys."""
    for name, value in {"sample": sample, "prefix_bytes": prefix_bytes, "top": top}.items():
        check_whole(name, value, least=1, hint="Leave it out for a value that fits most.")
    rows, is_complete = _sampled(handle, ssts, sample)
    prefixes = Counter(key[:prefix_bytes] for key, _ in rows).most_common(top)
    hot = [HotPrefix(prefix, count, count / len(rows)) for prefix, count in prefixes]
    counts = entries_in(ssts)
    densest = max(ssts, key=lambda each: each.tombstone_density or 0, default=None)
    return KeyStats(
        column_family=family,
        num_sampled=len(rows),
        is_complete=is_complete,
        key_sizes=_sizes([len(key) for key, _ in rows]),
        value_sizes=_sizes([len(value) for _, value in rows]),
        hot_prefixes=Records(hot, "prefixes"),
        **counts,
        densest_file=None if densest is None else densest.name,
        densest_file_tombstone_density=None if densest is None else densest.tombstone_density,
        unknown=({} if rows else _NO_ROWS) | ({} if counts["num_entries"] else _NO_FILES),
    )


_NO_ROWS = dict.fromkeys(("key_sizes", "value_sizes"), "there are no rows")
_NO_FILES = dict.fromkeys(
    ("tombstone_density", "densest_file", "densest_file_tombstone_density"),
    "there are no SST files",
)


def _sampled(handle: Rdict, ssts: Sequence[Sst], sample: int) -> tuple[list[Row], bool]:
    """Return all rows if they are few enough; else runs that are spread over the files."""
    first = list(islice(rows_of(handle), sample + 1))
    if len(first) <= sample:
        return first, True
    starts = _starts(ssts, [key for key, _ in first])
    return list(_runs(handle, starts, sample)) if starts else first[:sample], False


def _starts(ssts: Sequence[Sst], seen: Sequence[bytes]) -> list[bytes]:
    """Return keys to begin at, spread evenly over the files; of few files, made up between them."""
    known = sorted({key for each in ssts for key in (each.smallest_key, each.largest_key)})
    if not known:
        return []
    if len(known) < _RUNS:
        known = sorted({*known, *_between(known[0], known[-1], seen)})
    places = np.unique(np.linspace(0, len(known) - 1, num=_RUNS).astype(int))
    return [known[place] for place in places]


def _between(first: bytes, last: bytes, seen: Sequence[bytes]) -> list[bytes]:
    """Return keys at even distances between two, by the 8 bytes from where they differ on.

    The bytes count as digits, of which there are as many as were seen: keys that end in decimal
    numbers are spread over numbers, hashes over all that there can be.

    >>> digits = [b"user-%d" % number for number in range(10)]
    >>> [key[:7] for key in _between(b"user-00", b"user-80", digits)[7:32:8]]
    [b'user-10', b'user-20', b'user-30', b'user-40']
    """
    shared = next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), 0)
    digits = sorted({byte for key in (first, last, *seen) for byte in key[shared : shared + 8]})
    low, high = (_number(key[shared : shared + 8], digits) for key in (first, last))
    steps = (low + (high - low) * step // _RUNS for step in range(1, _RUNS))
    return [first[:shared] + _text(step, digits) for step in steps]


def _number(text: bytes, digits: list[int]) -> int:
    number = 0
    for place in range(8):
        digit = digits.index(text[place]) if place < len(text) else 0
        number = number * len(digits) + digit
    return number


def _text(number: int, digits: list[int]) -> bytes:
    text = bytearray(8)
    for place in reversed(range(8)):
        number, digit = divmod(number, len(digits))
        text[place] = digits[digit]
    return bytes(text)


def _runs(handle: Rdict, starts: list[bytes], sample: int) -> Iterator[Row]:
    """Yield rows from each start up to the next one; what a run leaves over goes to the others."""
    ends: list[bytes | None] = [*starts[1:], None]
    left = sample
    for place, (start, end) in enumerate(zip(starts, ends, strict=True)):
        share = -(-left // (len(starts) - place))
        for key, value in islice(rows_of(handle, start=start), share):
            if end is not None and key >= end:
                break
            yield key, value
            left -= 1


def _sizes(sizes: list[int]) -> Sizes | None:
    if not sizes:
        return None
    quantiles = np.quantile(sizes, (0, 0.5, 0.99, 1), method="inverted_cdf")
    low, middle, nearly_all, high = map(int, quantiles)
    return Sizes(low, middle, float(np.mean(sizes)), nearly_all, high)
