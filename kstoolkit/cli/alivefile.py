"""A file whose time says that a run is well, for whoever watches processes by such files."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kstoolkit.errors import InputError
from kstoolkit.pipeline.runfolder import newest_commit

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.pipeline.run import Run


_EVERY_SECONDS = 2.0
_LEAST_SECONDS, _TRIGGERS = 300.0, 10


class AliveFile:
    """Touches a file while batches end.

    Parameters
    ----------
    path
        The file; it is made.
    trigger_ms
        How often a batch begins: the run is well for ten times that after one ended, and for five
        minutes in any case.
    """

    def __init__(self, path: Path, trigger_ms: int) -> None:
        self._path = path
        self._well_seconds = max(_LEAST_SECONDS, _TRIGGERS * trigger_ms / 1_000)
        self._batch: int | None = None
        self._ended = time.monotonic()
        self._due = self._ended

    def look(self, run: Run) -> None:
        """Touch the file if it is time to, and the run is well.

        Raises
        ------
        InputError
            If the file can't be written.
        """
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + _EVERY_SECONDS
        batch = newest_commit(run.folder.checkpoint)
        if batch != self._batch:
            self._batch, self._ended = batch, now
        if now - self._ended <= self._well_seconds:
            self._touch()

    def _touch(self) -> None:
        try:
            self._path.touch()
        except OSError as error:
            message = f"The alive file {str(self._path)!r} can't be written: {error.strerror}."
            raise InputError(message, hint="Give another --alive-file.") from error
