"""How far a run is: a bar where the end is known, a line where it is not."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from kstoolkit.events.ledger import Ledger
from kstoolkit.pipeline.runfolder import files_taken
from kstoolkit.records import Closing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kstoolkit.pipeline.batches import MicroBatch

_LINE = "{desc}: {elapsed}{postfix}"
"""What shows where no end is known."""


class _CellLine:
    """A line below a cell of a notebook, for a bar; in the end nothing is left of it."""

    encoding = "utf-8"  # as tqdm asks, before it draws a bar with more than ASCII

    def __init__(self) -> None:
        from IPython.display import display  # noqa: PLC0415 - only where there is one

        self._line = ""
        self._handle: Any = display({"text/plain": ""}, raw=True, display_id=True)  # type: ignore[no-untyped-call]

    def write(self, told: str) -> None:
        """Take what would go to a terminal: what stands in the line after it is shown."""
        _, begins_anew, line = told.rpartition("\r")
        if begins_anew and line.rstrip() != self._line:
            self._line = line.rstrip()
            self._handle.update({"text/plain": self._line}, raw=True)

    def flush(self) -> None:
        """Do nothing: it is shown already."""


def _in_notebook() -> bool:
    """Return whether what goes to stderr is a box in red, be it blanks that wipe a bar out."""
    return hasattr(sys.stderr, "pub_thread")


class Progress(Closing):
    """Shows a run's progress as text, if it is to: on stderr, in a notebook below the cell."""

    def __init__(self, *, shown: bool) -> None:
        self.events = self.findings = 0
        self.batches, self._rate = 0, 0.0
        self._lock = threading.Lock()
        self._bar = tqdm(
            desc="starting Spark",
            unit="B",
            unit_scale=True,
            disable=not shown,
            file=_CellLine() if shown and _in_notebook() else sys.stderr,
            dynamic_ncols=True,
            leave=False,
            bar_format=_LINE,
        )

    def begin(self, total_bytes: int | None) -> None:
        """Take in that counting begins, and the input's size: ``None`` where no end is known."""
        with self._lock:
            self._bar.total = total_bytes
            if total_bytes is not None:
                self._bar.bar_format = None  # a whole bar
            self._bar.set_description_str("counting")

    def batch(self, done: MicroBatch) -> None:
        """Take in that a micro-batch is done."""
        with self._lock:
            self.events += done.events
            self.findings += done.findings
            self.batches += 1
            if done.events or not self.events:  # what only judges has no speed
                self._rate = done.events / done.seconds if done.seconds else 0
            self._bar.set_postfix_str(
                f"{self.events:,} events, {self._rate:,.0f}/s, {self.findings:,} findings"
            )

    def say(self, line: str) -> None:
        """Print a line on stderr, in a notebook on stdout; also where no bar is shown."""
        with self._lock:
            self._bar.write(line, file=sys.stdout if _in_notebook() else sys.stderr)

    def reach(self, done_bytes: int) -> None:
        """Take in how many bytes of the input are done."""
        with self._lock:
            self._bar.update(done_bytes - self._bar.n)

    def close(self) -> None:
        """Take the bar away."""
        self._bar.close()


class InputProgress:
    """How much of a bounded run's input is done, by Spark's own offset log."""

    def __init__(self, ledger: Path, checkpoint: Path, paths: Iterable[str]) -> None:
        self.ledger, self.checkpoint = ledger, checkpoint
        known = Ledger(ledger)
        self.total_bytes = sum(map(_size_bytes, known.unknown(paths))) or None
        self._taken, self._done_bytes = len(known), 0
        self._admitted: Ledger | None = None

    def after(self, batch: int) -> int:
        """Return how many bytes are done after a micro-batch."""
        if self._admitted is None:  # the first batch: by now all files of this run are admitted
            self._admitted = Ledger(self.ledger)
        taken = max(files_taken(self.checkpoint, batch) or 0, self._taken)
        self._done_bytes += self._admitted.size_bytes(self._taken, taken)
        self._taken = taken
        return self._done_bytes


def _size_bytes(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:  # gone since it was listed, say, or failing: it will be told
        return 0
