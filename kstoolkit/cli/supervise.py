"""The command that keeps a run alive, for whoever starts it once and looks no more."""

from __future__ import annotations

import inspect
from typing import Any, get_type_hints

from kstoolkit.cli.run import run

RESTARTS_PER_HOUR = 5


def supervise(**options: Any) -> None:
    """Keep counting what arrives, and start again what dies.

    As run --follow does, with all its options; but a query that dies is started again, its Java
    too, after pauses that grow. Why, each time, is in OUT/restarts.jsonl. SIGTERM and Ctrl-C end
    it after the batch at hand.

    \b
    It ends with
      0   when it was asked to,
      1   when something can't be mended by starting again: a broker that stays away, say,
      2   when something given is wrong, or the topic is not what it was: don't try again,
      75  when the restarts of an hour are spent: try again later.
    """  # noqa: D301 - \b keeps the lines of the table apart
    if options["restarts_per_hour"] is None:
        options["restarts_per_hour"] = RESTARTS_PER_HOUR
    run(**options, follow=True)


def _as_run_takes_them() -> inspect.Signature:
    """Return the options of ``run``, but for the one that is given here."""
    kinds = get_type_hints(run)
    given = inspect.signature(run)
    taken = [
        each.replace(annotation=kinds[name])
        for name, each in given.parameters.items()
        if name != "follow"
    ]
    return given.replace(parameters=taken, return_annotation=None)


supervise.__signature__ = _as_run_takes_them()  # type: ignore[attr-defined] # as inspect reads it
supervise.__annotations__ = {
    name: each.annotation for name, each in _as_run_takes_them().parameters.items()
}
