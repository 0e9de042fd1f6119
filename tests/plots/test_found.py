from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rocksdict import Options, Rdict

import kstoolkit as kst
from kstoolkit.plots.rowbars import MOST_ROWS
from kstoolkit.records import Records
from kstoolkit.stores.discovery.found import FoundSegment, FoundStore, FoundStores
from tests.plots.made import HOSTILE, TEN, drawn, legend, row_names, seen, stays_inside, texts

HOUR = 3_600_000


def found(name: str, size_bytes: int, **changes: Any) -> FoundStore:
    facts: dict[str, Any] = {"engine": "rocksdb", "application": None, "size_bytes": size_bytes}
    return FoundStore(path=f"/{name}", store=name, **facts | changes)


def stores(*each: FoundStore) -> FoundStores:
    return FoundStores(list(each), Path("/"), {})


def test_discovered_stores_are_drawn_by_size_the_largest_first(tmp_path: Path) -> None:
    for name, rows in (("little", 1), ("much", 5_000)):
        store = Rdict(str(tmp_path / name), Options(raw_mode=True))
        for n in range(rows):
            store[f"{n:08}".encode()] = b"x" * 50
        store.close()
    discovered = kst.discover(tmp_path)
    axes: Any = discovered.plot()
    assert row_names(axes) == ["much", "little"]
    sizes = sorted((each.size_bytes for each in discovered), reverse=True)
    assert [bar.get_width() for bar in axes.patches] == sizes
    assert seen(axes).startswith("2 stores of ")
    assert axes.get_xlabel() == "size of the store's files"


def test_engines_differ_by_hatch_and_colour_and_partitions_are_named() -> None:
    spark = found("default", 9_000, engine="spark", partition=3)
    streams = found("counts", 8_000, engine="kafka-streams", subtopology=1, partition=2)
    axes: Any = stores(spark, streams).plot()
    assert legend(axes) == ["spark", "kafka-streams"]
    assert row_names(axes) == ["default [3]", "counts [1_2]"]
    assert len({bar.get_hatch() for bar in axes.patches}) == 2


def test_a_store_that_is_open_elsewhere_is_said_to_be() -> None:
    assert texts(stores(found("a", 2048, is_locked=True)).plot()) == ["2.0 KiB, open elsewhere"]


def test_of_many_stores_the_largest_are_drawn_and_the_rest_is_summed_up_and_said() -> None:
    axes: Any = stores(*(found(f"store {n}", 1024 * (n + 1)) for n in range(2_000))).plot()
    assert len(row_names(axes)) == MOST_ROWS + 1
    assert row_names(axes)[-1] == "1,970 others together"
    assert texts(axes)[-1] == "1.9 GiB: too long a bar to be drawn"
    assert "the largest 30 of 2,000 stores" in axes.get_xlabel()
    assert stays_inside(axes)


def test_no_stores_are_said_to_be_none() -> None:
    axes = drawn(stores().plot())
    assert (seen(axes), texts(axes)) == ("No stores", ["no stores"])


def test_a_stores_segments_stand_along_time() -> None:
    segments = [FoundSegment(f"/s/{n}", TEN + n * HOUR, 1024 * (n + 1)) for n in range(3)]
    store = found("counts", 6 << 10, segments=Records(segments, "segments"))
    axes: Any = store.plot()
    tops = [each.get_data().values[0] for each in axes.patches]
    assert [top / tops[-1] for top in tops] == pytest.approx([1 / 3, 2 / 3, 1])
    begins = [each.get_data().edges[0] for each in axes.patches]
    assert begins == pytest.approx([each.start_ms / 86_400_000 for each in segments])
    assert seen(axes) == "counts: 3 segments, 6.0 KiB"
    assert row_names(axes) == ["0", "3.0 KiB"]


def test_a_store_without_segments_is_a_bar_alone() -> None:
    assert row_names(found("counts", 1024).plot()) == ["counts"]


def test_hostile_names_are_text_and_stay_inside() -> None:
    axes = stores(*(found(name, 1024) for name in HOSTILE)).plot()
    assert stays_inside(axes)
    assert r"$\frac{" in row_names(axes)
