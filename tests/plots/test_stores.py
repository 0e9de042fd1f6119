from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from rocksdict import Options, Rdict

import kstoolkit as kst
from kstoolkit.errors import ConfigurationError, InputError
from kstoolkit.formats.columns import ByteColumn, RowColumns
from kstoolkit.formats.serdes import serde_of
from kstoolkit.plots.marks import _MOST_BARS, MOST_ROWS
from kstoolkit.plots.palette import COUNTED, FLAGGED
from kstoolkit.plots.stores import _MOST_SEGMENTS
from kstoolkit.records import Records
from kstoolkit.replica.listening import RestoreHistory
from kstoolkit.replica.records import Lag, SegmentState
from kstoolkit.replica.windowstore import WindowStore
from kstoolkit.stores.discovery.discovering import FoundStores
from kstoolkit.stores.discovery.found import FoundStore
from kstoolkit.stores.growth.records import Age, KeyUse, SegmentUse, WindowUse
from kstoolkit.stores.rows.asking import Asked
from kstoolkit.stores.rows.readable import Rows
from tests.changelog.changelogs import write
from tests.plots.made import (
    COUNTS,
    HOSTILE,
    TEN,
    drawn,
    legend,
    row_names,
    seen,
    stays_inside,
    texts,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kstoolkit.stores.growth.verdict import Growth


HOUR = 3_600_000


@pytest.fixture
def growth(tmp_path: Path) -> Growth:
    store = Rdict(str(tmp_path / "counts"), Options(raw_mode=True))
    for n in range(60):
        store[f"user-{n:03}".encode()] = b"x" * (n + 1)
    store.close()
    return kst.growth(tmp_path / "counts", top=5)


def windows(growth: Growth, kept_from_ms: int | None) -> Growth:
    """Return the same growth with windows, of which some are past."""
    uses = [WindowUse(TEN + n * HOUR, 1, 10, 500, 0.2) for n in (2, 0, 1)]
    unknown = {} if kept_from_ms else {"kept_from_ms": "no retention is known"}
    horizon = replace(growth.horizon, kept_from_ms=kept_from_ms, unknown=unknown)
    return replace(growth, windows=Records(uses, "windows"), horizon=horizon, data_bytes=1_500)


def named(value: Any, size: int = 9) -> KeyUse:
    return KeyUse(value, b"", 1, size, 0.1, 0, 0)


def colors(axes: Any) -> list[str]:
    from matplotlib.colors import to_hex

    return [to_hex(bar.get_facecolor()) for bar in axes.patches]


def test_keys_are_drawn_by_their_bytes_and_the_rest_together(growth: Growth) -> None:
    axes: Any = growth.plot(by="key")
    assert row_names(axes) == [*(f"user-{n:03}" for n in range(59, 54, -1)), "all others together"]
    sizes = [each.data_bytes for each in growth.keys]
    assert [bar.get_width() for bar in axes.patches] == sizes
    assert texts(axes)[0] == "68 B, 1 row"
    assert seen(axes).startswith("counts: 60 rows")
    assert axes.get_xlabel() == "keys and values before compression, by key"


def test_windows_come_in_their_order_and_those_that_are_past_are_told_apart(growth: Growth) -> None:
    axes: Any = windows(growth, TEN + 2 * HOUR).plot()
    assert row_names(axes) == [f"2015-09-12 {hour}:00" for hour in (10, 11, 12)]
    assert colors(axes) == [FLAGGED, FLAGGED, COUNTED]
    assert legend(axes) == ["past its retention", "kept"]


def test_what_can_not_be_known_to_be_past_is_named_unknown_with_its_reason(growth: Growth) -> None:
    axes: Any = windows(growth, None).plot()
    assert legend(axes) == ["unknown whether it is past"]
    assert "unknown (no retention is known)" in axes.get_xlabel()
    assert colors(axes) not in ([FLAGGED] * 3, [COUNTED] * 3)


def test_segments_are_drawn_by_their_files(growth: Growth) -> None:
    uses = [SegmentUse("/s", TEN, 4096, 10, 700, is_past=True)]
    uses.append(SegmentUse("/t", TEN + HOUR, 2048, 10, 700, is_past=False))
    axes: Any = replace(growth, segments=Records(uses, "segments")).plot()
    assert [bar.get_width() for bar in axes.patches] == [4096, 2048]
    assert colors(axes) == [FLAGGED, COUNTED]
    assert axes.get_xlabel().startswith("size of the segment's files, by its start, UTC")


def test_of_the_segment_that_the_kept_begin_in_the_share_that_is_expired_has_a_colour(
    growth: Growth,
) -> None:
    uses = [SegmentUse("a", TEN, 4_096, 10, 80, is_past=True)]
    uses.append(SegmentUse("b", TEN + HOUR, 1_000, 5, 40, is_past=False))
    uses.append(SegmentUse("c", TEN + 2 * HOUR, 512, 5, 40, is_past=False))
    found = replace(
        growth,
        segments=Records(uses, "segments"),
        expired=replace(growth.expired, num_rows=12),
        horizon=replace(growth.horizon, kept_from_ms=TEN + HOUR + 1),
    )
    axes: Any = found.plot()
    assert [bar.get_width() for bar in axes.patches] == [4_096, 400, 600, 512]
    assert len({*colors(axes)}) == 3
    assert colors(axes)[2] == colors(axes)[3] == COUNTED
    assert "expired but kept" in [each.get_text() for each in axes.get_legend().get_texts()]


def test_rows_that_are_expired_are_said_though_no_bar_is_theirs(growth: Growth) -> None:
    uses = [
        SegmentUse("a", TEN, 4_096, 10, 80, is_past=True),
        SegmentUse("b", TEN + HOUR, 512, 5, 40),
    ]
    expired = replace(growth.expired, num_rows=12)
    found = replace(
        growth,
        segments=Records(uses, "segments"),
        expired=expired,
        data_bytes=120,
        size_bytes=4_608,
    )
    axes: Any = found.plot()
    assert (
        seen(axes) == "counts: 60 rows, 12 expired, 120 B of keys and values, in files of 4.5 KiB"
    )
    assert "2 rows expired in segments that are kept: a segment goes as a" in axes.get_xlabel()
    assert "12 rows expired in these bars" in found.plot(by="key").get_xlabel()


def test_ages_say_that_they_include_each_other(growth: Growth) -> None:
    uses = [Age(HOUR, 5, 50, 0.5, 0, 0), Age(24 * HOUR, 2, 20, 0.2, 0, 0)]
    axes = replace(growth, ages=Records(uses, "ages")).plot(by="age")
    assert row_names(axes) == ["not for 1 hour", "not for 1 day"]
    assert "each includes those below it" in axes.get_xlabel()
    assert stays_inside(axes)


def test_many_are_thinned_and_the_figure_says_so(growth: Growth) -> None:
    many = replace(growth, keys=Records([named(n, n) for n in range(1, 500)], "keys"))
    axes = many.plot(by="key")
    assert len(axes.patches) <= 31
    assert "the largest 30 of 499 keys" in axes.get_xlabel()


def test_what_a_store_has_not_is_said_to_be_none(growth: Growth) -> None:
    assert texts(drawn(growth.plot(by="segment"))) == ["no segments"]


def test_another_way_to_group_is_refused(growth: Growth) -> None:
    with pytest.raises(ConfigurationError, match="by 'user'"):
        growth.plot(by="user")


def test_hostile_keys_are_text_and_stay_inside(growth: Growth) -> None:
    hostile = replace(growth, keys=Records([named(name) for name in HOSTILE], "keys"))
    axes = hostile.plot(by="key")
    assert stays_inside(axes)
    assert r"$\frac{" in row_names(axes)


def test_a_field_of_keys_is_drawn_as_keys_are(growth: Growth) -> None:
    pages = Records([named("home", 30), named(None, 9)], "values of page")
    users = Records([named("Anna", 40)], "keys")
    several = replace(growth, fields={"page": pages, "key": pages}, data_bytes=50)
    axes: Any = several.plot(by="page")
    assert row_names(axes) == ["home", "None", "all others together"]
    assert axes.get_xlabel() == "keys and values before compression, by page"
    assert row_names(several.plot(by="key"))[0] == "user-059"
    one = replace(growth, by=("user",), keys=users, data_bytes=40)
    assert row_names(one.plot(by="user")) == row_names(one.plot(by="key")) == ["Anna"]
    with pytest.raises(ConfigurationError, match="by 'usr'") as error:
        several.plot(by="usr")
    assert error.value.hint is not None
    assert error.value.hint.endswith("age, page.")


def test_windows_that_the_watermark_has_passed_are_told_apart(growth: Growth) -> None:
    uses = [
        WindowUse(TEN, 1, 10, 500, 0.5, TEN + HOUR, is_past=True),
        WindowUse(TEN + HOUR, 1, 10, 500, 0.5, TEN + 2 * HOUR, is_past=False),
    ]
    horizon = replace(growth.horizon, watermark_ms=TEN + HOUR, kept_from_ms=None)
    expired = replace(growth.expired, num_rows=None, num_below_watermark=10)
    axes: Any = replace(
        growth, windows=Records(uses, "windows"), horizon=horizon, expired=expired, data_bytes=1_000
    ).plot()
    assert colors(axes) == [FLAGGED, COUNTED]
    assert legend(axes) == ["past the watermark", "kept"]
    assert "unknown" not in axes.get_xlabel()
    assert "10 past the watermark" in seen(axes)


def test_ages_of_windows_name_their_clock(growth: Growth) -> None:
    told = ("window end", "the newest window's start", TEN)
    uses = [Age(HOUR, 5, 50, 0.5, 0, 0, *told), Age(24 * HOUR, 2, 20, 0.2, 0, 0, *told)]
    axes: Any = replace(growth, ages=Records(uses, "ages")).plot(by="age")
    assert row_names(axes) == ["ended 1 hour ago", "ended 1 day ago"]
    said = " ".join(axes.get_xlabel().split())
    assert "before the newest window's start, 2015-09-12 10:00 UTC" in said
    assert stays_inside(axes)


def test_why_there_are_no_ages_stands_where_they_would(growth: Growth) -> None:
    bare = replace(growth, ages=Records((), "ages"), unknown={"ages": "there are no rows"})
    assert texts(drawn(bare.plot(by="age"))) == ["no ages: there are no rows"]


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


def test_engines_differ_by_colour_and_partitions_are_named() -> None:
    spark = found("default", 9_000, engine="spark", partition=3)
    streams = found("counts", 8_000, engine="kafka-streams", subtopology=1, partition=2)
    axes: Any = stores(spark, streams).plot()
    assert legend(axes) == ["spark", "kafka-streams"]
    assert row_names(axes) == ["default [3]", "counts [1_2]"]
    both = [replace(spark, application=name) for name in ("by-user", "by-hour")]
    assert row_names(stores(*both).plot()) == ["by-user default [3]", "by-hour default [3]"]
    assert len(set(colors(axes))) == 2


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


def test_a_store_is_a_bar_alone() -> None:
    assert row_names(found("counts", 1024).plot()) == ["counts"]


def test_hostile_names_are_text_and_stay_inside() -> None:
    axes = stores(*(found(name, 1024) for name in HOSTILE)).plot()
    assert stays_inside(axes)
    assert r"$\frac{" in row_names(axes)


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
    assert bars.get_data().values.size <= _MOST_BARS
    assert max(bars.get_data().values) == 2
    assert "2,000 windows drawn as 500 bars: each is the highest of 4 windows" in axes.get_xlabel()


def test_windows_far_apart_cost_no_more_than_near_ones() -> None:
    axes: Any = rows([0, 1, 10**14]).plot()
    (bars,) = axes.patches
    assert bars.get_data().values.size <= _MOST_BARS
    assert bars.get_data().values[[0, -1]].tolist() == [1, 1]


def test_no_rows_are_said_to_be_none() -> None:
    axes = drawn(rows([]).plot())
    assert (seen(axes), texts(axes)) == ("No rows of counts", ["no rows"])


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_inside(name: str) -> None:
    assert stays_inside(rows([TEN], name).plot())


def store(path: Path, rows: dict[bytes, bytes]) -> Path:
    held = Rdict(str(path), Options(raw_mode=True))
    for key, value in rows.items():
        held[key] = value
    held.close()
    return path


def test_two_stores_differences_are_drawn_by_kind(tmp_path: Path) -> None:
    before = store(tmp_path / "before", {b"a": b"1", b"b": b"1", b"same": b"1"})
    after = store(tmp_path / "after", {b"b": b"2", b"c": b"1", b"d": b"1", b"same": b"1"})
    with kst.open_store(before) as a, kst.open_store(after) as b, kst.diff_stores(a, b) as diff:
        axes: Any = diff.plot()
    assert row_names(axes) == ["+ added", "- removed", "~ changed"]
    assert [bar.get_width() for bar in axes.patches] == [2, 1, 1]
    assert len(set(colors(axes))) == 3
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
def test_hostile_names_of_two_stores_are_text_and_stay_inside(tmp_path: Path, name: str) -> None:
    path = store(tmp_path / "counts", {b"a": b"1"})
    with kst.open_store(path) as a, kst.open_store(path) as b, kst.diff_stores(a, b) as diff:
        diff.names = (name, name)
        assert stays_inside(diff.plot())


def state(number: int, size_bytes: int | None = 1024) -> SegmentState:
    start_ms = TEN + number * HOUR
    path = None if size_bytes is None else f"/{number}"
    return SegmentState("1 hour", start_ms, start_ms + HOUR, path, 5, size_bytes, size_bytes, 0, 1)


def segments(*states: SegmentState) -> Records[SegmentState]:
    return Records(states, "segments")


def test_a_replica_shows_its_segments_a_strip_a_window(tmp_path: Path) -> None:
    write(tmp_path / "changelog", 0, COUNTS)
    with WindowStore.restore(
        tmp_path / "changelog", path=tmp_path / "replica", progress=False
    ) as store:
        axes: Any = store.plot()
        sizes = [each.disk_bytes or 0 for each in store.segments() if each.window == "1 hour"]
    assert {"1 minute", "1 hour", "1 day"} <= set(texts(axes))
    assert all(sizes)
    assert seen(axes).split(" of ")[0] == f"{len(axes.patches)} segments"
    assert axes.get_xlabel() == "windows that a segment holds begin then, UTC"
    assert stays_inside(axes)


def test_segments_stand_where_their_windows_begin_as_high_as_they_are_large() -> None:
    axes: Any = segments(state(1, 4096), state(0, 1024)).plot()
    first, second = (each.get_data() for each in axes.patches)
    assert first.values[0] / second.values[0] == pytest.approx(0.25)
    assert first.edges.tolist() == pytest.approx([TEN / 86_400_000, (TEN + HOUR) / 86_400_000])
    assert seen(axes) == "2 segments of 5.0 KiB on disk"
    assert row_names(axes) == ["0", "4.0 KiB"]


def test_segments_in_memory_are_hatched_and_named_unknown() -> None:
    axes: Any = segments(state(0), state(1, None)).plot()
    assert "////" in {each.get_hatch() for each in axes.patches}
    assert legend(axes) == ["unknown"]
    assert seen(axes) == "2 segments of 1.0 KiB on disk, 1 in memory"
    assert "size on disk: unknown (it is in memory)" in axes.get_xlabel()


def test_many_segments_are_thinned_and_the_figure_says_so() -> None:
    axes: Any = segments(*(state(n, 1024 * (1 + n % 3)) for n in range(1_000))).plot()
    assert len(axes.patches) <= _MOST_SEGMENTS
    assert "1 hour: 1,000 segments drawn in groups of 3" in axes.get_xlabel()
    assert stays_inside(axes)


def test_no_segments_are_said_to_be_none() -> None:
    axes = drawn(segments().plot())
    assert seen(axes) == "No segments"


@pytest.mark.parametrize(
    ("lag", "said"),
    [
        (Lag(0, 0.0), "The standby holds all that its changelog tells"),
        (Lag(1_200, 4.25), "The standby is 1,200 records and 4.2 s behind"),
        (
            Lag(7, None, {"seconds": "nothing is held yet"}),
            "The standby is 7 records behind; for how long is unknown (nothing is held yet)",
        ),
    ],
)
def test_a_lag_says_how_far_behind(lag: Lag, said: str) -> None:
    axes: Any = lag.plot()
    assert seen(axes) == said
    assert sum(bar.get_width() for bar in axes.patches) == lag.records
    assert stays_inside(axes)


def told(steps: int, *, seconds: float = 0.5, records: int = 100) -> RestoreHistory:
    now = iter(np.arange(steps + 2) * seconds)
    history = RestoreHistory(clock=lambda: float(next(now)))
    history.on_start("1 hour", total=steps * records)
    for _ in range(steps):
        history.on_batch("1 hour", records=records)
    history.on_end("1 hour", records=steps * records)
    return history


def test_a_restore_shows_records_and_their_rate() -> None:
    axes: Any = told(4).plot()
    rate, read = sorted(axes.patches, key=lambda each: float(each.get_data().baseline))
    grown = read.get_data().values - read.get_data().baseline
    assert (grown / grown[-1]).tolist() == pytest.approx([0.25, 0.5, 0.75, 1.0])
    flat = rate.get_data().values - rate.get_data().baseline
    assert (flat / flat[0]).tolist() == pytest.approx([1, 1, 1, 1])
    assert row_names(axes) == ["0", "200", "0", "400"]
    assert seen(axes) == "400 of 400 records restored in 2.5 s: 160 records/s"
    assert axes.get_xlabel() == "seconds since the restore began"
    assert "1 hour" in texts(axes)


def test_a_real_restore_is_remembered_and_drawn(tmp_path: Path) -> None:
    write(tmp_path / "changelog", 0, COUNTS)
    history = RestoreHistory()
    place = tmp_path / "replica"
    WindowStore.restore(tmp_path / "changelog", path=place, listener=history).close()
    rows = sum(len(each) for each in COUNTS.values())
    assert (history.records, history.total) == (rows, rows)
    assert seen(history.plot()).startswith(f"{rows} of {rows} records restored")
    assert {"1 minute", "1 hour", "1 day"} <= set(texts(history.plot()))


def test_many_steps_are_thinned_and_the_figure_says_so() -> None:
    axes: Any = told(5_000).plot()
    assert all(each.get_data().values.size <= 1_001 for each in axes.patches)
    assert "5,000 steps drawn as 1,000" in axes.get_xlabel()
    assert row_names(axes)[-1] == "500,000"
    assert stays_inside(axes)


def test_steps_of_one_moment_have_no_rate_of_their_own() -> None:
    axes = drawn(told(3, seconds=0.0).plot())
    assert "inf" not in "".join(row_names(axes))


def test_a_failure_is_said() -> None:
    history = told(2)
    history._clock = lambda: 9.0
    history.on_failure("1 day", error=InputError("The disk is full."))
    assert "1 day: failed (The disk is full.)" in history.plot().get_xlabel()


def test_a_failure_of_many_words_stays_inside() -> None:
    history = told(2)
    history._clock = lambda: 9.0
    history.on_failure("1 day", error=InputError("$\\frac{ \x00" + "full " * 2_000))
    axes = history.plot()
    assert stays_inside(axes)
    assert axes.xaxis.label.get_window_extent().width <= axes.figure.bbox.width


def test_a_restore_that_told_nothing_is_said_to_be_none() -> None:
    axes = drawn(RestoreHistory().plot())
    assert (seen(axes), texts(axes)) == ("No restore told of yet", ["no records read"])


def test_a_replica_states_the_same_facts_as_text_and_html(tmp_path: Path) -> None:
    write(tmp_path / "changelog", 0, COUNTS)
    with WindowStore.restore(
        tmp_path / "changelog", path=tmp_path / "replica", progress=False
    ) as store:
        assert repr(store).replace("'", "&#x27;") in store._repr_html_()
        assert len(store.to_pandas()) == len(store.segments())
