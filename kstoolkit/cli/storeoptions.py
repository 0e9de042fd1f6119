"""Arguments and options of the commands that read rows of stores."""

from __future__ import annotations

import typer

__all__ = ["FAMILY", "KEY_SERDE", "KIND", "SERDES", "STORE", "VALUE_SERDE", "WINDOW_SIZE"]

SERDES = "string, long, integer, short, double, float, boolean, uuid, bytes, json or void"

STORE = typer.Argument(
    ...,
    metavar="PATH",
    help="One store: the folder of a RocksDB, the one that holds the segments of a store, a level "
    "of a replica, or state/<operator>/<partition> of a checkpoint of Spark's.",
    show_default=False,
)
KEY_SERDE = typer.Option(
    None,
    metavar="NAME",
    help=f"How to read keys: {SERDES}.  [default: guessed]",
    show_default=False,
)
VALUE_SERDE = typer.Option(
    None, metavar="NAME", help="How to read values.  [default: guessed]", show_default=False
)
KIND = typer.Option(
    None,
    metavar="NAME",
    help="What kind of store it is: key-value, window, session, versioned, and more.  "
    "[default: recognised]",
    show_default=False,
)
WINDOW_SIZE = typer.Option(
    None,
    metavar="W",
    help="How long its windows are, as '60 seconds'.  [default: not known]",
    show_default=False,
)
FAMILY = typer.Option(
    None,
    "--column-family",
    metavar="NAME",
    help="Only this column family.  [default: those that Kafka Streams writes to]",
    show_default=False,
)
