from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from rocksdict import Options, Rdict

import kstoolkit as kst
from tests.plots.made import HOSTILE, row_names, seen, stays_inside, texts

if TYPE_CHECKING:
    from pathlib import Path


def store(path: Path, rows: dict[bytes, bytes]) -> Path:
    held = Rdict(str(path), Options(raw_mode=True))
    for key, value in rows.items():
        held[key] = value
    held.close()
    return path


def test_two_stores_differences_are_drawn_by_kind(tmp_path: Path) -> None:
    before = store(tmp_path / "before", {b"a": b"1", b"b": b"1", b"same": b"1"})
    after = store(tmp_path / "after", {b"b": b"2", b"c": b"1", b"d": b"1", b"same": b"1"})
    with (
        kst.open_store(before) as a,
        kst.open_store(after) as b,
        kst.diff_stores(a, b) as diff,
    ):
        axes: Any = diff.plot()
    assert row_names(axes) == ["+ added", "- removed", "~ changed"]
    assert [bar.get_width() for bar in axes.patches] == [2, 1, 1]
    assert len({bar.get_hatch() for bar in axes.patches}) == 3
    assert seen(axes) == "before to after: 4 of 5 rows differ"
    assert axes.get_xlabel() == "rows\nequal: 1 row, not drawn"


def test_equal_stores_say_so_and_a_closed_comparison_can_be_drawn(tmp_path: Path) -> None:
    path = store(tmp_path / "counts", {b"a": b"1", b"b": b"1"})
    with kst.open_store(path) as a, kst.open_store(path) as b:
        diff = kst.diff_stores(a, b)
    diff.close()
    axes = diff.plot()
    assert seen(axes) == "counts to counts: none of 2 rows differ"
    assert texts(axes) == ["0", "0", "0"]
    assert stays_inside(axes)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_text_and_stay_inside(tmp_path: Path, name: str) -> None:
    path = store(tmp_path / "counts", {b"a": b"1"})
    with kst.open_store(path) as a, kst.open_store(path) as b, kst.diff_stores(a, b) as diff:
        diff.names = (name, name)
        assert stays_inside(diff.plot())
