"""Commands that find stores, and show what their applications keep in them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from kstoolkit.cli.options import AS_JSON, SHOWN
from kstoolkit.cli.storeoptions import (
    BATCH,
    FAMILY,
    KEY_SERDE,
    KIND,
    SINCE,
    STORE,
    UNTIL,
    VALUE_SERDE,
    VERSION,
    WINDOW_SIZE,
    opened_store,
)
from kstoolkit.cli.terminal import note, print_json, print_table, say
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from kstoolkit.stores.discovery.foundstore import FoundStore

__all__ = ["rows", "stores"]

FOLDER = typer.Argument(
    ...,
    metavar="PATH",
    help="A state directory of Kafka Streams, a checkpoint of Spark, a replica, or any folder.",
    show_default=False,
)
KEY = typer.Option(
    None, metavar="K", help="Only rows of this key.  [default: all]", show_default=False
)
PREFIX = typer.Option(
    None, metavar="P", help="Only rows whose key begins so.  [default: all]", show_default=False
)
LIMIT = typer.Option(
    None,
    min=0,
    metavar="N",
    help=f"How many rows to print.  [default: {SHOWN}, and with --json all]",
    show_default=False,
)
DOUBTFUL = 0.5
LOOK = typer.Option(
    True,
    "--look/--no-look",
    help="Open each store through a shadow, where only its rows tell of what kind it is.",
)


def stores(path: str = FOLDER, *, look: bool = LOOK, as_json: bool = AS_JSON) -> None:
    """Print which stores lie under a folder.

    Of Spark's checkpoints, versions are the oldest and the newest that can be read. The fields of
    --json: path, engine, application, partition, store, kind, confidence, reasons, segments,
    size_bytes, num_entries, versions, offset, closed, is_locked, and more; unknown says why a null
    is one.
    """
    from kstoolkit.stores.discovery.discovering import discover  # noqa: PLC0415 - loads RocksDB

    found = discover(path, look=look, progress=sys.stderr.isatty())
    if as_json:
        print_json(found.to_dicts())
    elif found:
        header = ["store", "kind", "engine", "application", "part", "segments", "size", "entries"]
        header += ["versions"] * any(each.engine == "spark" for each in found) + ["folder"]
        print_table(header, [_cells(each, found.root, header) for each in found])
    else:
        note(f"No stores in {path}.")
    for folder, why in found.unreadable.items():
        note(f"Could not look into {folder}: {why}.")


def rows(
    path: str = STORE,
    *,
    key: str | None = KEY,
    prefix: str | None = PREFIX,
    since: str | None = SINCE,
    until: str | None = UNTIL,
    key_serde: str | None = KEY_SERDE,
    value_serde: str | None = VALUE_SERDE,
    kind: str | None = KIND,
    window_size: str | None = WINDOW_SIZE,
    family: str | None = FAMILY,
    version: int | None = VERSION,
    batch: int | None = BATCH,
    limit: int | None = LIMIT,
    as_json: bool = AS_JSON,
) -> None:
    """Print the rows of a store, as its application sees them.

    What cannot be decoded is shown in hex, and counted on stderr. The fields of --json: store, key,
    window_start_ms, window_end_ms, timestamp_ms, value, headers, key_hex, value_hex; absent ones
    are null, and the hex is of the application's own bytes. Of Spark's state, family names the
    variable of a row, or the store of a join that it is in, and partition its partition, if those
    of all partitions are read.
    """
    from kstoolkit.stores.rows.jsonlines import json_lines  # noqa: PLC0415 - loads Arrow

    shown = limit if limit is not None or as_json else SHOWN
    with opened_store(
        path,
        version=version,
        batch=batch,
        kind=kind,
        key_serde=key_serde,
        value_serde=value_serde,
        window_size=window_size,
        column_family=family,
    ) as store:
        found = store.rows(key=key, prefix=prefix, since=since, until=until, limit=shown)
        undecoded = count = 0
        for some in found.batches():
            count += len(some)
            undecoded += some.num_undecoded
            if as_json:
                sys.stdout.writelines(f"{line}\n" for line in json_lines(some, store.name))
            else:
                for row in some:
                    say(str(row))
    if not as_json and not count:
        note("No such rows.")
    if undecoded:
        noun = "row" if undecoded == 1 else "rows"
        note(f"{format_count(undecoded)} {noun} could not be decoded, and stand there in hex.")


def _kind(found: FoundStore) -> str:
    if found.kind is None:
        return "unknown"
    doubtful = found.confidence is not None and found.confidence < DOUBTFUL
    return f"{found.kind}?" if doubtful else found.kind


def _cells(found: FoundStore, root: Path, header: list[str]) -> list[str]:
    part = found.task or ("all" if found.partition is None else str(found.partition))
    return [
        found.store,
        _kind(found),
        found.engine,
        found.application or "unknown",
        part,
        format_count(len(found.segments)) if found.segments else "none",
        format_bytes(found.size_bytes),
        format_count(found.num_entries),
        *([_versions(found)] if "versions" in header else []),
        str(Path(found.path).relative_to(root)) if found.path != str(root) else ".",
    ]


def _versions(found: FoundStore) -> str:
    if found.versions is None:
        return "unknown" if found.engine == "spark" else "none"
    oldest, newest = found.versions
    return str(newest) if oldest == newest else f"{oldest} to {newest}"
