"""How many files a run has taken in and not counted yet, look after look."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING

from kstoolkit.pipeline.offsets import files_taken, newest_commit

if TYPE_CHECKING:
    from kstoolkit.pipeline.runfolder import RunFolder


class WaitingFiles:
    """Reads what is new in a run's list of files each time.

    Parameters
    ----------
    folder
        The run's.

    Examples
    --------
    >>> from pathlib import Path
    >>> from kstoolkit.pipeline.runfolder import RunFolder
    >>> WaitingFiles(RunFolder(Path("no/run"))).look()
    (None, None)
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._ledger_bytes = 0
        self._sizes: list[int] = []

    def look(self) -> tuple[int | None, int | None]:
        """Return how many files wait, and their bytes; ``None`` if the run reads no files."""
        settings = self._folder.settings()
        if settings is None or settings.feed not in {"files", "lines"}:
            return None, None
        self._read_ledger()
        batch = newest_commit(self._folder.checkpoint)
        taken = 0 if batch is None else files_taken(self._folder.checkpoint, batch) or 0
        taken = min(taken, len(self._sizes))
        return len(self._sizes) - taken, sum(islice(self._sizes, taken, None))

    def _read_ledger(self) -> None:
        path = self._folder.ledger
        if not path.exists():
            return
        with path.open("rb") as file:
            file.seek(self._ledger_bytes)
            whole, end, _ = file.read().rpartition(b"\n")
        self._ledger_bytes += len(whole) + len(end)
        self._sizes += [json.loads(line)["size_bytes"] for line in whole.split(b"\n") if line]
