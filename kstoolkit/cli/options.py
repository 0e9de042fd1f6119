"""Arguments and options that several commands share."""

from __future__ import annotations

from enum import StrEnum

import typer

SHOWN = 20

OUT = typer.Argument(..., metavar="OUT", help="The output folder of a run.", show_default=False)

AS_JSON = typer.Option(
    False, "--json", help="Print everything, one JSON object a line, and nothing else on stdout."
)

AS_JSON_OBJECT = typer.Option(
    False, "--json", help="Print one JSON object, and nothing else on stdout."
)

LIMIT = typer.Option(
    SHOWN, min=1, metavar="N", help="How many to show; --json prints all of them anyway."
)

QUIET = typer.Option(
    False,
    "--quiet",
    "-q",
    help="Print no progress and no result, just errors (and what --json asks for).",
)

FILE_FORMAT = typer.Option(
    None,
    "--format",
    help="The files' format.  [default: what each name says]",
    show_default=False,
)

TIME_UNIT = typer.Option(
    None,
    "--time-unit",
    help="What epoch times are counted in.  [default: told from their size]",
    show_default=False,
)


class Format(StrEnum):
    """What a file of events can be."""

    json = "json"
    csv = "csv"
    parquet = "parquet"


class Unit(StrEnum):
    """What an epoch time can be counted in."""

    s = "s"
    ms = "ms"
    us = "us"
    ns = "ns"
