"""Commands that look after things: a run's changelog, this machine."""

from __future__ import annotations

from dataclasses import asdict

import typer

from kstoolkit.cli.endings import FAULT
from kstoolkit.cli.options import AS_JSON_OBJECT, OUT
from kstoolkit.cli.terminal import print_json, say


def compact(out: str = OUT, as_json: bool = AS_JSON_OBJECT) -> None:
    """Fold a changelog to its latest values.

    The counts stay the same, in less room. A run may go on meanwhile; its newest batch is left
    alone. The fields of --json: batches_folded, records_before, records_after, bytes_before,
    bytes_after.
    """
    from kstoolkit.changelog.compaction import compact as folded  # noqa: PLC0415 - loads Arrow

    done = folded(out)
    if as_json:
        print_json([asdict(done)])
    else:
        told = repr(done).removeprefix("Compaction(").removesuffix(")")
        say(f"{told[0].upper()}{told[1:]}.")


def doctor(as_json: bool = AS_JSON_OBJECT) -> None:
    """Say what is missing here, and what mends it.

    Ends with code 1 if something is wrong. The fields of --json: ok, and checks, each with name,
    ok, found, problem and remedy (null where there is none).
    """
    from kstoolkit.environment import doctor as diagnosed  # noqa: PLC0415 - looks for Java

    diagnosis = diagnosed()
    if as_json:
        print_json([diagnosis.to_dict()])
    else:
        for line in repr(diagnosis).splitlines():
            say(line)
    if not diagnosis.ok:
        raise typer.Exit(FAULT)
