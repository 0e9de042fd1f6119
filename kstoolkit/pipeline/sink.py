"""What becomes of a micro-batch: its output is written where it stays, then judged.

::

    the operator's output ── one Spark action: each task writes its files, and reports ──┐
    findings ◀── the driver ◀── a second one scores what rules could flag ◀── what is known of all

The driver adds up what buckets tell of all users, and decides on the few counts that may be
unusual: windows in order, each once all buckets have closed it. A batch that Spark repeats writes
the same again: a task writes files under hidden names of this attempt alone, and its report names
them. The driver moves to their places what reports name, and removes the rest. So an attempt that
failed, was one too many, or goes on after the batch adds nothing to it. Where counts or findings go
to a topic, they are sent through Spark's connector; whoever is ended on the way sends the same
again: of each key the last record counts.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf

from kstoolkit.changelog.changelog import BatchFolders
from kstoolkit.changelog.countsfile import ChangelogWriter
from kstoolkit.changelog.topic import Outbox, OutboxWriter
from kstoolkit.counters.bucket import FOREVER, NEVER
from kstoolkit.counters.counters import Counters, Widest
from kstoolkit.errors import KafkaError
from kstoolkit.findings.calibration import Everyone
from kstoolkit.findings.finding import FINDINGS_SCHEMA, by_version
from kstoolkit.findings.rules import Learning, rules_on
from kstoolkit.findings.scoring import Brief, Scored, score
from kstoolkit.formats.actions import view_in
from kstoolkit.formats.countblock import to_ipc
from kstoolkit.kafka.connection import for_java
from kstoolkit.pipeline.batches import STATISTICS_FOLDER, MicroBatch
from kstoolkit.pipeline.failure import cause_in_words, is_kafkas
from kstoolkit.pipeline.incidentrecords import KEPT, changed_incidents
from kstoolkit.pipeline.operator import (
    CLOSED,
    COUNTS,
    GONE,
    MATERIAL,
    REST,
    STATISTICS,
    view_key,
    view_of,
)
from kstoolkit.pipeline.results import findings_of, hand_over
from kstoolkit.pipeline.session import spark_path
from kstoolkit.pipeline.shuffle import DEAD_LETTERS, from_ipc, spare_collector
from kstoolkit.pipeline.topicfeed import with_connector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, Row, SparkSession

    from kstoolkit.findings.rules import Rule
    from kstoolkit.kafka.outputs import KafkaChangelog, KafkaFindings, OutputTopic
    from kstoolkit.pipeline.results import BatchOutput
    from kstoolkit.pipeline.stream import Due
    from kstoolkit.windows import Cascade, Window

    _Watched = Callable[[str, Everyone, int], Sequence[Scored]]
    """What rules say of what buckets saw of a view until then."""

_REPORT_DDL = "kind string, bucket int, level int, payload binary"
"""What a writing task tells the driver."""

_Move = tuple[str, str]
"""Where a file was written, and where it belongs."""

_SCORED_DDL = "found long, files string, view string, scored binary"
"""What a scoring task tells the driver of each file of material; its own files as JSON."""

_REPORT = pa.schema(
    [("kind", pa.string()), ("bucket", pa.int32()), ("level", pa.int32()), ("payload", pa.binary())]
)
_GIVING_UP = {
    "max.block.ms": "15000",
    "request.timeout.ms": "10000",
    "delivery.timeout.ms": "20000",
}
"""After how long Java's producer gives up on a broker that is silent, so that whoever supervises
the query notices, says so and goes on when it is back. By default it is one minute or two."""

_CHANGELOG, _FINDINGS, _REJECTED, _OUTBOX = "changelog", "findings", "dead_letters", "outbox"
_KINDS = (_FINDINGS, _REJECTED, STATISTICS_FOLDER, _CHANGELOG)
"""The folders of a run, in the order in which a batch is marked in them."""


_EVERYONE_NAME, _PENDING = "part-everyone.parquet", "part-pending-"


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
            place = Path(self.places.findings, f"{begin}-{turn}-{row['level']}.parquet")
            self.material.append((_hidden(place), place.name))
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
        place = Path(folder, f"part-{self.number:05d}.parquet")
        self.files.append((_hidden(place), str(place)))
        return Path(self.files[-1][0])


def _hidden(place: Path) -> str:
    """Return a name beside a file's place that no glob takes in, and nobody else ever has."""
    return str(place.with_name(f".{uuid4().hex}-{place.name}.tmp"))


def _move(files: Iterable[Sequence[str]]) -> list[Path]:
    return [Path(hidden).replace(place) for hidden, place in files]


def _send_waiting(spark: SparkSession, waiting: Sequence[Path], topic: OutputTopic) -> None:
    if waiting:
        files = (spark_path(path, to_read=True) for path in waiting)
        _send(with_connector(spark).read.parquet(*files), topic)
    for path in waiting:
        path.unlink()


def _send_findings(
    spark: SparkSession, files: Sequence[Path], topic: KafkaFindings, parts: tuple[str, ...] | None
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


@dataclass(frozen=True, slots=True)
class _Views:
    """What is known of all users, by view, while a batch is judged.

    A batch starts from what was kept with the one before, so that a repeated one judges by the
    same. ``whole`` has, besides what is kept, the windows that a run ends in.
    """

    kept: dict[str, Everyone]
    whole: dict[str, Everyone]
    until_ms: dict[str, int]

    @classmethod
    def of(cls, folder: Path, reports: Sequence[Row], buckets: int) -> _Views:
        """Return what was kept in a folder, and what the buckets tell beside."""
        kept, path = {}, folder / _EVERYONE_NAME
        if path.exists():
            table = pq.read_table(path)
            told = zip(table["view"].to_pylist(), table["known"].to_pylist(), strict=True)
            kept = {view: Everyone.decode(known) for view, known in told}
        for view, each in _reported(reports, CLOSED).items():
            kept.setdefault(view, Everyone(each[0].every_ms)).take_in(each)
        whole = {view: each.copy() for view, each in kept.items()}
        until_ms = {view: each.closed_by(buckets) for view, each in kept.items()}
        for view, each in _reported(reports, REST).items():
            whole[view].take_in(each)
            if len(each) == buckets:
                until_ms[view] = FOREVER
        return cls(kept, whole, until_ms)

    def briefs(self) -> dict[str, tuple[bytes, int]]:
        """Return what is told to whoever judges counts, and up to when windows are over."""
        over = self.until_ms
        return {
            view: (all_.brief(over[view]).encode(), over[view]) for view, all_ in self.whole.items()
        }

    def judge(
        self, scored: Mapping[str, Sequence[Scored]], watched: _Watched, buckets: int
    ) -> pa.Table:
        """Return what is found, and what is a finding no more; keep what the next batch needs."""
        tables = [FINDINGS_SCHEMA.empty_table()]
        for view, everyone in self.whole.items():
            kept, told, until_ms = self.kept[view], scored.get(view, ()), self.until_ms[view]
            tables.append(everyone.judge([*told, *watched(view, everyone, until_ms)], until_ms))
            if until_ms == FOREVER:
                until_ms = kept.closed_by(buckets)
                kept.judge([*told, *watched(view, kept, until_ms)], until_ms)
                kept.told = kept.still_open(tables[-1])
            else:
                self.kept[view] = everyone
        return pa.concat_tables(tables)

    def keep(self, folder: Path) -> None:
        """Keep in a folder what the next batch begins from."""
        if self.kept:
            known = [each.encode() for each in self.kept.values()]
            table = pa.table({"view": list(self.kept), "known": known})
            pq.write_table(table, folder / _EVERYONE_NAME, compression="zstd")


def _reported(reports: Sequence[Row], kind: str) -> dict[str, list[Everyone]]:
    """Return what buckets told of each view, in the buckets' order."""
    found: dict[str, list[Everyone]] = {}
    for row in sorted(reports, key=itemgetter("bucket")):
        if row.kind.startswith(kind):
            told = Everyone.decode(bytes(row.payload))
            found.setdefault(row.kind.removeprefix(kind), []).append(told)
    return found


@dataclass(frozen=True, slots=True)
class Sink:
    """The function of Spark's ``foreachBatch`` for one run, which files batches under ``epoch``.

    ``topic`` is the changelog, where it is one; ``on_batch`` is told what each batch came to, and
    ``due`` when a bucket holds back something whose flush has come, or, in a run that is not
    ``live``, that its end may. ``hand_to`` is a function of
    the user's, which gets what a batch changed before that is marked; ``on_wide`` is told of users
    with very many actions of several parts.
    """

    out: Path
    epoch: int
    cascade: Cascade
    buckets: int
    rules: Sequence[Rule]
    rules_version: str
    on_batch: Callable[[MicroBatch], None]
    topic: KafkaChangelog | None = None
    findings_to: KafkaFindings | None = None
    due: Due | None = None
    live: bool = False
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
        kept = folders[STATISTICS_FOLDER].folder(self.epoch, batch) / KEPT
        # Begun before, by other rules maybe: what it told of incidents then is told anew.
        again = kept.read_bytes() if self.findings_to is not None and kept.exists() else b""
        place = {kind: folders[kind].begin(self.epoch, batch) for kind in _KINDS}
        if again:
            kept.write_bytes(again)
        reports = frame.mapInArrow(_writing(self._places(place, batch)), _REPORT_DDL).collect()
        told = [json.loads(bytes(row.payload)) for row in reports if row.kind == STATISTICS]
        written = _move(each for report in told for each in report.get("files", ()))
        changed = [path for path in written if path.parent == place[_CHANGELOG]]
        if self.topic is not None:
            _send_waiting(frame.sparkSession, changed, self.topic)
            changed = []
        self.buckets_told.update((each["bucket"], each) for each in told if "bucket" in each)
        if wide := [Widest(*each["widest"]) for each in told if each.get("widest")]:
            self.on_wide(max(wide))
        now_ms = max((report.get("now_ms", 0) for report in told), default=0)
        named = (tuple(each) for report in told for each in report.get("material", ()))
        material = sorted(named, key=itemgetter(1))
        before = folders[STATISTICS_FOLDER].folder(self.epoch, batch - 1)
        found, unjudged, files = self._judge(frame, material, (reports, now_ms), (before, place))
        reached_ms = [each.get("reached_ms") or 0 for each in told]
        with suppress(FileNotFoundError):
            reached_ms.append(MicroBatch.load(before).reached_ms or 0)
        if self.findings_to is not None:
            if found:
                _send_findings(frame.sparkSession, files, self.findings_to, self.parts)
            now = {"reached_ms": max(reached_ms, default=0), "clock_ms": now_ms}
            of, between = (self.out, self.epoch, batch), (before, place[STATISTICS_FOLDER])
            waiting = changed_incidents(of, files, between, now, self.parts)
            _send_waiting(frame.sparkSession, waiting, self.findings_to)
        if self.hand_to is not None:
            number, given = (self.epoch, batch), (changed, files)
            hand_over(self.hand_to, frame.sparkSession, number, now_ms, given, parts=self.parts)
        statistics = MicroBatch.of(
            batch,
            told,
            self.cascade.labels,
            seconds=time.monotonic() - began,
            findings=found,
            unjudged=unjudged,
            as_of_ms=self._as_of_ms(now_ms, is_last=any(each.get("is_last") for each in told)),
            reached_ms=max(reached_ms, default=0) or None,
        )
        statistics.save(place[STATISTICS_FOLDER])
        for kind in _KINDS:
            for unnamed in place[kind].glob(".*"):
                unnamed.unlink()
            folders[kind].mark(self.epoch, batch)
        self.on_batch(statistics)

    def _as_of_ms(self, now_ms: int, *, is_last: bool) -> dict[str, int | None]:
        """Return as of when windows stand that lack what is held back, and say when that is due."""
        told = self.buckets_told.values()
        if self.due is not None:
            due = [each["due_ms"] for each in told if each["due_ms"] is not None]
            if not self.live:
                due = [now_ms] * (not is_last and any(isinstance(r, Learning) for r in self.rules))
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
        self,
        frame: DataFrame,
        material: Sequence[_Move],
        told: tuple[Sequence[Row], int],
        folders: tuple[Path, dict[str, Path]],
    ) -> tuple[int, int, list[Path]]:
        """Score on the executors what rules could flag.

        Return how many findings there are, of how many counts nothing can be said, and the files.

        ``told`` is what tasks reported, and the batch's clock; ``folders``, where the batch before
        left what waits for all buckets, and where this one's goes.
        """
        (reports, now_ms), (before, place) = told, folders
        views = _Views.of(before, reports, self.buckets)
        waiting = sorted(before.glob(f"{_PENDING}*"))
        work = [*material, *((str(path), path.name) for path in waiting)]
        scored: dict[str, list[Scored]] = {}
        files, found = [], 0
        if work:
            judging = (tuple(self.rules), self.rules_version, now_ms)
            scoring = _scoring(work, views.briefs(), self.cascade.levels, judging, place)
            spark = frame.sparkSession
            # Not createDataFrame(), which makes its session the active one of all threads.
            tasks = min(spark.sparkContext.defaultParallelism, len(work))
            numbers = spark.range(len(work), numPartitions=tasks)
            for row in numbers.mapInArrow(scoring, _SCORED_DDL).collect():
                files += _move(json.loads(row.files))
                found += row.found
                scored.setdefault(row.view, []).append(Scored.decode(bytes(row.scored)))

        def watched(view: str, everyone: Everyone, until_ms: int) -> list[Scored]:
            level, by = view_of(view)
            on = rules_on(self.rules, self.cascade.levels[level], by)
            parts = self.parts if by is None else by
            return everyone.watched(on, until_ms, parts=parts, seen_ms=now_ms)

        unusual = views.judge(scored, watched, self.buckets)
        views.keep(place[STATISTICS_FOLDER])
        if len(unusual):
            files.append(place[_FINDINGS] / "part-unusual.parquet")
            told = by_version(unusual, self.rules_version)
            pq.write_table(told, files[-1], compression="zstd")
        found += pc.sum(pc.not_equal(unusual["log10_probability"], 0)).as_py() or 0
        unjudged = sum(each.unjudged for of_view in scored.values() for each in of_view)
        return found, unjudged, [path for path in files if path.parent == place[_FINDINGS]]


def _scoring(
    work: Sequence[_Move],
    briefs: Mapping[str, tuple[bytes, int]],
    levels: Sequence[Window],
    judging: tuple[tuple[Rule, ...], str | None, int],
    folders: Mapping[str, Path],
) -> Any:
    """Return a function for ``mapInArrow``: numbers of material in, what was found in it out."""
    rules, version, now_ms = judging
    findings, waiting = str(folders[_FINDINGS]), str(folders[STATISTICS_FOLDER])

    def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (each for batch in batches for each in batch.column(0).to_pylist()):
            path, name = work[number]
            level, rows = int(Path(name).stem.rsplit("-", 1)[1]), from_ipc(Path(path).read_bytes())
            view = view_key(level, view_in(rows.schema))
            brief, until_ms = briefs.get(view, (None, FOREVER))
            rows, rest = _parted(rows, until_ms)
            known = None if brief is None else Brief.decode(brief)
            on = rules_on(rules, levels[level], view_in(rows.schema))
            scored = score(rows, known, on, seen_ms=now_ms)
            files = []
            if len(scored.findings):
                place = Path(findings, f"part-{number:05d}.parquet")
                files.append((_hidden(place), str(place)))
                told = by_version(scored.findings, version).replace_schema_metadata(None)
                pq.write_table(told, files[-1][0], compression="zstd")
            if len(rest):
                place = Path(waiting, f"{_PENDING}{number:05d}-{level}.arrow")
                files.append((_hidden(place), str(place)))
                Path(files[-1][0]).write_bytes(to_ipc(rest))
            found = {"found": len(scored.findings), "files": json.dumps(files), "view": view}
            yield pa.RecordBatch.from_pylist([found | {"scored": scored.encode()}])

    return judge


def _parted(rows: pa.Table, until_ms: int) -> tuple[pa.Table, pa.Table]:
    """Return what can be judged, and what waits until all buckets have closed its windows."""
    if "is_open" not in rows.column_names:
        return rows, rows.slice(0, 0)
    can_be = pc.or_(rows["is_open"], pc.less(rows["window_start_ms"], until_ms))
    return rows.filter(can_be), rows.filter(pc.invert(can_be))
