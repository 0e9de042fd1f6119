"""Whom to ask: who did something often within a window, and has not shown since that it is fine.

A user is *asked* for each window with ``at_least`` so many requests, unless a *pass* of theirs is
as late as the window's start, or later: so a pass clears what was asked before, and spares what
would be asked for windows that had begun by then. A count only grows, and of the passes only the
latest matters, so it makes no difference in which order requests and passes come.

======================  =====================================================================
key                     block
======================  =====================================================================
``counts/0/<t>``        CountBlock: requests by user and window, of the windows that begin in
                        segment t, which is sixty windows long
``passes``              CountBlock: each user's latest pass; its time stands as a window's start
``asks``                CountBlock: windows for which users stand asked, with the count then
======================  =====================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.counters.bucket import NEVER, WINDOWS_PER_SEGMENT, Segments, counters_in
from kstoolkit.counters.counters import Counters

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kstoolkit.counters.bucket import Blocks
    from kstoolkit.windows import Window

_PASSES, _ASKS = "passes", "asks"


@dataclass(frozen=True, slots=True)
class Asks:
    """The asks of one bucket of users, over its blocks, where the state lies.

    Requests are counted in a ``window``, in which ``at_least`` so many are too many; for so long
    after its end an ask can still be cleared.
    """

    window: Window
    at_least: int
    keep_ms: int
    blocks: Blocks

    def advance(self, requests: Counters, passes: Counters, *, horizon_ms: int) -> pa.Table:
        """Take in who did it when, and who passed when, and return what that decided.

        Both are as of :func:`moments`; what comes is one row for each window: ``user``,
        ``window_start_ms``, ``count`` (when it first was decided) and ``asked``. A window is
        decided when it reaches ``at_least``, and again if a pass clears it. Nothing earlier than
        ``horizon_ms`` will come any more; state that only such events could need is dropped.
        """
        reached = self._reached(requests)
        came = Counters.merge([counters_in(self.blocks, _PASSES), passes])
        latest = came.take(np.append(came.user[1:] != came.user[:-1], True)[: len(came)])
        standing = counters_in(self.blocks, _ASKS)
        spared, cleared = _is_passed(reached, latest), _is_passed(standing, latest)
        asked = reached.take(~spared)
        self._keep(_PASSES, latest.take(latest.start_ms > horizon_ms - self.window.size_ms))
        still = Counters.merge([standing.take(~cleared), asked])
        ends_ms = still.start_ms + self.window.size_ms
        self._keep(_ASKS, still.take(ends_ms + self.keep_ms > horizon_ms))
        # The counts of windows that have ended by the horizon can't change any more.
        self._segments.drop(horizon_ms - self.window.size_ms + 1)
        fine = Counters.merge([reached.take(spared), standing.take(cleared)])
        return pa.concat_tables([_rows(asked, asked=True), _rows(fine, asked=False)])

    def _reached(self, requests: Counters) -> Counters:
        """Count, and return the windows that have just come to so many."""
        if not len(requests):
            return Counters.empty()
        added = self._segments.add(requests.coarsen(self.window))
        now = added.changed
        return now.take((added.old < self.at_least) & (now.count >= self.at_least))

    @property
    def _segments(self) -> Segments:
        return Segments(self.blocks, "counts/0/", WINDOWS_PER_SEGMENT * self.window.every_ms)

    def _keep(self, key: str, counters: Counters) -> None:
        if len(counters):
            self.blocks[key] = counters.encode()
        else:
            self.blocks.pop(key, None)


def moments(time_ms: NDArray[np.int64], users: pa.Array | pa.ChunkedArray) -> Counters:
    """Return moments of users as counters: each at its own time, all of one action.

    >>> moments(np.array([7, 7, 9]), pa.array(["ann", "ann", "bo"])).count.tolist()
    [2, 1]
    """
    return Counters.of(time_ms, users, pa.repeat("", len(users)))


def _is_passed(windows: Counters, passes: Counters) -> NDArray[np.bool_]:
    """Return which windows had begun by their user's pass; there is one pass for each user."""
    pass_ms = np.full(len(passes.users) + 1, NEVER)  # the last one is of those who have none
    pass_ms[passes.user] = passes.start_ms
    place = pc.index_in(windows.users, value_set=passes.users).fill_null(len(passes.users))
    return np.asarray(pass_ms[np.asarray(place)][windows.user] >= windows.start_ms)


def _rows(decided: Counters, *, asked: bool) -> pa.Table:
    table = decided.to_table()
    columns = {
        "user": table.column("user").cast(pa.string()),
        "window_start_ms": table.column("window_start_ms"),
        "count": table.column("count"),
        "asked": pa.array(np.full(len(decided), asked)),
    }
    return pa.table(columns)
