"""Latest counts into the bundles of segments: columns all the way but for the last step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kstoolkit.counters.counters import prune
from kstoolkit.formats import countbundle
from kstoolkit.formats.countbundle import Bundles
from kstoolkit.formats.keys import encode_replica_keys
from kstoolkit.stores.segment import check_ids

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from kstoolkit.changelog.news import Dated, Position
    from kstoolkit.stores.segment import Mark, Segment


@dataclass(frozen=True, slots=True, eq=False)
class Filling:
    """Counts by key, ready to go into a segment.

    Parameters
    ----------
    keys
        One for each user and window, in RocksDB's order or nearly so, which RocksDB takes faster.
    bundles
        What belongs to each of them; action ids are places in ``actions``.
    start_ms
        The start of each window, epoch ms UTC.
    actions
        Texts of actions.
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
        bundles = Bundles(size, counters.action, counters.count, updated_ms)
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

        Parameters
        ----------
        segment
            Which.
        position
            Where in the changelog the counts end.
        fresh
            Whether these are all that the keys have; else what they have is kept beside.
        """
        texts, ids, added = self._ids_in(segment.actions)
        bundles = replace(self.bundles, action_id=ids[self.bundles.action_id])
        keys = self.keys.to_pylist()
        if not fresh:
            found = segment.get_many(keys)
            if any(value is not None for value in found):
                bundles = _merged(bundles, found, len(texts), segment.actions)
        values = countbundle.encode_many(bundles).to_pylist()
        return segment.write((keys, values), added, position)

    def take(self, chosen: NDArray[np.intp]) -> Filling:
        """Return the chosen keys with what belongs to them, in the order of the choice."""
        size = self.bundles.size
        rows = _rows_of(np.cumsum(size) - size, size, chosen)
        bundles = Bundles(
            size[chosen],
            self.bundles.action_id[rows],
            self.bundles.count[rows],
            self.bundles.updated_at_ms[chosen],
        )
        return Filling(
            self.keys.take(pa.array(chosen)), bundles, self.start_ms[chosen], self.actions
        )

    def _ids_in(self, known: list[str]) -> tuple[list[str], NDArray[np.int32], list[str]]:
        """Return all texts that a segment then has, the id of each of ours, and the new texts."""
        used, places = prune(self.actions, self.bundles.action_id)
        places_of = np.zeros(len(self.actions), np.int32)
        places_of[self.bundles.action_id] = places
        ids = {text: number for number, text in enumerate(known)}
        texts = used.to_pylist()
        added = [text for text in texts if text not in ids]
        ids |= {text: len(known) + number for number, text in enumerate(added)}
        in_segment = np.array([ids[text] for text in texts], np.int32)
        return [*known, *added], in_segment[places_of] if len(texts) else places_of, added


def _merged(
    fresh: Bundles, found: list[bytes | None], num_actions: int, known: list[str]
) -> Bundles:
    """Return bundles with what their keys had before, where nothing newer is told."""
    had = np.flatnonzero([value is not None for value in found])
    old = countbundle.decode_many([value for value in found if value is not None])
    check_ids(int(old.action_id.max(initial=0)), known)
    owner = np.r_[np.repeat(had, old.size), np.repeat(np.arange(len(found)), fresh.size)]
    action_id = np.r_[old.action_id, fresh.action_id]
    place = owner * num_actions + action_id
    order = np.argsort(place, kind="stable")
    last = order[np.append(np.diff(place[order]) != 0, True)]
    size = np.bincount(owner[last], minlength=len(found))
    count = np.r_[old.count, fresh.count]
    return Bundles(size, action_id[last], count[last], fresh.updated_at_ms)


def _rows_of(
    first: NDArray[np.int64], size: NDArray[np.int64], chosen: NDArray[np.intp]
) -> NDArray[np.int64]:
    """Return the places of the rows of chosen runs."""
    taken = size[chosen]
    return np.repeat(first[chosen] - (np.cumsum(taken) - taken), taken) + np.arange(taken.sum())


def _order(keys: pa.Array) -> NDArray[np.intp]:
    """Return the order of keys by their first eight bytes: salt, and the user's first four."""
    _, offsets, data = keys.buffers()
    begins = np.frombuffer(offsets, np.int64)[keys.offset : keys.offset + len(keys)]
    if not len(keys):
        return np.zeros(0, np.intp)
    words = np.ndarray(data.size - 7, ">u8", data, strides=(1,))  # one at every byte
    return np.argsort(words[begins].astype(np.uint64), kind="stable")
