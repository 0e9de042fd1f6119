"""Commands that say what a store takes in memory, and what its figures advise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from kstoolkit.cli.flags import hints_in_flags, in_flags
from kstoolkit.cli.options import AS_JSON, AS_JSON_OBJECT
from kstoolkit.cli.terminal import note, print_json, print_table, say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kstoolkit.records import Figure
    from kstoolkit.rocksdb.profiles.profile import Profile
    from kstoolkit.rocksdb.store import Store


STORE = typer.Argument(
    ..., metavar="PATH", help="A store's folder, the one with a CURRENT file.", show_default=False
)
BOUND = typer.Option(
    None,
    min=1,
    metavar="N",
    help="What RocksDB may take on the host, in bytes.  [default: no bound is judged]",
    show_default=False,
)
INSTANCES = typer.Option(
    1, min=1, metavar="N", help="How many stores like this one are open there at once."
)
PARTITIONS = typer.Option(
    1, min=1, metavar="N", help="How many partitions the host has, each with so many instances."
)
SEGMENTS = typer.Option(
    1, min=1, metavar="N", help="How many segments of each are open at once: a window store has 3."
)
ITERATORS = typer.Option(
    None,
    min=0,
    metavar="N",
    help="How many iterators are open at once in each.  [default: unknown]",
    show_default=False,
)
PID = typer.Option(
    None,
    min=1,
    metavar="N",
    help="The writer's process, on this machine.  [default: none is measured]",
    show_default=False,
)
PROFILE = typer.Option(
    None,
    metavar="NAME",
    help="What its writer opens it with: see kstoolkit profile.  [default: its OPTIONS file]",
    show_default=False,
)


def memory(
    path: str = STORE,
    *,
    profile: str | None = PROFILE,
    pid: int | None = PID,
    instances: int = INSTANCES,
    partitions: int = PARTITIONS,
    segments: int = SEGMENTS,
    iterators: int | None = ITERATORS,
    as_json: bool = AS_JSON_OBJECT,
) -> None:
    """Print what a store's writer may take in memory, and why.

    What the writer needs at most is worked out by a formula from its options, its log and the
    store's files; --pid shows its process beside that. The parts that are measured are those of
    this reader, and say nothing of the writer. The fields of --json: formula_bytes, plan,
    writer_rss_bytes, writer_not_accounted_for_bytes, total_bytes (of this reader), and more;
    unknown says why a null is one.
    """
    known = _named(profile)
    with _opened(path) as store:
        parts = store.memory(
            profile=known,
            pid=pid,
            instances=instances * partitions * segments,
            iterators=iterators,
        )
    if as_json:
        print_json([parts.to_dict()])
        return
    say("The writer, by what it set:")
    for line in str(parts.plan or parts.figures()[0].text).splitlines():
        say(f"  {in_flags(line)}")
    _print_figures(each for each in parts.figures() if _is_of_writer(each))
    say("This reader, which opened the store to look into it; nothing of it is the writer's:")
    _print_figures(each for each in parts.figures() if not _is_of_writer(each))


def advice(
    path: str = STORE,
    *,
    bound_bytes: int | None = BOUND,
    instances: int = INSTANCES,
    pid: int | None = PID,
    profile: str | None = PROFILE,
    as_json: bool = AS_JSON,
) -> None:
    """Print what to change in a store, and the evidence.

    Without evidence there is no advice; rules that lack figures to judge by are named on stderr.
    The fields of --json: rule, symptom, evidence, option, direction, effect, cost, link,
    column_family.
    """
    known = _named(profile)
    with _opened(path) as store:
        found = store.advice(bound_bytes=bound_bytes, instances=instances, pid=pid, profile=known)
    if as_json:
        print_json(found.to_dicts())
    else:
        for each in found:
            for line in str(each).splitlines():
                say(line)
    if not found:
        note("Nothing to advise, as far as could be judged.")
    reasons = dict.fromkeys(found.unjudged.values())
    for why in reasons:
        rules = [rule for rule, each in found.unjudged.items() if each == why]
        note(f"Not judged: {', '.join(rules)}: {in_flags(why)}.")


def _is_of_writer(figure: Figure) -> bool:
    return figure.name == "formula_bytes" or figure.name.startswith("writer_")


def _print_figures(figures: Iterable[Figure]) -> None:
    rows = [[each.name, str(each.source), in_flags(each.text)] for each in figures]
    print_table(["figure", "whose", "value"], rows)


def _named(profile: str | None) -> Profile | None:
    from kstoolkit.rocksdb.profiles.named import profile_named  # noqa: PLC0415 - loads pandas

    return None if profile is None else profile_named(profile)


def _opened(path: str) -> Store:
    from kstoolkit.rocksdb.opening import open_store  # noqa: PLC0415 - loads RocksDB

    with hints_in_flags():
        return open_store(path)
