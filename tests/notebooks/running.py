"""Lay the notebooks out to be run from scratch, and find what that left behind."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from nbformat import NotebookNode

__all__ = ["FOLDER", "WARNINGS", "complaints_of", "laid_out", "running_for"]

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "notebooks"
# Plain "error" would hit the kernel's own end, too.
WARNINGS = "error,default::PendingDeprecationWarning"
PROGRESS = re.compile(r"\d+%\|")
# What is fetched or made for Kafka is said, wherever it is the first time.
NOTICE = re.compile(r"Downloading |Made the topic |The connector to Kafka of Spark ")


def laid_out(folder: Path) -> Path:
    """Lay the notebooks out beside the data as in a fresh clone, and return where they lie.

    What an earlier run left beside them is not there, and what they write is not left behind.
    """
    (folder / "data").symlink_to(ROOT / "data")
    ignored = shutil.ignore_patterns(".ipynb_checkpoints")
    return Path(shutil.copytree(FOLDER, folder / "notebooks", ignore=ignored))


def running_for(path: Path) -> list[str]:
    """Return what runs for a notebook: its kernel, and what that started in turn.

    Jupyter tells a kernel by its environment whose it is, and whatever it starts inherits that.
    """
    return [
        " ".join(each.info["cmdline"] or ())
        for each in psutil.process_iter(["cmdline", "environ"])
        if (each.info["environ"] or {}).get("JPY_SESSION_NAME") == str(path)
    ]


def complaints_of(notebook: NotebookNode) -> str:
    """Return what the cells wrote to stderr, less bars of progress and notices: warnings, mostly.

    A bar is written over itself; what stands there in the end is what counts.
    """
    told = [
        line.rpartition("\r")[2].strip()
        for cell in notebook.cells
        for line in _stderr_of(cell).replace("\x1b[A", "").split("\n")
    ]
    said = [line for line in told if line and not PROGRESS.search(line)]
    return "\n".join(line for line in said if not NOTICE.match(line))


def _stderr_of(cell: NotebookNode) -> str:
    outputs = [each for each in cell.get("outputs", ()) if each.get("name") == "stderr"]
    return "".join(each["text"] for each in outputs)
