"""Commands that start, stop and look at a Kafka broker on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from kstoolkit.cli.options import AS_JSON_OBJECT
from kstoolkit.cli.terminal import note, print_json, say

if TYPE_CHECKING:
    from kstoolkit.kafka.broker import Broker


FOLDER = typer.Option(
    None,
    "--dir",
    metavar="DIR",
    help="Where it lives.  [default: kstoolkit/broker in $XDG_DATA_HOME or ~/.local/share]",
    show_default=False,
)


PORT = typer.Option(
    None,
    min=1,
    max=65535,
    metavar="PORT",
    help="Where it listens; fixed by the first start.  [default: a port that is free]",
    show_default=False,
)


def start(
    folder: str | None = FOLDER, *, port: int | None = PORT, as_json: bool = AS_JSON_OBJECT
) -> None:
    """Start a broker, and wait until it answers.

    One node of Kafka on loopback, without passwords. It keeps its address and its records in DIR,
    and goes on until it is stopped. At the first start its jars are downloaded into the cache, some
    45 MB. One that runs already is left as it is. The fields of --json are those of status.
    """
    broker = _broker(folder, port)
    if broker.status().running:
        note("It runs already.")
    _print(broker.start(), as_json=as_json)


def stop(folder: str | None = FOLDER, as_json: bool = AS_JSON_OBJECT) -> None:
    """Stop a broker; its records stay.

    The next start in the same folder goes on with them, at the same address. The fields of --json
    are those of status.
    """
    broker = _broker(folder)
    broker.stop()
    _print(broker, as_json=as_json)


def status(folder: str | None = FOLDER, as_json: bool = AS_JSON_OBJECT) -> None:
    """Say whether a broker runs, and at which address.

    The fields of --json: bootstrap (what clients are given; the same at each start), running, pid,
    dir, version, and log (the file with its warnings and errors). Null is what there is not yet, or
    not any more.
    """
    _print(_broker(folder), as_json=as_json)


def _broker(folder: str | None, port: int | None = None) -> Broker:
    from kstoolkit.kafka.broker import Broker  # noqa: PLC0415 - looks for Java

    return Broker(folder, port=port, tell=note)


def _print(broker: Broker, *, as_json: bool) -> None:
    told = broker.status()
    if as_json:
        print_json([told.to_dict()])
    else:
        text = repr(told)
        say(f"{text[0].upper()}{text[1:]}.")
