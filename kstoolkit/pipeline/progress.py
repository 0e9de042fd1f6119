"""How far a run is: a bar where the end is known, a line where it is not."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Self

from tqdm import tqdm

if TYPE_CHECKING:
    from kstoolkit.pipeline.statistics import BatchStatistics

__all__ = ["Progress"]


class Progress:
    """Shows a run's progress on stderr, as text: it reads the same in a terminal and a notebook.

    Parameters
    ----------
    total_bytes
        Size of the input; ``None`` where the end is not known.
    shown
        Whether to show anything.
    """

    def __init__(self, *, total_bytes: int | None, shown: bool) -> None:
        self.events = 0
        self.batches = 0
        self._lock = threading.Lock()
        self._bar = tqdm(
            total=total_bytes or None,
            desc="starting Spark",
            unit="B",
            unit_scale=True,
            disable=not shown,
            file=sys.stderr,
            dynamic_ncols=True,
            leave=False,
        )
        self._total_bytes = total_bytes

    def batch(self, done: BatchStatistics) -> None:
        """Take in that a micro-batch is done."""
        with self._lock:
            self.events += done.events
            self.batches += 1
            rate = done.events / done.seconds if done.seconds else 0
            self._bar.set_description_str("counting")
            self._bar.set_postfix_str(
                f"{self.events:,} events, {rate:,.0f}/s, {done.findings:,} findings"
            )

    def reach(self, done_bytes: int) -> None:
        """Take in how many bytes of the input are done."""
        with self._lock:
            self._bar.update(done_bytes - self._bar.n)

    def close(self) -> None:
        """Take the bar away."""
        self._bar.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
