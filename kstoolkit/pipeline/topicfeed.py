"""A Kafka topic as a feed, through Spark's own connector.

Values that are JSON with plainly named fields, or that a function of the user's reads, are read in
Python, by :mod:`kstoolkit.pipeline.counting`; SQL expressions over them are evaluated by Spark. The
connector is had in any session, also in one that was started without it.

Records that end whatever counts them, time and again, are tried out: those of the batch at hand,
whose offsets are in Spark's log and stay there. What is found goes to the skip list, by which the
feed makes dead letters of it when the batch is counted again::

    skip.json   {"topic_id": "…", "offsets": {"<partition>": [<offset>, …]}}
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby, islice
from math import inf
from operator import itemgetter, or_
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from kstoolkit.changelog.changelog import replace_text
from kstoolkit.environment import memory_bytes
from kstoolkit.errors import ConfigurationError, KafkaError, to_stderr
from kstoolkit.events.event import is_plain
from kstoolkit.events.files import BROKEN
from kstoolkit.events.topics import RECORD_COLUMNS
from kstoolkit.kafka.cluster import Cluster
from kstoolkit.kafka.connection import for_java
from kstoolkit.kafka.jars import connector_jars
from kstoolkit.pipeline.batches import told_after
from kstoolkit.pipeline.counting import (
    NOW,
    POISONED,
    RecordPlan,
    counting,
    counting_records,
    place_of,
)
from kstoolkit.pipeline.datasources import SHUFFLE_DDL
from kstoolkit.pipeline.failure import cause_in_words, is_kafkas
from kstoolkit.pipeline.runfolder import newest_commit, offsets_reached
from kstoolkit.pipeline.session import spark_session
from kstoolkit.pipeline.sparkinside import executors_memory_bytes, finds_class
from kstoolkit.pipeline.stream import counted_columns, json_fields, json_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession

    from kstoolkit.events.topics import Topic
    from kstoolkit.pipeline.runfolder import RunFolder, Settings
    from kstoolkit.pipeline.shuffle import Grain

_PROVIDER = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
_LEAST_RECORDS, _LEAST_PER_SECOND = 1_000_000, 100_000
_TRIGGERS = 3
_BATCHES = 20
_RECORD_BYTES = 200
"""What a record takes, were each a counter of its own, of a user with a long name."""

_SHOWN = 3
_MOST_FOUND = 20
"""If there are more, it is not single records that are at fault."""

Ranges = dict[int, tuple[int, int]]
"""Of each partition, the first offset, and the one after the last."""


def with_connector(spark: SparkSession, tell: Callable[[str], object] = to_stderr) -> SparkSession:
    """Return the session, which then has the format ``kafka`` in the thread that asks.

    Raises
    ------
    EnvironmentFault
        If the connector can't be had.
    """
    if not finds_class(spark, _PROVIDER):
        for jar in connector_jars(spark.version, tell=tell):
            spark.sql("ADD JAR '{}'".format(str(jar).replace("'", r"\'")))
    return spark


_VALUE, _POISONED = "_value", "_poisoned"

_AT_ONCE = {"kafka.max.poll.records": "10000", "kafka.max.partition.fetch.bytes": str(8 << 20)}
"""How much the consumer takes at once: Kafka's own 500 records cost more calls than records."""

_GIVING_UP = {
    "kafka.request.timeout.ms": "5000",
    "kafka.default.api.timeout.ms": "5000",
    "fetchOffset.numRetries": "1",
    "fetchOffset.retryIntervalMs": "100",
    "kafkaConsumer.pollTimeoutMs": "15000",
}
"""After how long Spark's source gives up on a broker that is silent, so that whoever supervises the
query notices: some 6 s, or 15 s amid a batch. By default it is two minutes and more."""


def needs_schema(topic: Topic) -> bool:
    """Return whether Spark has to know the fields of the topic's JSON values."""
    return topic.value == "json" and not _is_read_here(topic)


def sampled_schema(spark: SparkSession, topic: Topic, values: Sequence[bytes]) -> str:
    """Return the fields of JSON values, as Spark's JSON: as was said, or as some values have."""
    if topic.schema is None:
        return json_schema(spark, [value.decode(errors="replace") for value in values]).json()
    try:
        return StructType.fromDDL(topic.schema).json()
    except Exception as error:
        message = f"schema is {topic.schema!r}: {str(error).strip().splitlines()[0]}"
        raise ConfigurationError(message, hint="Write it as 'at long, who string'.") from error


def records_per_batch(
    done: Iterable[tuple[int, float]], trigger_ms: int | None, memory_bytes: int | None
) -> int:
    """Return how many records a micro-batch may take in, if nobody says.

    That is what three triggers can count, at the pace that the batches ``done`` had (events and
    seconds of each), so that a run which fell behind catches up; a million, where one batch follows
    the other. A quarter of the memory bounds it.

    >>> records_per_batch([], 10_000, 16 << 30), records_per_batch([], 60_000, 16 << 30)
    (1000000, 6000000)
    >>> records_per_batch([(1_000_000, 4.0), (500, 0.5)], 10_000, 16 << 30)
    7500000
    >>> records_per_batch([(1_000_000, 4.0)], 10_000, 1 << 29)
    671088
    """
    known = [(events, seconds) for events, seconds in done if events and seconds >= 0.001]  # noqa: PLR2004 - as kept
    most = max((events for events, _ in known), default=0)
    # A batch that had little to do says little of how fast many events are counted.
    busy = [each for each in known if 2 * each[0] >= most]
    pace = sum(events for events, _ in busy) / sum(seconds for _, seconds in busy) if busy else 0
    wanted = max(_LEAST_PER_SECOND, _TRIGGERS * pace) * (trigger_ms or 0) / 1_000
    bound = inf if memory_bytes is None else memory_bytes / 4 / _RECORD_BYTES
    return max(1, int(min(max(_LEAST_RECORDS, wanted), bound)))


def with_limit(
    topic: Topic, spark: SparkSession, folder: RunFolder, trigger_ms: int | None
) -> Topic:
    """Return the topic with what a micro-batch may take in, as measured unless that was said."""
    if topic.max_records_per_batch is not None:
        return topic
    told = told_after(folder, columns=("batch_ms", "seconds", "events"))
    done = [(batch.events, batch.seconds) for batch in told[-_BATCHES:]]
    is_local = str(spark.sparkContext.master).startswith("local")
    memory = memory_bytes() if is_local else executors_memory_bytes(spark)
    most = records_per_batch(done, trigger_ms, memory)
    return replace(topic, max_records_per_batch=most)


def topic_feed(
    spark: SparkSession,
    topic: Topic,
    starting: str | Mapping[int, int],
    grain: Grain,
    input_schema: str | None,
    *,
    skipped: Mapping[int, Sequence[int]] | None = None,
    ending: Mapping[int, int] | None = None,
) -> DataFrame:
    """Return a topic's events, counted for the shuffle: a stream, or a table up to some offsets.

    ``starting`` is where a first run begins: ``"earliest"``, ``"latest"``, or an offset for each
    partition; a table ends before ``ending``'s. Records at offsets ``skipped`` become dead letters
    unread. ``input_schema`` has the fields of JSON values, for expressions over them.
    """
    records = _records(with_connector(spark), topic, starting, ending)
    clock = sf.unix_millis(sf.current_timestamp())
    if _is_read_here(topic):
        plan = RecordPlan(
            topic=topic.address.topic,
            columns=topic.columns,
            limits=topic.limits,
            reader=topic.value if callable(topic.value) else None,
            grain=grain,
            skipped=skipped or {},
        )
        # What is not looked at is left out: each column costs Java and the way to Python.
        wanted = RECORD_COLUMNS if plan.reader else ("value", "partition", "offset")
        chosen = records.select(*wanted, clock.alias(NOW))
        return chosen.mapInArrow(counting_records(plan), SHUFFLE_DDL)
    rows = _fields(records, topic, input_schema, _poisoned(skipped or {}))
    count = counting(grain, topic.limits, is_json=topic.value == "json")
    beside = [clock, rows["_raw"], rows["_place"], rows[BROKEN]]
    return counted_columns(rows, topic.columns, beside, count)


def _is_read_here(topic: Topic) -> bool:
    """Return whether Python reads the topic's values, not Spark."""
    if callable(topic.value):
        return True
    of_records = set(topic.columns) & set(RECORD_COLUMNS)
    return topic.value == "json" and is_plain(topic.columns) and not of_records


def _records(
    spark: SparkSession,
    topic: Topic,
    starting: str | Mapping[int, int],
    ending: Mapping[int, int] | None,
) -> DataFrame:
    address = topic.address
    told = starting if isinstance(starting, str) else _of_topic(topic, starting)
    options = {
        "kafka.bootstrap.servers": address.bootstrap,
        "startingOffsets": told,
        "failOnDataLoss": "true",
        "includeHeaders": str(not _is_read_here(topic) or callable(topic.value)),
        "groupIdPrefix": "kstoolkit",
        **_GIVING_UP,
        **_AT_ONCE,
        # What a transaction took back was never said.
        "kafka.isolation.level": "read_committed",
        **{f"kafka.{name}": value for name, value in for_java(topic.options).items()},
    }
    if ending is None:
        most = str(topic.max_records_per_batch)
        options |= {"subscribe": address.topic, "maxOffsetsPerTrigger": most}
        read = spark.readStream.format("kafka").options(**options).load()
    else:  # of the partitions named alone
        assigned = json.dumps({address.topic: sorted(ending)})
        options |= {"assign": assigned, "endingOffsets": _of_topic(topic, ending)}
        read = spark.read.format("kafka").options(**options).load()
    there = [name for name in RECORD_COLUMNS if name in read.columns]
    keys = {"string": "cast(key AS string)", "bytes": "key"}
    return read.withColumn("key", sf.expr(keys.get(topic.key, topic.key))).select(*there)


def _of_topic(topic: Topic, offsets: Mapping[int, int]) -> str:
    return json.dumps({topic.address.topic: {str(each): at for each, at in offsets.items()}})


def _poisoned(skipped: Mapping[int, Sequence[int]]) -> Column:
    places = [
        (sf.col("partition") == partition) & sf.col("offset").isin(list(offsets))
        for partition, offsets in skipped.items()
    ]
    return reduce(or_, places, sf.lit(False))  # noqa: FBT003 - a column


def _fields(
    records: DataFrame, topic: Topic, input_schema: str | None, poisoned: Column
) -> DataFrame:
    """Return the fields of values as columns, and those of the record that no field hides.

    Of a record to skip, nothing is left that an expression could fail of.
    """
    raw = sf.coalesce(sf.col("value"), sf.lit("").cast("binary"))
    where = (sf.col(name) for name in ("topic", "partition", "offset"))
    place = sf.format_string("topic %s, partition %d, offset %d", *where)
    records = records.withColumns({"_raw": raw, "_place": place, _POISONED: poisoned})
    emptied = {"key", "value", "headers"} & set(records.columns)
    records = records.withColumns(
        {name: sf.when(~sf.col(_POISONED), sf.col(name)) for name in sorted(emptied)}
    )
    if topic.value == "json":
        schema = StructType.fromJson(json.loads(input_schema or StructType().json()))
        text = sf.coalesce(sf.col("value").cast("string"), sf.lit(""))
        told = records.withColumn(_VALUE, json_fields(text, schema))
        names = [name for name in schema.names if name != BROKEN]
        broken = sf.col(f"{_VALUE}.`{BROKEN}`")
    else:
        told = records.withColumn(_VALUE, sf.expr(str(topic.value)))
        kind = told.schema[_VALUE].dataType
        names = kind.names if isinstance(kind, StructType) else []
        broken = sf.lit(None).cast("string")
    broken = sf.coalesce(sf.when(sf.col(_POISONED), POISONED), broken)
    taken = {name.casefold() for name in names}
    kept = [sf.col(name) for name in RECORD_COLUMNS if name not in taken]
    fields = [sf.col(f"{_VALUE}.`{name}`").alias(name) for name in names]
    if not names and topic.value != "json":
        told = told.withColumn("value", sf.col(_VALUE))
    return told.select(*kept, *fields, "_place", "_raw", broken.alias(BROKEN))


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
        replace_text(self.path, json.dumps({"topic_id": self.topic_id, "offsets": whole}))


def bisect(works: Callable[[Ranges], bool], ranges: Ranges) -> dict[int, list[int]]:
    """Return the offsets, by partition, that by themselves keep ranges from being counted.

    There are none if the whole can be counted, if only the whole can't, if there are more than
    :data:`_MOST_FOUND`, or if they are all that there is and several: then something else is wrong.

    >>> def works(ranges):
    ...     return not any(first <= 5 < end for first, end in ranges.values())
    >>> bisect(works, {0: (0, 9), 1: (6, 8)})
    {0: [5]}
    """
    if works(ranges):
        return {}
    each = (
        (partition, offset)
        for partition, (first, end) in sorted(ranges.items())
        for offset in _culprits(works, partition, first, end, fails=len(ranges) == 1)
    )
    found = list(islice(each, _MOST_FOUND + 1))
    tried = sum(end - first for first, end in ranges.values())
    if len(found) > _MOST_FOUND or 1 < tried == len(found):
        return {}
    return {
        partition: [offset for _, offset in its]
        for partition, its in groupby(found, key=itemgetter(0))
    }


def _culprits(
    works: Callable[[Ranges], bool], partition: int, first: int, end: int, *, fails: bool
) -> Generator[int, None, bool]:
    """Yield the offsets of a range that can't be counted alone; return whether the whole can.

    What is known to fail is not tried as a whole: if the first half works, the other one fails.
    """
    if first >= end or ((end - first == 1 or not fails) and works({partition: (first, end)})):
        return True
    if end - first == 1:
        yield first
        return False
    middle = (first + end) // 2
    first_works = yield from _culprits(works, partition, first, middle, fails=False)
    yield from _culprits(works, partition, middle, end, fails=first_works)
    return False


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
        """Put the records on the skip list, and say which.

        ``None`` if it is not single records, or Kafka could not be read meanwhile.
        """
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
