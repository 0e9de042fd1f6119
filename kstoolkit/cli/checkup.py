"""``kstoolkit checkup``: a whole application's state, and what to do about it first."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from kstoolkit.cli import options
from kstoolkit.cli.options import argument, optional, settings_in
from kstoolkit.cli.rocksdb import CLIENT_CONFIG, METRICS, PROGRESS, metrics_given
from kstoolkit.cli.terminal import URGENT, in_flags, note, print_json, print_table, say, say_lines
from kstoolkit.moments import moment_text
from kstoolkit.records import counted
from kstoolkit.report.tables import quoted_path
from kstoolkit.rocksdb.advice.advice import said_of_cause
from kstoolkit.units import format_bytes, format_count, format_span, parse_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kstoolkit.operations.checkup import CheckedStore, Checkup
    from kstoolkit.report.report import Report

_HEADER = ["store", "task", "size", "entries", "memory at most", "restore", "oldest (UTC)"]
_HEADER += ["errors", "stalls", "closed", "behind", "advice", "growth"]


def checkup(
    path: str = argument(
        "PATH",
        "A state directory of Kafka Streams, a checkpoint of Spark's, or a folder of stores.",
    ),
    *,
    bound: str | None = optional(
        "SIZE", "What RocksDB may take for all of them, such as 6GiB.", "no bound is judged"
    ),
    restore_rate: str | None = optional(
        "SIZE",
        "How many bytes of keys and values a restore writes a second, such as 20MiB.",
        "measured: RocksDB alone",
    ),
    metrics: str | None = METRICS,
    progress: str | None = PROGRESS,
    metrics_before: str | None = optional(
        "FILE",
        "What the same process told hours before --metrics: does native memory grow, is the disk "
        "full soon?",
        "growth is not judged",
    ),
    client_config: str | None = CLIENT_CONFIG,
    bootstrap: str | None = optional(
        "HOST:PORT", "Servers of Kafka, to ask where changelog topics end.", "none is asked"
    ),
    kafka_config: str | None = options.KAFKA_CONFIG,
    html: str | None = optional("FILE", "Write it as a page, too.", "none is written"),
    _scratch: str | None = options.SCRATCH,
    as_json: bool = options.AS_JSON_OBJECT,
) -> None:
    """Print what is the matter with a whole application's state.

    The most urgent comes first, each with its figures, what to change, and a link; exit code 3 says
    that something can't wait: damage, an ERROR line, memory over the bound, a disk that is too
    full or will be within a day. The fields of --json: stores, steps (rule, symptom, evidence,
    change, link, stores, is_urgent), memory_bytes, bound_bytes, free_bytes, unjudged, and more;
    unknown says why a null is one.
    """
    from kstoolkit.operations.checkup import checkup as look  # noqa: PLC0415 - loads RocksDB

    found = look(
        path,
        bound_bytes=None if bound is None else parse_bytes(bound),
        restore_bytes_per_second=None if restore_rate is None else parse_bytes(restore_rate),
        bootstrap=bootstrap,
        options=settings_in(kafka_config),
        # In the form of what is told now.
        metrics_before=metrics_given(
            *((metrics_before, None) if progress is None else (None, metrics_before))
        ),
        metrics=metrics_given(metrics, progress),
        client_config=settings_in(client_config),
    )
    if as_json:
        print_json([found.to_dict() | {"is_urgent": found.is_urgent}])
    else:
        _show(found)
    if html is not None:
        told = {"bound": bound, "restore-rate": restore_rate, "metrics": metrics}
        told |= {"progress": progress, "metrics-before": metrics_before, "bootstrap": bootstrap}
        told |= {"client-config": client_config, "kafka-config": kafka_config, "html": html}
        note(f"Written to {_page(found, told).write(html)}.")
    if found.is_urgent:
        raise typer.Exit(URGENT)


def _show(told: Checkup) -> None:
    found = in_flags(told)
    print_table(_HEADER, [_cells(each) for each in found.stores])
    for figure in found.figures():
        say(str(figure))
    for step in found.to_do():
        say_lines(step)
    for name in ("growth", "stalls", "behind_records"):
        whys = Counter(each.unknown[name] for each in found.stores if name in each.unknown)
        for why, number in whys.items():
            note(f"Unknown {name} of {counted(number, 'stores')}: {why.rstrip('.;')}.")
    for why, rules in found.unjudged.items():
        note(f"{said_of_cause(in_flags(why), rules)}.")


def _cells(store: CheckedStore) -> list[str]:
    none = "unknown" if "oldest_ms" in store.unknown else "none"
    oldest = none if store.oldest_ms is None else moment_text(store.oldest_ms)
    return [
        store.store,
        store.task,
        format_bytes(store.size_bytes),
        format_count(store.num_entries),
        format_bytes(store.memory_bytes),
        "unknown" if store.restore_ms is None else format_span(store.restore_ms / 1000),
        oldest,
        format_count(store.errors),
        format_count(store.stalls),
        "in use" if store.is_locked else store.closed or "unknown",
        format_count(store.behind_records),
        format_count(store.advice),
        store.growth or "unknown",
    ]


def _page(told: Checkup, flags: Mapping[str, str | None]) -> Report:
    from kstoolkit.report.report import Report  # noqa: PLC0415 - draws

    found = in_flags(told)
    unjudged = {in_flags(why): rules for why, rules in found.unjudged.items()}
    given = [f"--{name} {quoted_path(value)}" for name, value in flags.items() if value]
    page = Report(command=" ".join(["kstoolkit checkup", quoted_path(found.path), *given]))
    return page.add(replace(found, unjudged=unjudged), limit=len(found.stores))
