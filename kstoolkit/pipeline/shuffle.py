"""What travels through Spark's shuffle, and where it goes: rows of bucket, kind and bytes.

Spark never sees an event or a counter, only these records::

    bucket int · kind string · payload binary

    block    a CountBlock: a bucket's counters by pane, collapsed before the shuffle
    session  a CountBlock: the pieces of a bucket's sessions, of the kind whose number follows
    items    sketches of what a bucket's users touched; the column and the window's length follow
    reached  to every bucket: how far most users are of all that the task read, three int64
    letters  dead letters, as an Arrow IPC stream
    tick     nothing: it has the bucket's turn come
    flush    nothing: besides, all its levels are due
    end      nothing: this is all that the run takes in
    part P … of what several tasks read of the file at position P: any of these, or
      read   to every bucket: JSON of where the part begins, the dead letter of a damaged one in
             hex, where to note what the file held, and that

When the first bucket is counted all parts were read, as the shuffle lies between. So each bucket
passes over what came of a file of which a part is damaged: see :func:`admitted`.

A payload carries a version of its own, so a new kstoolkit changes no schema of Spark's.

Spark puts a group into the partition that its key's hash says. Sixteen buckets by their number
would come to seven and nine of two partitions, sixty-four to 37 of 64, and each micro-batch would
wait for the fullest. So a bucket's group has a *shuffle key*: the smallest number that is the
bucket modulo how many there are, and whose hash leads where it should.
"""

from __future__ import annotations

import gc
import json
from collections import defaultdict
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kstoolkit.counters.bucket import NEVER, Reached
from kstoolkit.counters.counters import Counters, hashes_of
from kstoolkit.counters.distinct import Touched
from kstoolkit.counters.sessions import pieces
from kstoolkit.events.contents import Contents, ContentsFile
from kstoolkit.formats.countblock import to_ipc
from kstoolkit.windows import Session

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

_SHUFFLE_SCHEMA = pa.schema(
    [("bucket", pa.int32()), ("kind", pa.string()), ("payload", pa.binary())]
)
BLOCK, SESSION, REACHED, DEAD_LETTERS = "block", "session ", "reached", "letters"
ITEMS = "items "
END = "end"
PART, READ = "part ", "read"

_MOST_COUNTERS = 4_000_000
"""So many counters are held as columns before they are put aside as bytes."""

_SEED, _WORD, _SIGN = 42, 0xFFFF_FFFF, 0x8000_0000


@dataclass(frozen=True, slots=True)
class Grain:
    """How finely events are counted before the shuffle, and among how many buckets users lie.

    By ``processing_time``, windows go by the batch's clock instead of the event's time. Where an
    action has several ``parts``, they are called so. ``sessions`` has the labels of those to count,
    ``items`` the columns of what is touched, each with a length of windows.
    """

    pane_ms: int
    buckets: int
    processing_time: bool = False
    parts: tuple[str, ...] | None = None
    sessions: tuple[str, ...] = ()
    items: tuple[tuple[str, int], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of what is touched, each once."""
        return tuple(dict.fromkeys(name for name, _ in self.items))

    def panes(self, time_ms: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the pane of each event; by processing time just one, which the operator dates."""
        # Dividing by one number and multiplying again is several times faster than a remainder.
        return time_ms * 0 if self.processing_time else time_ms // self.pane_ms * self.pane_ms


class Tally:
    """The counters of a file, or of a task's files, while they are read.

    Counts are merged as they come; when there are many they are put aside as CountBlocks, a few
    bytes each. So a file can be counted whole, and dropped whole if its end is damaged.
    Kinds of what is of a part of a file begin with a ``label``.
    """

    def __init__(self, grain: Grain, label: str = "") -> None:
        self.grain, self.label = grain, label
        self._dead_letters: list[bytes] = []
        self._open: dict[str, list[Any]] = {}
        self._open_rows = 0
        self._sessions = {
            f"{SESSION}{number}": Session.parse(label)
            for number, label in enumerate(grain.sessions)
        }
        self._aside: list[tuple[int, str, bytes]] = []
        self._has_read = False

    def count(
        self,
        time_ms: NDArray[np.int64],
        users: pa.Array,
        actions: pa.Array,
        items: Sequence[pa.Array] = (),
    ) -> None:
        """Count events that were judged to be some, and the ``names`` of items they touched."""
        self._has_read = True
        panes, parts = self.grain.panes(time_ms), self.grain.parts
        self._add(BLOCK, Counters.of(panes, users, actions, parts=parts))
        for kind, session in self._sessions.items():
            self._add(kind, pieces(time_ms, users, actions, session, parts))
        touched = dict(zip(self.grain.names, items, strict=True)) if items else {}
        for name, size_ms in self.grain.items if touched else ():
            start_ms = time_ms * 0 if self.grain.processing_time else time_ms // size_ms * size_ms
            self._add(items_kind(name, size_ms), Touched.of(start_ms, users, touched[name]))

    def set_aside(self, dead_letters: pa.RecordBatch) -> None:
        """Keep what can't be counted."""
        self._has_read = True
        self._dead_letters.append(to_ipc(dead_letters))

    def absorb(self, other: Tally) -> None:
        """Take over all that another tally holds."""
        self._has_read = True
        self._aside.extend(other._aside)
        for kind, each in other._open.items():
            for counters in each:
                self._add(kind, counters)
        self._dead_letters.extend(other._dead_letters)

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield everything for the shuffle: a CountBlock a bucket, and the dead letters."""
        self._put_aside()
        if self._has_read and not self._aside and not self.label:
            self._tell(np.array(_NOWHERE).tobytes())  # all buckets are told that something came
        for number, payload in enumerate(self._dead_letters):
            self._aside.append((number % self.grain.buckets, DEAD_LETTERS, payload))
        for bucket, kind, payload in self._aside:
            yield shuffle_record(bucket, self.label + kind, payload)

    def _add(self, kind: str, counters: Counters | Touched) -> None:
        self._open.setdefault(kind, []).append(counters)
        self._open_rows += len(counters)
        if self._open_rows > _MOST_COUNTERS:
            self._open = {each: [_merged(parts)] for each, parts in self._open.items()}
            self._open_rows = sum(len(merged) for (merged,) in self._open.values())
            if self._open_rows > _MOST_COUNTERS // 2:
                self._put_aside()

    def _put_aside(self) -> None:
        for kind, each in self._open.items():
            merged = _merged(each)
            parts = merged.by_bucket(self.grain.buckets) if len(merged) else ()
            self._aside += ((bucket, kind, part.encode(passing=True)) for bucket, part in parts)
            if kind == BLOCK and len(merged):
                reached = np.array(Reached.by_most(merged)).tobytes()
                self._tell(_sampled(merged).encode() if self.label else reached)
        self._open, self._open_rows = {}, 0

    def _tell(self, reached: bytes) -> None:
        self._aside += ((bucket, REACHED, reached) for bucket in range(self.grain.buckets))


def _merged(parts: Sequence[Any]) -> Any:
    return type(parts[0]).merge(parts)


_NOWHERE = Reached(NEVER, 0, NEVER)
_SAMPLED = 1 << 12


def _sampled(counters: Counters) -> Counters:
    """Return the last counter of so many users, those with the smallest hashes, and the latest."""
    last = counters.take(np.append(counters.user[1:] != counters.user[:-1], True))
    order = np.argsort(hashes_of(last.users)[last.user])
    return last.take(np.union1d(order[:_SAMPLED], np.argmax(last.start_ms))).pruned()


def _reached(samples: Iterable[bytes]) -> Reached:
    """Return how far most users of a file are, by samples of its parts; of a few, it is exact."""
    known = Counters.merge([Counters.decode(each) for each in samples])
    if not len(known):
        return _NOWHERE
    sampled = _sampled(known)
    reached, hashes = Reached.by_most(sampled), np.sort(hashes_of(sampled.users))
    share = int(hashes[_SAMPLED - 1]) / 2**64 if len(hashes) >= _SAMPLED else 1
    return reached._replace(users=round(reached.users / share))


def admitted(records: Iterable[tuple[str, bytes]], *, tells: bool) -> Iterator[tuple[str, bytes]]:
    """Yield the kind and payload of a bucket's records that count, as if no file had parts.

    Of such a file, one bucket ``tells`` that it is damaged, and notes what it holds.
    """
    files: dict[int, dict[str, list[bytes]]] = defaultdict(lambda: defaultdict(list))
    for kind, payload in records:
        if kind.startswith(PART):
            _, file, own = kind.split(" ", 2)
            files[int(file)][own].append(payload)
        else:
            yield kind, payload
    for position, told in files.items():
        verdicts = sorted(map(json.loads, told.pop(READ)))
        damages = [bytes.fromhex(letter) for _, letter, *_ in verdicts if letter]
        if tells:
            *_, place, held = verdicts[0]
            known = Contents(**held | {"is_damaged": bool(damages)})
            ContentsFile(Path(place)).write(position, known)
        counts = {DEAD_LETTERS: damages[:tells]} if damages else told
        yield REACHED, np.array(_reached(counts.pop(REACHED, ()))).tobytes()
        yield from ((kind, each) for kind, payloads in counts.items() for each in payloads)


def items_kind(name: str, size_ms: int) -> str:
    """Return the kind of a record of what is touched in windows of a length."""
    return f"{ITEMS}{name} {size_ms}"


def shuffle_record(bucket: int, kind: str, payload: bytes) -> pa.RecordBatch:
    """Return one record of the shuffle, as a batch of one row."""
    row = {"bucket": bucket, "kind": kind, "payload": payload}
    return pa.RecordBatch.from_pylist([row], _SHUFFLE_SCHEMA)


def to_each(buckets: int, kind: str, payload: bytes = b"") -> Iterator[pa.RecordBatch]:
    """Return a record for each bucket."""
    return (shuffle_record(bucket, kind, payload) for bucket in range(buckets))


def from_ipc(payload: bytes) -> pa.Table:
    """Return the columns of an Arrow IPC stream."""
    options = pa.ipc.IpcReadOptions(use_threads=False)
    return pa.ipc.open_stream(pa.py_buffer(payload), options=options).read_all()


def shuffle_keys(buckets: int, partitions: int) -> list[int]:
    """Return the shuffle key of each bucket: bucket b is counted in partition b mod partitions.

    >>> [_spark_partition(key, 2) for key in shuffle_keys(6, 2)]
    [0, 1, 0, 1, 0, 1]
    >>> [key % 6 for key in shuffle_keys(6, 2)]
    [0, 1, 2, 3, 4, 5]
    """
    return [
        next(
            key
            for key in count(bucket, buckets)
            if _spark_partition(key, partitions) == bucket % partitions
        )
        for bucket in range(buckets)
    ]


def _spark_partition(number: int, partitions: int) -> int:
    """Return the partition into which Spark shuffles an int: Murmur3_x86_32 with seed 42, modulo.

    >>> [_spark_partition(number, 5) for number in range(8)]
    [1, 3, 4, 1, 2, 1, 4, 2]
    """
    mixed = _rotated(number * 0xCC9E2D51 & _WORD, 15) * 0x1B873593 & _WORD
    hashed = (_rotated(_SEED ^ mixed, 13) * 5 + 0xE6546B64) & _WORD
    hashed ^= 4  # bytes in an int
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & _WORD
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & _WORD
    hashed ^= hashed >> 16
    return (hashed - (hashed & _SIGN) * 2) % partitions


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & _WORD


def spare_collector() -> None:
    """Take all that is loaded by now out of the garbage collector's sight, once in a process.

    Spark's workers live from task to task and collect all garbage after each one. To go through
    the modules of pandas, Arrow and Spark takes 40 ms every time, as long as a small task's work,
    and to count what is spared as long: that it is done is noted where the process keeps it, as
    code that travels by value comes anew with each task. What a task makes is collected as ever.
    """
    if "_spared_by_kstoolkit" not in vars(gc):
        vars(gc)["_spared_by_kstoolkit"] = True
        gc.freeze()
