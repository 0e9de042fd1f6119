"""Lay the notebooks out to be run from scratch, and find what that left behind."""

from __future__ import annotations

import re
import shutil
from base64 import b64decode
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from nbformat import NotebookNode

__all__ = [
    "FOLDER",
    "WARNINGS",
    "complaints_of",
    "is_notice",
    "laid_out",
    "pictures_of",
    "running_for",
]

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "notebooks"
# Plain "error" would hit the kernel's own end, too.
WARNINGS = "error,default::PendingDeprecationWarning"
# What is fetched or made for Kafka is said, wherever it is the first time.
NOTICE = re.compile(r"Download(ing|ed) |Made the topic |The connector to Kafka of Spark ")


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
    """Return what the cells wrote to stderr, which is a box in red: nothing may."""
    told = [
        each["text"]
        for cell in notebook.cells
        for each in cell.get("outputs", ())
        if each.get("name") == "stderr"
    ]
    return "".join(told).strip()


def is_notice(output: NotebookNode) -> bool:
    """Return whether an output only says what was fetched or made, the first time on a machine."""
    lines = output["text"].splitlines() if output.get("name") == "stdout" else []
    return bool(lines) and all(NOTICE.match(line) for line in lines)


def pictures_of(notebook: NotebookNode) -> list[bytes]:
    """Return the picture that a notebook begins with, of the cell that is tagged for it."""
    tagged = [each for each in notebook.cells if "picture" in each.metadata.get("tags", ())]
    found = [each["data"] for cell in tagged for each in cell.outputs if "data" in each]
    return [b64decode(each["image/png"]) for each in found if "image/png" in each][:1]
