"""Which of a run's dead letters a report shows: one of each reason first, ten at most."""

from __future__ import annotations

from itertools import chain, zip_longest
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from kstoolkit.events.event import REASONS
from kstoolkit.pipeline.run import iter_letters
from kstoolkit.report.content import DeadLetters, DeadLetterSample
from kstoolkit.report.paths import shown_path

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


_SAMPLES = 10


def reported_letters(out: Path, counted: Mapping[str, int]) -> DeadLetters:
    """Return how many dead letters there are of each reason, and some of them.

    Parameters
    ----------
    out
        The run's folder.
    counted
        How many there are by reason code.
    """
    counts = dict(sorted(counted.items(), key=lambda each: (-each[1], each[0])))
    return DeadLetters(
        counts=[(f"{name}: {REASONS.get(name, name)}", count) for name, count in counts.items()],
        samples=_samples(out, counts),
    )


def _samples(out: Path, counts: Mapping[str, int]) -> list[DeadLetterSample]:
    """Return some dead letters; of millions, no more are read than it takes to find these."""
    held: dict[str, list[DeadLetterSample]] = {reason: [] for reason in counts}
    for number, letters in iter_letters(out):
        for reason in letters["reason"].unique().to_pylist():
            room = _SAMPLES - len(held.setdefault(reason, []))
            first = letters.filter(pc.equal(letters["reason"], reason)).slice(0, room)
            held[reason] += [_sample(row, number) for row in first.to_pylist()]
        if all(len(held[reason]) >= min(counts[reason], _SAMPLES) for reason in counts):
            break
    in_turn = chain.from_iterable(zip_longest(*held.values()))
    return [sample for sample in in_turn if sample is not None][:_SAMPLES]


def _sample(row: Mapping[str, str | None], number: int) -> DeadLetterSample:
    file, detail = row["file"], row["detail"]
    return DeadLetterSample(
        reason=f"{row['reason']}: {detail}" if detail else str(row["reason"]),
        raw=row["raw"] or "",
        file=None if file is None else shown_path(file),
        batch=number,
    )
