"""Commands about incidents, what is said of them, and users: none of them starts Spark.

``incidents``, ``mark``, ``unmark``, ``marks``, ``story``.
"""

from __future__ import annotations

from enum import StrEnum

import typer

from kstoolkit.cli import options
from kstoolkit.cli.options import argument, optional
from kstoolkit.cli.results import announce, opened, say_as_of
from kstoolkit.cli.stores import moment_given
from kstoolkit.cli.terminal import note, print_json, say, tell
from kstoolkit.errors import InputError
from kstoolkit.records import counted

State = StrEnum("State", ["open", "resolved", "merged"])
Said = StrEnum("Said", ["known", "confirmed", "muted"])
_WHAT = argument("WHAT", "A user's name, or an incident's id.")


def incidents(
    out: str = options.OUT,
    *,
    user: str | None = options.USER,
    action: str | None = options.ACTION,
    since: str | None = options.SINCE,
    state: State | None = optional(None, "Only those in this state.", "all"),
    gap: str = typer.Option(
        "3 hours",
        metavar="DURATION",
        help="Findings of one user with no longer time between them are one incident.",
    ),
    kafka_config: str | None = options.KAFKA_CONFIG,
    as_json: bool = options.AS_JSON,
    limit: int = options.LIMIT,
) -> None:
    """Print incidents: findings that touch in time, told once.

    Open ones that nobody marked come first, the surest of them. The fields of --json: id, user
    (null of a campaign), actions, state, merged_into, since_ms, until_ms, opened_ms, told_ms (epoch
    ms UTC), windows, findings, peak, excess, rules, certainty, newcomers, mark, sentence, and more.
    Null is unknown, or none.
    """
    chosen = options.choice_given(user, action, moment_given(since))
    every = opened(out, kafka_config).incidents(gap)
    found = every.of(chosen, None if state is None else state.value)
    top = found.top(len(found) if as_json else limit)
    if as_json:
        print_json(top.to_dicts())
    elif not len(found):
        note(f"None of {counted(len(every), 'incidents')}." if len(every) else "No incidents.")
    else:
        for each in top:
            say(each.heading)
            say(f"  {each.sentence}")
        announce(len(top), len(found), "incidents")


def mark(
    out: str = options.OUT,
    what: str = _WHAT,
    said: Said = argument("MARK", "What is said of it."),
    *,
    until: str | None = optional(
        "T", "It holds for windows, or alerts, before this moment.", "for ever"
    ),
    rule: list[str] | None = optional(
        "NAME", "It holds for rules whose names begin so; several times for several.", "all"
    ),
    why: str | None = optional("TEXT", "The reason, for whoever reads the marks.", "none"),
) -> None:
    """Say of a user or an incident what it is.

    A known user is exempt from rules, and teaches nothing of others; of a muted one no alert is
    sent; what is known or confirmed is a label for evaluate. It is written to OUT/marks.toml, in
    the place of what was said before; a run that goes on takes it from there.
    """
    run = opened(out)
    told = run.mark(what, said.value, until=moment_given(until), rules=rule, why=why)
    say(f"{told.sentence}.")
    if told.until_ms is not None and told.until_ms <= (told.when_ms or 0):
        note(f"{until} is over: it holds for what was before then alone.")
    if told.incident is None and what not in run.incidents().table["user"].to_pylist():
        note(f"No incident is of {what!r} so far; a mark takes a whole name, or a whole id.")


def unmark(out: str = options.OUT, what: str = _WHAT) -> None:
    """Take back what was said of a user or an incident."""
    if not opened(out).unmark(what):
        message = f"Nothing is said of {what!r} in {out!r}."
        raise InputError(message, hint=f"kstoolkit marks {out} lists what is.")
    say(f"Nothing is said of {what} any more.")


def marks(out: str = options.OUT, as_json: bool = options.AS_JSON) -> None:
    """Print what was said of users and incidents.

    The fields of --json: mark, user, incident, since_ms, through_ms, until_ms, rules, why, who,
    when_ms. Null is none.
    """
    found = opened(out).marks
    if as_json:
        print_json(each.to_dict() for each in found)
    elif not len(found):
        note("No marks.")
    else:
        for each in found:
            say(f"{each.sentence}.")


def story(
    out: str = options.OUT,
    user: str = argument("USER", "Whose."),
    *,
    kafka_config: str | None = options.KAFKA_CONFIG,
    as_json: bool = options.AS_JSON_OBJECT,
) -> None:
    """Print all that is known of one user.

    The fields of --json: user, events, actions (action, count, share), levels (window,
    expected_low, expected_high, ceiling, min_count, and counts), incidents, marks. Null is unknown.
    """
    run = opened(out, kafka_config)
    told = run.story(user)
    if not told.events and not len(told.incidents):
        message = f"Nothing is counted of {user!r}."
        raise InputError(message, hint="Give a name as kstoolkit users prints it.")
    tell(told, as_json=as_json)
    say_as_of(run)
