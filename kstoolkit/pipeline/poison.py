"""Which records end whatever counts them, time and again: tried out, and left out from then on.

The offsets of a batch are in Spark's log and stay there. What is found goes to the skip list, by
which the feed leaves it out, as dead letters, when the batch is counted again::

    skip.json   {"topic_id": "…", "offsets": {"<partition>": [<offset>, …]}}
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from kstoolkit.errors import KafkaError
from kstoolkit.kafka.cluster import Cluster
from kstoolkit.pipeline.counting import place_of
from kstoolkit.pipeline.failure import cause_in_words, is_kafkas
from kstoolkit.pipeline.runfolder import newest_commit, offsets_reached
from kstoolkit.pipeline.session import spark_session
from kstoolkit.pipeline.topicfeed import topic_feed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from kstoolkit.events.topics import Topic
    from kstoolkit.pipeline.runfolder import RunFolder, Settings
    from kstoolkit.pipeline.shuffle import Grain

_SHOWN = 3
_MOST_FOUND = 20
"""If there are more, it is not single records that are at fault."""

Ranges = dict[int, tuple[int, int]]
"""Of each partition, the first offset, and the one after the last."""


@dataclass(frozen=True, slots=True)
class SkipList:
    """The file of a run's folder that has offsets to leave out; it need not be there.

    To another topic of the same name, nothing of it applies: its id is not ``topic_id``.
    """

    path: Path
    topic_id: str | None

    def read(self) -> dict[int, tuple[int, ...]]:
        """Return the offsets of each partition, sorted."""
        try:
            known = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        if known["topic_id"] != self.topic_id:
            return {}
        return {int(each): tuple(offsets) for each, offsets in known["offsets"].items()}

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


def bisect(works: Callable[[Ranges], bool], ranges: Ranges) -> dict[int, list[int]]:
    """Return the offsets, by partition, that by themselves keep ranges from being counted.

    There are none if the whole can be counted, if its halves can and only the whole can't, if there
    are more than :data:`_MOST_FOUND`, or if they are all that there is and several: then something
    else is wrong.

    >>> def works(ranges):
    ...     return not any(first <= 5 < end for first, end in ranges.values())
    >>> bisect(works, {0: (0, 9), 1: (6, 8)})
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
        if sum(map(len, found.values())) > _MOST_FOUND:
            return {}
    tried = sum(end - first for first, end in ranges.values())
    return {} if 1 < tried == sum(map(len, found.values())) else found


@dataclass(frozen=True, slots=True)
class PoisonSearch:
    """Finds the records that the batch at hand of a run on a topic dies of.

    ``check_wanted`` is called before each trial; what it raises ends the search.
    """

    topic: Topic
    grain: Grain
    folder: RunFolder
    settings: Settings
    check_wanted: Callable[[], None]

    def set_aside(self) -> str | None:
        """Put the records on the skip list, and say which; ``None`` if it is not single records."""
        try:
            ranges = self._at_hand()
            found = bisect(self._works, ranges) if ranges else {}
        except KafkaError:
            return None
        if not found:
            return None
        self._skip_list.add(found)
        name = self.topic.address.topic
        places = [place_of(name, each, at) for each, offsets in found.items() for at in offsets]
        more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
        shown = "; ".join(places[:_SHOWN])
        return f"Records that end whatever counts them become dead letters: {shown}{more}."

    @property
    def _skip_list(self) -> SkipList:
        return SkipList(self.folder.skipped, self.settings.topic_id)

    def _at_hand(self) -> Ranges:
        """Return the offsets of the batch that Spark has planned and not committed."""
        checkpoint, name = self.folder.checkpoint, self.topic.address.topic
        committed = newest_commit(checkpoint)
        batch = 0 if committed is None else committed + 1
        ends = offsets_reached(checkpoint, batch, name) or {}
        begins = offsets_reached(checkpoint, batch - 1, name) if batch else None
        missing = [each for each in ends if each not in (begins or {})]
        cluster = Cluster(self.topic.address.bootstrap, self.topic.options)
        reach = cluster.reach(name, missing) if missing else {}
        first = {each: at.first for each, at in reach.items()}
        if not batch:
            first |= self.settings.starting_offsets
        first |= begins or {}
        return {each: (first[each], end) for each, end in ends.items() if first[each] < end}

    def _works(self, tried: Ranges) -> bool:
        self.check_wanted()
        counted = topic_feed(
            spark_session(log_path=self.folder.log),
            self.topic,
            {each: first for each, (first, _) in tried.items()},
            self.grain,
            self.settings.input_schema,
            skipped=self._skip_list.read(),
            ending={each: end for each, (_, end) in tried.items()},
        )
        try:
            counted.write.format("noop").mode("overwrite").save()
        except (PySparkException, Py4JJavaError) as error:
            if is_kafkas(error):
                raise KafkaError(cause_in_words(error)) from error
            return False
        return True
