"""Commands that show what RocksDB tells of a store, whoever wrote it: they change nothing in it.

Where a store lies in several RocksDB, as one in segments and the partitions of Spark's do, each is
shown, and then what they come to together. In JSON that is an object a store, which names it in
``store``, and then one of all whose ``store`` is null; of a single RocksDB there is no ``store``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import contextmanager, nullcontext
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from kstoolkit.cli import options, terminal
from kstoolkit.cli.options import argument, hidden, optional, size
from kstoolkit.cli.stores import OTHER_FOLDERS, moment_given
from kstoolkit.cli.terminal import in_flags, note, print_json, print_table, say, say_lines
from kstoolkit.errors import ConfigurationError, OutputError
from kstoolkit.records import Record, counted
from kstoolkit.rocksdb.advice.advice import by_cause, said_of_cause
from kstoolkit.rocksdb.faults import NoStoreError
from kstoolkit.rocksdb.log.jobs import LoggedError
from kstoolkit.rocksdb.profiles.named import profile_named
from kstoolkit.rocksdb.profiles.profile import python_source
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kstoolkit.records import Figure, Records
    from kstoolkit.rocksdb.advice.advice import Advice, Circumstances
    from kstoolkit.rocksdb.advice.enginemetrics import EngineMetrics
    from kstoolkit.rocksdb.files.ssts import Level
    from kstoolkit.rocksdb.files.summary import StoreSummary
    from kstoolkit.rocksdb.log.jobs import LogRows
    from kstoolkit.rocksdb.log.lines import LogFile
    from kstoolkit.rocksdb.log.storelog import LogEvent, StoreLog
    from kstoolkit.rocksdb.memory.measured import MemoryParts
    from kstoolkit.rocksdb.profiles.profile import Profile
    from kstoolkit.rocksdb.store import Store
    from kstoolkit.stores.discovery.discovering import FoundStores
    from kstoolkit.stores.views import HasViews, MemoryInAll, StoreRecords

_Row = TypeVar("_Row", bound=Record)

STORE = argument(
    "PATH",
    "A store's folder: a RocksDB, the one with a CURRENT file; or as for rows, what lies in "
    "several: segments, a level of a replica, snapshots of Spark's state.",
)
_FAMILY = optional("NAME", "Only this column family.", "all of them", flag="--column-family")
_WIDEST_KEY = 24


def inspect(
    path: str = STORE,
    family: str | None = _FAMILY,
    other_folders: list[str] | None = OTHER_FOLDERS,
    _scratch: str | None = options.SCRATCH,
    as_json: bool = options.AS_JSON_OBJECT,
) -> None:
    """Print a store at a glance, without touching it.

    Each figure says whose it is. The store may be in use. The fields of --json: path,
    column_families, num_files, sst_bytes, estimated_rows, and more; unknown says why a null is one.
    Of a store in several RocksDB there is an object each, with store, and then the sum: store null.
    """
    found = _view(path, lambda store, _: store.summary(family), other_folders, partly=True)
    if found is None:
        return
    if as_json:
        _print_views(found)
        return
    summary = found[0]
    if found.are_several:
        header = ["store", "files", "SST files", "entries", "rows, about", "damage"]
        print_table(header, [[name, *_at_a_glance(each)] for name, each in found.items()])
        say(f"In all, of {len(found)} stores:")
        summary = found.total
    rows = [[each.name, str(each.source), _shown(each)] for each in summary.figures()]
    print_table(["figure", "whose", "value"], rows)


def levels(
    path: str = STORE,
    family: str | None = _FAMILY,
    other_folders: list[str] | None = OTHER_FOLDERS,
    _scratch: str | None = options.SCRATCH,
    as_json: bool = options.AS_JSON,
) -> None:
    """Print what stands on each level of a store's tree.

    The fields of --json: column_family, level, num_files, size_bytes, num_entries, num_deletions,
    compression, smallest_key and largest_key (hex), and more. Of a store in several RocksDB those
    of each, with store, and then those of all: store null.
    """
    found = _view(path, lambda store, _: store.levels(family), other_folders, partly=True)
    if found is None:
        return
    header = ["column family", "level", "files", "size", "entries", "tombstones", "compression"]
    header += ["keys (hex)"]
    if as_json:
        _print_views(found)
    elif found.are_several and found:
        rows = [[name, *_cells(each)] for name, each in found.items()]
        rows += [["in all", *_cells(each)] for each in found.total]
        print_table(["store", *header], rows)
    elif found:
        print_table(header, [_cells(each) for each in found])
    else:
        note(f"No SST files in {path}: all its rows, if any, are in the WAL.")


def _view(
    path: str,
    view: Callable[[Store, int], _Row | Records[_Row]],
    other_folders: list[str] | None = None,
    *,
    partly: bool = False,
) -> StoreRecords[_Row] | None:
    """Return a view of each RocksDB of a store, which is given how many; None, said, of none."""
    from kstoolkit.rocksdb.opening import open_store  # noqa: PLC0415 - loads RocksDB
    from kstoolkit.stores.views import StoreRecords  # noqa: PLC0415 - as above

    with _several(path) as several:
        if several is not None and several.no_rocksdb:
            note(several.no_rocksdb)
            return None
        if several is not None:
            if several.not_shown:
                note(several.not_shown)
            count = len(several.places)
            return several.each(lambda one: view(one, count))
        store = open_store(path, other_folders=other_folders or None, partly=partly)
    if store.damage is not None:
        note(f"The store {path} is read as far as it goes: {store.damage}.")
    with store:
        return StoreRecords(store.path, {store.path.name: view(store, 1)})


@contextmanager
def _several(path: str) -> Iterator[HasViews | None]:
    """Yield a store that lies in several RocksDB; None of a single one, or what is no folder."""
    if _is_one(path):
        yield None
        return
    from kstoolkit.stores.opening import open_several  # noqa: PLC0415 - loads what reads any store

    with terminal.left_out_as_notes():
        store = open_several(path)
        with store or nullcontext():
            yield store


def _is_one(path: str) -> bool:
    """Return whether a path is a RocksDB itself, or no folder at all."""
    try:
        return not Path(path).is_dir() or (Path(path) / "CURRENT").exists()
    except (OSError, ValueError):  # whoever opens it says what is wrong with it
        return True


def _print_views(found: StoreRecords[_Row]) -> None:
    """Print one object a record, as of a single store; of several, each named, and then the sum."""
    if not found.are_several:
        print_json(row.to_dict() for row in found)
        return
    total = [] if found.total is None else found.total
    summed = total if isinstance(total, Sequence) else [total]
    print_json([*found.to_dicts(), *({"store": None} | each.to_dict() for each in summed)])


def _at_a_glance(summary: StoreSummary) -> list[str]:
    return [
        format_count(summary.num_files),
        format_bytes(summary.sst_bytes),
        format_count(summary.num_entries),
        format_count(summary.estimated_rows),
        summary.damage,
    ]


def _shown(figure: Figure) -> str:
    if isinstance(figure.value, tuple):
        return ", ".join(map(str, figure.value)) or "none"
    return figure.text


def _cells(level: Level) -> list[str]:
    return [
        level.column_family,
        str(level.level),
        format_count(level.num_files),
        format_bytes(level.size_bytes),
        format_count(level.num_entries),
        "none" if not level.num_deletions else f"{level.tombstone_density:.1%}",
        level.compression or "unknown",
        f"{_key(level.smallest_key)} to {_key(level.largest_key)}",
    ]


def _key(key: bytes) -> str:
    text = key.hex()
    return text if len(text) <= _WIDEST_KEY else f"{text[:_WIDEST_KEY]}…"


_LOG_SINCE = optional(
    "T",
    "From this moment on, in the logs that RocksDB set aside (LOG.old.*) too; as "
    "2026-03-03T12:00Z or in epoch ms.",
    "the log since the last opening",
)
_INSTANCES = typer.Option(
    1, min=1, metavar="N", help="How many stores like this one are open there at once."
)
_PID = optional("N", "The writer's process, on this machine.", "none is measured", min=1)
METRICS = optional(
    "URL|FILE",
    "What Kafka Streams tells Prometheus by jmx_prometheus_javaagent, at http://host:port/metrics "
    "or in a file; best at metrics.recording.level=DEBUG.",
    "none are judged by",
)
PROGRESS = optional(
    "FILE", "The progress of a query of Spark's, one JSON object a line.", "none is judged by"
)
CLIENT_CONFIG = optional(
    "FILE", "The writer's settings of Kafka, one name=value a line.", "none are judged"
)
PROFILE = optional(
    "NAME", "What its writer opens it with: see kstoolkit profile.", "its OPTIONS file"
)


def memory(
    path: str = argument(
        "PATH", "A store's folder, as for inspect; or one of many, as a state directory."
    ),
    *,
    profile: str | None = PROFILE,
    pid: int | None = _PID,
    instances: int = _INSTANCES,
    partitions: int = typer.Option(
        1, min=1, metavar="N", help="How many partitions the host has, each with so many instances."
    ),
    segments: int = typer.Option(
        1,
        min=1,
        metavar="N",
        help="How many segments of each are open at once: a window store has 3.",
    ),
    iterators: int | None = optional(
        "N", "How many iterators are open at once in each.", "unknown", min=0
    ),
    _scratch: str | None = options.SCRATCH,
    pod: int | None = size(
        "The memory limit of the pod: what of it is RocksDB's, and which bound fits.",
        "no pod is judged",
    ),
    heap: int | None = size("With --pod: Java's -Xmx.", "it has to be given with --pod"),
    reserve: int | None = size(
        "With --pod: what Java takes beside its heap.", "reckoned, and shown"
    ),
    retention: str | None = optional(
        "LENGTH",
        "How long stores in segments keep rows: count as many as that makes.",
        "those that are there",
    ),
    setter: str | None = optional(
        "FILE",
        "With --pod: write the bound there, for Kafka Streams as a class of the file's name, for "
        "Spark as settings; it mustn't be there yet.",
        "it is printed",
    ),
    as_json: bool = options.AS_JSON_OBJECT,
) -> None:
    """Print what stores may take in memory at most, and why.

    What the writer needs at most is worked out by a formula from its options, its log and the
    store's files; --pid shows its process beside that. The parts that are measured are those of
    this reader, and say nothing of the writer. The fields of --json: formula_bytes, plan,
    writer_rss_bytes, writer_not_accounted_for_bytes, total_bytes (of this reader), and more;
    unknown says why a null is one. Of a store in several RocksDB there is an object each, with
    store, and then what the writer needs for all: store null. Of a state directory there is an
    object each store has, all its partitions and segments together; with --pod the last one has
    pod and setter.
    """
    known = None if profile is None else profile_named(profile)
    _check_pod(pod, heap, reserve=reserve, setter=setter)
    if pod or retention or not _is_one(path):
        stores = _found_many(path, is_one=not (pod or retention))
        if stores is not None:
            if (instances, partitions, segments) != (1, 1, 1):
                message = "--instances, --partitions and --segments are of one store."
                raise ConfigurationError(message, hint="Leave them out: the stores there tell it.")
            told = stores.memory(profile=known, pid=pid, iterators=iterators, retention=retention)
            _give_application(stores, told, (pod, heap, reserve), setter, as_json=as_json)
            return
    how: dict[str, Any] = {"profile": known, "pid": pid, "iterators": iterators}
    how["instances"] = instances * partitions * segments
    found = _view(path, lambda one, _: _known(one).memory(**how))
    if found is None:
        return
    if as_json:
        _print_views(found)
        return
    if found.are_several:
        rows = [[name, *_needs(each)] for name, each in found.items()]
        print_table(["store", "the writer, by the formula", "this reader"], rows)
        _print_of_writer(found.total, "The writer of all of them, by what it set:")
        return
    [parts] = found
    _print_of_writer(parts, "The writer, by what it set:")
    say("This reader, which opened the store to look into it; nothing of it is the writer's:")
    _print_figures(each for each in parts.figures() if not _is_of_writer(each))


def _check_pod(pod: int | None, heap: int | None, **beside: object) -> None:
    alone = [f"--{name}" for name, value in (beside | {"heap": heap}).items() if value is not None]
    if pod is None and alone:
        message = f"{alone[0]} is given without --pod."
        raise ConfigurationError(message, hint="Add --pod, the memory limit of the pod.")
    if pod is not None and heap is None:
        message = "--pod is given without --heap."
        raise ConfigurationError(message, hint="Add --heap, what -Xmx gives to Java.")
    if beside["setter"] is not None and Path(str(beside["setter"])).exists():
        raise _is_there(str(beside["setter"]))


def _is_there(file: str) -> OutputError:
    return OutputError(f"There is {file} already.", hint="Remove it, or give another name.")


def _found_many(path: str, *, is_one: bool) -> FoundStores | None:
    """Return the stores under a folder; None if it is one itself, where that is looked at alone."""
    from kstoolkit.stores.discovery.discovering import discover  # noqa: PLC0415 - loads RocksDB

    if is_one:
        with _several(path) as several:
            if several is not None:
                return None
    found = discover(path)
    for folder, why in found.unreadable.items():
        note(f"Not looked into: {folder}: {why}.")
    return found if found or not is_one else None


def _give_application(
    found: FoundStores,
    told: StoreRecords[MemoryInAll],
    sizes: tuple[int | None, int | None, int | None],
    setter: str | None,
    *,
    as_json: bool,
) -> None:
    """Print what stores take, one a line, and in all; and what of a pod is theirs."""
    pod, heap, reserve = sizes
    total, budget, text = told.total, None, ""
    if pod is not None and heap is not None:
        if total.plan is None:
            message = f"What the stores need is unknown: {total.unknown['formula_bytes']}."
            raise NoStoreError(message)
        budget = total.plan.within(pod, heap, reserve=reserve)
        text = _setter_for(found, budget.profile, Path(setter or "RocksDBOptions.java").stem)
    if setter is not None:
        _write_new(Path(setter), text)
    if as_json:
        fits = {} if budget is None else {"pod": budget.to_dict(), "setter": text}
        print_json([*told.to_dicts(), {"store": None} | total.to_dict() | fits])
        return
    partitions = Counter(found.name_of(each) for each in found)
    rows = [[name, f"{partitions[name]:,}", *_of_application(each)] for name, each in told.items()]
    print_table(["store", "partitions", "RocksDB", "the writer, by the formula"], rows)
    _print_of_writer(total, "One process with all of them, as they are configured:")
    if budget is not None:
        say_lines(f"{budget}\n{'' if setter else text}")
    if setter is not None:
        say(f"The bound is in {setter}.")


def _of_application(each: MemoryInAll) -> list[str]:
    most = each.num_stores if each.plan is None else each.plan.instances
    there = f"{each.num_stores:,}" + (f" of at most {most:,}" if most > each.num_stores else "")
    return [there, next(_bound(it) for it in each.figures() if it.name == "formula_bytes")]


def _setter_for(found: FoundStores, profile: Profile, class_name: str) -> str:
    """Return a profile in the words of the engine that the stores are of."""
    match sorted({each.engine for each in found}):
        case ["kafka-streams"]:
            return profile.to_java(class_name)
        case ["spark"]:
            note("All partitions are counted, as if one executor had them; the bound is of each.")
            return str(profile.to_spark_conf())
        case [_]:
            return python_source(profile)
        case engines:
            message = f"There are stores of several engines: {', '.join(engines)}."
            raise ConfigurationError(message, hint="Give the folder of one application.")


def _write_new(file: Path, text: str) -> None:
    try:
        with file.open("x", encoding="utf-8") as written:
            written.write(text.rstrip("\n") + "\n")
    except FileExistsError as error:
        raise _is_there(str(file)) from error
    except OSError as error:
        message = f"{file} can't be written: {error.strerror}."
        raise OutputError(message, hint="Give a file in a folder that is there.") from error


def advice(
    path: str = STORE,
    *,
    bound: int | None = size(
        "What RocksDB may take on the host, such as 6GiB.", "no bound is judged"
    ),
    bound_bytes: int | None = hidden("--bound-bytes", min=1),
    instances: int = _INSTANCES,
    pid: int | None = _PID,
    profile: str | None = PROFILE,
    metrics: str | None = METRICS,
    progress: str | None = PROGRESS,
    client_config: str | None = CLIENT_CONFIG,
    _scratch: str | None = options.SCRATCH,
    since: str | None = _LOG_SINCE,
    as_json: bool = options.AS_JSON,
) -> None:
    """Print what to change in a store, and the evidence.

    Without evidence there is no advice; what keeps rules from being judged is named on stderr.
    The fields of --json: rule, symptom, evidence, option, direction, effect, cost, link,
    column_family. Of a store in several RocksDB, which all count as open at once, each has store.
    """
    told: Circumstances = {
        "bound_bytes": bound or bound_bytes,
        "pid": pid,
        "profile": None if profile is None else profile_named(profile),
        "metrics": metrics_given(metrics, progress),
        "client_config": options.settings_in(client_config),
        "since": moment_given(since),
    }
    found = _view(path, lambda one, n: _known(one).advice(**told | {"instances": instances * n}))
    if found is None:
        return
    if as_json:
        _print_views(found)
    else:
        for name, each in found.items():
            whose = f"{name}: " if found.are_several else ""
            say_lines(f"{whose}{each}")
    if not found:
        note("Nothing to advise, as far as could be judged.")
    for why, rules in _unjudged(found).items():
        note(f"{said_of_cause(in_flags(why), rules)}.")


def metrics_given(metrics: str | None, progress: str | None) -> EngineMetrics | None:
    """Return what an engine told of itself, of the one source that is given; None without."""
    if metrics is None and progress is None:
        return None
    from kstoolkit.operations.enginemetrics import read_metrics, read_progress  # noqa: PLC0415

    if metrics is not None and progress is not None:
        message = "--metrics and --progress are both given."
        raise ConfigurationError(message, hint="A store has one writer: give what that one tells.")
    return read_progress(str(progress)) if metrics is None else read_metrics(metrics)


def _unjudged(found: StoreRecords[Advice]) -> dict[str, list[str]]:
    """Return which rules could not be judged, by why; of several stores each reason once."""
    reasons: dict[str, list[str]] = {}
    for advice in found.by_store.values():
        for why, rules in by_cause(getattr(advice, "unjudged", {})).items():
            known = reasons.setdefault(why, [])
            known += [each for each in rules if each not in known]
    return reasons


def _known(store: Store) -> Store:
    """Return a store that knows what Kafka Streams does with it, if it is its own."""
    from kstoolkit.stores.discovery.places import use_of_streams  # noqa: PLC0415 - loads numpy

    if store.engine_use.profile is None:
        store.engine_use = use_of_streams(store)
    return store


def _needs(parts: MemoryParts) -> list[str]:
    told = {each.name: _bound(each) for each in parts.figures()}
    return [told["formula_bytes"], told["total_bytes"]]


_BOUNDS = {"formula_bytes": "at most ", "writer_not_accounted_for_bytes": "at least "}


def _bound(figure: Figure) -> str:
    """Return a figure for people, and whether it is a ceiling or a floor."""
    if figure.name in _BOUNDS and figure.value is not None and figure.value < 0:
        return "none: the process takes less than the formula allows"
    known = "" if figure.value is None else _BOUNDS.get(figure.name, "")
    return known + in_flags(figure).text


def _print_of_writer(parts: MemoryParts | MemoryInAll, title: str) -> None:
    say(title)
    figures = {each.name: each for each in parts.figures() if _is_of_writer(each)}
    say_lines(str(in_flags(parts.plan) or in_flags(figures["formula_bytes"]).text), "  ")
    _print_figures(figures.values())


def _is_of_writer(figure: Figure) -> bool:
    return figure.name == "formula_bytes" or figure.name.startswith("writer_")


def _print_figures(figures: Iterable[Figure]) -> None:
    rows = [[each.name, str(each.source), _bound(each)] for each in figures]
    print_table(["figure", "whose", "value"], rows)


_HEADER = ["time (UTC)", "kind", "family", "what"]


def log(
    path: str = argument(
        "PATH",
        "The folder of a store, also of one in segments, a LOG file, or a log of Spark with "
        "[NativeRocksDB-...] lines, or a folder of such; packed ones (.gz) too.",
    ),
    *,
    since: str | None = _LOG_SINCE,
    _scratch: str | None = options.SCRATCH,
    as_json: bool = options.AS_JSON,
    limit: int = options.LIMIT,
) -> None:
    """Print errors, flushes, compactions and stalls of a log.

    The newest are shown, in order of time; logs that RocksDB set aside (LOG.old.*) are named. If
    the writer's log level leaves some out, that is said on stderr. The fields of --json: kind
    (flush, compaction, move, stall or error), what, and those of the record of that kind. The last
    object has the kind summary: errors, write_amplification, stalled_s, covered_s, level, rotated
    (the logs set aside that were not read), and more; unknown says why a null is one. Of a store in
    several RocksDB each object has store, and one more summary is of all: store null.
    """
    from kstoolkit.rocksdb.log.storelog import read_log  # noqa: PLC0415 - slow to load

    with _several(path) as several:
        if several is not None and several.no_log:
            note(several.no_log)
            return
        found = None if several is None else several.log(since=moment_given(since))
    if found is not None and found.are_several:
        logs = dict(found.items())
    else:
        logs = {"": read_log(path, since=moment_given(since)) if found is None else found[0]}
    told = {name: each.events() for name, each in logs.items()}
    if as_json:
        for name, each in logs.items():
            print_json(_log_objects(name, each, told[name]))
    if found is None or not found.are_several:
        if not as_json:
            _say_all(logs[""], told[""], limit)
    else:
        _give_several(found, told, limit, as_json=as_json)
    for name, each in logs.items():
        for file in each.rotated:
            note(f"Not read without --since: {name and f'{name}: '}{_spanned(file)}.")
    for why in dict.fromkeys(each.unknown for each in told.values() if each.unknown):
        note(f"Not all is known: {why}.")


def _spanned(file: LogFile) -> str:
    began, ended = (f"{at:%F %T}" if at else "unknown" for at in (file.began_at, file.ended_at))
    return f"{Path(file.path).name} ({format_bytes(file.size_bytes)}, {began} to {ended} UTC)"


def _log_objects(name: str, log: StoreLog, events: LogRows[LogEvent]) -> Iterator[dict[str, Any]]:
    """Yield the events of a log, and what they come to; of several, each with whose it is."""
    whose = {"store": name} if name else {}
    for each in events:
        yield {"kind": each.kind, "what": each.sentence} | each.to_dict() | whose
    yield {"kind": "summary", "what": repr(log)} | log.summed_up() | whose


def _give_several(
    found: StoreRecords[StoreLog], told: dict[str, LogRows[LogEvent]], limit: int, *, as_json: bool
) -> None:
    """Print events of several stores in order of time, and what their logs come to together."""
    total = found.total
    if as_json:
        print_json([{"kind": "summary", "what": repr(total), "store": None} | total.to_dict()])
        return
    for name, log in found.items():
        say(f"{name}: {log!r}")
        _say_errors(told[name], f"{name}: ")
    rows = [[name, *_row(event)] for name, events in told.items() for event in events]
    _print_last(["store", *_HEADER], sorted(rows, key=itemgetter(1))[-limit:], len(rows))
    say(f"In all: {total.figures()[-1]}")


def _say_all(found: StoreLog, events: LogRows[LogEvent], limit: int) -> None:
    say(repr(found))
    _say_errors(events)
    _print_last(_HEADER, [_row(each) for each in events[-limit:]], len(events))
    amplification, waited = found.write_amplification(), found.stall_time()
    for figure in (*amplification.figures()[-1:], *waited.figures()[-3:]):
        say(str(figure))


def _say_errors(events: LogRows[LogEvent], whose: str = "") -> None:
    causes = Counter(each.cause for each in events if isinstance(each, LoggedError))
    if causes:
        told = ", ".join(f"{cause} ({number:,})" for cause, number in causes.most_common())
        say(f"{whose}{counted(causes.total(), 'errors')}: {told}")


def _print_last(header: list[str], shown: list[list[str]], of: int) -> None:
    if len(shown) < of:
        say(f"The last {len(shown):,} of {of:,} events:")
    if shown:
        print_table(header, shown)


def _row(event: LogEvent) -> list[str]:
    at = "unknown" if event.at is None else f"{event.at:%F %T}"
    if event.at is None and (written := getattr(event, "written", None)):
        at = f"{written:%F %T} local"
    return [at, event.kind, event.column_family or "?", event.sentence]
