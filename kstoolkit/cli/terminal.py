"""What people and programs read: text that can't harm a terminal, tables, JSON lines, CSV."""

from __future__ import annotations

import csv
import io
import json
import logging
import os
import re
import sys
import unicodedata
from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


WIDEST_CELL = 44

_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Controls, directions, and what takes no room; not the joiners that scripts and emoji need."""


def accept_any_text() -> None:
    """Let stdout and stderr take any text: what their encoding has not is written as escapes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def nowhere_to_print() -> bool:
    """Return whether stdout is closed, and say so; a closed stderr is left to be nowhere.

    Else the next file that is opened would take the number of the closed one, and what a library
    prints would go into it.
    """
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - until the end
    if sys.stdout is not None:
        return False
    note("Error: stdout is closed: there is nowhere to print to.")
    note("Hint: Leave out >&-, or send what you don't want to /dev/null.")
    return True


def quieten_libraries() -> None:
    """Keep what libraries log off stderr: what matters of it is said in a sentence."""
    logging.getLogger().addHandler(logging.NullHandler())


def visible(text: str) -> str:
    r"""Return text in which nothing hides: no control of a terminal, no change of direction.

    Examples
    --------
    >>> print(visible("Zoë \x1b[2J\n"))
    Zoë \x1b[2J\n
    """
    return _UNSEEN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def say(text: str = "") -> None:
    """Print a line of a result to stdout, in which nothing hides."""
    sys.stdout.write(f"{visible(text)}\n")


def note(text: str) -> None:
    """Print a line to stderr, beside the result."""
    sys.stderr.write(f"{visible(text)}\n")


def print_json(rows: Iterable[Mapping[str, Any]]) -> None:
    r"""Print one JSON object a line, in ASCII alone, so that no locale can spoil it.

    Examples
    --------
    >>> print_json([{"user": "Zoë", "count": 2}])
    {"user": "Zo\u00eb", "count": 2}
    """
    sys.stdout.writelines(f"{json.dumps(row, allow_nan=False)}\n" for row in rows)


def print_csv(fields: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Print CSV with a header: exact and in UTF-8 for programs, with nothing hidden for people."""
    stream = sys.stdout
    if not stream.isatty() and isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(encoding="utf-8")
    writer = csv.DictWriter(stream, fields, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(_shown(row) if stream.isatty() else row for row in rows)


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: visible(cell) if isinstance(cell, str) else cell for name, cell in row.items()}


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, right: str = "") -> None:
    """Print rows under a header in columns; a text that is too long is cut, visibly.

    Parameters
    ----------
    header, rows
        What to print. The last column is as wide as it needs to be.
    right
        The name of the column that is set to the right, if there is one.

    Examples
    --------
    >>> print_table(["user", "count"], [["Anna", "9"], ["名前", "1,234"]], right="count")
    user  count
    Anna      9
    名前  1,234
    """
    shown = [[visible(cell) for cell in row] for row in [header, *rows]]
    for row in shown:
        row[:-1] = [_cut(cell) for cell in row[:-1]]
    widths = [max(map(_width, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        cells = [
            _padded(cell, width, right=name == right)
            for name, cell, width in zip(header, row, widths, strict=True)
        ]
        sys.stdout.write("  ".join(cells).rstrip() + "\n")


def _padded(cell: str, width: int, *, right: bool) -> str:
    padding = " " * (width - _width(cell))
    return padding + cell if right else cell + padding


def _cut(cell: str) -> str:
    if _width(cell) <= WIDEST_CELL:
        return cell
    ends = list(accumulate(map(_width, cell)))
    return cell[: bisect_right(ends, WIDEST_CELL - 1)] + "…"


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes: East Asian characters take two."""
    return sum(
        0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF")
        for c in text
    )
