"""Folders of the tests, asked by a user whom they are not closed to."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["open_to_others"]

_FOR_OTHERS = 0o005


def open_to_others(path: Path) -> None:
    """Let everybody come as far as a folder: pytest closes its own to others."""
    for folder in (path, *path.parents):
        if folder.stat().st_mode & _FOR_OTHERS != _FOR_OTHERS:
            folder.chmod(0o755)
