"""The rooms of the package and their arrows, as the test of the house has them.

It writes a table: what each room is for, by the first line of its own docstring, and which rooms it
may import from.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from written import write

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
TABLE = Path(__file__).parents[1] / "reference" / "rooms.inc"
FLOOR, WORK = "the floor", "all that works"
TOLD = {"FLOOR", "WORK", "MAY_IMPORT"}


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the table before any page is read."""
    app.connect("builder-inited", lambda _: write_table(TABLE))
    return {"parallel_read_safe": True}


def write_table(path: Path) -> None:
    """Write the table, where it is not the same already."""
    plan = told(ROOT / "tests" / "test_house.py")
    rows = [
        f"| `{room}` | {question(room)} | {arrows(may, plan)} |"
        for room, may in plan["MAY_IMPORT"].items()
        if not room.startswith("_")
    ]
    write(path, "\n".join(["| room | what it is for | may import |", "|---|---|---|", *rows, ""]))


def told(path: Path) -> dict[str, Any]:
    """Return what the test knows of the rooms; it is not imported, which would take pytest."""
    names: dict[str, Any] = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        if {each.id for each in targets if isinstance(each, ast.Name)} & TOLD:
            exec(compile(ast.Module([node], []), path.name, "exec"), names)  # noqa: S102 - ours
    return names


def question(room: str) -> str:
    """Return the first line of a room's docstring."""
    folder = ROOT / "kstoolkit" / room
    path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    line = text.partition("\n\n")[0].replace("\n", " ").replace("``", "`")
    return re.sub(r":\w+:`~?([^`]+)`", r"`\1`", line)


def arrows(may: set[str], plan: dict[str, Any]) -> str:
    """Return which rooms a room may import, those of a storey together."""
    words = []
    for name, storey in ((WORK, plan["WORK"]), (FLOOR, plan["FLOOR"])):
        if storey <= may:
            words, may = [name, *words], may - storey
    return ", ".join([*words, *(f"`{room}`" for room in sorted(may))]) or "nothing"
