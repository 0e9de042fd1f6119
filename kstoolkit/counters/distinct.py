"""How many different items each user touched in a window: sketches, as columns.

A sketch has 256 registers (HyperLogLog: Flajolet, Fusy, Gandouet, Meunier 2007). The last eight
bits of an item's hash name one of them, and the number of zeros that the first 53 begin with, and
one, is its *rank*; a register keeps the highest. So the same items give the same sketch whatever
their order, however often each came, and from whatever parts it is put together. What it tells is
Ertl's improved raw estimate (2017, arXiv:1702.01284), with K registers of no rank::

    256² / (2 ln 2 · (256 f(K / 256) + Σ 2^-rank)),    f(x) = x + Σ x^(2^k) 2^(k-1), k from 1 on

It is off by 6 % (one standard deviation), by 4 % where there are twenty items or fewer.

A register is a row, and one that nothing fell into is none. In the state store a segment of windows
is an Arrow IPC stream with ZSTD-compressed buffers, behind a version byte: ``user`` (dictionary),
``start_ms`` (int64), ``register`` and ``rank`` (uint8).
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.counters.bucket import NEVER, Held, Place
from kstoolkit.counters.counters import Counters, buckets_of, hashes_of, prune
from kstoolkit.formats.countblock import check_version, damaged_block, to_ipc

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

_REGISTERS, _BITS = 256, 53
_VERSION, _NAME = 1, "block of sketches"


@dataclass(frozen=True, slots=True, eq=False)
class Touched:
    """Sketches of what users touched: one row a user, window and register, in that order.

    >>> users, items = pa.array(["a", "a", "a"]), pa.array(["1.1.1.1", "1.1.1.2", None])
    >>> touched = Touched.of(np.zeros(3, np.int64), users, items)
    >>> touched.counts("ip", ("different ip",)).count.tolist()
    [2]
    """

    users: pa.Array
    user: NDArray[np.int32]
    start_ms: NDArray[np.int64]
    register: NDArray[np.uint8]
    rank: NDArray[np.uint8]

    @classmethod
    def empty(cls) -> Touched:
        """Return no sketches."""
        return cls.of(np.zeros(0, np.int64), *[pa.array([], pa.string())] * 2)

    @classmethod
    def of(cls, start_ms: NDArray[np.int64], users: pa.Array, items: pa.Array) -> Touched:
        """Return sketches of one item a row, of a window that starts then; no text is no item."""
        who, what = users.dictionary_encode(), items.dictionary_encode()
        texts = what.dictionary.cast(pa.string())
        is_item = np.append(np.asarray(pc.binary_length(texts)) > 0, False)
        place = np.asarray(pc.fill_null(what.indices, len(texts)))
        rows = np.flatnonzero(is_item[place])
        hashes = _mixed(hashes_of(_short(texts)))
        zeros = _BITS - np.frexp((hashes >> np.uint64(64 - _BITS)).astype(np.float64))[1]
        return cls._highest(
            who.dictionary.cast(pa.string()),
            np.asarray(who.indices, np.int32)[rows],
            start_ms[rows],
            hashes.astype(np.uint8)[place[rows]],
            (zeros + 1).astype(np.uint8)[place[rows]],
        )

    @classmethod
    def _highest(
        cls,
        users: pa.Array,
        user: NDArray[np.int32],
        start_ms: NDArray[np.int64],
        register: NDArray[np.uint8],
        rank: NDArray[np.uint8],
    ) -> Touched:
        """Return the highest rank of each register."""
        order = np.lexsort((rank, register, start_ms, user))
        keys = [each[order] for each in (user, start_ms, register)]
        is_last = np.append(_differ(keys), True)[: len(order)]
        user, start_ms, register = (key[is_last] for key in keys)
        return cls(users, user, start_ms, register, rank[order][is_last])

    @classmethod
    def merge(cls, parts: Sequence[Touched]) -> Touched:
        """Return the sketches of all that any of some touched."""
        parts = [part for part in parts if len(part)]
        if len(parts) <= 1:
            return parts[0] if parts else cls.empty()
        texts = pa.concat_arrays([part.users for part in parts]).dictionary_encode()
        begins = np.cumsum([0, *(len(part.users) for part in parts)])
        codes = np.asarray(texts.indices, np.int32)
        user = [codes[part.user + at] for part, at in zip(parts, begins, strict=False)]
        columns = ([getattr(part, name) for part in parts] for name in _COLUMNS)
        return cls._highest(texts.dictionary, *map(np.concatenate, [user, *columns]))

    def __len__(self) -> int:
        return len(self.user)

    def take(self, rows: NDArray[np.bool_]) -> Touched:
        """Return some of the registers."""
        users, user = prune(self.users, self.user[rows])
        return Touched(users, user, *(getattr(self, name)[rows] for name in _COLUMNS))

    def by_bucket(self, buckets: int) -> Iterator[tuple[int, Touched]]:
        """Yield (bucket, its users' sketches) for every bucket that has any."""
        bucket = buckets_of(self.users, buckets)[self.user]
        for number in np.unique(bucket).tolist():
            yield number, self.take(bucket == number)

    def counts(self, item: str, parts: tuple[str, ...]) -> Counters:
        """Return how many different items each user touched, as counts of an action."""
        ends = np.flatnonzero(np.append(_differ([self.user, self.start_ms]), True)[: len(self)])
        begins = np.append(0, ends[:-1] + 1)[: len(ends)]
        low = np.add.reduceat(0.5**self.rank, begins) if len(ends) else np.zeros(0)
        unused = 1 - (ends - begins + 1) / _REGISTERS
        told = _REGISTERS**2 / (2 * np.log(2) * (_REGISTERS * _sigma(unused) + low))
        users = pa.DictionaryArray.from_arrays(pa.array(self.user[ends]), self.users)
        number = np.maximum(np.round(told), 1).astype(np.uint64)
        items = pa.repeat(item, len(ends))
        return Counters.of(self.start_ms[ends], users, items, number, parts)

    def encode(self, *, passing: bool = False) -> bytes:
        """Return a version byte and an Arrow IPC stream, to be kept or to be passed on."""
        users = pa.DictionaryArray.from_arrays(pa.array(self.user), self.users)
        table = pa.table({"user": users} | {name: getattr(self, name) for name in _COLUMNS})
        return to_ipc(table, head=bytes([_VERSION]), passing=passing)

    @classmethod
    def decode(cls, block: bytes) -> Touched:
        """Read what :meth:`encode` wrote; damage and newer versions are a FormatError."""
        check_version(block, _NAME, _VERSION)
        try:
            batch = pa.ipc.open_stream(block[1:]).read_all().combine_chunks().to_batches()
        except (pa.ArrowInvalid, OSError) as error:
            raise damaged_block(block, _NAME, error) from error
        if not batch:
            return cls.empty()
        users = batch[0].column("user")
        columns = (batch[0].column(name).to_numpy() for name in _COLUMNS)
        return cls(users.dictionary, np.asarray(users.indices, np.int32), *columns)


_COLUMNS = ("start_ms", "register", "rank")


def _short(texts: pa.Array) -> pa.Array:
    """Return texts, each long one by its digest: eight bytes at a time, it would take seconds."""
    is_long = np.asarray(pc.binary_length(texts)) > _LONGEST
    if not is_long.any():
        return texts
    long = texts.filter(pa.array(is_long)).cast(pa.binary())
    digests = [blake2b(text.as_buffer(), digest_size=32).hexdigest() for text in long]
    return pc.replace_with_mask(texts, pa.array(is_long), pa.array(digests, pa.string()))


_LONGEST = 1024


def _differ(keys: Sequence[NDArray[np.generic]]) -> NDArray[np.bool_]:
    """Return which rows but the last have another key than the one behind them."""
    return np.asarray(np.logical_or.reduce([key[1:] != key[:-1] for key in keys]))


def _mixed(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return hashes of which each bit hangs on all, by MurmurHash3's finaliser."""
    for factor in _FACTORS:
        hashes = (hashes ^ (hashes >> _SHIFT)) * factor
    return np.asarray(hashes ^ (hashes >> _SHIFT))


_FACTORS, _SHIFT = np.array([0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53], np.uint64), np.uint64(33)


def _sigma(x: NDArray[np.float64]) -> NDArray[np.float64]:
    told, power, weight = x.copy(), x.copy(), 0.5
    while power.any():  # below 1, squares are soon too small to be any
        power, weight = power * power, weight * 2
        told += power * weight
    return told


class OpenSketches(Held[Touched]):
    """What users of a bucket touched in windows that are not closed, segment by segment."""

    __slots__ = ()

    def add(self, came: Touched, *, from_ms: int = NEVER) -> None:
        """Put in what was touched; windows that begin before then are forgotten on the way."""
        segment = came.start_ms // self.length_ms * self.length_ms
        for start_ms in np.unique(segment).tolist():
            known = self.at(Place(start_ms))
            both = [known.take(known.start_ms >= from_ms), came.take(segment == start_ms)]
            self.blocks[f"{self.prefix}{start_ms}"] = Touched.merge(both).encode()

    def at(self, place: Place) -> Touched:
        """Return what was touched in the windows of a place."""
        block = self.blocks.get(f"{self.prefix}{place}")
        return Touched.empty() if block is None else Touched.decode(block)
