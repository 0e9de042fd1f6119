from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.errors import ConfigurationError
from kstoolkit.units import format_bytes, format_count, format_duration, parse_bytes, parse_duration


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1 minute", 60_000),
        ("5minutes", 300_000),
        (" 90 S ", 90_000),
        ("1.5 hours", 5_400_000),
        ("hour", 3_600_000),
        ("2 days", 172_800_000),
        ("1 w", 604_800_000),
        ("250 ms", 250),
        ("10 min", 600_000),
        ("10 mins", 600_000),
    ],
)
def test_durations_are_read_as_people_write_them(text: str, milliseconds: int) -> None:
    assert parse_duration(text) == milliseconds


def test_a_number_is_milliseconds_and_a_timedelta_is_itself() -> None:
    assert parse_duration(1_500) == parse_duration(timedelta(seconds=1.5)) == 1_500


@pytest.mark.parametrize("text", ["", "soon", "5 fortnights", "minute 5", "1 minute 5 seconds"])
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"not a duration\.\nHint: .*'5 minutes'"):
        parse_duration(text)


@pytest.mark.parametrize("value", [0, "0 s", timedelta(0)])
def test_no_time_at_all_counts_only_where_it_means_something(value: str | int | timedelta) -> None:
    assert parse_duration(value, allow_zero=True) == 0
    with pytest.raises(ConfigurationError, match="not positive"):
        parse_duration(value)


def test_a_negative_duration_is_never_allowed() -> None:
    with pytest.raises(ConfigurationError, match="not positive"):
        parse_duration(timedelta(seconds=-1), allow_zero=True)


@given(st.integers(min_value=1, max_value=10**13))
def test_a_printed_duration_reads_back_the_same(milliseconds: int) -> None:
    assert parse_duration(format_duration(milliseconds)) == milliseconds


@given(st.integers(min_value=0, max_value=2**70))
def test_a_printed_size_is_within_its_rounding(size_bytes: int) -> None:
    number, unit = format_bytes(size_bytes).split()
    scale = 1024 ** ["B", "KiB", "MiB", "GiB", "TiB", "PiB"].index(unit)
    assert float(number) * scale == pytest.approx(size_bytes, abs=0.051 * scale)


def test_sizes_change_their_unit_at_1024() -> None:
    assert [format_bytes(size) for size in (1023, 1024, 1 << 20)] == [
        "1023 B",
        "1.0 KiB",
        "1.0 MiB",
    ]
    assert format_bytes(-2048) == "-2.0 KiB"


def test_unknown_is_said_and_is_not_zero() -> None:
    assert format_bytes(None) == format_count(None) == "unknown"
    assert (format_bytes(0), format_count(0)) == ("0 B", "0")


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("6g", 6 << 30),  # as java -Xmx and docker --memory read it
        ("512M", 512 << 20),
        ("8Gi", 8 << 30),  # Kubernetes
        ("512 MiB", 512 << 20),
        ("1.5kb", 1536),
        ("1048576", 1 << 20),
        (7, 7),
        ("3 B", 3),
    ],
)
def test_sizes_are_read_as_people_java_and_kubernetes_write_them(
    written: str | int, size: int
) -> None:
    assert parse_bytes(written) == size


@pytest.mark.parametrize("written", ["", "6x", "0", "-1g", "g", "9" * 400, "6 G B"])
def test_what_is_no_size_is_said_with_what_to_write(written: str) -> None:
    with pytest.raises(ConfigurationError, match=f"'{written}' is no size") as told:
        parse_bytes(written)
    assert "512MiB" in str(told.value.hint)


@given(st.integers(1, 1 << 50))
def test_a_size_that_is_shown_is_read_back_but_for_rounding(size: int) -> None:
    assert abs(parse_bytes(format_bytes(size)) - size) <= 0.05 * size


@pytest.mark.parametrize("value", [2**62, "999999999999 days", f"{'9' * 400} hours"])
def test_a_duration_longer_than_time_is_told_is_refused(value: int | str) -> None:
    with pytest.raises(ConfigurationError, match="is longer than all of time"):
        parse_duration(value)
