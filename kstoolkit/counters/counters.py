"""How often each user did each action in each window: a set of counters as columns.

Everything here is a whole-column operation: dictionaries of text are made one, keys are packed into
integers that sort like them (:class:`PackedKeys`), and runs of equal keys are summed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.errors import FormatError
from kstoolkit.formats import countblock
from kstoolkit.formats.actions import are_chosen, checked, parts_in, split, with_parts
from kstoolkit.formats.actions import chosen as chosen_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from kstoolkit.windows import Window

_FNV_OFFSET = np.uint64(0xCBF29CE484222325)
_FNV_PRIME = np.uint64(0x100000001B3)
_FINAL_MIX = np.uint64(0xFF51AFD7ED558CCD)
_HALF = np.uint64(32)
_ALL_ONES = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_WORD_BITS = np.uint64(64)


def _unify(dictionaries: Sequence[pa.Array]) -> tuple[pa.Array, list[NDArray[np.int32]]]:
    """Return one dictionary of all texts, and for each given one where its entries now stand.

    The first dictionary keeps its places, so codes that point into it stay valid. Parts of one
    delta have one dictionary: it is taken up once.
    """
    others = {id(dictionary): dictionary for dictionary in dictionaries}
    encoded = pc.dictionary_encode(pa.concat_arrays(others.values()))
    places = np.asarray(encoded.indices, dtype=np.int32)
    ends = np.cumsum([len(dictionary) for dictionary in others.values()])
    known = dict(zip(others, np.split(places, ends[:-1]), strict=True))
    return encoded.dictionary, [known[id(dictionary)] for dictionary in dictionaries]


def _as_dictionary(texts: pa.Array | pa.ChunkedArray) -> tuple[pa.Array, NDArray[np.int32]]:
    """Return the distinct texts, and for each value which one it is.

    There must be no nulls, and a given dictionary must name each text once.
    """
    if isinstance(texts, pa.ChunkedArray):
        texts = texts.combine_chunks() if texts.num_chunks else pa.array([], texts.type)
    if isinstance(texts, pa.ChunkedArray):  # more than one chunk's offsets can hold
        texts = pa.concat_arrays([chunk.dictionary_encode() for chunk in texts.chunks])
    texts = texts.dictionary_encode()  # as it is, if it is one
    codes = np.asarray(texts.indices, dtype=np.int32)
    return texts.dictionary.cast(pa.string()), codes


def prune(dictionary: pa.Array, codes: NDArray[np.int32]) -> tuple[pa.Array, NDArray[np.int32]]:
    """Return the dictionary without entries that no code uses, and the codes into it.

    >>> texts, codes = prune(pa.array(["a", "b", "c"]), np.array([2, 0, 2], dtype=np.int32))
    >>> texts.to_pylist(), codes.tolist()
    (['a', 'c'], [1, 0, 1])
    """
    used = np.zeros(len(dictionary), dtype=bool)
    used[codes] = True
    if used.all():
        return dictionary, codes
    places = np.cumsum(used, dtype=np.int32) - np.int32(1)
    return dictionary.filter(pa.array(used)), places[codes]


def buckets_of(users: pa.Array, buckets: int) -> NDArray[np.int32]:
    """Return the bucket of each user: its hash, modulo ``buckets``.

    >>> buckets_of(pa.array(["Anna", "Bo", "Čeněk"]), 8).tolist()
    [4, 5, 6]
    """
    return (hashes_of(users) % np.uint64(buckets)).astype(np.int32)


def hashes_of(texts: pa.Array) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each text's UTF-8 bytes.

    It takes eight bytes at a time (zeros behind the last), as FNV-1a takes one, with MurmurHash3's
    finaliser. It never changes between versions: it decides whose state a user lies in.
    """
    offsets, data = _utf8(texts)
    words = np.ndarray(max(len(data) - 7, 0), "<u8", data, strides=(1,))  # one at every byte
    at, lengths = offsets[:-1].copy(), np.diff(offsets)
    hashes = _FNV_OFFSET ^ lengths.astype(np.uint64)
    rest = np.flatnonzero(lengths)
    while rest.size:  # one turn for each eight bytes of the longest text, all texts at once
        left = np.minimum(offsets[rest + 1] - at[rest], 8).astype(np.uint64)
        word = words[at[rest]] & (_ALL_ONES >> (_WORD_BITS - left * np.uint64(8)))
        hashes[rest] = _mix((hashes[rest] ^ word) * _FNV_PRIME)
        at[rest] += 8
        rest = rest[at[rest] < offsets[rest + 1]]
    return _mix(hashes * _FINAL_MIX)


def _mix(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return hashes ^ (hashes >> _HALF)


def _utf8(texts: pa.Array) -> tuple[NDArray[np.int64], bytes]:
    """Return offsets and bytes of a text array, with eight zero bytes behind them."""
    texts = texts.cast(pa.large_string())
    _, offset_buffer, data_buffer = texts.buffers()
    if offset_buffer is None:
        return np.zeros(1, dtype=np.int64), b""
    offsets = np.frombuffer(offset_buffer, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    first, end = int(offsets[0]), int(offsets[-1])
    data = data_buffer[first:end].to_pybytes() if data_buffer else b""
    return offsets - first, data + bytes(8)


_KEY_BITS = 63


@dataclass(frozen=True, slots=True, eq=False)
class PackedKeys:
    """One integer a row, and how to read it back: ``(user · spread + place) · width + action``.

    The place of a window start is its distance from ``origin_ms`` in steps of ``step_ms``. Where
    63 bits are too few for that, ``pairs`` numbers the (start, action) pairs that occur: there are
    never more of these than rows, so two 31-bit numbers always do.

    >>> keys = PackedKeys.of(np.array([1, 0, 1]), np.array([5, 9, 5]), np.array([0, 0, 1]))
    >>> np.argsort(keys.packed).tolist()
    [1, 0, 2]
    >>> [column.tolist() for column in keys.unpack(keys.packed)]
    [[1, 0, 1], [5, 9, 5], [0, 0, 1]]
    """

    packed: NDArray[np.int64]
    origin_ms: int
    step_ms: int
    spread: int
    width: int
    pairs: tuple[NDArray[np.int64], NDArray[np.int32]] | None = None

    @classmethod
    def of(
        cls, user: NDArray[np.int32], start_ms: NDArray[np.int64], action: NDArray[np.int32]
    ) -> PackedKeys:
        """Pack three columns of one length, which must not be empty."""
        packed = user.astype(np.int64)  # a copy, which becomes the key in place
        users, width = int(user.max()) + 1, int(action.max()) + 1
        origin_ms, step_ms = int(start_ms.min()), 1
        spread = int(start_ms.max()) - origin_ms + 1
        if not _fits(users, spread, width) and _fits(spread):
            step_ms = int(np.gcd.reduce(start_ms - origin_ms)) or 1
            spread = (spread - 1) // step_ms + 1
        if not _fits(users, spread, width):
            return cls._of_pairs(packed, start_ms, action)
        place = start_ms - origin_ms
        if step_ms > 1:
            place //= step_ms
        packed *= spread
        packed += place
        packed *= width
        packed += action
        return cls(packed, origin_ms, step_ms, spread, width)

    @classmethod
    def _of_pairs(
        cls, user: NDArray[np.int64], start_ms: NDArray[np.int64], action: NDArray[np.int32]
    ) -> PackedKeys:
        order = np.lexsort((action, start_ms))
        starts, actions = start_ms[order], action[order]
        fresh = np.r_[True, (np.diff(starts) != 0) | (np.diff(actions) != 0)]
        number = np.empty_like(user)
        number[order] = np.cumsum(fresh) - 1
        pairs = (starts[fresh], actions[fresh])
        return cls(user * len(pairs[0]) + number, 0, 1, 1, len(pairs[0]), pairs)

    def unpack(
        self, packed: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int32]]:
        """Return user, window start and action of keys that were packed like these."""
        rest = packed // self.width  # with a product, cheaper than divmod
        low = packed - rest * self.width
        if self.pairs is not None:
            return rest.astype(np.int32), self.pairs[0][low], self.pairs[1][low]
        user = rest // self.spread
        start_ms = (rest - user * self.spread) * self.step_ms + self.origin_ms
        return user.astype(np.int32), start_ms, low.astype(np.int32)


def _fits(*sizes: int) -> bool:
    return sum(size.bit_length() for size in sizes) <= _KEY_BITS


class Widest(NamedTuple):
    """How many actions a user has in one window, which part makes most of them, by how many values.

    >>> print(Widest(12_000, "id", 9_000))
    A user has 12,000 different actions in one window; the part 'id' has 9,000 values there.
    """

    actions: int
    part: str
    values: int

    def __str__(self) -> str:
        there = f"the part {self.part!r} has {self.values:,} values there"
        return f"A user has {self.actions:,} different actions in one window; {there}."


@dataclass(frozen=True, slots=True, eq=False)
class Counters:
    """Counts by user, window start and action: unique, and sorted in this order.

    ``user`` and ``action`` are codes, one a counter, of the texts in ``users`` and ``actions``, and
    ``start_ms`` is when the window starts, epoch ms UTC. Where an action has several ``parts``,
    they are called so: ``actions`` are then the texts of :mod:`kstoolkit.formats.actions`, and
    counters by no part at all have the empty text. A session is from its first event, at
    ``start_ms``, to its last, at ``end_ms``.

    >>> who, what = pa.array(["a", "a", "a"]), pa.array(["x", "x", "x"])
    >>> events = Counters.of(np.array([0, 0, 60_000]), who, what)
    >>> events.count.tolist(), events.total
    ([2, 1], 3)
    """

    users: pa.Array
    actions: pa.Array
    user: NDArray[np.int32]
    action: NDArray[np.int32]
    start_ms: NDArray[np.int64]
    count: NDArray[np.uint64]
    parts: tuple[str, ...] | None = None
    end_ms: NDArray[np.int64] | None = None

    @classmethod
    def empty(cls, parts: tuple[str, ...] | None = None) -> Counters:
        """Return no counters at all."""
        texts, codes = pa.array([], pa.string()), np.zeros(0, dtype=np.int32)
        nothing = codes.astype(np.int64), codes.astype(np.uint64)
        return cls(texts, texts, codes, codes, *nothing, parts)

    @classmethod
    def of(  # noqa: PLR0917 - what a set of counters is made of
        cls,
        start_ms: NDArray[np.int64],
        users: pa.Array | pa.ChunkedArray,
        actions: pa.Array | pa.ChunkedArray,
        count: NDArray[np.uint64] | None = None,
        parts: tuple[str, ...] | None = None,
        end_ms: NDArray[np.int64] | None = None,
    ) -> Counters:
        """Collapse rows into counters; each row counts once, or ``count`` times."""
        user_texts, user = _as_dictionary(users)
        action_texts, action = _as_dictionary(actions)
        each = np.ones(len(user), np.uint64) if count is None else count
        key = user_texts, action_texts, user, action, start_ms
        return _collapsed(cls(*key, each, parts, end_ms), is_once=count is None)

    @classmethod
    def merge(cls, parts: Sequence[Counters]) -> Counters:
        """Return the sum of several sets of counters.

        >>> one = Counters.of(np.array([0]), pa.array(["a"]), pa.array(["x"]))
        >>> two = Counters.of(np.array([0, 0]), pa.array(["b", "a"]), pa.array(["x", "x"]))
        >>> both = Counters.merge([one, two])
        >>> both.to_batch().to_pydict()["user"], both.count.tolist()
        (['a', 'b'], [2, 1])
        """
        parts = [part for part in parts if len(part)]
        if len(parts) <= 1:
            return parts[0] if parts else cls.empty()
        return _collapsed(_in_a_row(parts))

    @classmethod
    def join(cls, parts: Sequence[Counters]) -> tuple[Counters, NDArray[np.intp]]:
        """Return the rows of several sets in one order, and where each of them came from.

        Rows with one key stand beside each other, in the order of the parts; the result is a set
        of counters only if there are none.

        >>> one = Counters.of(np.array([60_000]), pa.array(["a"]), pa.array(["x"]))
        >>> two = Counters.of(np.array([0, 0]), pa.array(["b", "a"]), pa.array(["x", "x"]))
        >>> both, rows = Counters.join([one, two])
        >>> both.to_batch().to_pydict()["user"], both.start_ms.tolist(), rows.tolist()
        (['a', 'a', 'b'], [0, 60000, 0], [2, 0, 1])
        """
        parts = [part for part in parts if len(part)]
        if not parts:
            return cls.empty(), np.arange(0)
        rows = _in_a_row(parts)
        order = np.argsort(_keys(rows).packed, kind="stable")
        return rows.take(order), order

    @classmethod
    def newest(cls, parts: Sequence[Counters]) -> Counters:
        """Return the counters of all parts; of those with one key, that of the last part.

        >>> old = Counters.of(np.array([0, 0]), pa.array(["a", "b"]), pa.array(["x", "x"]))
        >>> new = Counters.of(np.array([0, 0]), pa.array(["b", "b"]), pa.array(["x", "x"]))
        >>> Counters.newest([old, new]).count.tolist()
        [1, 2]
        """
        there = [part for part in parts if len(part)]
        return there[0] if len(there) == 1 else cls.newest_rows(there)[0]

    @classmethod
    def newest_rows(cls, parts: Sequence[Counters]) -> tuple[Counters, NDArray[np.intp]]:
        """Return what :meth:`newest` does, and where in all parts each counter came from."""
        joined, order = cls.join(parts)
        if not len(joined):
            return joined, order
        differs = [np.diff(key) != 0 for key in (joined.user, joined.start_ms, joined.action)]
        last = np.append(np.logical_or.reduce(differs), True)
        return joined.take(last), order[last]

    @classmethod
    def decode(cls, block: bytes) -> Counters:
        """Return the counters of a CountBlock."""
        batch = countblock.decode(block)
        user, action = batch.column("user"), batch.column("action")
        return cls(
            user.dictionary,
            action.dictionary,
            user.indices.to_numpy(),
            action.indices.to_numpy(),
            batch.column("window_start_ms").to_numpy(),
            batch.column("count").to_numpy(),
            parts_in(batch.schema),
            batch.column("end_ms").to_numpy() if "end_ms" in batch.schema.names else None,
        )

    def encode(self, *, passing: bool = False) -> bytes:
        """Return the counters as a CountBlock: one to be kept, or ``passing`` to another task."""
        return countblock.encode(self.pruned().to_batch(), passing=passing)

    def to_batch(self) -> pa.RecordBatch:
        """Return the counters as an Arrow batch of :data:`kstoolkit.formats.countblock.SCHEMA`."""
        user, action = (
            pa.DictionaryArray.from_arrays(pa.array(codes), texts, safe=False)
            for codes, texts in ((self.user, self.users), (self.action, self.actions))
        )
        ends = [] if self.end_ms is None else [self.end_ms]
        schema = countblock.SCHEMA_OF_SESSIONS if ends else countblock.SCHEMA
        columns = [self.start_ms, user, action, self.count, *ends]
        return pa.record_batch(columns, schema=with_parts(schema, self.parts))

    def to_table(self) -> pa.Table:
        """Return the counters as a table that other tools take: counts are signed there."""
        table = pa.Table.from_batches([self.to_batch()])
        return table.set_column(3, "count", table["count"].cast(pa.int64()))

    def __len__(self) -> int:
        return len(self.count)

    @property
    def total(self) -> int:
        """The sum of all counts: how many events are in here."""
        return int(self.count.sum())

    def take(self, chosen: NDArray[np.bool_] | NDArray[np.intp]) -> Counters:
        """Return the chosen counters, by mask or by positions."""
        return replace(
            self,
            user=self.user[chosen],
            action=self.action[chosen],
            start_ms=self.start_ms[chosen],
            count=self.count[chosen],
            end_ms=None if self.end_ms is None else self.end_ms[chosen],
        )

    def pruned(self) -> Counters:
        """Return the same counters with dictionaries that hold just what is used."""
        users, user = prune(self.users, self.user)
        actions, action = prune(self.actions, self.action)
        return replace(self, users=users, actions=actions, user=user, action=action)

    def coarsen(self, window: Window) -> Counters:
        """Return the counts of coarser windows, each the sum of its panes.

        A hopping window takes each pane into every window that holds it; no pane may lie across
        the start or end of one.
        """
        # Dividing by one number and multiplying again is several times faster than a remainder.
        latest = self.start_ms // window.every_ms * window.every_ms
        if window.is_tumbling and np.array_equal(latest, self.start_ms):
            return self
        copies = window.copies
        starts = latest[:, None] - np.arange(copies, dtype=np.int64) * window.every_ms
        inside: NDArray[np.intp] | slice = slice(None)
        if window.size_ms % window.every_ms:  # the earliest one may have ended before the pane
            inside = np.flatnonzero(starts + window.size_ms > self.start_ms[:, None])
        rows = replace(
            self,
            user=np.repeat(self.user, copies)[inside],
            action=np.repeat(self.action, copies)[inside],
            start_ms=starts.ravel()[inside],
            count=np.repeat(self.count, copies)[inside],
        )
        return _collapsed(rows)

    def moved(self, start_ms: NDArray[np.int64], end_ms: NDArray[np.int64]) -> Counters:
        """Return the counters as sessions that begin and end elsewhere; those of one key summed."""
        return _collapsed(replace(self, start_ms=start_ms, end_ms=end_ms))

    def over_time(self) -> Counters:
        """Return each user's and action's sum over all windows, as one window at 0."""
        return _collapsed(replace(self, start_ms=self.start_ms * 0, end_ms=None))

    def by(self, by: Sequence[str]) -> Counters:
        r"""Return the sums over all actions with the same values of some parts; of none, a user's.

        An action of one column is called ``action``. An unknown part is a ColumnError.

        >>> what = pa.array(["eu\x1fget", "eu\x1fput", "us\x1fget"])
        >>> three = Counters.of(np.zeros(3, np.int64), pa.array(["a"] * 3), what,
        ...                     parts=("region", "op"))
        >>> regions = three.by(["region"])
        >>> regions.columns()["region"].to_pylist(), regions.count.tolist()
        (['eu', 'us'], [2, 1])
        """
        chosen = checked(self.named, by, what="by")
        if chosen == self.named:
            return self
        if not len(self):
            return Counters.empty(chosen)
        texts = chosen_of(self.actions, self.named, chosen)
        action = np.asarray(texts.indices, np.int32)[self.action]
        return _collapsed(replace(self, actions=texts.dictionary, action=action, parts=chosen))

    def where(self, values: Mapping[str, str | None]) -> Counters:
        """Return the counters whose action has these values of its parts; ``None`` is none."""
        checked(self.named, list(values), what="where")
        if not values:
            return self
        return self.take(are_chosen(self.actions, self.parts, values)[self.action])

    @property
    def named(self) -> tuple[str, ...]:
        """What the columns are called that say what was done."""
        return ("action",) if self.parts is None else self.parts

    def widest(self, more_than: int) -> Widest | None:
        r"""Return what has most actions of all users' windows, if these are more than so many.

        >>> what = pa.array([f"eu\x1f{number}" for number in range(9)])
        >>> nine = Counters.of(np.zeros(9, np.int64), pa.array(["a"] * 9), what,
        ...                    parts=("region", "id"))
        >>> nine.widest(8), nine.widest(9)
        (Widest(actions=9, part='id', values=9), None)
        """
        if self.parts is None or len(self) <= more_than:
            return None
        begins = (np.diff(self.user, prepend=-1) != 0) | (np.diff(self.start_ms, prepend=0) != 0)
        edges = np.append(np.flatnonzero(begins | (np.arange(len(self)) == 0)), len(self))
        sizes = np.diff(edges)
        most = int(np.argmax(sizes))
        if sizes[most] <= more_than:
            return None
        codes = np.unique(self.action[edges[most] : edges[most + 1]])
        texts = split(self.actions.take(pa.array(codes)), len(self.parts))
        values = [pc.count_distinct(text, mode="all").as_py() for text in texts]
        widest = int(np.argmax(values))
        return Widest(int(sizes[most]), self.parts[widest], values[widest])

    def columns(self) -> dict[str, pa.Array]:
        """Return what was done as columns: ``action``, or each part under its name."""
        if self.parts is None:
            return {"action": self.actions.take(pa.array(self.action))}
        texts = split(self.actions, len(self.parts))
        rows = pa.array(self.action)
        return {name: text.take(rows) for name, text in zip(self.parts, texts, strict=True)}

    def peaks(self) -> pa.Table:
        """Return each user's busiest window over all actions together: ``user``, ``count``.

        >>> three = Counters.of(np.array([0, 0, 9]), pa.array(["a"] * 3), pa.array(["x", "y", "x"]))
        >>> three.peaks().to_pylist()
        [{'user': 'a', 'count': 2}]
        """
        together = _collapsed(replace(self, action=self.action * 0))
        highest = np.zeros(len(self.users), dtype=np.int64)
        np.maximum.at(highest, together.user, together.count.astype(np.int64))
        return pa.table({"user": self.users, "count": highest}).filter(pa.array(highest > 0))

    def by_segment(self, length_ms: int) -> Iterator[tuple[int, Counters]]:
        """Yield (segment start, its counters), the earliest segment first."""
        number = self.start_ms // length_ms
        rest = number
        while rest.size:  # a few turns: faster than finding the distinct numbers among all rows
            earliest = rest.min()
            here = number == earliest
            yield int(earliest) * length_ms, self if here.all() else self.take(here)
            rest = rest[rest != earliest]

    def by_bucket(self, buckets: int) -> Iterator[tuple[int, Counters]]:
        """Yield (bucket, its users' counters) for every bucket that has any."""
        narrow = np.min_scalar_type(buckets)  # numbers of 16 bits are sorted by radix
        bucket = buckets_of(self.users, buckets).astype(narrow)[self.user]
        order = np.argsort(bucket, kind="stable")
        edges = np.append(0, np.cumsum(np.bincount(bucket, minlength=buckets)))
        for number in range(buckets):
            chosen = order[edges[number] : edges[number + 1]]
            if chosen.size:
                yield number, self.take(chosen).pruned()

    def of_same_windows(self, others: Counters) -> Counters:
        """Return all counters of those users' windows that some others, chosen from these, are of.

        >>> who, what = pa.array(["a", "a", "b"]), pa.array(["x", "y", "x"])
        >>> counters = Counters.of(np.array([0, 0, 0]), who, what)
        >>> len(counters.of_same_windows(counters.take(np.array([1]))))
        2
        """
        if not len(others):
            return others
        user = np.concatenate([self.user, others.user])
        start_ms = np.concatenate([self.start_ms, others.start_ms])
        packed = PackedKeys.of(user, start_ms, np.zeros(len(user), np.int32)).packed
        return self.take(np.isin(packed[: len(self)], packed[len(self) :]))

    def of_users(self, users: pa.Array) -> Counters:
        """Return the counters of some users, which may have none."""
        is_one = np.asarray(pc.is_in(self.users, value_set=users))
        return self.take(is_one[self.user]).pruned()

    def add(self, delta: Counters) -> tuple[Counters, Counters, NDArray[np.uint64]]:
        """Add what came, and return what is now, what changed, and the changed ones' old counts.

        These are in the order of what changed, 0 where it is new.

        >>> known = Counters.of(np.array([0, 0]), pa.array(["a", "b"]), pa.array(["x", "x"]))
        >>> came = Counters.of(np.array([0]), pa.array(["b"]), pa.array(["x"]))
        >>> now, changed, old = known.add(came)
        >>> now.count.tolist(), changed.count.tolist(), old.tolist()
        ([1, 2], [2], [1])
        """
        if not len(self) or not len(delta):
            now = delta if len(delta) else self
            return now, delta, np.zeros(len(delta), dtype=np.uint64)
        rows = _in_a_row([self, delta])
        packed = _keys(rows).packed
        known, came = packed[: len(self)], packed[len(self) :]
        order = np.argsort(came)
        place = np.searchsorted(known, came[order])
        is_known = np.append(known, -1)[place] == came[order]
        old = np.where(is_known, np.append(self.count, 0)[place], 0).astype(np.uint64)
        fresh = len(self) + order[~is_known]
        count = self.count.copy()
        count[place[is_known]] += delta.count[order[is_known]]
        chosen = np.insert(np.arange(len(self)), place[~is_known], fresh)
        count = np.insert(count, place[~is_known], delta.count[order[~is_known]])
        now = replace(rows.take(chosen), count=count)
        changed = place + np.cumsum(~is_known) - ~is_known
        return now, now.take(changed), old


def _keys(rows: Counters) -> PackedKeys:
    return PackedKeys.of(rows.user, rows.start_ms, rows.action)


def _collapsed(rows: Counters, *, is_once: bool = False) -> Counters:
    """Return rows of any order as counters; where each counts once, it is faster."""
    if not len(rows):
        return Counters.empty(rows.parts)
    keys = _keys(rows)
    if is_once and rows.end_ms is None:
        # Sorting bare keys is several times faster than finding their order.
        packed = np.sort(keys.packed)
        first = _firsts(packed)
        sums = np.diff(first, append=len(packed)).astype(np.uint64)
        user, start_ms, action = keys.unpack(packed[first])
        return replace(rows, user=user, action=action, start_ms=start_ms, count=sums)
    order = np.argsort(keys.packed, kind="stable")  # runs that are sorted already cost little
    first = _firsts(keys.packed[order])
    sums = np.add.reduceat(rows.count[order], first)
    ends = None if rows.end_ms is None else np.maximum.reduceat(rows.end_ms[order], first)
    return replace(rows.take(order[first]), count=sums, end_ms=ends)


def _firsts(packed: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return where each run of equal keys begins."""
    return np.flatnonzero(np.r_[True, packed[1:] != packed[:-1]])


def _in_a_row(parts: Sequence[Counters]) -> Counters:
    """Return the rows of all parts, one behind the other, by one pair of dictionaries."""
    if len({part.parts for part in parts}) > 1:
        told = " and ".join(sorted({", ".join(part.parts or ["action"]) for part in parts}))
        message = f"Counts by {told} are not of the same key."
        raise FormatError(message, hint="They were counted by other columns: keep them apart.")
    users, user_places = _unify([part.users for part in parts])
    actions, action_places = _unify([part.actions for part in parts])
    user = [places[part.user] for places, part in zip(user_places, parts, strict=True)]
    action = [places[part.action] for places, part in zip(action_places, parts, strict=True)]
    ends = [part.end_ms for part in parts if part.end_ms is not None]
    return Counters(
        users,
        actions,
        np.concatenate(user),
        np.concatenate(action),
        np.concatenate([part.start_ms for part in parts]),
        np.concatenate([part.count for part in parts]),
        parts[0].parts,
        np.concatenate(ends) if ends else None,
    )
