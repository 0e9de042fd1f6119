"""Commands that measure stores: in what two differ, why one does not shrink; and write one out."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from kstoolkit.cli.options import AS_JSON, AS_JSON_OBJECT, SHOWN
from kstoolkit.cli.storeoptions import KEY_SERDE, KIND, STORE, VALUE_SERDE, WINDOW_SIZE
from kstoolkit.cli.terminal import note, print_json, print_table, say
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from kstoolkit.stores.growth.records import KeyUse

__all__ = ["diff", "export", "growth"]

A = typer.Argument(..., metavar="A", help="One store, as for rows.", show_default=False)
B = typer.Argument(..., metavar="B", help="The other one.", show_default=False)
BY_VALUE = typer.Option(
    False,
    "--by-value",
    help="Compare what bytes stand for, not the bytes: a long of 3 is then a 3 in JSON.",
)
TO = typer.Option(
    ...,
    metavar="FILE",
    help="Where to: .parquet, .jsonl or .csv; the texts also with .gz or .zst.",
    show_default=False,
)
OVERWRITE = typer.Option(False, "--overwrite", help="Replace the file, if there is one.")
LIMIT = typer.Option(
    SHOWN, min=0, metavar="N", help="How many differences to show; --json prints all of them."
)


RETENTION = typer.Option(
    None,
    metavar="DURATION",
    help="How long the store keeps rows.  [default: inferred from its segments]",
    show_default=False,
)
NOW = typer.Option(
    None,
    metavar="T",
    help="The moment to count back from.  [default: that of its newest row]",
    show_default=False,
)
TOP = typer.Option(10, min=1, metavar="N", help="How many keys, prefixes and windows to name.")


def diff(
    a: str = A,
    b: str = B,
    *,
    by_value: bool = BY_VALUE,
    key_serde: str | None = KEY_SERDE,
    value_serde: str | None = VALUE_SERDE,
    kind: str | None = KIND,
    window_size: str | None = WINDOW_SIZE,
    limit: int = LIMIT,
    as_json: bool = AS_JSON,
) -> None:
    """Print in which rows two stores differ.

    + is only in B, - only in A, ~ has another value in B. Rows are the same row if key and window
    are. The fields of --json: change, key, window_start_ms, window_end_ms, timestamp_ms_a,
    timestamp_ms_b, value_a, value_b, key_hex, value_hex_a, value_hex_b. The numbers of rows go to
    stderr.
    """
    from kstoolkit.stores.comparing.comparing import diff_stores  # noqa: PLC0415 - loads Arrow
    from kstoolkit.stores.rows.opening import open_store  # noqa: PLC0415 - loads RocksDB

    with (
        open_store(a, kind=kind, window_size=window_size) as one,
        open_store(b, kind=kind, window_size=window_size) as other,
        diff_stores(
            one,
            other,
            key_serde=key_serde,
            value_serde=value_serde,
            by_value=by_value,
            limit=None if as_json else limit,
            progress=sys.stderr.isatty(),
        ) as found,
    ):
        if as_json:
            sys.stdout.writelines(f"{line}\n" for line in found.json_lines())
        else:
            for each in found.rows():
                say(str(each))
        note(f"{found.counts}.")


def export(
    path: str = STORE,
    *,
    to: str = TO,
    overwrite: bool = OVERWRITE,
    key_serde: str | None = KEY_SERDE,
    value_serde: str | None = VALUE_SERDE,
    kind: str | None = KIND,
    window_size: str | None = WINDOW_SIZE,
) -> None:
    """Write the rows of a store to a file.

    As Parquet, lines of JSON, or CSV.
    """
    from kstoolkit.stores.rows.exporting import export as written_to  # noqa: PLC0415 - loads Arrow
    from kstoolkit.stores.rows.opening import open_store  # noqa: PLC0415 - loads RocksDB

    told = {"key_serde": key_serde, "value_serde": value_serde}
    with open_store(path, kind=kind, window_size=window_size, **told) as store:
        count = written_to(store.rows(), to, overwrite=overwrite)
    say(f"{format_count(count)} rows are in {to}.")


def growth(
    path: str = STORE,
    *,
    retention: str | None = RETENTION,
    now: str | None = NOW,
    key_serde: str | None = KEY_SERDE,
    kind: str | None = KIND,
    window_size: str | None = WINDOW_SIZE,
    top: int = TOP,
    as_json: bool = AS_JSON_OBJECT,
) -> None:
    """Print who takes a store's room, and why it stays.

    All rows are read once. The fields of --json: verdict, horizon, expired, deletions, versions,
    segments, windows, prefixes, keys, ages, and more; unknown says why a null is one.
    """
    from kstoolkit.stores.growth.growing import growth as grown  # noqa: PLC0415 - loads RocksDB
    from kstoolkit.stores.rows.opening import open_store  # noqa: PLC0415 - loads RocksDB

    with open_store(path, kind=kind, window_size=window_size, key_serde=key_serde) as store:
        found = grown(store, retention=retention, now=now, top=top)
    if as_json:
        print_json([found.to_dict()])
        return
    for sentence in found.verdict:
        say(sentence)
    if found.keys:
        say()
        rows = [[str(each.key), format_count(each.num_rows), _size(each)] for each in found.keys]
        print_table(["largest keys", "rows", "bytes"], rows)


def _size(use: KeyUse) -> str:
    least = "at least " if use.error_bytes else ""
    return f"{least}{format_bytes(use.data_bytes)}"
