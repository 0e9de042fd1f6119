"""What Spark's offset log says of a run's files: how many a micro-batch had taken."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["files_taken", "newest_commit"]


def files_taken(checkpoint: Path, batch: int) -> int | None:
    """Return how many files were taken by the end of a batch; ``None`` if the log does not say."""
    try:
        lines = (checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return None
    told = [json.loads(line) for line in lines if line.startswith('{"files"')]
    return int(told[0]["files"]) if told else None


def newest_commit(checkpoint: Path) -> int | None:
    """Return the number of the newest batch that Spark has committed; ``None`` before the first."""
    folder = checkpoint / "commits"
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return max((int(name) for name in names if name.isdigit()), default=None)
