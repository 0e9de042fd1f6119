"""Commands that say what a store takes in memory, and what its figures advise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from kstoolkit.cli.options import AS_JSON, AS_JSON_OBJECT
from kstoolkit.cli.terminal import note, print_json, print_table, say

if TYPE_CHECKING:
    from kstoolkit.rocksdb.profiles.profile import Profile
    from kstoolkit.rocksdb.store import Store

__all__ = ["advice", "memory"]

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
    path: str = STORE, *, profile: str | None = PROFILE, as_json: bool = AS_JSON_OBJECT
) -> None:
    """Print what a store takes in memory, and may take.

    The parts are those of this process, which opened the store; what its writer needs at most by
    the options it gave is the formula's. The fields of --json: total_bytes, formula_bytes,
    rss_bytes, not_accounted_for_bytes, and more; unknown says why a null is one.
    """
    known = _named(profile)
    with _opened(path) as store:
        parts = store.memory(profile=known)
    if as_json:
        print_json([parts.to_dict()])
        return
    rows = [[each.name, str(each.source), each.text] for each in parts.figures()]
    print_table(["figure", "whose", "value"], rows)
    for line in str(parts.plan or "").splitlines():
        say(line)


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
        note(f"Not judged: {', '.join(rules)}: {why}.")


def _named(profile: str | None) -> Profile | None:
    from kstoolkit.rocksdb.profiles.named import profile_named  # noqa: PLC0415 - loads pandas

    return None if profile is None else profile_named(profile)


def _opened(path: str) -> Store:
    from kstoolkit.rocksdb.opening import open_store  # noqa: PLC0415 - loads RocksDB

    return open_store(path)
