from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from kstoolkit.errors import ConfigurationError
from kstoolkit.events.event import Columns, Limits, is_plain
from kstoolkit.events.sources import Files, Frame, files, frame

NAMES: dict[str, Any] = {"event_time": "time", "user": "user", "action": "action"}


def test_files_have_defaults_that_the_design_states() -> None:
    found = files("data/sample", **NAMES)
    assert found == Files("data/sample", Columns("time", "user", "action"), None, Limits())
    assert (found.limits.future_ms, found.limits.text_bytes) == (None, 1024)


def test_a_path_object_is_a_path() -> None:
    assert files(Path("data") / "sample", **NAMES).path == "data/sample"


def test_options_become_limits() -> None:
    options: dict[str, Any] = {"max_future": "2 hours", "max_text_bytes": 9, "time_unit": "us"}
    expected = Limits(7_200_000, 9, "us")
    assert files("a", **NAMES, **options).limits == expected
    assert frame(cast("Any", object()), **NAMES, **options).limits == expected


def test_no_time_at_all_in_the_future_may_be_asked_for() -> None:
    assert files("a", **NAMES, max_future=0).limits.future_ms == 0


def test_a_frame_keeps_the_data_frame_as_it_is() -> None:
    df = cast("Any", object())
    found = frame(df, **NAMES)
    assert isinstance(found, Frame)
    assert found.df is df


@pytest.mark.parametrize("known", ["json", "csv", "parquet", None])
def test_known_formats_are_taken(known: str | None) -> None:
    assert files("a", **NAMES, format=known).file_format == known


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"format": "xml"}, "'xml' is unknown.*\n.*json, csv, parquet"),
        ({"max_text_bytes": 0}, "it has to be 1 or more.*\n.*1024"),
        ({"max_future": "soon"}, "'soon' is not a duration"),
        ({"max_future": -1}, "not positive"),
    ],
)
def test_an_option_that_makes_no_sense_is_told(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        files("a", **NAMES, **options)


@pytest.mark.parametrize("name", ["user", "_user", "User2", "užívateľ", "用户"])
def test_a_name_is_plain(name: str) -> None:
    assert is_plain(Columns("time", name, "action"))


@pytest.mark.parametrize("name", ["lower(user)", "a.b", "'x'", "a b", "2nd", "", "`user`", "a+b"])
def test_an_expression_is_not_plain(name: str) -> None:
    assert not is_plain(Columns(name, "user", "action"))
    assert not is_plain(Columns("time", "user", name))


def test_an_unknown_unit_of_time_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no unit of time 'h'"):
        files("a", event_time="t", user="u", action="a", time_unit="h")  # type: ignore[arg-type]
