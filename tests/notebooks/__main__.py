"""Run all notebooks again and keep their outputs: ``python -m tests.notebooks [NAME ...]``."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat

from tests.notebooks.running import marked, run

FOLDER = Path(__file__).parents[2] / "notebooks"


def refresh(path: Path) -> None:
    """Run a notebook in its place, and write it with what came out."""
    with marked():
        notebook = run(path)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    notebook.metadata.pop("widgets", None)
    nbformat.write(notebook, path)  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    for name in sys.argv[1:] or sorted(each.stem for each in FOLDER.glob("*.ipynb")):
        sys.stderr.write(f"{name}\n")
        refresh(FOLDER / f"{name}.ipynb")
