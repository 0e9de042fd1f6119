"""The records of a topic that a run leaves out, as counting them ends whatever counts them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


MOST_CULPRITS = 20
"""If there are more, it is not single records that are at fault."""

Ranges = dict[int, tuple[int, int]]
"""Of each partition, the first offset, and the one after the last."""


@dataclass(frozen=True, slots=True)
class SkipList:
    """The file of a run's folder that has offsets to leave out.

    Parameters
    ----------
    path
        Where it is; it need not be there.
    topic_id
        Which topic's offsets they are: to another one of its name, nothing here applies.
    """

    path: Path
    topic_id: str | None

    def read(self) -> dict[int, tuple[int, ...]]:
        """Return the offsets of each partition, sorted."""
        try:
            told = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        if told["topic_id"] != self.topic_id:
            return {}
        return {int(each): tuple(offsets) for each, offsets in told["offsets"].items()}

    def add(self, found: Mapping[int, list[int]]) -> None:
        """Take in more offsets."""
        known = self.read()
        whole = {
            each: sorted({*known.get(each, ()), *found.get(each, ())})
            for each in sorted(known.keys() | found.keys())
        }
        hidden = self.path.with_name(f".{self.path.name}")
        text = json.dumps({"topic_id": self.topic_id, "offsets": whole})
        hidden.write_text(text, encoding="utf-8")
        hidden.replace(self.path)


def culprits(works: Callable[[Ranges], bool], ranges: Ranges) -> dict[int, list[int]]:
    """Return the offsets that by themselves keep ranges of records from being counted.

    Parameters
    ----------
    works
        Counts what is in some ranges, and returns whether that went well.
    ranges
        Where to look.

    Returns
    -------
    dict
        Offsets by partition: nothing if the whole can be counted, if its halves can and only the
        whole can't, if there are more than :data:`MOST_CULPRITS`, or if they are all that there is
        and several: then something else is wrong.

    Examples
    --------
    >>> def works(ranges):
    ...     return not any(first <= 5 < end for first, end in ranges.values())
    >>> culprits(works, {0: (0, 9), 1: (6, 8)})
    {0: [5]}
    """
    if works(ranges):
        return {}
    found: dict[int, list[int]] = {}
    left = [(each, *ranges[each]) for each in sorted(ranges, reverse=True)]
    while left:
        partition, first, end = left.pop()
        if first >= end or works({partition: (first, end)}):
            continue
        if end - first > 1:
            middle = (first + end) // 2
            left += [(partition, middle, end), (partition, first, middle)]
            continue
        found.setdefault(partition, []).append(first)
        if sum(map(len, found.values())) > MOST_CULPRITS:
            return {}
    tried = sum(end - first for first, end in ranges.values())
    return {} if 1 < tried == sum(map(len, found.values())) else found
