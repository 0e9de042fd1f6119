"""Run the gallery, block by block, and keep the picture that each of its lines makes.

python -m tests.browser.gallery [FOLDER]
"""

from __future__ import annotations

import ast
import contextlib
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes

from kstoolkit.plots.axes import beside_pyplot

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "gallery.md"
DPI, COLORS = 110, 64
_BLOCK = r"^```python\n(.*?)^```$(?:\s*!\[[^\]]*\]\((gallery/[^)]*)\))?"


def blocks() -> list[tuple[str, str]]:
    """Return the programs of the page, and the picture below each, if it is one of a plot."""
    text = PAGE.read_text(encoding="utf-8")
    return re.findall(_BLOCK, text, flags=re.MULTILINE | re.DOTALL)


def drawn(place: Path) -> Iterator[tuple[str, Axes]]:
    """Run the page in a folder that has data, and yield the Axes that each picture is of."""
    names: dict[str, Any] = {}
    with contextlib.chdir(place), beside_pyplot():
        for program, picture in blocks():
            *before, last = ast.parse(program).body
            exec(compile(ast.Module(before, []), "gallery", "exec"), names)  # noqa: S102 - our page
            if not isinstance(last, ast.Expr):
                exec(compile(ast.Module([last], []), "gallery", "exec"), names)  # noqa: S102
                continue
            told = eval(compile(ast.Expression(last.value), "gallery", "eval"), names)  # noqa: S307
            if picture:
                assert isinstance(told, Axes), program
                yield picture, told


def main() -> None:
    """Keep the pictures, with few colours, so that they are small."""
    from PIL import Image

    folder = Path(sys.argv[1]) if sys.argv[1:] else ROOT / "docs"
    place = Path(tempfile.mkdtemp())
    (place / "data").symlink_to(ROOT / "data")
    for name, axes in drawn(place):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        figure: Any = axes.figure
        figure.patch.set_visible(True)
        figure.savefig(path, dpi=DPI)
        with Image.open(path) as taken:
            taken.convert("RGB").quantize(COLORS).save(path, optimize=True)
    shutil.rmtree(place)


if __name__ == "__main__":
    main()
