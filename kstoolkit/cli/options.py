"""Arguments and options that several commands share."""

from __future__ import annotations

import typer

__all__ = ["AS_JSON", "AS_JSON_OBJECT", "LIMIT", "OUT"]

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
