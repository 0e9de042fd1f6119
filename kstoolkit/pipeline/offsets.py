"""What Spark's offset log says of a run: how many files, or which offsets, a batch had taken."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["files_taken", "newest_commit", "offsets_reached"]


def files_taken(checkpoint: Path, batch: int) -> int | None:
    """Return how many files were taken by the end of a batch; ``None`` if the log does not say."""
    told = [json.loads(line) for line in _lines(checkpoint, batch) if line.startswith('{"files"')]
    return int(told[0]["files"]) if told else None


def offsets_reached(checkpoint: Path, batch: int, topic: str) -> dict[int, int] | None:
    """Return the offset of each partition that a batch ended before; ``None`` if it is not told."""
    begins = "{" + json.dumps(topic)  # as Spark writes it, without spaces
    for line in _lines(checkpoint, batch):
        if line.startswith(begins):
            return {int(each): at for each, at in json.loads(line)[topic].items()}
    return None


def _lines(checkpoint: Path, batch: int) -> list[str]:
    try:
        return (checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []


def newest_commit(checkpoint: Path) -> int | None:
    """Return the number of the newest batch that Spark has committed; ``None`` before the first."""
    folder = checkpoint / "commits"
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return max((int(name) for name in names if name.isdigit()), default=None)
