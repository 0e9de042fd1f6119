"""A run that begins anew at other offsets of its topic: what that costs, and how it is done."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kstoolkit.errors import CheckpointError
from kstoolkit.kafka.groups import Partition
from kstoolkit.operations.resetplan import Move, ResetPlan, moment_text
from kstoolkit.operations.resettargets import targets_of, to_in_words
from kstoolkit.operations.resetwindows import cuts_of, windows_in_part
from kstoolkit.records import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from kstoolkit.kafka.cluster import TopicFacts
    from kstoolkit.operations.readers import RunReader
    from kstoolkit.operations.resetplan import PartWindows
    from kstoolkit.pipeline.runfolder import Settings


_IS_ANOTHER = (
    "The topic {!r} was deleted and made again since the run read it: its records may be other "
    "ones, or the same that were counted before."
)


def reset_run(
    reader: RunReader, to: str | datetime | dict[int, int], *, dry_run: bool
) -> ResetPlan:
    """Return what a reset of a run does; do it, unless it is only planned.

    Raises
    ------
    CheckpointError
        If it is to be done, and the run is counting.
    OutputError
        If the run's folder can't be written.
    KafkaError
        If no broker answers.
    """
    folder = reader.folder
    refusal = "It is counting at present: stop it first." if folder.is_held() else None
    if dry_run:
        plan, _ = _planned_for_run(reader, to)
        return replace(plan, refusal=refusal)
    if refusal is not None:
        message = f"The run {str(folder.path)!r} is counting at present."
        raise CheckpointError(message, hint="Stop it first; then reset it, and start it again.")
    with folder.hold():
        folder.mend_epoch()
        plan, settings = _planned_for_run(reader, to)
        folder.begin_epoch(settings)
    return replace(plan, done=True)


def _planned_for_run(
    reader: RunReader, to: str | datetime | dict[int, int]
) -> tuple[ResetPlan, Settings]:
    """Return the plan, and the settings that the run's folder gets by it."""
    facts, settings = reader.cluster.facts(reader.topic), reader.settings()
    known = {place.number: at for place, at in reader.positions(facts).items()}
    targets = targets_of(to, reader.cluster, facts.name, facts.reach, known)
    plan = ResetPlan(
        reader=reader.name,
        to=to_in_words(to),
        done=False,
        moves=tuple(
            Move.of(Partition(facts.name, each), facts.reach[each], known.get(each), at)
            for each, at in sorted(targets.items())
        ),
    )
    if settings.time == "event":
        plan = _with_windows(plan, reader, facts, settings)
    begun = replace(
        settings,
        epoch=settings.epoch + 1,
        was_live=False,
        topic_id=facts.topic_id,
        starting={str(each): at for each, at in sorted(targets.items())},
    )
    told = (*plan.warnings, *_run_warnings(plan, settings))
    if reader.is_another(facts):
        told = (_IS_ANOTHER.format(facts.name), *told)
    return replace(plan, warnings=told), begun


def _with_windows(
    plan: ResetPlan, reader: RunReader, facts: TopicFacts, settings: Settings
) -> ResetPlan:
    """Return the plan with the windows that are read in part, and what to do about them."""
    targets = {each.partition: each.target for each in plan.moves}
    cuts = cuts_of(reader.cluster, facts.name, facts.reach, targets)
    in_part = windows_in_part(
        settings.cascade.windows, cuts.begin_ms.values(), cuts.cut_ms.values()
    )
    told = []
    if in_part:
        is_first = all(at == facts.reach[each].first for each, at in targets.items())
        told.append(_too_low(in_part, is_first=is_first))
    untold = sorted({each for each, at in targets.items() if at > 0} - cuts.cut_ms.keys())
    if untold:
        which = f"partition{'s' if len(untold) > 1 else ''} {', '.join(map(str, untold))}"
        told.append(f"No record of {which} tells a time: more windows may be read in part.")
    return replace(plan, in_part=tuple(in_part), warnings=tuple(told))


def _too_low(in_part: Sequence[PartWindows], *, is_first: bool) -> str:
    windows = "; ".join(map(str, in_part))
    begun = (
        "By the records' timestamps, these windows are read in part, and the counts of users who "
        f"come again in them become too low: {windows}."
    )
    if is_first:
        return f"{begun} What came before is gone from the topic."
    first = moment_text(min(each.first_start_ms for each in in_part))
    return f"{begun} To count them right, reset to {first} or before, or to earliest."


def _run_warnings(plan: ResetPlan, settings: Settings) -> Iterator[str]:
    """Yield what else it costs."""
    again = counted(plan.again_records, "records")
    if plan.again_records and settings.time == "processing":
        yield f"{again} are counted again, in the windows of the time when they are read again."
    if plan.again_records:
        yield (
            f"{again} count twice in the run's summary and metrics (events, late ones, dead "
            "letters), and findings may be reported again. Counts of windows are not added up: "
            "the newest one wins."
            if settings.time == "event"
            else f"{again} count twice in the run's summary and metrics, too."
        )
    if plan.skipped_records:
        yield f"{counted(plan.skipped_records, 'records')} will never be counted."
    if settings.was_live:
        yield (
            "What the live run held back by its flush interval is lost, unless its windows are "
            "read again."
        )
