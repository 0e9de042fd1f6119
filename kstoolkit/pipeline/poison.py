"""A micro-batch that ends its workers time and again: which records do it is tried out.

The batch's offsets are in Spark's log and stay there. What is found goes to the skip list, by which
the feed leaves it out, as dead letters, when the batch is counted again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from kstoolkit.errors import KafkaError
from kstoolkit.events.topics import Topic
from kstoolkit.kafka.cluster import Cluster
from kstoolkit.pipeline.failure import cause_in_words, is_kafkas
from kstoolkit.pipeline.offsets import newest_commit, offsets_reached
from kstoolkit.pipeline.recordcounting import place_of
from kstoolkit.pipeline.session import spark_session
from kstoolkit.pipeline.skiplist import SkipList, culprits
from kstoolkit.pipeline.topicfeed import Grain, topic_parcels

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from kstoolkit.pipeline.job import Job
    from kstoolkit.pipeline.skiplist import Ranges


_SHOWN = 3


def set_poison_aside(job: Job, check_wanted: Callable[[], None]) -> str | None:
    """Find the records that the batch at hand dies of, put them on the skip list, and say which.

    Parameters
    ----------
    job
        The run.
    check_wanted
        Called before each trial; what it raises ends the search.

    Returns
    -------
    str or None
        A sentence; ``None`` if it is not single records, or not of a topic, or if Kafka could not
        be read meanwhile.
    """
    topic = job.pipeline.source
    if not isinstance(topic, Topic):
        return None
    skipped = SkipList(job.folder.skipped, job.settings.topic_id)

    def works(tried: Ranges) -> bool:
        check_wanted()
        return _works(_counted(job, topic, tried, skipped))

    try:
        ranges = _at_hand(job, topic)
        found = culprits(works, ranges) if ranges else {}
    except KafkaError:
        return None
    if not found:
        return None
    skipped.add(found)
    name = topic.address.topic
    places = [place_of(name, each, at) for each, offsets in found.items() for at in offsets]
    more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    shown = "; ".join(places[:_SHOWN])
    return f"Records that end whatever counts them become dead letters: {shown}{more}."


def _at_hand(job: Job, topic: Topic) -> Ranges:
    """Return the offsets of the batch that Spark has planned and not committed."""
    checkpoint, name = job.folder.checkpoint, topic.address.topic
    committed = newest_commit(checkpoint)
    batch = 0 if committed is None else committed + 1
    ends = offsets_reached(checkpoint, batch, name) or {}
    begins = offsets_reached(checkpoint, batch - 1, name) if batch else None
    missing = [each for each in ends if each not in (begins or {})]
    cluster = Cluster(topic.address.bootstrap, topic.options)
    reach = cluster.reach(name, missing) if missing else {}
    first = {each: at.first for each, at in reach.items()}
    if not batch:
        first |= job.settings.starting_offsets
    first |= begins or {}
    return {each: (first[each], end) for each, end in ends.items() if first[each] < end}


def _counted(job: Job, topic: Topic, tried: Ranges, skipped: SkipList) -> DataFrame:
    pipeline = job.pipeline
    grain = Grain(
        pane_ms=pipeline.cascade.pane_ms,
        buckets=pipeline.buckets,
        processing_time=pipeline.time == "processing",
    )
    spark = spark_session(log_path=job.folder.log)
    begins = {each: first for each, (first, _) in tried.items()}
    ends = {each: end for each, (_, end) in tried.items()}
    return topic_parcels(
        spark,
        topic,
        begins,
        grain,
        job.settings.input_schema,
        skipped=skipped.read(),
        ending=ends,
    )


def _works(parcels: DataFrame) -> bool:
    try:
        parcels.write.format("noop").mode("overwrite").save()
    except (PySparkException, Py4JJavaError) as error:
        if is_kafkas(error):
            raise KafkaError(cause_in_words(error)) from error
        return False
    return True
