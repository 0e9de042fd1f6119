from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from rocksdict import Options, Rdict

import kstoolkit as kst
from kstoolkit.errors import ConfigurationError
from kstoolkit.formats.columns import ByteColumn, RowColumns
from kstoolkit.formats.serdes import serde_of
from kstoolkit.plots.rows import MOST_BARS
from kstoolkit.stores.rows.asking import Asked
from kstoolkit.stores.rows.rows import Rows
from tests.plots.made import HOSTILE, TEN, drawn, seen, stays_inside, texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

MINUTE = 60_000


class Listed:
    """Rows of windows, in parts of a thousand."""

    def __init__(self, starts_ms: Sequence[int], name: str = "counts") -> None:
        self.starts_ms, self.name = starts_ms, name

    def read(self, asked: Asked) -> Iterator[RowColumns]:
        del asked
        for first in range(0, len(self.starts_ms), 1_000):
            some = self.starts_ms[first : first + 1_000]
            keys = ByteColumn.of([b"anna"] * len(some))
            starts = pa.array(some, pa.int64())
            yield RowColumns(
                RowColumns.whole(keys, keys).row, keys, keys, starts, pa.array(some, pa.int64())
            )


def rows(starts_ms: Sequence[int], name: str = "counts") -> Rows:
    string = serde_of("string")
    return Rows(Listed(starts_ms, name), Asked(), string, string)


def test_rows_are_counted_by_window() -> None:
    axes: Any = rows([TEN, TEN, TEN + MINUTE, TEN + 3 * MINUTE]).plot()
    (bars,) = axes.patches
    assert bars.get_data().values.tolist() == [2, 1, 0, 1]
    assert bars.get_data().edges[0] == pytest.approx(TEN / 86_400_000)
    assert seen(axes) == "counts: 4 rows in 3 windows, most (2) in that of 2015-09-12 10:00"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("start of window, UTC", "rows")


def test_rows_without_windows_are_counted_by_size(tmp_path: Path) -> None:
    store = Rdict(str(tmp_path / "plain"), Options(raw_mode=True))
    for n in range(100):
        store[f"{n:03}".encode()] = b"x" * n
    store.close()
    with kst.open_store(tmp_path / "plain") as opened:
        axes: Any = opened.rows().plot()
        with pytest.raises(ConfigurationError, match="have no windows"):
            opened.rows().plot(by="window")
    (bars,) = axes.patches
    assert bars.get_data().values.sum() == 100
    assert bars.get_data().edges[[0, -1]].tolist() == [3, 103]
    assert seen(axes) == "plain: 100 rows, half of 52 B or less, the largest of 102 B"
    assert axes.get_xlabel() == "key and value of a row"
    assert stays_inside(axes)


def test_no_more_rows_are_read_than_told_and_the_figure_says_so() -> None:
    axes: Any = rows([TEN + n * MINUTE for n in range(5_000)]).plot(limit=1_500)
    assert "the first 1,500 rows; there are more" in axes.get_xlabel()
    assert seen(axes).startswith("counts: 1,500 rows in 1,500 windows")


def test_many_windows_are_thinned_and_the_figure_says_so() -> None:
    axes: Any = rows([TEN + n * MINUTE for n in range(2_000)] + [TEN]).plot()
    (bars,) = axes.patches
    assert bars.get_data().values.size <= MOST_BARS
    assert max(bars.get_data().values) == 2
    assert "286 bars: each is the highest of 7 windows" in axes.get_xlabel()


def test_windows_far_apart_cost_no_more_than_near_ones() -> None:
    axes: Any = rows([0, 1, 10**14]).plot()
    (bars,) = axes.patches
    assert bars.get_data().values.size <= MOST_BARS
    assert bars.get_data().values.max() >= 2


def test_no_rows_are_said_to_be_none() -> None:
    axes = drawn(rows([]).plot())
    assert (seen(axes), texts(axes)) == ("No rows of counts", ["no rows"])


def test_another_way_to_group_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="by 'key'"):
        rows([TEN]).plot(by="key")


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_inside(name: str) -> None:
    assert stays_inside(rows([TEN], name).plot())
    assert stays_inside(rows([TEN], name).plot(by="size"))
