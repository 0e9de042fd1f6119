from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from rocksdict import Options, Rdict

import kstoolkit as kst
from kstoolkit.errors import ConfigurationError
from kstoolkit.plots.palette import COUNTED, FLAGGED
from kstoolkit.records import Records
from kstoolkit.stores.growth.records import Age, KeyUse, SegmentUse, WindowUse
from tests.plots.made import HOSTILE, TEN, drawn, legend, row_names, seen, stays_inside, texts

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.stores.growth.growth import Growth

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


def test_windows_come_in_their_order_and_those_that_are_past_are_hatched(growth: Growth) -> None:
    axes: Any = windows(growth, TEN + 2 * HOUR).plot()
    assert row_names(axes) == [f"2015-09-12 {hour}:00:00" for hour in (10, 11, 12)]
    assert colors(axes) == [FLAGGED, FLAGGED, COUNTED]
    assert [bar.get_hatch() for bar in axes.patches] == ["//", "//", None]
    assert legend(axes) == ["past its retention", "kept"]


def test_what_can_not_be_known_to_be_past_is_named_unknown_with_its_reason(growth: Growth) -> None:
    axes: Any = windows(growth, None).plot()
    assert legend(axes) == ["unknown whether it is past"]
    assert "unknown (no retention is known)" in axes.get_xlabel()
    assert {bar.get_hatch() for bar in axes.patches} == {".."}


def test_segments_are_drawn_by_their_files(growth: Growth) -> None:
    uses = [SegmentUse("/s", TEN, 4096, 10, 700, is_past=True)]
    uses.append(SegmentUse("/t", TEN + HOUR, 2048, 10, 700, is_past=False))
    axes: Any = replace(growth, segments=Records(uses, "segments")).plot()
    assert [bar.get_width() for bar in axes.patches] == [4096, 2048]
    assert [bar.get_hatch() for bar in axes.patches] == ["//", None]
    assert axes.get_xlabel().startswith("size of the segment's files, by its start, UTC")


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


def test_windows_that_the_watermark_has_passed_are_hatched(growth: Growth) -> None:
    uses = [
        WindowUse(TEN, 1, 10, 500, 0.5, TEN + HOUR, is_past=True),
        WindowUse(TEN + HOUR, 1, 10, 500, 0.5, TEN + 2 * HOUR, is_past=False),
    ]
    horizon = replace(growth.horizon, watermark_ms=TEN + HOUR, kept_from_ms=None)
    expired = replace(growth.expired, num_rows=None, num_below_watermark=10)
    axes: Any = replace(
        growth, windows=Records(uses, "windows"), horizon=horizon, expired=expired, data_bytes=1_000
    ).plot()
    assert [bar.get_hatch() for bar in axes.patches] == ["//", None]
    assert legend(axes) == ["past the watermark", "kept"]
    assert "unknown" not in axes.get_xlabel()
    assert "10 past the watermark" in seen(axes)


def test_ages_of_windows_name_their_clock(growth: Growth) -> None:
    told = ("window end", "the newest window's start", TEN)
    uses = [Age(HOUR, 5, 50, 0.5, 0, 0, *told), Age(24 * HOUR, 2, 20, 0.2, 0, 0, *told)]
    axes: Any = replace(growth, ages=Records(uses, "ages")).plot(by="age")
    assert row_names(axes) == ["ended 1 hour ago", "ended 1 day ago"]
    said = " ".join(axes.get_xlabel().split())
    assert "before the newest window's start, 2015-09-12 10:00:00 UTC" in said
    assert stays_inside(axes)


def test_why_there_are_no_ages_stands_where_they_would(growth: Growth) -> None:
    bare = replace(growth, ages=Records((), "ages"), unknown={"ages": "there are no rows"})
    assert texts(drawn(bare.plot(by="age"))) == ["no ages: there are no rows"]
