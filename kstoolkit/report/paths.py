"""Paths as a reader elsewhere may see them: without whose home, and where on which machine."""

from __future__ import annotations

import shlex
from pathlib import Path


def shown_path(path: str | Path) -> str:
    """Return a path as a reader elsewhere may see it: from this folder, or from the home folder.

    Examples
    --------
    >>> shown_path(Path.home() / "events" / "a.json"), shown_path(Path.cwd() / "a.json")
    ('~/events/a.json', 'a.json')
    """
    place = Path(path)
    for base, said in ((Path.cwd(), ""), (Path.home(), "~/")):
        if place.is_relative_to(base) and place != base:
            return f"{said}{place.relative_to(base)}"
    return str(path)


def quoted_path(path: str | Path) -> str:
    """Return a path for a shell, which must still see the ``~``.

    Examples
    --------
    >>> quoted_path(Path.home() / "my events")
    "~/'my events'"
    """
    said = shown_path(path)
    return f"~/{shlex.quote(said[2:])}" if said.startswith("~/") else shlex.quote(said)
