"""What is decided: ``kstoolkit profile``, ``compare-profiles`` and ``capacity``.

Options as each engine takes them, tried on one workload; and what a stream of events needs.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from kstoolkit.cli import options
from kstoolkit.cli.options import argument, hidden, number, optional, size, switch
from kstoolkit.cli.terminal import note, print_json, print_table, say, say_lines, tell
from kstoolkit.errors import ConfigurationError, Option
from kstoolkit.rocksdb.profiles.java import not_in_java
from kstoolkit.rocksdb.profiles.named import profile_named, profile_names
from kstoolkit.rocksdb.profiles.presets import cautions
from kstoolkit.rocksdb.profiles.profile import Profile, python_source
from kstoolkit.rocksdb.profiles.spark import settings_text
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kstoolkit.rocksdb.lab.results import Comparison, Trial
    from kstoolkit.rocksdb.lab.workloads import Workload

Engine = StrEnum("Engine", ["kafka_streams", "spark"])
WorkloadKind = StrEnum("WorkloadKind", "uniform skewed time_ordered overwrite_heavy delete_heavy")
_DISK_MB, _MUCH_FASTER, _READS = 4096, 1.1, 0.1
_DRAWN = {"writes": 1_000_000, "keys": 250_000, "value_bytes": 100}


def compare_profiles(
    profiles: list[str] | None = argument(
        "PROFILE...",
        "Names of profiles, OPTIONS files, or folders of stores whose options to take.  "
        "[default: with --replay-log, the store's own]",
        needed=False,
    ),
    *,
    engine: Engine | None = optional(
        None, "What profiles don't set is as this engine leaves it.", "as RocksDB has it"
    ),
    workload: WorkloadKind | None = optional(None, "Which rows to draw.", "uniform"),
    replay: str | None = optional(
        "PATH",
        "Write a store's own rows, by their keys; or, with --window, what following a log writes.",
        "rows are drawn",
    ),
    replay_log: str | None = optional(
        "STORE",
        "Write what log and files of this store tell was written to it, to its own profile too.",
        "rows are drawn",
    ),
    window: str | None = optional(
        "LENGTH",
        "With --replay of a changelog: which of its windows, such as '1 hour'.",
        "none, for --replay of a store",
    ),
    writes: int | None = optional("N", "How many rows to draw.", str(_DRAWN["writes"]), min=1),
    keys: int | None = optional("N", "Among how many keys.", str(_DRAWN["keys"]), min=1),
    value_bytes: int | None = size("How large the values drawn are.", str(_DRAWN["value_bytes"])),
    reads: float | None = optional(
        "N", "How many gets stand by a write.", f"{_READS}, or none with --replay-log", min=0
    ),
    pace: float | None = optional(
        "N", "How many writes a second.", "as fast as RocksDB takes them", min=1
    ),
    seed: int = typer.Option(7, min=0, metavar="N", help="The same seed gives the same rows."),
    seconds: float = typer.Option(60, min=1, metavar="N", help="How long a profile may take."),
    disk: int | None = size("How much disk it may take, such as 500MiB.", "4GiB"),
    disk_mb: int | None = hidden("--disk-mb", min=1),
    folder: str | None = optional("FOLDER", "On whose disk to try.", "where temporary files are"),
    keep: str | None = optional(
        "FOLDER",
        "Leave the stores there, each in a folder of its profile's name, to be looked into.",
        "they are removed",
    ),
    _scratch: str | None = options.SCRATCH,
    as_json: bool = options.AS_JSON,
) -> None:
    """Compare what profiles cost on one workload.

    Each is tried in a process and a store of its own, which is removed unless kept. The fields of
    --json: profile, write_amplification, written_per_user_byte, read_amplification,
    space_amplification, peak_disk_bytes, stall_ms, put_p99_us, get_p99_us, series and levels
    (lists), tickers (RocksDB's own counters), and more; unknown says why a null is one. With
    --replay-log, was is what it cost then, and its unlike what the replay has off by over 25 %.
    """
    from kstoolkit.rocksdb.lab.comparing import compare_profiles as compare  # noqa: PLC0415
    from kstoolkit.rocksdb.lab.results import TrialFailed  # noqa: PLC0415 - reads logs: slow to load
    from kstoolkit.rocksdb.lab.workloads import REPLAYED, Workload  # noqa: PLC0415 - loads numpy

    if replay_log in profile_names():  # as a path: its store's own profile is not that of the name
        replay_log = f"./{replay_log}"
    own = [replay_log] if replay_log is not None and replay_log not in (profiles or ()) else []
    if not (names := own + (profiles or [])):
        message = "There is no PROFILE to try."
        raise ConfigurationError(message, hint="Name some, such as kafka_streams write_heavy.")
    drawn_reads = _READS if reads is None else reads
    rates = {"reads_per_write": drawn_reads, "writes_per_second": pace, "seed": seed}
    with ExitStack() as stack:
        told = {"workload": workload, "writes": writes, "keys": keys, "value_bytes": value_bytes}
        if replay_log is not None:
            _check_nothing_drawn("--replay-log", **told, replay=replay, window=window, pace=pace)
            planned = _logged(replay_log, stack, reads or 0.0, seed=seed, within_s=seconds / 2)
        elif replay is None:
            if window is not None:
                message = "--window says which windows of a changelog to replay, and none is given."
                raise ConfigurationError(message, hint="Add --replay CHANGELOG, or leave it out.")
            drawn = _DRAWN | {name: told[name] for name in _DRAWN if told[name] is not None}
            kind = workload or WorkloadKind.uniform
            planned = Workload(kind.value, **drawn, **rates)  # type: ignore[arg-type] # by name
        else:
            _check_nothing_drawn("--replay", **told)
            rows = _replayed(replay, window, stack)
            planned = Workload(REPLAYED, rows=rows, **rates)  # type: ignore[arg-type] # by name
        tried = [_tried_profile(name, keep) for name in names]
        read = [each for each in (replay, *names) if each and each not in profile_names()]
        _check_kept_apart(keep, tried, read)
        of = tried[names.index(replay_log)].name if replay_log is not None else None
        disk = disk or (disk_mb or _DISK_MB) << 20
        limits = {"seconds": seconds, "disk_bytes": disk, "folder": folder, "keep": keep}
        try:
            found = compare(planned, tried, engine=engine and engine.value, **limits)  # type: ignore[arg-type] # by name
        except TrialFailed as failed:
            if failed.found:
                _print(failed.found, of, as_json=as_json)
            raise
    _print(found, of, as_json=as_json)


def _check_kept_apart(keep: str | None, tried: list[Profile], read: list[str]) -> None:
    places = [Path(keep, each.name).resolve() for each in tried] if keep is not None else []
    for store in read:
        if any(place.is_relative_to(Path(store).resolve()) for place in places):
            message = f"--keep {keep} would leave a store where {store} is, which is read."
            raise ConfigurationError(message, hint="Name another folder with --keep.")


def _check_nothing_drawn(replay: str, /, **told: object) -> None:
    for name, value in told.items():
        if value is not None:
            flag = Option(name).at_terminal
            message = f"{flag} says what is written, and so does {replay}."
            raise ConfigurationError(message, hint=f"Leave out {flag} or {replay}.")


def _logged(path: str, stack: ExitStack, reads: float, **how: Any) -> Workload:
    from kstoolkit.rocksdb.lab.workloads import Workload  # noqa: PLC0415 - loads numpy
    from kstoolkit.rocksdb.opening import open_store  # noqa: PLC0415 - if asked

    store = stack.enter_context(open_store(path))
    return replace(Workload.from_log(store, **how), reads_per_write=reads)


def _replayed(path: str, window: str | None, stack: ExitStack) -> Iterable[tuple[bytes, bytes]]:
    if window is not None:
        from kstoolkit.replica.catchup import changelog_rows  # noqa: PLC0415 - if asked

        return changelog_rows(path, window=window)
    from kstoolkit.rocksdb.opening import open_store  # noqa: PLC0415 - if asked

    return stack.enter_context(open_store(path)).iter_rows()


def _print(found: Comparison, own: str | None, *, as_json: bool) -> None:
    was = found.workload.was
    tried = next((each for each in found if each.profile == own), None)
    far = was and tried and tried.unlike(was)
    if as_json:
        for trial in found:
            series = [each.to_dict() for each in found.series if each.profile == trial.profile]
            levels = [each.to_dict() for each in found.levels if each.profile == trial.profile]
            told = {"was": was and was.to_dict() | {"unlike": far}}
            print_json([trial.to_dict() | {"series": series, "levels": levels} | told])
        return
    if was is not None:
        say(was.sentence)
        times = (found.workload.writes_per_second or 0) * was.seconds / was.writes
        if times > _MUCH_FASTER:
            note(f"It is written {times:,.3g} times as fast; give more --seconds for less.")
    _show_trials(list(found))
    if was is not None and (was.stalls or any(trial.stalls for trial in found)):
        counts = ", ".join(f"{trial.profile} {trial.stalls:,}" for trial in found)
        say(f"Stalls, counted as its log does: {was.stalls:,} as it was; {counts}.")
    if far:
        note(f"It can't be replayed well: under its own profile {far}.")


def _tried_profile(name: str, keep: str | None) -> Profile:
    if name not in profile_names() and Path(name).exists():
        folder = name if keep is None else name.removeprefix("./").strip("/").replace("/", "_")
        return Profile.from_options(name).changed(name=folder)
    return profile_named(name)


def _show_trials(trials: list[Trial]) -> None:
    header = ["profile", "writes", "write amp", "per user byte", "read amp", "space amp"]
    header += ["peak disk", "stalled ms"]
    print_table([*header, "put p99 us", "get p50 us", "get p99 us"], [_cells(t) for t in trials])
    for trial in trials:
        if trial.stopped_by:
            note(f"{trial.profile} {_how_stopped(trial)}.")
        if trial.write_amplification is None:
            why = trial.unknown["write_amplification"]
            note(f"{trial.profile}: write amplification is unknown ({why}).")
        for why in dict.fromkeys(trial.unset.values()):
            unset = [name for name, told in trial.unset.items() if told == why]
            are = "is" if len(unset) == 1 else "are"
            note(f"{trial.profile}: {', '.join(unset)} {are} not set: {why}.")


def _how_stopped(trial: Trial) -> str:
    took = f"took more disk than it may ({format_bytes(trial.peak_disk_bytes)})"
    if not trial.finished:
        why = "its time was up" if trial.stopped_by == "time" else f"it {took}"
        return f"was stopped before its last write: {why}"
    if trial.stopped_by == "time":
        return "had written all, and was still flushing or compacting when its time was up"
    return f"had written all, but {took}" + ("" if trial.settled else " before it was at rest")


def _cells(trial: Trial) -> list[str]:
    amplified = [trial.write_amplification, trial.written_per_user_byte]
    amplified += [trial.read_amplification, trial.space_amplification]
    took = map(_decimal, (trial.put_p99_us, trial.get_p50_us, trial.get_p99_us))
    disk, stalled = format_bytes(trial.peak_disk_bytes), f"{trial.stall_ms:,.0f}"
    told = [trial.profile, f"{trial.writes:,}", *map(_decimal, amplified)]
    return [*told, disk, stalled, *took]


def _decimal(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.2f}"


Target = StrEnum("Target", ["java", "spark", "rocksdict", "options"])


def profile(
    name: str = argument(
        "NAME",
        "kafka_streams, spark, bounded_memory, point_lookup, write_heavy, bulk_load, low_disk; "
        "or an OPTIONS file, or the folder of a store.",
    ),
    to: Target = typer.Option(
        Target.options,
        "--to",
        help="For whom: Kafka Streams (java), Spark, rocksdict, or by RocksDB's own names.",
    ),
    *,
    as_json: bool = options.AS_JSON_OBJECT,
    class_name: str | None = optional(
        "CLASS", "With --to java: what to call the class.", "RocksDBOptions", flag="--class"
    ),
    total: int | None = size("What bounded_memory is to stay near.", "512MiB"),
    total_mb: int | None = hidden("--total-mb", min=1),
    stores: int | None = optional("N", "How many stores bounded_memory is shared by.", "1", min=1),
) -> None:
    """Print RocksDB options for an engine, and what it lacks.

    The fields of --json: name, purpose, to, unset (option to why), and what was asked for: source,
    settings or options.
    """
    if class_name is not None and to is not Target.java:
        message = "--class says what to call the class of Java, and --to java is missing."
        raise ConfigurationError(message, hint="Add --to java, or leave it out.")
    chosen = _chosen_profile(name, total or (total_mb and total_mb << 20), stores)
    found = _written(chosen, to, class_name or "RocksDBOptions")
    if as_json:
        print_json([{"name": chosen.name, "purpose": chosen.purpose, "to": to.value, **found}])
    else:
        _show_profile(chosen, to, found)


def _chosen_profile(name: str, total_bytes: int | None, stores: int | None) -> Profile:
    if name != "bounded_memory" and (total_bytes, stores) != (None, None):
        message = "--total and --stores are for bounded_memory alone."
        raise ConfigurationError(message, hint="Leave them out, or show bounded_memory.")
    if name not in profile_names() and Path(name).exists():
        return Profile.from_options(name)
    return profile_named(name, total_bytes=total_bytes, stores=stores)


def _written(profile: Profile, to: Target, class_name: str) -> dict[str, Any]:
    match to:
        case Target.java:
            return {"source": profile.to_java(class_name), "unset": not_in_java(profile)}
        case Target.spark:
            return profile.to_spark_conf().to_dict()
        case Target.rocksdict:
            told = profile.changes() | profile.settings()
            return {"options": told, "unset": profile.not_in_rocksdict()}
        case Target.options:
            return {"options": profile.options(), "unset": dict(profile.unknown)}


def _show_profile(profile: Profile, to: Target, found: dict[str, Any]) -> None:
    for caution in cautions(profile) if to in {Target.java, Target.spark} else ():
        note(caution)
    if to is Target.java:  # whose comment says what isn't set
        say_lines(found["source"])
        return
    say_lines(f"# {profile.name}: {profile.purpose}")
    if to is Target.rocksdict:
        say_lines(python_source(profile))
    else:
        pairs = found["settings"] if to is Target.spark else profile.changes() | profile.settings()
        say_lines(settings_text(pairs, found["why"] if to is Target.spark else profile.why))
    for option, why in found["unset"].items():
        what = "unknown" if to is Target.options else "not set"
        say(f"# {what}: {option}: {why}")


def capacity(
    out: str | None = argument(
        "[OUT]",
        "A run of yours: windows, users and what counters take are those that it counted.",
        needed=False,
    ),
    *,
    rate: float | None = number("Events a second, such as 50M; it has to be given."),
    windows: str | None = optional("LENGTHS", "What is counted.", "1 minute, 1 hour, 1 day"),
    partitions: int | None = optional("N", "Partitions of the topic, or buckets.", "100", min=1),
    engine: Engine = typer.Option(Engine.spark, help="What counts: this toolkit is on Spark."),
    users: float | None = number("How many users there are.", "20 for each event a second"),
    exponent: float | None = optional(
        "N", "The n-th user does 1 / n^N as much as the first.", "1", min=0
    ),
    actions: int | None = optional("N", "How many actions each of them does, evenly.", "8", min=1),
    key_share: float | None = optional(
        "SHARE", "The biggest user's share of all events, as 0.05.", "by the law of users", min=0
    ),
    salt: int | None = optional(
        "N", "In how many parts the heaviest users are put.", "1: they are not", min=1
    ),
    batch: str | None = optional(
        "DURATION", "For how long events are added up first.", "10 seconds"
    ),
    retention: str | None = optional(
        "DURATION", "For how long after its end a window is kept.", "10 minutes"
    ),
    operations: float | None = number("How many a second a store takes.", "15k, as is published"),
    measure: bool = switch("--measure", "Ask the lab first how many a store takes here."),
    cores: int | None = optional("N", "Cores of a machine.", "8", min=1),
    memory: int | None = size("Memory of a machine.", "32GiB"),
    disk: int | None = size("Disk of a machine.", "500GiB"),
    price: float | None = optional("PRICE", "What a machine costs an hour.", "not told", min=0),
    standbys: int | None = optional("N", "Copies of the state beside it.", "0", min=0),
    replication: int | None = optional("N", "Copies of a topic's records.", "3", min=1),
    outage: str | None = optional(
        "DURATION", "How long nothing is counted at the worst.", "30 minutes"
    ),
    catch_up: str | None = optional("DURATION", "Within what time that is made good.", "1 hour"),
    as_json: bool = options.AS_JSON_OBJECT,
) -> None:
    """Say how many machines a stream of events needs, and why.

    Each term says its formula, and whether it is given, assumed, published, or measured. The fields
    of --json: machines, limit, needed, savings and terms (each with value, unit, formula, origin).
    """
    given: dict[str, Any] = {**locals()}
    from kstoolkit.operations.capacity import plan_capacity  # noqa: PLC0415 - loads numpy

    if rate is None:
        message = "How many events a second is not given."
        raise ConfigurationError(message, hint="Add --rate, such as --rate 50M.")
    given |= {"run": out, "engine": engine.value, "memory_bytes": memory, "disk_bytes": disk}
    for name in ("out", "memory", "disk", "as_json"):
        del given[name]
    tell(plan_capacity(**given), as_json=as_json)
