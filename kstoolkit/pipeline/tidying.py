"""A run's folder that lasts: older batches are folded as it goes, and counts expire.

Beside a live run a thread looks after every sixteenth batch, and folds in tiers what lies beside
``checkpoint/`` (:mod:`kstoolkit.changelog.compaction`); a bounded run is tidied as it ends. Nothing
of it holds a batch up, and what fails is told once and tried again later.

What expires does so by how far most counts of the newest batches are, and no further than their
clock. So old data that are counted again stay while nothing newer comes, and one client's clock
makes nothing expire.
Expired counts, and findings of their windows, go as their fold is written anew, which it is once
half of it has expired.
"""

from __future__ import annotations

from contextlib import suppress
from threading import Event, Thread
from typing import TYPE_CHECKING

from kstoolkit.changelog.changelog import MIRROR, Busy
from kstoolkit.changelog.compaction import (
    NEIGHBOURS,
    CompactionResult,
    Content,
    CountsContent,
    RowsContent,
    clock_ms,
    compact,
    compact_folders,
)
from kstoolkit.errors import ConfigurationError, KstoolkitError, Option, naming
from kstoolkit.pipeline.batches import STATISTICS_CONTENT, STATISTICS_FOLDER
from kstoolkit.pipeline.runfolder import RunFolder

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from kstoolkit.units import Duration
    from kstoolkit.windows import Cascade

NOT_OURS = "The counts are in a topic: how long they stay is its retention, not ours."


def floors_ms(changelog: Path, cascade: Cascade) -> dict[int, int]:
    """Return the first start of the windows that stay, by their length; none for those that do."""
    kept = zip(cascade.levels, cascade.expire_ms, strict=True)
    spans_ms = {each.size_ms: each.span_ms + ms for each, ms in kept if ms is not None}
    finest_ms = min(window.size_ms for window in cascade.windows)
    reached_ms = clock_ms(changelog, finest_ms) if spans_ms else None
    if reached_ms is None:
        return {}
    return {size_ms: reached_ms - span_ms + 1 for size_ms, span_ms in spans_ms.items()}


def tidy(
    folder: RunFolder,
    cascade: Cascade,
    *,
    in_tiers: bool = True,
    go_on: Callable[[], object] = lambda: None,
) -> dict[str, CompactionResult]:
    """Fold what a run keeps by batch, and return by kind what that saved.

    Another compaction that is at work, or a disk that takes nothing, is an OutputError; a damaged
    file of counts is a FormatError.
    """
    floors = floors_ms(folder.path / "changelog", cascade)
    contents: dict[str, Content] = {
        "changelog": CountsContent(floors),
        "findings": RowsContent(floors_ms=floors),
        "dead_letters": RowsContent(),
        STATISTICS_FOLDER: STATISTICS_CONTENT,
    }
    return {
        kind: compact_folders(folder.path / kind, content, in_tiers=in_tiers, go_on=go_on)
        for kind, content in contents.items()
        if (folder.path / kind).is_dir()
    }


def compact_run(
    path: str | os.PathLike[str], expire: Mapping[str, Duration] | None = None
) -> dict[str, CompactionResult]:
    """Fold all settled batches of a run, of each epoch into one, and return by kind what it saved.

    Of a changelog's folder, that alone is folded. ``expire`` says how long counts stay, by window:
    see :class:`~kstoolkit.windows.Cascade`; counts that a topic has can't.
    """
    folder = RunFolder.at(path)
    settings = folder.settings()
    if expire and (settings is None or settings.changelog is not None):
        message = NOT_OURS if settings else f"{str(path)!r} is no run's folder: nothing expires."
        raise ConfigurationError(message, hint=naming("Leave {it} out.", it=Option("expire")))
    if settings is None:
        return {"changelog": compact(path)}
    done = {"changelog": compact(path)} if (folder.path / MIRROR).is_dir() else {}
    return done | tidy(folder, settings.expiring(expire), in_tiers=False)


class _Closed(BaseException):
    """The run ends, and with it what goes on beside."""


class Tidying:
    """A thread beside a live run that keeps its folder tidy, until it is closed.

    ``tell`` is told once of what can't be done.
    """

    def __init__(self, folder: RunFolder, cascade: Cascade, tell: Callable[[str], object]) -> None:
        self._folder, self._cascade, self._tell = folder, cascade, tell
        self._batches, self._told = 0, ""
        self._due, self._closing = Event(), Event()
        self._thread = Thread(target=self._keep_tidy, name="kstoolkit-tidying", daemon=True)

    def batch_ended(self) -> None:
        """Take in that there is one more batch."""
        self._batches += 1
        if self._batches == 1:
            self._thread.start()
        if self._batches == 1 or self._batches % NEIGHBOURS == 0:
            self._due.set()

    def close(self) -> None:
        """End with the run: a fold at hand is given up, and nothing is lost by that."""
        self._closing.set()
        self._due.set()
        if self._thread.is_alive():
            self._thread.join()

    def _keep_tidy(self) -> None:
        with suppress(_Closed):
            while self._due.wait():
                self._due.clear()
                self._check()
                tidy_or_tell(self._folder, self._cascade, self._say, go_on=self._check)

    def _say(self, line: str) -> None:
        if line != self._told:
            self._tell(line)
        self._told = line

    def _check(self) -> None:
        if self._closing.is_set():
            raise _Closed


def tidy_or_tell(
    folder: RunFolder,
    cascade: Cascade,
    tell: Callable[[str], object],
    *,
    go_on: Callable[[], object] = lambda: None,
) -> None:
    """Fold in tiers what a run keeps by batch; what keeps it from that is told, and not raised."""
    try:
        tidy(folder, cascade, go_on=go_on)
    except Busy:
        return  # somebody does the same work
    except Exception as error:  # noqa: BLE001 - whatever it is, counting goes on
        why = error.message if isinstance(error, KstoolkitError) else str(error)
        tell(f"Older batches can't be folded, which is tried again later: {why}")
