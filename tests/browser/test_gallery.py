"""The gallery keeps its word: each line makes the picture below it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from matplotlib import pyplot as plt

from tests.browser.gallery import PAGE, drawn

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_each_line_of_the_gallery_makes_the_picture_below_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    assert spark is not None
    (tmp_path / "data").symlink_to(PAGE.parents[1] / "data")
    made, shown = {}, plt.get_fignums()
    for name, axes in drawn(tmp_path):
        axes.figure.canvas.draw()
        made[name] = axes.get_title(loc="left")
        assert made[name]
    named = re.findall(r"!\[([^\]]+)\]\(([^)]+)\)", PAGE.read_text(encoding="utf-8"))
    assert all((PAGE.parent / path).is_file() for _, path in named)
    assert {path for _, path in named if path.startswith("gallery/")} == made.keys()
    kept = {f"gallery/{each.name}" for each in (PAGE.parent / "gallery").iterdir()}
    assert kept == made.keys()
    assert plt.get_fignums() == shown
