"""The command that tries profiles against each other on one workload."""

from __future__ import annotations

from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from kstoolkit.cli.options import AS_JSON
from kstoolkit.cli.terminal import note, print_json, print_table
from kstoolkit.errors import ConfigurationError
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kstoolkit.rocksdb.lab.comparing import Comparison
    from kstoolkit.rocksdb.lab.results import Trial
    from kstoolkit.rocksdb.profiles.profile import Profile


class Kind(StrEnum):
    """What is written."""

    uniform = "uniform"
    skewed = "skewed"
    time_ordered = "time_ordered"
    overwrite_heavy = "overwrite_heavy"
    delete_heavy = "delete_heavy"


_DRAWN = {"writes": 1_000_000, "keys": 250_000, "value_bytes": 100}


def compare_profiles(
    profiles: list[str] = typer.Argument(
        ...,
        metavar="PROFILE...",
        help="Names of profiles, OPTIONS files, or folders of stores whose options to take.",
        show_default=False,
    ),
    *,
    workload: Kind | None = typer.Option(
        None, help="Which rows to draw.  [default: uniform]", show_default=False
    ),
    replay: str | None = typer.Option(
        None,
        metavar="PATH",
        help="Write a store's own rows, in the order of their keys; or, with --window, what"
        " following a changelog writes.  [default: rows are drawn]",
        show_default=False,
    ),
    window: str | None = typer.Option(
        None,
        metavar="LENGTH",
        help="With --replay of a changelog: which of its windows, such as '1 hour'.  "
        "[default: none, for --replay of a store]",
        show_default=False,
    ),
    writes: int | None = typer.Option(
        None,
        min=1,
        metavar="N",
        help="How many rows to draw.  [default: 1000000]",
        show_default=False,
    ),
    keys: int | None = typer.Option(
        None,
        min=1,
        metavar="N",
        help="Among how many keys.  [default: 250000]",
        show_default=False,
    ),
    value_bytes: int | None = typer.Option(
        None,
        min=1,
        metavar="N",
        help="How large the values drawn are.  [default: 100]",
        show_default=False,
    ),
    reads: float = typer.Option(0.1, min=0, metavar="N", help="How many gets stand by a write."),
    pace: float | None = typer.Option(
        None,
        min=1,
        metavar="N",
        help="How many writes a second.  [default: as fast as RocksDB takes them]",
        show_default=False,
    ),
    seed: int = typer.Option(7, min=0, metavar="N", help="The same seed gives the same rows."),
    seconds: float = typer.Option(60, min=1, metavar="N", help="How long a profile may take."),
    disk_mb: int = typer.Option(4096, min=1, metavar="N", help="MiB of disk it may take."),
    folder: str | None = typer.Option(
        None,
        metavar="FOLDER",
        help="On whose disk to try.  [default: where temporary files are]",
        show_default=False,
    ),
    keep: str | None = typer.Option(
        None,
        metavar="FOLDER",
        help="Leave the stores there, each in a folder of its profile's name, for a look with the"
        " other commands.  [default: they are removed]",
        show_default=False,
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Compare what profiles cost on one workload.

    Each is tried in a process and a store of its own, which is removed unless kept. The fields of
    --json: profile, write_amplification, read_amplification, space_amplification,
    peak_disk_bytes, stall_ms, put_p99_us, get_p99_us, series and levels (lists), tickers (RocksDB's
    own counters), and more; unknown says why a null is one.
    """
    from kstoolkit.rocksdb.lab.comparing import TrialFailed  # noqa: PLC0415 - beside the one above
    from kstoolkit.rocksdb.lab.comparing import compare_profiles as compare  # noqa: PLC0415
    from kstoolkit.rocksdb.lab.workloads import REPLAYED, Workload  # noqa: PLC0415 - loads numpy

    rates = {"reads_per_write": reads, "writes_per_second": pace, "seed": seed}
    with ExitStack() as stack:
        if replay is None:
            if window is not None:
                message = "--window says which windows of a changelog to replay, and none is given."
                raise ConfigurationError(message, hint="Add --replay CHANGELOG, or leave it out.")
            sizes = {"writes": writes, "keys": keys, "value_bytes": value_bytes}
            drawn = _DRAWN | {name: each for name, each in sizes.items() if each is not None}
            kind = workload or Kind.uniform
            planned = Workload(kind.value, **drawn, **rates)  # type: ignore[arg-type] # by name
        else:
            _check_nothing_drawn(
                workload=workload, writes=writes, keys=keys, value_bytes=value_bytes
            )
            rows = _replayed(replay, window, stack)
            planned = Workload(REPLAYED, rows=rows, **rates)  # type: ignore[arg-type] # by name
        limits = {"seconds": seconds, "disk_bytes": disk_mb << 20, "folder": folder, "keep": keep}
        try:
            found = compare(planned, [_tried_profile(name) for name in profiles], **limits)  # type: ignore[arg-type] # by name
        except TrialFailed as failed:
            if failed.found:
                _print(failed.found, as_json=as_json)
            raise
    _print(found, as_json=as_json)


def _check_nothing_drawn(**told: object) -> None:
    for name, value in told.items():
        if value is not None:
            flag = f"--{name.replace('_', '-')}"
            message = (
                f"{flag} is about rows that are drawn, and --replay names rows that are there."
            )
            raise ConfigurationError(message, hint=f"Leave out {flag} or --replay.")


def _replayed(path: str, window: str | None, stack: ExitStack) -> Iterable[tuple[bytes, bytes]]:
    if window is not None:
        from kstoolkit.replica.replaying import changelog_rows  # noqa: PLC0415 - if asked

        return changelog_rows(path, window=window)
    from kstoolkit.rocksdb.opening import open_store  # noqa: PLC0415 - if asked

    return stack.enter_context(open_store(path)).iter_rows()


def _print(found: Comparison, *, as_json: bool) -> None:
    if as_json:
        for trial in found:
            series = [each.to_dict() for each in found.series if each.profile == trial.profile]
            levels = [each.to_dict() for each in found.levels if each.profile == trial.profile]
            print_json([trial.to_dict() | {"series": series, "levels": levels}])
    else:
        _show_trials(list(found))


def _tried_profile(name: str) -> Profile:
    from kstoolkit.rocksdb.profiles.named import (  # noqa: PLC0415
        profile_named,
        profile_names,
    )
    from kstoolkit.rocksdb.profiles.profile import Profile  # noqa: PLC0415 - loads pandas

    if name not in profile_names() and Path(name).exists():
        return Profile.from_options(name).changed(name=name)
    return profile_named(name)


def _show_trials(trials: list[Trial]) -> None:
    header = ["profile", "writes", "write amp", "read amp", "space amp", "peak disk", "stalled ms"]
    print_table([*header, "put p99 us", "get p50 us", "get p99 us"], [_cells(t) for t in trials])
    for trial in trials:
        if trial.stopped_by:
            note(f"{trial.profile} {_how_stopped(trial)}.")
        if trial.write_amplification is None:
            why = trial.unknown["write_amplification"]
            note(f"{trial.profile}: write amplification is unknown ({why}).")
        for option, why_unset in trial.unset.items():
            note(f"{trial.profile}: {option} is not set: {why_unset}.")


def _how_stopped(trial: Trial) -> str:
    took = f"took more disk than it may ({format_bytes(trial.peak_disk_bytes)})"
    if not trial.finished:
        why = "its time was up" if trial.stopped_by == "time" else f"it {took}"
        return f"was stopped before its last write: {why}"
    if trial.stopped_by == "time":
        return "had written all, and was still flushing or compacting when its time was up"
    return f"had written all, but {took}" + ("" if trial.settled else " before it was at rest")


def _cells(trial: Trial) -> list[str]:
    return [
        trial.profile,
        f"{trial.writes:,}",
        _decimal(trial.write_amplification),
        _decimal(trial.read_amplification),
        _decimal(trial.space_amplification),
        format_bytes(trial.peak_disk_bytes),
        f"{trial.stall_ms:,.0f}",
        _decimal(trial.put_p99_us),
        _decimal(trial.get_p50_us),
        _decimal(trial.get_p99_us),
    ]


def _decimal(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.2f}"
