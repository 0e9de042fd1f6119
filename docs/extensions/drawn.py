"""The pages of formats and formulas: each told, and drawn, by the module that rests on it."""

from __future__ import annotations

import inspect
import pkgutil
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from written import write

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sphinx.application import Sphinx

FOLDER = Path(__file__).parents[1] / "reference" / "drawn"
PAGES = {
    "own_formats": (
        "kstoolkit's own formats",
        [
            *("kstoolkit.formats", "kstoolkit.changelog", "kstoolkit.replica"),
            *("kstoolkit.pipeline.runfolder", "kstoolkit.findings.baselines"),
            *("kstoolkit.events.contents", "kstoolkit.counters.bucket"),
        ],
    ),
    "streams_formats": ("Kafka Streams' formats", ["kstoolkit.formats.streams"]),
    "spark_formats": ("Spark's formats", ["kstoolkit.formats.spark"]),
    "rocksdb_formats": (
        "RocksDB's files and log",
        ["kstoolkit.rocksdb.files", "kstoolkit.rocksdb.log"],
    ),
    "formulas": (
        "Formulas",
        [
            *("kstoolkit.findings.tails", "kstoolkit.findings.peers"),
            *("kstoolkit.findings.baselines", "kstoolkit.findings.rhythm"),
            "kstoolkit.findings.lasting",
            *(
                "kstoolkit.counters.distinct",
                "kstoolkit.findings.rules",
                "kstoolkit.findings.rulefiles",
            ),
            *("kstoolkit.findings.scoring", "kstoolkit.findings.ranking"),
            *("kstoolkit.rocksdb.memory", "kstoolkit.rocksdb.advice", "kstoolkit.rocksdb.lab"),
            "kstoolkit.windows",
        ],
    ),
}
"""A page: its title, and the modules and rooms that tell it."""


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before any page is read."""
    app.connect("builder-inited", lambda _: write_pages(FOLDER))
    app.connect("autodoc-process-docstring", keep_drawings)
    return {"parallel_read_safe": True}


def write_pages(folder: Path) -> None:
    """Write the pages, where they are not the same already."""
    for stem, (title, rooms) in PAGES.items():
        write(folder / f"{stem}.rst", page(title, modules(rooms)))


def modules(rooms: Iterable[str]) -> Iterator[str]:
    """Yield the modules of rooms that draw or explain something; one line is no explanation."""
    for room in rooms:
        below = getattr(import_module(room), "__path__", None)
        if below is None:
            yield room
        for found in pkgutil.iter_modules(below, f"{room}.") if below else ():
            text = inspect.getdoc(import_module(found.name)) or ""
            if not found.ispkg and "\n\n" in text:
                yield found.name


def page(title: str, names: Iterable[str]) -> str:
    """Return a page with a section a module, headed by the question that the module answers."""
    parts = [f"{title}\n{'=' * len(title)}"]
    for name in names:
        question = first_line(name)
        parts += [f"{question}\n{'-' * len(question)}", f".. automodule:: {name}\n   :no-index:"]
    return "\n\n".join(parts) + "\n"


def first_line(name: str) -> str:
    """Return the first line of a module's docstring, as a heading."""
    text = inspect.getdoc(import_module(name)) or name
    return text.partition("\n\n")[0].replace("\n", " ").rstrip(".")


def keep_drawings(
    _app: Sphinx, what: str, name: str, _of: Any, _options: Any, lines: list[str]
) -> None:
    """Keep what stands indented as it is drawn, and name the module in place of its first line."""
    if what != "module":
        return
    head = lines.index("") if "" in lines else len(lines)
    lines[:head] = [f"``{name}``"]
    for at in range(len(lines) - 2, 0, -1):
        before, gap, after = lines[at - 1 : at + 2]
        is_prose = before and before[0] not in " -*" and not before.endswith("::")
        if is_prose and not gap and after.startswith("    "):
            lines[at:at] = ["", "::"]
