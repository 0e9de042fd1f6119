"""Whether a run can begin, or go on, with its input; checked before any of it is counted.

Files: which they are, whether they will do, what columns they have. A topic: whether it is the one
that the run began with, and still has what comes next. A cluster: whether it and its driver see the
same output folder. What Java is told for the run goes by the input, too.
"""

from __future__ import annotations

import os
import re
import uuid
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from heapq import nsmallest
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from kstoolkit.environment import ENDS_WITH_ITS_COMMAND
from kstoolkit.errors import CheckpointError, ConfigurationError, InputError, OutputError
from kstoolkit.events.event import is_plain, storable
from kstoolkit.events.files import Listing, check_columns, first_lines, lacks_zone, row_types
from kstoolkit.events.ledger import Ledger, names_file
from kstoolkit.events.opening import format_of
from kstoolkit.events.topics import Topic
from kstoolkit.kafka.cluster import Cluster, check_offsets
from kstoolkit.kafka.reading import last_values
from kstoolkit.pipeline import stream
from kstoolkit.pipeline.run import files_told
from kstoolkit.pipeline.runfolder import files_taken, newest_commit, newest_plan, offsets_reached
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyspark.sql import SparkSession

    from kstoolkit.events.sources import Files
    from kstoolkit.kafka.cluster import Log, Reach, Sleep, TopicFacts
    from kstoolkit.pipeline.runfolder import RunFolder, Settings

_SEEN_FILES, _TRIED_FILES = 3, 1_000
_Read = TypeVar("_Read")
_SAMPLED = 100  # records a partition

_RESET = "kstoolkit reset {out} --to earliest, which says what would be counted twice"


def listing(source: Files, folder: RunFolder) -> Listing:
    """Return the input's files, without the run's own."""
    return Listing(source.path, source.file_format, str(folder.path))


def is_all_taken(source: Files, folder: RunFolder) -> bool:
    """Whether all files, as they lie there, were taken in by batches that Spark committed."""
    batch = newest_commit(folder.checkpoint)
    if batch is None or batch != newest_plan(folder.checkpoint):
        return False
    ledger = Ledger(folder.ledger)
    if files_taken(folder.checkpoint, batch) != len(ledger):
        return False
    there = listing(source, folder)
    return ledger.has_all(there) and not there.unread


def check_input(source: Files, folder: RunFolder, tell: Log, *, live: bool) -> None:
    """Say at once what is wrong with the files, before Spark is started for it."""
    there = listing(source, folder)
    found = there.first(_SEEN_FILES)
    begins = not live and not folder.ledger.exists()
    if not found and begins:
        message = f"No events in {source.path!r}: no file there has a known format."
        hint = "Files end in .json, .jsonl, .csv or .parquet (and .gz, .zst)."
        raise InputError(message, hint=hint)
    if begins and all(map(_is_empty, there)):
        number = sum(1 for _ in there)
        files = "the file is empty" if number == 1 else f"all {number} files are empty"
        message = f"No events in {source.path!r}: {files}."
        raise InputError(message, hint="Fill it, or give another.")
    check_columns(found, replace(source.columns, items=()), source.file_format)
    fresh = nsmallest(_SEEN_FILES, Ledger(folder.ledger).unknown(there))
    check_columns(fresh, source.columns, source.file_format)  # the others had no such rule
    if unread := there.unread_in_words():
        tell(unread)
    is_said = source.limits.input_timezone is not None or folder.ledger.exists()
    if not is_said and lacks_zone(found, source.columns, source.file_format):
        zone = "--input-timezone (input_timezone= in Python)"
        tell(f"Times without a zone are taken for UTC; {zone} says another.")


def _is_empty(path: str) -> bool:
    try:
        return Path(path).stat().st_size == 0
    except FileNotFoundError:
        return True
    except OSError:  # judged later, with patience
        return False


def readmit_files(folder: RunFolder, pattern: str) -> None:
    """Take files in again of which nothing was counted, as often as they were taken in.

    Each time a file is taken in, its events count, or a dead letter tells of it all: with as many
    such letters as times, nothing of it counts. A pattern that names none is a ConfigurationError.
    """
    ledger = Ledger(folder.ledger)
    told = files_told(folder)
    taken = Counter(entry.path for entry in ledger if told[storable(entry.path)])
    uncounted = [path for path, times in taken.items() if told[storable(path)] == times]
    chosen = [path for path in uncounted if names_file(pattern, path)]
    if not chosen:
        message = f"No file that {pattern!r} names is a dead letter as a whole."
        shown = ", ".join(map(repr, uncounted[:_SEEN_FILES])) or "none"
        raise ConfigurationError(message, hint=f"Of this run, these are: {shown}.")
    ledger.admit(chosen, again=True)


def schema_of(source: Files, folder: RunFolder, spark: SparkSession) -> str:
    """Return the columns that expressions may name, from the first files, as Spark's JSON.

    Files that can't be read are judged later; those without any column say nothing.
    """
    paths = listing(source, folder).first(_TRIED_FILES)
    if paths and format_of(paths[0], source.file_format) == "json":
        seen = islice(filter(None, _readable(first_lines, paths)), _SEEN_FILES)
        if lines := [line for each in seen for line in each]:
            return stream.json_schema(spark, lines).json()
    else:
        kinds = filter(len, _readable(lambda path: row_types(path, source.file_format), paths))
        if (types := next(kinds, None)) is not None:
            return str(from_arrow_schema(types).json())
    message = f"No file in {source.path!r} yet to see columns in."
    raise InputError(message, hint="Expressions need one; plain column names do not.")


def _readable(read: Callable[[str], _Read], paths: Iterable[str]) -> Iterator[_Read]:
    for path in filter(os.path.isfile, paths):
        with suppress(OSError):
            yield read(path)


def format_taken(source: Files, folder: RunFolder) -> str:
    """Return the format of a run's files: that of the first one, be it gone by now."""
    ledger = Ledger(folder.ledger)
    paths = [entry.path for entry in ledger.entries(0, 1)] or listing(source, folder).first(1)
    return format_of(paths[0], source.file_format)


def check_topic(
    topic: Topic, folder: RunFolder, earlier: Settings | None, tell: Log, sleep: Sleep
) -> TopicFacts:
    """Wait for the topic's broker, and return what the topic is.

    It must be that of the run's earlier batches, and still have what comes next.
    """
    cluster = Cluster(topic.address.bootstrap, topic.options)
    cluster.wait(topic.patience_ms, tell, sleep)
    following = _next_offsets(folder, topic.address.topic)
    try:
        facts = cluster.facts(topic.address.topic)
    except InputError as error:
        if not following:
            raise
        raise _lost(topic, folder, "deleted") from error
    _check_id(topic, folder, earlier, facts.topic_id)
    _check_offsets(following, facts, folder.path)
    return facts


def check_same(topic: Topic, folder: RunFolder, settings: Settings) -> None:
    """Raise unless the topic is still the one that the run began with."""
    cluster = Cluster(topic.address.bootstrap, topic.options)
    _check_id(topic, folder, settings, cluster.topic_id(topic.address.topic))


def _check_id(topic: Topic, folder: RunFolder, known: Settings | None, found: str | None) -> None:
    before = None if known is None else known.topic_id
    if None not in {before, found} and before != found:
        raise _lost(topic, folder, "deleted and made again since this run began")


def _lost(topic: Topic, folder: RunFolder, how: str) -> CheckpointError:
    name = topic.address.topic
    following = _next_offsets(folder, name)
    places = ", ".join(f"{at} of partition {each}" for each, at in sorted(following.items()))
    gone = f" Gone are the offsets from {places} on." if places else ""
    hint = f"Offsets mean other records now. See {_RESET.format(out=folder.path)}."
    return CheckpointError(f"The topic {name!r} was {how}.{gone}", hint=hint)


def starting_of(topic: Topic, facts: TopicFacts, reset: Mapping[int, int]) -> str | dict[int, int]:
    """Return where an epoch's first run begins, as Spark's source takes it.

    Offsets that a ``reset`` named count before what the topic says.
    """
    if reset:
        return {each: reset.get(each, at.first) for each, at in facts.reach.items()}
    if isinstance(topic.starting, str):
        return topic.starting
    partitions = sorted(facts.reach)
    if isinstance(topic.starting, datetime):
        cluster = Cluster(topic.address.bootstrap, topic.options)
        moment_ms = round(topic.starting.timestamp() * 1_000)
        return cluster.offsets_at(facts.name, partitions, moment_ms)
    check_offsets("starting", topic.starting, facts.name, facts.reach)
    return {each: topic.starting.get(each, facts.reach[each].first) for each in partitions}


def sample_values(topic: Topic) -> list[bytes]:
    """Return the values of some of the topic's records, to see their fields in."""
    cluster = Cluster(topic.address.bootstrap, topic.options)
    values = last_values(cluster, topic.address.topic, _SAMPLED)
    if not values:
        message = f"The topic {topic.address.topic!r} has no record yet to see fields in."
        raise InputError(message, hint="Say them: schema='at long, who string'.")
    return values


def _next_offsets(folder: RunFolder, topic: str) -> dict[int, int]:
    """Return the offset of each partition that the next batch begins with, as far as is known."""
    committed = newest_commit(folder.checkpoint)
    if committed is not None:
        return offsets_reached(folder.checkpoint, committed, topic) or {}
    settings = folder.settings() if folder.has_begun else None
    return {} if settings is None else settings.starting_offsets


def _check_offsets(following: Mapping[int, int], facts: TopicFacts, out: Path) -> None:
    wrong = [
        _gone(each, at, facts.reach.get(each))
        for each, at in sorted(following.items())
        if (reach := facts.reach.get(each)) is None or not reach.first <= at <= reach.end
    ]
    if wrong:
        message = f"The topic {facts.name!r} has not what comes next: {'; '.join(wrong)}."
        raise CheckpointError(message, hint=f"See {_RESET.format(out=out)}.")


def _gone(partition: int, at: int, reach: Reach | None) -> str:
    if reach is None:
        return f"partition {partition} is gone"
    if at < reach.first:
        gone = f"offsets {at} to {reach.first - 1} are gone ({format_count(reach.first - at)})"
        return f"of partition {partition}, {gone}"
    return f"partition {partition} ends at offset {reach.end}, and {at} comes next"


def check_shared(spark: SparkSession, folder: Path) -> None:
    """Have executors write into the folder, and see whether it arrives here."""
    tasks = spark.sparkContext.defaultParallelism
    prefix = f".probe-{uuid.uuid4().hex}"
    numbers = spark.range(tasks, numPartitions=tasks).mapInArrow(
        _probing(str(folder), prefix), "written string"
    )
    names = [row.written for row in numbers.collect()]
    missing = [name for name in names if not (folder / name).exists()]
    for name in names:
        (folder / name).unlink(missing_ok=True)
    if missing:
        wrote = f"{len(missing)} of {len(names)} tasks wrote to {str(folder)!r} on the cluster"
        message = f"{wrote}, but it did not arrive here."
        hint = "A cluster needs an output folder that all its nodes and the driver share, such as "
        raise OutputError(message, hint=f"{hint}an NFS mount: give one with --out.")


def _probing(folder: str, prefix: str) -> Any:
    def probe(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                place = Path(folder) / f"{prefix}-{number}"
                place.parent.mkdir(parents=True, exist_ok=True)
                place.touch()
                yield pa.record_batch([pa.array([place.name])], names=["written"])

    return probe


_FEW_CORES = 4  # with more, Java has threads to spare for what these options take from it
_QUICK_JAVA = "-XX:TieredStopAtLevel=1"
"""Where files are read in Python, Java handles blocks of bytes only: its optimising compiler would
cost more than it saves, a third of the CPU of a run of some minutes."""

_TIER_4 = {"Invocation": 50_000, "MinInvocation": 10_000, "Compile": 100_000, "BackEdge": 400_000}
_PATIENT_JAVA = [f"-XX:Tier4{name}Threshold={times}" for name, times in _TIER_4.items()]
"""A topic's records pass through Java: it optimises what is asked ten times as often as usual."""

_QUICK_COLLECTOR = "-XX:+UseSerialGC"
"""Blocks are large and short-lived. Java's usual collector takes each of them for a reason to mark
all there is, beside the work: up to a tenth of the CPU of a run."""

_LOCAL = re.compile(r"local(?:\[(\d+)(?:,[^\]]*)?\])?")
_COLLECTOR = re.compile(r"-XX:\+Use\w*GC\b")
_JAVA_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")


def java_options(source: Files | Topic, master: str | None) -> list[str]:
    """Return what Java is told when it is started for a run: nothing where it may outlive that."""
    if not ENDS_WITH_ITS_COMMAND.is_set() or _cores(master) > _FEW_CORES:
        return []
    if isinstance(source, Topic):
        return [*_PATIENT_JAVA, *_collector()]
    return [_QUICK_JAVA, *_collector()] if is_plain(source.columns) else []


def _cores(master: str | None) -> int:
    """Return on how many cores the driver's Java works."""
    if (named := _LOCAL.fullmatch(master or "")) is not None:
        return int(named[1] or 1)
    asked = getattr(os, "sched_getaffinity", None)  # which not every system has
    return len(asked(0)) if asked else os.cpu_count() or 1


def _collector() -> list[str]:
    given = " ".join(os.environ.get(name, "") for name in _JAVA_VARIABLES)
    # Java does not start if it is told two collectors.
    return [] if _COLLECTOR.search(given) else [_QUICK_COLLECTOR]
