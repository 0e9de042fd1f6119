"""Goldens: what users saw when it was frozen.

A golden that has changed on purpose is written anew by ``python -m tests.face``, which takes what
pytest takes, such as ``-k help``; the difference is for whoever reads the commit to judge.
"""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path

__all__ = ["FOLDER", "REWRITING", "check", "is_rewriting", "keep", "typers_words"]

FOLDER = Path(__file__).parent / "golden"

TYPER = "typer.txt"

REWRITING = "KSTOOLKIT_REWRITE_GOLDENS"
"""The variable that ``python -m tests.face`` sets."""


def is_rewriting() -> bool:
    """Return whether goldens are written now, not compared with."""
    return bool(os.environ.get(REWRITING))


def check(name: str, text: str, *, whose: str = "") -> None:
    """Compare a text with the golden of a name, or write it; ``whose`` tells of its origin."""
    if is_rewriting():
        keep(name, text)
    path = FOLDER / name
    told = "python -m tests.face writes it anew"
    assert path.is_file(), f"There is no golden {name}: {told}."
    assert text == path.read_text(encoding="utf-8"), f"{name} has changed: {told}. {whose}"


def keep(name: str, text: str) -> None:
    """Write a golden."""
    path = FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def typers_words() -> str:
    """Say which Typer said what goldens hold: another release of it may say the same otherwise."""
    if is_rewriting():
        keep(TYPER, f"{version('typer')}\n")
    kept = (FOLDER / TYPER).read_text(encoding="utf-8").strip()
    return f"It is in the words of Typer {kept}; here is {version('typer')}."
