"""What becomes of a micro-batch: its output is written where it stays, then judged.

::

    the operator's output ── one Spark action: each task writes its files, and reports ──┐
    findings ◀── a second one scores what rules could flag ◀── the buckets' moments, pooled

The driver computes the pooled moments and nothing else. A batch that Spark repeats writes the same
again: a task writes files under hidden names of this attempt alone, and its report names them. The
driver moves to their places what reports name, and removes the rest. So an attempt that failed,
was one too many, or goes on after the batch adds nothing to it. Where counts or findings go
to a topic, they are sent through Spark's connector; whoever is ended on the way sends the same
again: of each key the last record counts.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf

from kstoolkit.changelog.changelog import BatchFolders
from kstoolkit.changelog.countsfile import ChangelogWriter
from kstoolkit.changelog.topic import Outbox, OutboxWriter
from kstoolkit.counters.bucket import NEVER
from kstoolkit.counters.counters import Counters, Widest
from kstoolkit.errors import KafkaError
from kstoolkit.findings.peers import pool_moments
from kstoolkit.findings.scoring import score
from kstoolkit.formats.actions import view_in
from kstoolkit.kafka.connection import for_java
from kstoolkit.pipeline.batches import STATISTICS_FOLDER, MicroBatch
from kstoolkit.pipeline.failure import cause_in_words, is_kafkas
from kstoolkit.pipeline.operator import COUNTS, GONE, MATERIAL, MOMENTS, STATISTICS
from kstoolkit.pipeline.results import findings_of, hand_over
from kstoolkit.pipeline.shuffle import DEAD_LETTERS, from_ipc, spare_collector, to_ipc
from kstoolkit.pipeline.topicfeed import with_connector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame, Row, SparkSession

    from kstoolkit.findings.rules import Rule
    from kstoolkit.kafka.outputs import KafkaChangelog, KafkaFindings, OutputTopic
    from kstoolkit.pipeline.results import BatchOutput
    from kstoolkit.pipeline.stream import Due
    from kstoolkit.windows import Cascade, Window

_REPORT_DDL = "kind string, bucket int, level int, payload binary"
"""What a writing task tells the driver."""

_Move = tuple[str, str]
"""Where a file was written, and where it belongs."""

_FOUND_DDL = "found long, hidden string, place string"
"""What a scoring task tells the driver of each file of findings."""

_REPORT = pa.schema(
    [("kind", pa.string()), ("bucket", pa.int32()), ("level", pa.int32()), ("payload", pa.binary())]
)


@dataclass(frozen=True, slots=True)
class _BatchPlaces:
    """Where a batch's parts go: its folders, and by which levels; an outbox is of a topic."""

    changelog: str
    findings: str
    dead_letters: str
    lengths_ms: tuple[int, ...]
    buckets: int
    outbox: Outbox | None = None
    has_ends: bool = False


def _writing(places: _BatchPlaces) -> Any:
    """Return a function for ``mapInArrow``: the operator's output in, reports out."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        if task is None:
            return
        spare_collector()
        reports: list[dict[str, Any]] = []
        files = _TaskFiles(places, task.partitionId())
        with ExitStack() as files.open_files:
            for batch in batches:
                rows = batch.to_pylist()  # a handful for each bucket
                reports.extend(row for row in rows if not files.write(row))
        told = json.dumps(files.told()).encode()
        reports.append({"kind": STATISTICS, "bucket": -1, "level": -1, "payload": told})
        yield pa.RecordBatch.from_pylist(reports, _REPORT)

    return write


@dataclass(slots=True)
class _TaskFiles:
    """The files that one attempt at a task writes of a batch; each beside its place to be."""

    places: _BatchPlaces
    number: int
    open_files: ExitStack = field(default_factory=ExitStack)
    files: list[_Move] = field(default_factory=list)
    material: list[_Move] = field(default_factory=list)
    dead_letters: Counter[str] = field(default_factory=Counter)
    changelog: Any = None
    dead_letters_file: pq.ParquetWriter | None = None

    def write(self, row: dict[str, Any]) -> bool:
        """Write a row to its file; ``False`` if it is of a kind that has none."""
        kind = row["kind"]
        length_ms = self.places.lengths_ms[max(row["level"], 0)]
        if kind == COUNTS:
            counters = Counters.decode(row["payload"])
            self._changelog(row["now_ms"], counters).write(row["bucket"], length_ms, counters)
        elif kind == GONE:  # told of where the changelog is a topic
            counters = Counters.decode(row["payload"])
            self._changelog(row["now_ms"], counters).forget(length_ms, counters)
        elif kind == DEAD_LETTERS:
            self._write_dead_letters(from_ipc(row["payload"]))
        elif kind == MATERIAL:
            # Of each view of one level there is one, always in the same turn.
            begin = f"part-{row['bucket']:05d}"
            turn = sum(Path(each).name.startswith(f"{begin}-") for _, each in self.material)
            place = Path(self.places.findings, f"{begin}-{turn}-{length_ms}.parquet")
            self.material.append((_hidden(place), str(place)))
            Path(self.material[-1][0]).write_bytes(row["payload"])
        return kind in {COUNTS, GONE, DEAD_LETTERS, MATERIAL}

    def told(self) -> dict[str, Any]:
        """Return what was written, and what it came to."""
        return {
            "records": self.changelog.rows if self.changelog else 0,
            "bytes": self.changelog.size_bytes if self.changelog else 0,
            "dead_letters": self.dead_letters,
            "files": self.files,
            "material": self.material,
        }

    def _changelog(self, now_ms: int, counters: Counters) -> Any:
        if self.changelog is None:
            path = self._path(self.places.changelog)
            outbox, buckets = self.places.outbox, self.places.buckets
            if outbox is None:
                self.changelog = ChangelogWriter(
                    path,
                    buckets=buckets,
                    changed_ms=now_ms,
                    parts=counters.parts,
                    has_ends=self.places.has_ends,
                )
            else:
                self.changelog = OutboxWriter(path, outbox, changed_ms=now_ms)
            self.open_files.callback(self.changelog.close)
        return self.changelog

    def _write_dead_letters(self, table: pa.Table) -> None:
        if self.dead_letters_file is None:
            path = self._path(self.places.dead_letters)
            writer = pq.ParquetWriter(path, table.schema, compression="zstd")
            self.dead_letters_file = self.open_files.enter_context(writer)
        self.dead_letters_file.write_table(table)
        for each in table.column("reason").combine_chunks().value_counts().to_pylist():
            self.dead_letters[each["values"]] += each["counts"]

    def _path(self, folder: str) -> Path:
        """Return where the task's file of a folder is written."""
        place = Path(folder, f"part-{self.number:05d}.parquet")
        self.files.append((_hidden(place), str(place)))
        return Path(self.files[-1][0])


def _hidden(place: Path) -> str:
    """Return a name beside a file's place that no glob takes in, and nobody else ever has."""
    return str(place.with_name(f".{uuid4().hex}-{place.name}.tmp"))


def _move(files: Iterable[Sequence[str]]) -> list[Path]:
    """Move files to their places, and return these."""
    return [Path(hidden).replace(place) for hidden, place in files]


_MOMENTS_NAME = "part-moments.parquet"

_GIVING_UP = {
    "max.block.ms": "15000",
    "request.timeout.ms": "10000",
    "delivery.timeout.ms": "20000",
}
"""After how long Java's producer gives up on a broker that is silent, so that whoever supervises
the query notices, says so and goes on when it is back. By default it is one minute or two."""


def _send_counts(spark: SparkSession, waiting: Sequence[Path], topic: KafkaChangelog) -> None:
    """Send the records that tasks left in files, and take them away."""
    if waiting:
        _send(with_connector(spark).read.parquet(*map(str, waiting)), topic)
    for path in waiting:
        path.unlink()


def _send_findings(
    spark: SparkSession,
    files: Sequence[Path],
    topic: KafkaFindings,
    parts: tuple[str, ...] | None,
) -> None:
    """Send a batch's findings as JSON: see :mod:`kstoolkit.kafka.outputs`."""
    found = findings_of(with_connector(spark), files, parts)
    told = sf.to_json(sf.struct("*"), {"ignoreNullFields": "false"})
    _send(found.select(sf.col("user").alias("key"), told.alias("value")), topic)


class NotSent(KafkaError):  # noqa: N818 - says what happened, as RunFailed does
    """Records that a topic's brokers did not take."""

    def __init__(self, topic: OutputTopic, why: str) -> None:
        self.patience_ms = topic.patience_ms
        super().__init__(f"The topic {topic.address.topic!r} can't be written: {why}.")


def _send(records: DataFrame, topic: OutputTopic) -> None:
    given = for_java(topic.options)
    giving_up = {} if _GIVING_UP.keys() & given.keys() else _GIVING_UP  # they hang together
    options = {
        "kafka.bootstrap.servers": topic.address.bootstrap,
        "topic": topic.address.topic,
        "kafka.compression.type": "zstd",
        "kafka.linger.ms": "20",
        **{f"kafka.{name}": value for name, value in (giving_up | given).items()},
    }
    try:
        records.write.format("kafka").options(**options).save()
    except (PySparkException, Py4JJavaError) as error:
        if is_kafkas(error):
            raise NotSent(topic, cause_in_words(error)) from error
        raise


_CHANGELOG, _FINDINGS, _REJECTED, _OUTBOX = "changelog", "findings", "dead_letters", "outbox"
_KINDS = (_FINDINGS, _REJECTED, STATISTICS_FOLDER, _CHANGELOG)
"""The folders of a run, in the order in which a batch is marked in them."""


_Moments = dict[tuple[int, int, str | None], pa.Table]
"""The newest moments that each bucket reported, by level, bucket and view, which are columns, too.

A batch starts from those kept with the one before, so that a repeated one judges by the same.
"""


def _kept_moments(folder: Path) -> _Moments:
    path = folder / _MOMENTS_NAME
    if not path.exists():
        return {}
    table = pq.read_table(path)
    if "by" not in table.column_names:
        table = table.append_column("by", pa.nulls(table.num_rows, pa.string()))
    names = ["level", "bucket", "by"]
    keys = zip(*(table[name].to_pylist() for name in names), strict=True)
    found: dict[Any, list[int]] = {}
    for row, key in enumerate(keys):
        found.setdefault(key, []).append(row)
    return {key: table.take(pa.array(rows)) for key, rows in found.items()}


def _reported_moments(reports: Iterable[Row]) -> _Moments:
    found: _Moments = {}
    for row in reports:
        if row.kind == MOMENTS and (table := from_ipc(bytes(row.payload))).num_rows:
            by = _by_of(table)
            for name, value in (("level", row.level), ("bucket", row.bucket), ("by", by)):
                kind = pa.string() if name == "by" else pa.int64()
                column = pa.repeat(pa.scalar(value, kind), table.num_rows)
                table = table.append_column(name, column)
            found[row.level, row.bucket, by] = table.replace_schema_metadata(None)
    return found


_Pooled = dict[tuple[int, str | None], tuple["Window", bytes]]
"""Windows by their length, and the moments of all buckets by view."""


def _by_of(table: pa.Table) -> str | None:
    """Return by which parts of an action a table is a view, as text; ``None`` if it is none."""
    by = view_in(table.schema)
    return None if by is None else json.dumps(by)


@dataclass(frozen=True, slots=True)
class Sink:
    """The function of Spark's ``foreachBatch`` for one run, which files batches under ``epoch``.

    ``topic`` is the changelog, where it is one; ``on_batch`` is told what each batch came to, and
    ``due`` when a bucket holds back something whose flush has come. ``hand_to`` is a function of
    the user's, which gets what a batch changed before that is marked; ``on_wide`` is told of users
    with very many actions of several parts.
    """

    out: Path
    epoch: int
    cascade: Cascade
    buckets: int
    rules: Sequence[Rule]
    on_batch: Callable[[MicroBatch], None]
    topic: KafkaChangelog | None = None
    findings_to: KafkaFindings | None = None
    due: Due | None = None
    hand_to: Callable[[BatchOutput], object] | None = None
    parts: tuple[str, ...] | None = None
    on_wide: Callable[[Widest], None] = field(default=lambda _: None)
    buckets_told: dict[int, dict[str, Any]] = field(default_factory=dict)
    """What each bucket said when it was last called."""

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Write and judge one micro-batch."""
        began = time.monotonic()
        elsewhere = {} if self.topic is None else {_CHANGELOG: _OUTBOX}
        folders = {k: BatchFolders(self.out / elsewhere.get(k, k)) for k in _KINDS}
        place = {kind: folders[kind].begin(self.epoch, batch) for kind in _KINDS}
        reports = frame.mapInArrow(_writing(self._places(place, batch)), _REPORT_DDL).collect()
        told = [json.loads(bytes(row.payload)) for row in reports if row.kind == STATISTICS]
        written = _move(each for report in told for each in report.get("files", ()))
        changed = [path for path in written if path.parent == place[_CHANGELOG]]
        if self.topic is not None:
            _send_counts(frame.sparkSession, changed, self.topic)
            changed = []
        moments = _kept_moments(folders[STATISTICS_FOLDER].folder(self.epoch, batch - 1))
        moments |= _reported_moments(reports)
        if moments:
            kept = place[STATISTICS_FOLDER] / _MOMENTS_NAME
            pq.write_table(pa.concat_tables(moments.values()), kept, compression="zstd")
        self.buckets_told.update((each["bucket"], each) for each in told if "bucket" in each)
        if wide := [Widest(*each["widest"]) for each in told if each.get("widest")]:
            self.on_wide(max(wide))
        now_ms = max((report.get("now_ms", 0) for report in told), default=0)
        named = (tuple(each) for report in told for each in report.get("material", ()))
        material = sorted(named, key=itemgetter(1))
        found, files = self._judge(frame, material, moments, now_ms)
        if found and self.findings_to is not None:
            _send_findings(frame.sparkSession, files, self.findings_to, self.parts)
        if self.hand_to is not None:
            number, given = (self.epoch, batch), (changed, files)
            hand_over(self.hand_to, frame.sparkSession, number, now_ms, given, parts=self.parts)
        statistics = MicroBatch.of(
            batch,
            told,
            self.cascade.labels,
            seconds=time.monotonic() - began,
            findings=found,
            as_of_ms=self._as_of_ms(now_ms),
        )
        statistics.save(place[STATISTICS_FOLDER])
        for kind in _KINDS:
            for unnamed in place[kind].glob(".*"):
                unnamed.unlink()
            folders[kind].mark(self.epoch, batch)
        self.on_batch(statistics)

    def _as_of_ms(self, now_ms: int) -> dict[str, int | None]:
        """Return as of when windows stand that lack what is held back, and say when that is due."""
        told = self.buckets_told.values()
        if self.due is not None:
            due = [each["due_ms"] for each in told if each["due_ms"] is not None]
            self.due.tell(min(due, default=None), now_ms=now_ms)
        reached: dict[str, int | None] = {}
        for level, window in enumerate(self.cascade.labels):
            since = [each["as_of_ms"].get(str(level)) for each in told]
            if known := [each for each in since if each is not None]:
                reached[window] = None if min(known) == NEVER else min(known)
        return reached

    def _places(self, place: dict[str, Path], batch: int) -> _BatchPlaces:
        topic = self.topic
        return _BatchPlaces(
            changelog=str(place[_CHANGELOG]),
            findings=str(place[_FINDINGS]),
            dead_letters=str(place[_REJECTED]),
            lengths_ms=tuple(window.size_ms for window in self.cascade.levels),
            buckets=self.buckets,
            has_ends=bool(self.cascade.sessions),
            outbox=None if topic is None else Outbox(self.epoch, batch, topic.blocks),
        )

    def _judge(
        self, frame: DataFrame, material: Sequence[_Move], moments: _Moments, now_ms: int
    ) -> tuple[int, list[Path]]:
        """Score on the executors what rules could flag; return how many findings, and the files."""
        if not material:
            return 0, []
        by_length: _Pooled = {}
        for level, window in enumerate(self.cascade.levels):
            for by in {None, *(view for _, _, view in moments)}:
                of_view = [each for key, each in moments.items() if (key[0], key[2]) == (level, by)]
                by_length[window.size_ms, by] = (window, to_ipc(pool_moments(of_view)))
        spark = frame.sparkSession
        scoring = _scoring(material, by_length, tuple(self.rules), now_ms)
        # Not createDataFrame(), which makes its session the active one of all threads.
        tasks = min(spark.sparkContext.defaultParallelism, len(material))
        numbers = spark.range(len(material), numPartitions=tasks)
        done = numbers.mapInArrow(scoring, _FOUND_DDL).collect()
        files = _move((row.hidden, row.place) for row in done)
        return sum(row.found for row in done), files


def _scoring(
    material: Sequence[_Move],
    by_length: _Pooled,
    rules: tuple[Rule, ...],
    now_ms: int,
) -> Any:
    """Return a function for ``mapInArrow``: numbers of material in, what was found in it out."""

    def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                path, place = material[number]
                length_ms = int(Path(place).stem.split("-", 3)[3])
                rows = from_ipc(Path(path).read_bytes())
                window, whole = by_length[length_ms, None]
                _, pooled = by_length.get((length_ms, _by_of(rows)), (window, None))
                told = from_ipc(whole).slice(0, 0) if pooled is None else from_ipc(pooled)
                by = view_in(rows.schema)
                findings = score(rows, told, rules, window, by=by, seen_ms=now_ms)
                if findings.num_rows:
                    hidden = _hidden(Path(place))
                    pq.write_table(
                        findings.replace_schema_metadata(None), hidden, compression="zstd"
                    )
                    told = {"found": findings.num_rows, "hidden": hidden, "place": place}
                    yield pa.RecordBatch.from_pylist([told])

    return judge
