"""Run a notebook from scratch, as a person would, and find what it left behind."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
import psutil
from nbclient import NotebookClient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nbformat import NotebookNode

__all__ = ["FOLDER", "complaints_of", "laid_out", "leftovers_of", "marked", "run"]

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "notebooks"
MOST_SECONDS = 240
MARK = "KSTOOLKIT_TESTS_MARK"
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


def run(path: Path) -> NotebookNode:
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
    done: NotebookNode = client.execute()
    return done


@contextmanager
def marked() -> Iterator[str]:
    """Mark the processes that are started meanwhile, whatever they start in turn."""
    mark = secrets.token_hex(8)
    before = {name: os.environ.get(name) for name in (MARK, "PYTHONWARNINGS")}
    os.environ |= {MARK: mark, "PYTHONWARNINGS": WARNINGS}
    try:
        yield mark
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def leftovers_of(mark: str) -> list[str]:
    """Return what still runs of the processes with a mark, but this one."""
    return [
        " ".join(each.info["cmdline"] or ())
        for each in psutil.process_iter(["cmdline", "environ", "pid"])
        if (each.info["environ"] or {}).get(MARK) == mark and each.info["pid"] != os.getpid()
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
