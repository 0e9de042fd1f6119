"""Commands that find stores, and show what their applications keep in them."""

from __future__ import annotations

import sys

import typer

from kstoolkit.cli.asking import key_given, moment_given, prefix_given
from kstoolkit.cli.flags import reasons_in_flags
from kstoolkit.cli.kafkaoptions import KAFKA_CONFIG
from kstoolkit.cli.options import AS_JSON
from kstoolkit.cli.storeoptions import (
    BATCH,
    DETAILS,
    FAMILY,
    KEY_SERDE,
    KIND,
    OTHER_FOLDERS,
    SINCE,
    STORE,
    UNTIL,
    VALUE_SERDE,
    VERSION,
    WINDOW_SIZE,
    check_not_empty,
)
from kstoolkit.cli.storetable import as_told, store_table, unclear
from kstoolkit.cli.terminal import note, print_json, print_table, say
from kstoolkit.cli.topics import PARTITION, opened_at
from kstoolkit.units import format_count

FOLDER = typer.Argument(
    ...,
    metavar="PATH",
    help="A state directory of Kafka Streams, a checkpoint of Spark, a replica, or any folder.",
    show_default=False,
)
KEY = typer.Option(
    None,
    metavar="K",
    help="Only rows of this key; 0x00ff is bytes in hex. Of Spark's state, its columns, all or "
    """some, as '{"user": "anna"}', or the value of the only one.  [default: all]""",
    show_default=False,
)
PREFIX = typer.Option(
    None,
    metavar="P",
    help="Only rows whose key begins so; 0x00ff is bytes in hex, as it takes for Spark's state.  "
    "[default: all]",
    show_default=False,
)
LIMIT = typer.Option(
    None, min=0, metavar="N", help="How many rows to print.  [default: all]", show_default=False
)
TOLD_KIND = typer.Option(
    None,
    "--kind",
    metavar="NAME",
    help="What kind those stores are that do not tell it themselves.  [default: recognised]",
    show_default=False,
)
UNUSED_KEY_SERDE, UNUSED_VALUE_SERDE, UNUSED_WINDOW_SIZE = (
    typer.Option(
        None,
        f"--{name}",
        metavar="X",
        help="As for rows, growth, export and diff; here it changes nothing, as no row is shown.",
        show_default=False,
    )
    for name in ("key-serde", "value-serde", "window-size")
)
LOOK = typer.Option(
    True,
    "--look/--no-look",
    help="Open each store through a shadow, where only its rows tell of what kind it is.",
)


def stores(
    path: str = FOLDER,
    *,
    look: bool = LOOK,
    kind: str | None = TOLD_KIND,
    _key_serde: str | None = UNUSED_KEY_SERDE,
    _value_serde: str | None = UNUSED_VALUE_SERDE,
    _window_size: str | None = UNUSED_WINDOW_SIZE,
    as_json: bool = AS_JSON,
) -> None:
    """Print which stores lie under a folder.

    Of Spark's checkpoints, versions are the oldest and the newest that can be read. The fields of
    --json: path, engine, application, partition, store, kind, confidence, reasons, segments (each
    with start_ms and end_ms), size_bytes, num_entries, versions, offset, closed, is_locked, and
    more; unknown says why a null is one.
    """
    from kstoolkit.stores.discovery.discovering import discover  # noqa: PLC0415 - loads RocksDB

    check_not_empty(path)
    found = discover(path, look=look, progress=sys.stderr.isatty())
    listed = [each if kind is None else as_told(each, kind) for each in found]
    if as_json:
        print_json(reasons_in_flags(each.to_dict()) for each in listed)
    elif listed:
        print_table(*store_table(listed, found.root))
        for why in unclear(listed):
            note(why)
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
    other_folders: list[str] | None = OTHER_FOLDERS,
    partition: int | None = PARTITION,
    kafka_config: str | None = KAFKA_CONFIG,
    as_json: bool = AS_JSON,
    details: bool = DETAILS,
) -> None:
    """Print the rows of a store, as its application sees them.

    What cannot be decoded is shown in hex, and counted on stderr. The fields of --json: store, key,
    window_start_ms, window_end_ms, timestamp_ms, value, headers, key_hex, value_hex; absent ones
    are null, and the hex is of the application's own bytes. With --details, rows of joins, of
    foreign keys and of versions have details: an object of what they tell beside key and value, as
    foreign_key, instruction and hash, side, or valid_to_ms (null: still valid). Of Spark's state,
    family names the variable of a row, or the store of a join that it is in, and partition its
    partition, if those of all partitions are read.
    """
    from kstoolkit.stores.rows.rows import json_lines  # noqa: PLC0415 - loads Arrow

    with opened_at(
        path,
        config=kafka_config,
        partition=partition,
        version=version,
        batch=batch,
        kind=kind,
        key_serde=key_serde,
        value_serde=value_serde,
        window_size=window_size,
        column_family=family,
        other_folders=other_folders or None,
    ) as store:
        found = store.rows(
            key=key_given(key, store),
            prefix=prefix_given(prefix),
            since=moment_given(since),
            until=moment_given(until),
            limit=limit,
        )
        undecoded = count = 0
        for some in found.batches():
            count += len(some)
            undecoded += some.num_undecoded
            if as_json:
                lines = json_lines(some, store.name, details=details)
                sys.stdout.writelines(f"{line}\n" for line in lines)
            else:
                for row in some:
                    say(str(row))
    if not as_json and not count:
        note("No such rows.")
    if undecoded:
        noun = "row" if undecoded == 1 else "rows"
        note(f"{format_count(undecoded)} {noun} could not be decoded, and stand there in hex.")
