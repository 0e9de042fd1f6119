"""Commands that bring events to try things on: simulated ones, and a real sample."""

from __future__ import annotations

import shlex
from difflib import get_close_matches
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import typer

from kstoolkit.cli.terminal import say
from kstoolkit.errors import ConfigurationError, InputError
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from pathlib import Path


REAL_SAMPLES = ("wikiticker",)


class Format(StrEnum):
    """How simulated events are written."""

    json = "json"
    csv = "csv"
    parquet = "parquet"


class Packing(StrEnum):
    """What simulated files are compressed with."""

    gzip = "gzip"
    zstd = "zstd"
    none = "none"


def simulate(
    *,
    out: str = typer.Option(
        "simulated",
        metavar="FOLDER",
        help="Where to: the events into FOLDER/events (or FOLDER/sample), labels.json beside them.",
    ),
    sample: bool = typer.Option(
        False, "--sample", help="Make the sample that comes along, byte for byte; it is fixed."
    ),
    events: int | None = typer.Option(
        None,
        min=1,
        metavar="N",
        help="Events of ordinary users; abnormal ones come on top.  [default: 100000]",
        show_default=False,
    ),
    users: int | None = typer.Option(
        None, min=1, metavar="N", help="Ordinary users.  [default: 1000]", show_default=False
    ),
    duration: str | None = typer.Option(
        None, metavar="DURATION", help="How long.  [default: 2 days]", show_default=False
    ),
    seed: int | None = typer.Option(
        None,
        min=0,
        metavar="N",
        help="Another seed, other events; the same one, the same.  [default: 0]",
        show_default=False,
    ),
    file_format: Format | None = typer.Option(
        None, "--format", help="How to write them.  [default: json]", show_default=False
    ),
    compression: Packing | None = typer.Option(
        None, help="What to compress them with.  [default: gzip]", show_default=False
    ),
    files: int | None = typer.Option(
        None, min=1, metavar="N", help="How many files.  [default: 1]", show_default=False
    ),
) -> None:
    """Make events with abnormal users among them, and labels.

    Columns: time, user, action. The labels say who is abnormal, how and when: bursts,
    ramps, low-and-slow robots, floods by new users, shared accounts.
    """
    what = _given(event_count=events, users=users, duration=duration, seed=seed)
    how = _given(files=files)
    if file_format is not None:
        how["format"] = file_format.value
    if compression is not None:
        how["compression"] = None if compression is Packing.none else compression.value
    written = _write_sample(out, what | how) if sample else _write(out, what, how)
    folder, labels = written[0].parent, written[-1]
    say(f"Events in {folder}: {format_count(len(written) - 1)} file(s); labels in {labels}.")
    _propose(folder, action="action")


def fetch(
    name: str = typer.Argument(
        ..., metavar="NAME", help="Which one; there is: wikiticker.", show_default=False
    ),
    to: str | None = typer.Option(
        None,
        "--to",
        metavar="FOLDER",
        help="Where to.  [default: data/NAME]",
        show_default=False,
    ),
) -> None:
    """Download a real sample, and check its sha256.

    wikiticker: 39,244 edits of Wikipedia by 10,531 users on 12 September 2015, 2.3 MiB, as
    published with Apache Druid; CC BY-SA 3.0.
    """
    if name not in REAL_SAMPLES:
        near = get_close_matches(name, REAL_SAMPLES, n=1)
        guess = f"Did you mean {near[0]!r}? " if near else ""
        message = f"There is no sample {name!r}."
        raise InputError(message, hint=f"{guess}There is: {', '.join(REAL_SAMPLES)}.")
    from kstoolkit.events.sample import fetch_wikiticker  # noqa: PLC0415 - loads Arrow

    path = fetch_wikiticker(to or f"data/{name}")
    say(f"The sample is {path}.")
    _propose(path, action="namespace")


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _write_sample(out: str, given: dict[str, Any]) -> list[Path]:
    from kstoolkit.events.sample import write_sample  # noqa: PLC0415 - loads Arrow

    if given:
        message = "--sample makes the sample that comes along, which is fixed."
        raise ConfigurationError(message, hint="Leave out the options that change what is made.")
    return write_sample(out)


def _write(out: str, what: dict[str, Any], how: dict[str, Any]) -> list[Path]:
    from kstoolkit.events.simulator import simulate as simulated  # noqa: PLC0415 - loads Arrow

    return simulated(**what).write(f"{out}/events", **how)


def _propose(path: Path, *, action: str) -> None:
    """Print the command that counts these events."""
    columns = f"--event-time time --user user --action {action}"
    say(f"Count them: kstoolkit run {shlex.quote(str(path))} {columns} --out out/{path.stem}")
