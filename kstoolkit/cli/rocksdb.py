"""Commands that show what RocksDB tells of a store, whoever wrote it: they change nothing in it.

Where a store lies in several RocksDB, as one in segments and the partitions of Spark's do, each is
shown, and then what they come to together. In JSON that is an object a store, which names it in
``store``, and then one of all whose ``store`` is null; of a single RocksDB there is no ``store``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from kstoolkit.cli.options import AS_JSON, AS_JSON_OBJECT, LIMIT
from kstoolkit.cli.terminal import hints_in_flags, in_flags, note, print_json, print_table, say
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kstoolkit.records import Figure
    from kstoolkit.rocksdb.files.ssts import Level
    from kstoolkit.rocksdb.log.jobs import LogRows
    from kstoolkit.rocksdb.log.storelog import LogEvent, StoreLog
    from kstoolkit.rocksdb.profiles.profile import Profile
    from kstoolkit.rocksdb.store import Store


STORE = typer.Argument(
    ..., metavar="PATH", help="A store's folder, the one with a CURRENT file.", show_default=False
)
_FAMILY = typer.Option(
    None,
    "--column-family",
    metavar="NAME",
    help="Only this column family.  [default: all of them]",
    show_default=False,
)
_OTHER_FOLDERS = typer.Option(
    None,
    "--other-folder",
    metavar="PATH",
    help="A folder outside PATH with files of the store (db_paths, cf_paths, wal_dir; SSTs of a "
    "snapshot of Spark's); may be given several times.  [default: those that the store names]",
    show_default=False,
)
_WIDEST_KEY = 24


def inspect(
    path: str = STORE,
    family: str | None = _FAMILY,
    other_folders: list[str] | None = _OTHER_FOLDERS,
    as_json: bool = AS_JSON_OBJECT,
) -> None:
    """Print a store at a glance, without touching it.

    Each figure says whose it is. The store may be in use. The fields of --json: path,
    column_families, num_files, sst_bytes, estimated_rows, and more; unknown says why a null is one.
    """
    with _opened_partly(path, other_folders) as store:
        summary = store.summary(family)
    if as_json:
        print_json([summary.to_dict()])
        return
    rows = [[each.name, str(each.source), _shown(each)] for each in summary.figures()]
    print_table(["figure", "whose", "value"], rows)


def levels(
    path: str = STORE,
    family: str | None = _FAMILY,
    other_folders: list[str] | None = _OTHER_FOLDERS,
    as_json: bool = AS_JSON,
) -> None:
    """Print what stands on each level of a store's tree.

    The fields of --json: column_family, level, num_files, size_bytes, num_entries, num_deletions,
    compression, smallest_key and largest_key (hex), and more.
    """
    with _opened_partly(path, other_folders) as store:
        found = store.levels(family)
    if as_json:
        print_json(found.to_dicts())
    elif found:
        header = ["column family", "level", "files", "size", "entries", "tombstones", "compression"]
        print_table([*header, "keys (hex)"], [_cells(each) for each in found])
    else:
        note(f"No SST files in {path}: all its rows, if any, are in the WAL.")


def _opened_partly(path: str, other_folders: list[str] | None) -> Store:
    from kstoolkit.rocksdb.opening import open_store  # noqa: PLC0415 - loads RocksDB

    with hints_in_flags():
        store = open_store(path, other_folders=other_folders or None, partly=True)
    if store.damage is not None:
        note(f"The store {path} is read as far as it goes: {store.damage}.")
    return store


def _shown(figure: Figure) -> str:
    if isinstance(figure.value, tuple):
        return ", ".join(map(str, figure.value)) or "none"
    return figure.text


def _cells(level: Level) -> list[str]:
    density = "none" if not level.num_deletions else f"{level.tombstone_density:.1%}"
    return [
        level.column_family,
        str(level.level),
        format_count(level.num_files),
        format_bytes(level.size_bytes),
        format_count(level.num_entries),
        density,
        level.compression or "unknown",
        f"{_key(level.smallest_key)} to {_key(level.largest_key)}",
    ]


def _key(key: bytes) -> str:
    text = key.hex()
    return text if len(text) <= _WIDEST_KEY else f"{text[:_WIDEST_KEY]}…"


_BOUND = typer.Option(
    None,
    min=1,
    metavar="N",
    help="What RocksDB may take on the host, in bytes.  [default: no bound is judged]",
    show_default=False,
)
_INSTANCES = typer.Option(
    1, min=1, metavar="N", help="How many stores like this one are open there at once."
)
_PARTITIONS = typer.Option(
    1, min=1, metavar="N", help="How many partitions the host has, each with so many instances."
)
_SEGMENTS = typer.Option(
    1, min=1, metavar="N", help="How many segments of each are open at once: a window store has 3."
)
_ITERATORS = typer.Option(
    None,
    min=0,
    metavar="N",
    help="How many iterators are open at once in each.  [default: unknown]",
    show_default=False,
)
_PID = typer.Option(
    None,
    min=1,
    metavar="N",
    help="The writer's process, on this machine.  [default: none is measured]",
    show_default=False,
)
PROFILE = typer.Option(
    None,
    metavar="NAME",
    help="What its writer opens it with: see kstoolkit profile.  [default: its OPTIONS file]",
    show_default=False,
)


def memory(
    path: str = STORE,
    *,
    profile: str | None = PROFILE,
    pid: int | None = _PID,
    instances: int = _INSTANCES,
    partitions: int = _PARTITIONS,
    segments: int = _SEGMENTS,
    iterators: int | None = _ITERATORS,
    as_json: bool = AS_JSON_OBJECT,
) -> None:
    """Print what a store's writer may take in memory, and why.

    What the writer needs at most is worked out by a formula from its options, its log and the
    store's files; --pid shows its process beside that. The parts that are measured are those of
    this reader, and say nothing of the writer. The fields of --json: formula_bytes, plan,
    writer_rss_bytes, writer_not_accounted_for_bytes, total_bytes (of this reader), and more;
    unknown says why a null is one.
    """
    known = _named(profile)
    with _opened(path) as store:
        parts = store.memory(
            profile=known,
            pid=pid,
            instances=instances * partitions * segments,
            iterators=iterators,
        )
    if as_json:
        print_json([parts.to_dict()])
        return
    say("The writer, by what it set:")
    for line in str(parts.plan or parts.figures()[0].text).splitlines():
        say(f"  {in_flags(line)}")
    _print_figures(each for each in parts.figures() if _is_of_writer(each))
    say("This reader, which opened the store to look into it; nothing of it is the writer's:")
    _print_figures(each for each in parts.figures() if not _is_of_writer(each))


def advice(
    path: str = STORE,
    *,
    bound_bytes: int | None = _BOUND,
    instances: int = _INSTANCES,
    pid: int | None = _PID,
    profile: str | None = PROFILE,
    as_json: bool = AS_JSON,
) -> None:
    """Print what to change in a store, and the evidence.

    Without evidence there is no advice; rules that lack figures to judge by are named on stderr.
    The fields of --json: rule, symptom, evidence, option, direction, effect, cost, link,
    column_family.
    """
    known = _named(profile)
    with _opened(path) as store:
        found = store.advice(bound_bytes=bound_bytes, instances=instances, pid=pid, profile=known)
    if as_json:
        print_json(found.to_dicts())
    else:
        for each in found:
            for line in str(each).splitlines():
                say(line)
    if not found:
        note("Nothing to advise, as far as could be judged.")
    reasons = dict.fromkeys(found.unjudged.values())
    for why in reasons:
        rules = [rule for rule, each in found.unjudged.items() if each == why]
        note(f"Not judged: {', '.join(rules)}: {in_flags(why)}.")


def _is_of_writer(figure: Figure) -> bool:
    return figure.name == "formula_bytes" or figure.name.startswith("writer_")


def _print_figures(figures: Iterable[Figure]) -> None:
    rows = [[each.name, str(each.source), in_flags(each.text)] for each in figures]
    print_table(["figure", "whose", "value"], rows)


def _named(profile: str | None) -> Profile | None:
    from kstoolkit.rocksdb.profiles.named import profile_named  # noqa: PLC0415 - loads pandas

    return None if profile is None else profile_named(profile)


def _opened(path: str) -> Store:
    from kstoolkit.rocksdb.opening import open_store  # noqa: PLC0415 - loads RocksDB

    with hints_in_flags():
        return open_store(path)


_HEADER = ["time (UTC)", "kind", "family", "what"]


def log(
    path: str = typer.Argument(
        ...,
        metavar="PATH",
        help=(
            "The folder of a store, a LOG file, or a log of Spark with [NativeRocksDB-...] lines, "
            "or a folder of such; packed ones (.gz) too."
        ),
        show_default=False,
    ),
    *,
    as_json: bool = AS_JSON,
    limit: int = LIMIT,
) -> None:
    """Print the flushes, compactions and stalls of a log.

    The newest are shown, in order of time. If the writer's log level leaves some out, that is said
    on stderr. The fields of --json: kind (flush, compaction, move or stall), what, and those of the
    record of that kind. The last object has the kind summary: write_amplification, stalled_s,
    covered_s, level, and more; unknown says why a null is one.
    """
    from kstoolkit.rocksdb.log.storelog import read_log  # noqa: PLC0415 - loads pandas

    found = read_log(path)
    events = found.events()
    if as_json:
        print_json({"kind": each.kind, "what": each.sentence} | each.to_dict() for each in events)
        print_json([{"kind": "summary", "what": repr(found)} | found.summed_up()])
    else:
        _say_all(found, events, limit)
    if events.unknown:
        note(f"Not all is known: {events.unknown}.")


def _say_all(found: StoreLog, events: LogRows[LogEvent], limit: int) -> None:
    say(repr(found))
    shown = events[-limit:]
    if len(shown) < len(events):
        say(f"The last {len(shown):,} of {len(events):,} events:")
    if shown:
        print_table(_HEADER, [_row(each) for each in shown])
    amplification, waited = found.write_amplification(), found.stall_time()
    for figure in (*amplification.figures()[-1:], *waited.figures()[-3:]):
        say(str(figure))


def _row(event: LogEvent) -> list[str]:
    at = "unknown" if event.at is None else f"{event.at:%F %T}"
    return [at, event.kind, event.column_family or "?", event.sentence]
