"""Run all notebooks again and keep their outputs: ``python -m tests.notebooks [NAME ...]``."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import nbformat
from nbclient import NotebookClient

from tests.notebooks.running import (
    FOLDER,
    WARNINGS,
    complaints_of,
    is_notice,
    laid_out,
    pictures_of,
)

if TYPE_CHECKING:
    from nbformat import NotebookNode


MOST_SECONDS = 240


def refresh(name: str) -> None:
    """Run a notebook from scratch, and write it with what came out."""
    with TemporaryDirectory() as folder:
        notebook = _run(laid_out(Path(folder)) / f"{name}.ipynb")
    if complaints := complaints_of(notebook):
        sys.stderr.write(f"{complaints}\n")
    _tidy(notebook)
    for picture in pictures_of(notebook):
        (FOLDER / "pictures" / f"{name}.png").write_bytes(picture)
    nbformat.write(notebook, FOLDER / f"{name}.ipynb")  # type: ignore[no-untyped-call]


def _run(path: Path) -> NotebookNode:
    """Return a notebook with the outputs of all its cells; the first error is raised.

    What widgets hold is not stored: without a kernel it would be controls that do nothing.
    """
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    client = NotebookClient(
        notebook,
        timeout=MOST_SECONDS,
        kernel_name="python3",
        store_widget_state=False,
        record_timing=False,
        resources={"metadata": {"path": str(path.parent)}},
    )
    done: NotebookNode = client.execute(env=os.environ | {"PYTHONWARNINGS": WARNINGS})
    return done


def _tidy(notebook: NotebookNode) -> None:
    """Leave out what says when and where it ran, notices, and bars of progress."""
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [e for e in cell.outputs if not (_is_bar(e) or is_notice(e))]


def _is_bar(output: NotebookNode) -> bool:
    """Return whether it is a line below the cell that nothing stands in."""
    return bool(output.get("data") == {"text/plain": ""})


if __name__ == "__main__":
    for stem in sys.argv[1:] or sorted(each.stem for each in FOLDER.glob("*.ipynb")):
        begun = time.monotonic()
        refresh(stem)
        sys.stderr.write(f"{stem}: {time.monotonic() - begun:.0f} s\n")
