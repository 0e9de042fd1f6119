"""How far a replica's restore is: a listener that adds up, by window, for as long as it runs."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

from kstoolkit.operations.metricsrecord import counter, gauge, labelled

if TYPE_CHECKING:
    from kstoolkit.operations.metricsrecord import Metric


class RestoreProgress:
    """A restore listener for replicas and standbys, of which three figures a window remain.

    Give it as ``listener`` to :meth:`kstoolkit.WindowStore.restore` and
    :meth:`kstoolkit.WindowStore.follow`. Segments that are rebuilt alone count with their window.

    Examples
    --------
    >>> progress = RestoreProgress()
    >>> progress.on_start("1 hour", total=500)
    >>> progress.on_batch("1 hour", records=200)
    >>> {each.name: each.samples[0][1] for each in progress.metrics()[:2]}
    {'kstoolkit_restore_records': 200, 'kstoolkit_restore_remaining_records': 300}
    """

    def __init__(self) -> None:
        self._one_at_a_time = threading.Lock()
        self._read: Counter[str] = Counter()
        self._remaining: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()

    def on_start(self, what: str, *, total: int) -> None:
        """Take in that so many records are going to be read."""
        with self._one_at_a_time:
            self._remaining[_window(what)] += total

    def on_batch(self, what: str, *, records: int) -> None:
        """Take in that so many more have been read."""
        with self._one_at_a_time:
            self._read[_window(what)] += records
            self._remaining[_window(what)] -= records

    def on_end(self, what: str, *, records: int) -> None:  # noqa: ARG002 - batches have told them
        """Take in that all is restored."""
        with self._one_at_a_time:
            self._remaining[_window(what)] = 0

    def on_failure(self, what: str, *, error: Exception) -> None:  # noqa: ARG002 - it is raised
        """Take in that it can't be restored; whoever tries again says anew what remains."""
        with self._one_at_a_time:
            self._failures[_window(what)] += 1
            self._remaining[_window(what)] = 0

    def metrics(self) -> list[Metric]:
        """Return the figures by now; none before a restore has begun."""
        with self._one_at_a_time:
            read, left = Counter(self._read), Counter(self._remaining)
            failures = Counter(self._failures)
        return [
            counter(
                "restore_records",
                "Records of the changelog that were read into a replica.",
                labelled("window", read, left),
            ),
            gauge(
                "restore_remaining_records",
                "Records of what was begun that are still to be read; 0 once it is restored.",
                labelled("window", left),
            ),
            counter(
                "restore_failures",
                "Restores that failed.",
                labelled("window", failures, left),
            ),
        ]


def _window(what: str) -> str:
    """Return the window of a level, or of a segment: ``1 hour from 2015-09-12T10:00:00+00:00``."""
    return what.partition(" from ")[0]
