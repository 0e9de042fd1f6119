"""What Spark's offset log says of a run: how many files, or which offsets, a batch had taken."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def files_taken(checkpoint: Path, batch: int) -> int | None:
    """Return how many files were taken by the end of a batch; ``None`` if the log does not say."""
    told = [json.loads(line) for line in _lines(checkpoint, batch) if line.startswith('{"files"')]
    return int(told[0]["files"]) if told else None


def offsets_reached(checkpoint: Path, batch: int, topic: str) -> dict[int, int] | None:
    """Return the offset of each partition that a batch ended before; ``None`` if it is not told."""
    return _of_topic(_lines(checkpoint, batch), topic)


def initial_offsets(checkpoint: Path, topic: str) -> dict[int, int]:
    """Return the offset of each partition that the first batch begins with; empty if not known."""
    found: dict[int, int] | None = None
    for path in (checkpoint / "sources").glob("*/0"):
        if path.is_file():  # as Kafka's source writes it, after a line with its version
            found = found or _of_topic(path.read_text(encoding="utf-8").splitlines(), topic)
    return found or {}


def rewrite_offsets(
    checkpoint: Path, batch: int, topic: str, ends: Mapping[int, int] | None
) -> None:
    """Have a batch that was planned and not counted end elsewhere, or not be planned at all.

    Parameters
    ----------
    checkpoint, batch, topic
        Which batch.
    ends
        The offset of each partition that it is to end before; ``None`` takes the plan back.
    """
    place = checkpoint / "offsets" / str(batch)
    lines = _lines(checkpoint, batch)
    # Hadoop keeps a checksum beside each file, and takes one without for what it is.
    place.with_name(f".{batch}.crc").unlink(missing_ok=True)
    if ends is None:
        place.unlink(missing_ok=True)
        return
    told = {topic: {str(each): at for each, at in sorted(ends.items())}}
    written = json.dumps(told, separators=(",", ":"))
    hidden = place.with_name(f".{batch}.cut")
    changed = [written if line.startswith(_begins(topic)) else line for line in lines]
    hidden.write_text("\n".join(changed), encoding="utf-8")
    hidden.replace(place)


def _begins(topic: str) -> str:
    return "{" + json.dumps(topic)  # as Spark writes it, without spaces


def _of_topic(lines: list[str], topic: str) -> dict[int, int] | None:
    for line in lines:
        if line.startswith(_begins(topic)):
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
