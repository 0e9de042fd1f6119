"""Where a bounded run on a topic ends: at the offsets that were there as it began.

Spark plans up to where the topic ends as a query starts. That is later: Java has to start first,
and after an outage the query starts anew. A batch that is planned too far is cut in Spark's offset
log before any of it is counted, and the query started again takes it as it is written there.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstoolkit.errors import KstoolkitError
from kstoolkit.pipeline.offsets import initial_offsets, offsets_reached, rewrite_offsets

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class AtItsEnd(KstoolkitError):  # noqa: N818 - it is none: it ends a query
    """What a query ends with that has nothing left to count before the run's end."""


class PlannedAnew(KstoolkitError):  # noqa: N818 - it is none: it ends a query
    """What a query ends with whose batch was cut: started again, it counts what is left of it."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The offsets at which a run ends.

    Parameters
    ----------
    topic
        The topic's name.
    offsets
        Of each partition, the offset that the run ends before.
    checkpoint
        Spark's checkpoint.
    first_batch
        The batch that the run begins with; it is counted even if nothing is left of it, for what
        an earlier run held back.

    Examples
    --------
    >>> from pathlib import Path
    >>> ending = Ending("actions", {0: 50, 1: 40}, Path("checkpoint"), first_batch=7)
    >>> ending.cut({0: 30, 1: 40}, planned={0: 60, 1: 45, 2: 5})
    {0: 50, 1: 40}
    """

    topic: str
    offsets: Mapping[int, int]
    checkpoint: Path
    first_batch: int

    def check(self, batch: int) -> None:
        """Raise if a batch reaches past the end, after it was planned anew or taken back.

        Raises
        ------
        AtItsEnd
            If nothing of it lies before the end.
        PlannedAnew
            If something does.
        """
        planned = offsets_reached(self.checkpoint, batch, self.topic) or {}
        begun = self._begun(batch)
        wanted = self.cut(begun, planned)
        if wanted == planned:
            return
        if wanted == begun and batch > self.first_batch:
            rewrite_offsets(self.checkpoint, batch, self.topic, None)
            message = f"The run ends before batch {batch}."
            raise AtItsEnd(message)
        rewrite_offsets(self.checkpoint, batch, self.topic, wanted)
        message = f"Batch {batch} was planned past {json.dumps(dict(self.offsets))}."
        raise PlannedAnew(message)

    def cut(self, begun: Mapping[int, int], planned: Mapping[int, int]) -> dict[int, int]:
        """Return where a batch ends that is planned from some offsets to others."""
        ends = {
            each: min(at, self.offsets.get(each, begun.get(each, 0)))
            for each, at in planned.items()
            if each in self.offsets or each in begun  # a partition that is new is the next run's
        }
        return {each: max(at, begun.get(each, 0)) for each, at in ends.items()}

    def _begun(self, batch: int) -> dict[int, int]:
        before = offsets_reached(self.checkpoint, batch - 1, self.topic) if batch else None
        return before or initial_offsets(self.checkpoint, self.topic)
