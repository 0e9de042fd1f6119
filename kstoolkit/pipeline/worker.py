"""What a Python worker of Spark's is spared between its tasks."""

from __future__ import annotations

import gc


def spare_collector() -> None:
    """Take all that is loaded by now out of the garbage collector's sight, once in a process.

    Spark's workers live from task to task and collect all garbage after each one. To go through
    the modules of pandas, Arrow and Spark takes 40 ms every time, as long as a small task's work.
    What a task makes itself is collected as ever.

    To be called by a task that needs most of these modules: what is loaded later stays in sight.

    Examples
    --------
    >>> spare_collector()
    >>> gc.get_freeze_count() > 0
    True
    >>> gc.unfreeze()
    """
    if not gc.get_freeze_count():
        gc.freeze()
