"""What becomes of a micro-batch: its output is written where it stays, then judged.

::

    the operator's output ── one Spark action: each task writes its files, and names them ──┐
    findings ◀── decided ◀── a second one scores what rules could flag ◀── what is known of all

What buckets tell of all users is added up, and decided on are the few counts that may be unusual:
windows in order, each once all buckets have closed it. What grows with users and actions lies in
files, which the driver reads where they are small, and a task where they are not. A batch that
Spark repeats writes the same again: a task writes files under hidden names of this attempt alone,
and its report names them. The driver moves to their places what reports name, and removes the rest.
So an attempt that failed, was one too many, or goes on after the batch adds nothing to it. Where
counts or findings go to a topic, they are sent through Spark's connector; whoever is ended on the
way sends the same again: of each key the last record counts.
"""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
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

    from pyspark.sql import DataFrame, SparkSession

    from kstoolkit.findings.rules import Rule
    from kstoolkit.kafka.outputs import KafkaChangelog, KafkaFindings, OutputTopic
    from kstoolkit.pipeline.datasources import Due
    from kstoolkit.pipeline.results import BatchOutput
    from kstoolkit.windows import Cascade, Window

    _Known = tuple[int, str, str, str | None]
    """Of a view: until when windows are over, the file of its brief, that of what is known of all,
    and where a run ends, that of what is kept."""

_REPORT_DDL = "told string"
"""What a writing task tells the driver: JSON, a row a bucket and one of its files."""

_Move = tuple[str, str]
"""Where a file was written, and where it belongs."""

_SCORED_DDL = "found long, unjudged long, view string, files string, scored string"
"""What a scoring task tells the driver of each file of material; its own files as JSON."""

HERE_BYTES = 4 << 20
"""Files of so many bytes in all are read in the driver, which is quicker; of more, in a task."""

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

_OF_ALL = ["view", "known"]
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
        reports: list[str] = []
        files = _TaskFiles(places, task.partitionId())
        with ExitStack() as files.open_files:
            for batch in batches:
                for row in batch.to_pylist():  # a handful for each bucket
                    if row["kind"] == STATISTICS:
                        reports.append(row["payload"].decode())
                    else:
                        files.write(row)
        yield pa.record_batch({"told": [*reports, json.dumps(files.told())]})

    return write


@dataclass(slots=True)
class _TaskFiles:
    """The files that one attempt at a task writes of a batch; each beside its place to be."""

    places: _BatchPlaces
    number: int
    open_files: ExitStack = field(default_factory=ExitStack)
    files: list[_Move] = field(default_factory=list)
    material: list[_Move] = field(default_factory=list)
    everyone: list[tuple[str, int, str]] = field(default_factory=list)
    dead_letters: Counter[str] = field(default_factory=Counter)
    changelog: Any = None
    dead_letters_file: pq.ParquetWriter | None = None

    def write(self, row: dict[str, Any]) -> None:
        """Write a row to its file."""
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
        else:  # CLOSED or REST, and of which view
            path = _hidden(Path(self.places.findings, "everyone"))
            self.everyone.append((path, row["bucket"], kind))
            Path(path).write_bytes(row["payload"])

    def told(self) -> dict[str, Any]:
        """Return what was written, and what it came to."""
        return {
            "records": self.changelog.rows if self.changelog else 0,
            "bytes": self.changelog.size_bytes if self.changelog else 0,
            "dead_letters": self.dead_letters,
            "files": self.files,
            "material": self.material,
            "everyone": self.everyone,
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
        told = [json.loads(row.told) for row in reports]
        written = _move(each for report in told for each in report.get("files", ()))
        changed = [path for path in written if path.parent == place[_CHANGELOG]]
        if self.topic is not None:
            _send_waiting(frame.sparkSession, changed, self.topic)
            changed = []
        self.buckets_told.update((each["bucket"], each) for each in told if "bucket" in each)
        if wide := [Widest(*each["widest"]) for each in told if each.get("widest")]:
            self.on_wide(max(wide))
        now_ms = max((report.get("now_ms", 0) for report in told), default=0)
        before = folders[STATISTICS_FOLDER].folder(self.epoch, batch - 1)
        found, unjudged, files = self._judge(frame.sparkSession, told, now_ms, (before, place))
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
        spark: SparkSession,
        told: Sequence[dict[str, Any]],
        now_ms: int,
        folders: tuple[Path, dict[str, Path]],
    ) -> tuple[int, int, list[Path]]:
        """Score what rules could flag, on the executors if it is much.

        Return how many findings there are, of how many counts nothing can be said, and the files.

        ``told`` is what tasks reported, at the batch's clock; ``folders``, where the batch before
        left what waits for all buckets, and where this one's goes.
        """
        before, place = folders
        places = (str(place[_FINDINGS]), str(place[STATISTICS_FOLDER]))
        of = (tuple(self.rules), self.rules_version, self.parts)
        judging = Judging(*of, tuple(self.cascade.levels), self.buckets, now_ms, *places)
        material, everyone = (
            sorted((e for each in told for e in each.get(name, ())), key=itemgetter(1))
            for name in ("material", "everyone")
        )
        known, by_kind = before / _EVERYONE_NAME, defaultdict[str, list[str]](list)
        for path, _, kind in everyone:
            by_kind[kind].append(path)
        read = [str(known)] * known.exists() + [path for path, *_ in everyone]
        views = _done(spark, partial(judging.gather, known, dict(by_kind)), read)
        waiting = sorted(before.glob(f"{_PENDING}*"))
        work = [*material, *((str(path), path.name) for path in waiting)]
        scored: dict[str, list[str]] = {}
        files, found, unjudged = [], 0, 0
        for row in _scored(spark, judging.scoring(work, views), work):
            files += _move(json.loads(row["files"]))
            found, unjudged = found + row["found"], unjudged + row["unjudged"]
            scored.setdefault(row["view"], []).append(row["scored"])
        if views:
            read = [each[2] for each in views.values()]
            read += [each for some in scored.values() for each in some]
            decided = _done(spark, partial(judging.decide, views, scored), read)
            files += _move(decided["files"])
            found += decided["found"]
        return found, unjudged, [path for path in files if path.parent == place[_FINDINGS]]


def _scored(spark: SparkSession, score: Any, work: Sequence[_Move]) -> list[Any]:
    """Return what comes of each file of material: done here, or in tasks, as :func:`_done` does."""
    if sum(Path(path).stat().st_size for path, _ in work) <= HERE_BYTES:
        here = iter([pa.record_batch({"id": pa.array(range(len(work)))})])
        return [row for batch in score(here) for row in batch.to_pylist()]
    # Not createDataFrame(), which makes its session the active one of all threads.
    tasks = min(spark.sparkContext.defaultParallelism, len(work))
    numbers = spark.range(len(work), numPartitions=tasks)
    return numbers.mapInArrow(score, _SCORED_DDL).collect()


def _done(spark: SparkSession, work: Callable[[], Any], files: Iterable[str]) -> Any:
    """Return what comes of work on some files, as JSON has it: done here, or in a task."""
    if sum(Path(each).stat().st_size for each in files) <= HERE_BYTES:
        return work()

    def working(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.record_batch({"told": [json.dumps(work())]})

    (row,) = spark.range(1, numPartitions=1).mapInArrow(working, "told string").collect()
    return json.loads(row.told)


@dataclass(frozen=True, slots=True)
class Judging:
    """How a batch is judged: by which rules and levels, at which time, and where files go.

    A view at a time is at hand: the sum over all buckets, and once as much or half a million rows
    of what they told, 200 bytes each. A row is of an action, an octave, and six hours that a batch
    closes.
    """

    rules: tuple[Rule, ...]
    version: str | None
    parts: tuple[str, ...] | None
    levels: tuple[Window, ...]
    buckets: int
    now_ms: int
    findings: str
    statistics: str

    def gather(self, kept: Path, told: Mapping[str, Sequence[str]]) -> dict[str, _Known]:
        """Add up what buckets tell of all users, to what was kept; return by view what has it.

        ``told`` are files by what kind of row they were, in the buckets' order.
        """
        known, found = {}, {}
        if kept.exists():
            columns = (each.to_pylist() for each in pq.read_table(kept, columns=_OF_ALL).columns)
            known = dict(zip(*columns, strict=True))
        closed = (kind.removeprefix(CLOSED) for kind in told if kind.startswith(CLOSED))
        for view in dict.fromkeys([*known, *closed]):
            everyone = Everyone(self.levels[view_of(view)[0]].every_ms)
            if view in known:
                everyone = Everyone.decode(known[view])
            everyone.take_in(map(_decoded, told.get(CLOSED + view, ())))
            last = told.get(REST + view, ())
            until_ms, stays = everyone.closed_by(self.buckets), None
            if len(last) == self.buckets:
                until_ms, stays = FOREVER, self._put(everyone.encode(passing=True))
            everyone.take_in(map(_decoded, last))
            brief = self._put(everyone.brief(until_ms).encode())
            found[view] = until_ms, brief, self._put(everyone.encode(passing=True)), stays
        return found

    def scoring(self, work: Sequence[_Move], views: Mapping[str, _Known]) -> Any:
        """Return a function for ``mapInArrow``: numbers of material in, what is found there out."""

        def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            briefs: dict[str, Brief] = {}
            for number in (each for batch in batches for each in batch.column(0).to_pylist()):
                told = self._scored(number, work[number], views, briefs)
                yield pa.RecordBatch.from_pylist([told])

        return judge

    def _scored(
        self, number: int, work: _Move, views: Mapping[str, _Known], briefs: dict[str, Brief]
    ) -> dict[str, Any]:
        """Write what is found in a file of material; return what is told of that."""
        path, name = work
        level, rows = int(Path(name).stem.rsplit("-", 1)[1]), from_ipc(Path(path).read_bytes())
        view = view_key(level, view_in(rows.schema))
        until_ms, brief, *_ = views.get(view, (FOREVER, None))
        if brief is not None and view not in briefs:
            briefs[view] = Brief.decode(Path(brief).read_bytes())
        rows, rest = _parted(rows, until_ms)
        on = rules_on(self.rules, self.levels[level], view_in(rows.schema))
        scored = score(rows, briefs.get(view), on, seen_ms=self.now_ms)
        files = []
        if len(scored.findings):
            place = Path(self.findings, f"part-{number:05d}.parquet")
            found = by_version(scored.findings, self.version).replace_schema_metadata(None)
            files.append(_written(found, place))
        if len(rest):
            place = Path(self.statistics, f"{_PENDING}{number:05d}-{level}.arrow")
            files.append((self._put(to_ipc(rest)), str(place)))
        told = {"found": len(scored.findings), "unjudged": scored.unjudged, "view": view}
        return told | {"files": json.dumps(files), "scored": self._put(scored.encode())}

    def decide(
        self, views: Mapping[str, _Known], scored: Mapping[str, Sequence[str]]
    ) -> dict[str, Any]:
        """Write what is found, and what is a finding no more; and what the next batch needs."""
        tables, known, files = [FINDINGS_SCHEMA.empty_table()], {}, []
        for view, (until_ms, _, path, stays) in views.items():
            told = [Scored.decode(Path(each).read_bytes()) for each in scored.get(view, ())]
            everyone = _decoded(path)
            tables.append(self._judged(view, everyone, told, until_ms))
            if stays is not None:
                everyone = _decoded(stays)
                self._judged(view, everyone, told, everyone.closed_by(self.buckets))
                everyone.told = everyone.still_open(tables[-1])
            known[view] = everyone.encode()
        unusual = pa.concat_tables(tables)
        if len(unusual):
            place = Path(self.findings, "part-unusual.parquet")
            files.append(_written(by_version(unusual, self.version), place))
        kept = pa.table([[*known], [*known.values()]], _OF_ALL)
        files.append(_written(kept, Path(self.statistics, _EVERYONE_NAME)))
        found = pc.sum(pc.not_equal(unusual["log10_probability"], 0)).as_py() or 0
        return {"files": files, "found": found}

    def _judged(
        self, view: str, everyone: Everyone, told: Sequence[Scored], until_ms: int
    ) -> pa.Table:
        """Return what is found in a view, of counts and of what buckets saw until then."""
        level, by = view_of(view)
        on, parts = rules_on(self.rules, self.levels[level], by), self.parts if by is None else by
        seen = everyone.watched(on, until_ms, parts=parts, seen_ms=self.now_ms)
        return everyone.judge([*told, *seen], until_ms)

    def _put(self, block: bytes) -> str:
        """Write a file that is gone after the batch, if nobody names it; return its path."""
        path = Path(_hidden(Path(self.statistics, "judging")))
        path.write_bytes(block)
        return str(path)


def _decoded(path: str) -> Everyone:
    return Everyone.decode(Path(path).read_bytes())


def _written(table: pa.Table, place: Path) -> _Move:
    """Write a table under a hidden name; return that, and where it belongs."""
    hidden = _hidden(place)
    pq.write_table(table, hidden, compression="zstd")
    return hidden, str(place)


def _parted(rows: pa.Table, until_ms: int) -> tuple[pa.Table, pa.Table]:
    """Return what can be judged, and what waits until all buckets have closed its windows."""
    if "is_open" not in rows.column_names:
        return rows, rows.slice(0, 0)
    can_be = pc.or_(rows["is_open"], pc.less(rows["window_start_ms"], until_ms))
    return rows.filter(can_be), rows.filter(pc.invert(can_be))
