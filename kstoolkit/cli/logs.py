"""The command that shows what a store's writer logged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from kstoolkit.cli.options import AS_JSON, LIMIT
from kstoolkit.cli.terminal import note, print_json, print_table, say

if TYPE_CHECKING:
    from kstoolkit.rocksdb.log.jobs import LogRows
    from kstoolkit.rocksdb.log.storelog import LogEvent, StoreLog


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
