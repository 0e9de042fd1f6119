from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from email.utils import format_datetime, parsedate_to_datetime
from typing import get_args
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.errors import ConfigurationError
from kstoolkit.events.times import TimeUnit, lack_zone, to_epoch_ms, zone_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOMENT = datetime(2015, 9, 12, 0, 46, 58, 771_000, tzinfo=UTC)
MOMENT_MS = 1_442_018_818_771
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

OFFSETS = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=OFFSETS)  # noqa: DTZ001
RUBBISH = st.sampled_from(
    [
        "",
        " ",
        "noon",
        "2015-13-01",
        "2015-02-30T00:00:00Z",
        "2015-09-12T25:00",
        "-",
        "1e",
        "T",
        "\0",
    ]
)


def floored_ms(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(milliseconds=1)


def read(times: pa.Array, unit: TimeUnit | None = None) -> list[int | None]:
    milliseconds, readable = to_epoch_ms(times, unit)
    assert milliseconds.dtype == np.int64
    assert not milliseconds[~readable].any(), "what is unreadable is 0"
    return [
        int(ms) if is_read else None for ms, is_read in zip(milliseconds, readable, strict=True)
    ]


def written(moment: datetime, style: int) -> str:
    text = moment.isoformat(sep="T" if style & 1 else " ")
    if style & 2:
        text = moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return f" {text}\t" if style & 4 else text


@given(st.lists(st.tuples(MOMENTS, st.integers(0, 7)), max_size=20))
def test_iso_text_with_a_zone_is_that_moment(moments: list[tuple[datetime, int]]) -> None:
    texts = [written(moment, style) for moment, style in moments]
    assert read(pa.array(texts, pa.string())) == [floored_ms(moment) for moment, _ in moments]


@given(st.lists(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)), max_size=20))  # noqa: DTZ001
def test_iso_text_without_a_zone_is_utc(moments: list[datetime]) -> None:
    expected = [floored_ms(moment.replace(tzinfo=UTC)) for moment in moments]
    assert read(pa.array([moment.isoformat() for moment in moments], pa.string())) == expected


@given(st.lists(st.dates(date(1, 1, 2), date(9999, 12, 30)), max_size=20))
def test_a_date_is_its_first_moment(dates: list[date]) -> None:
    expected = [(each - date(1970, 1, 1)).days * 86_400_000 for each in dates]
    assert read(pa.array([each.isoformat() for each in dates], pa.string())) == expected
    assert read(pa.array(dates, pa.date32())) == expected
    assert read(pa.array(dates, pa.date64())) == expected


MIXED = st.one_of(
    st.tuples(MOMENTS, st.integers(0, 7)).map(lambda each: (written(*each), floored_ms(each[0]))),
    st.dates(date(1900, 1, 1)).map(
        lambda d: (d.isoformat(), (d - date(1970, 1, 1)).days * 86_400_000)
    ),
    st.integers(-(10**10), 10**10).map(lambda s: (str(s), s * 1_000)),
    st.integers(10**15, 10**16).map(lambda us: (f" {us} ", us // 1_000)),
    st.integers(10**17 + 1, 10**18 - 1).map(lambda ns: (str(ns), ns // 10**6)),
    st.integers(0, 10**12).map(lambda ms: (f"{ms // 1_000}.{ms % 1_000:03}", ms)),
    RUBBISH.map(lambda text: (text, None)),
    st.just((None, None)),
)


@given(st.lists(MIXED, max_size=200))
def test_a_column_of_all_kinds_of_text_is_read_text_by_text(
    times: list[tuple[str | None, int | None]],
) -> None:
    texts, expected = [text for text, _ in times], [ms for _, ms in times]
    column = pa.array(texts, pa.string())
    assert read(column) == expected
    assert read(column.dictionary_encode()) == expected
    assert read(column.cast(pa.large_string())) == expected
    assert read(column.cast(pa.string_view())) == expected


def test_a_bad_time_in_a_long_column_spoils_no_other() -> None:
    texts = [f"2015-09-12T00:00:{second % 60:02}Z" for second in range(5_000)]
    texts[777], texts[4_321] = "never", "2015-09-12 00:00:01"
    milliseconds = read(pa.array(texts))
    assert milliseconds[777] is None
    assert milliseconds.count(None) == 1
    assert milliseconds[4_321] == milliseconds[1]


@pytest.mark.parametrize("unit", get_args(TimeUnit))
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Kathmandu"])
def test_timestamps_of_every_unit_are_read(unit: TimeUnit, zone: str | None) -> None:
    column = pa.array([MOMENT_MS, None, -1], pa.timestamp("ms")).cast(
        pa.timestamp(unit), safe=False
    )
    expected = MOMENT_MS // 1_000 * 1_000 if unit == "s" else MOMENT_MS
    assert read(column.cast(pa.timestamp(unit, tz=zone)))[:2] == [expected, None]


def test_moments_before_the_epoch_are_rounded_down_too() -> None:
    assert read(pa.array([-1, -1_000_001], pa.timestamp("ns"))) == [-1, -2]
    assert read(pa.array(["1969-12-31T23:59:59.9995Z"])) == [-1]
    assert read(pa.array([-1], pa.int64()), "us") == [-1]
    assert read(pa.array([-0.0005]), "s") == [-1]


@given(st.datetimes(datetime(1973, 4, 1), datetime(2200, 1, 1)), st.sampled_from(list(PER_SECOND)))  # noqa: DTZ001
def test_the_unit_of_a_number_is_told_from_its_size(moment: datetime, unit: str) -> None:
    ticks = (moment.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
    ticks = ticks * PER_SECOND[unit] // 10**6
    expected = ticks * 1_000 // PER_SECOND[unit]
    assert read(pa.array([ticks])) == [expected]
    assert read(pa.array([ticks], pa.uint64())) == [expected]
    assert read(pa.array([str(ticks)])) == [expected]
    assert read(pa.array([Decimal(ticks)], pa.decimal128(20, 0)))[0] == pytest.approx(
        expected, abs=1
    )


@pytest.mark.parametrize("unit", get_args(TimeUnit))
@pytest.mark.parametrize("seconds", [0, 1, 86_400, 1_442_018_818])
def test_a_given_unit_is_taken_as_said(unit: TimeUnit, seconds: int) -> None:
    ticks = seconds * PER_SECOND[unit]
    assert read(pa.array([ticks]), unit) == [seconds * 1_000]
    assert read(pa.array([float(ticks)]), unit) == [seconds * 1_000]
    assert read(pa.array([str(ticks)]), unit) == [seconds * 1_000]


@pytest.mark.parametrize("ticks", [8_999_999_999_999_999_999, 3_442_473_307_399_999_367])
def test_nanoseconds_as_text_are_rounded_down_to_the_last_digit(ticks: int) -> None:
    """A float has 16 digits: it would round up what lies so near to the next millisecond."""
    assert read(pa.array([str(ticks), str(-ticks)])) == [ticks // 10**6, -ticks // 10**6]


def test_fractions_of_seconds_are_exact_to_the_millisecond() -> None:
    thousandths = range(1_442_018_818_000, 1_442_018_819_000)
    assert read(pa.array([ms / 1_000 for ms in thousandths])) == list(thousandths)
    assert read(pa.array([f"{ms / 1_000:.3f}" for ms in thousandths])) == list(thousandths)


def test_a_number_with_an_exponent_is_a_number() -> None:
    assert read(pa.array(["1.442018818e9", "1E3", "+5"])) == [1_442_018_818_000, 1_000_000, 5_000]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([2**64 - 1, 2**63], pa.uint64()),
        pa.array([float("inf"), float("-inf"), float("nan"), 1e308, -1e308]),
        pa.array(["9" * 400, "1e400", "999999999999999999999999"]),
        pa.array([2**62, -(2**62)], pa.timestamp("s")),
        pa.array(["10000-01-01", "0000-01-01", "9999-12-31T23:59:59-14:00"]),
        pa.array([True, False]),
        pa.array([b"2015-09-12"]),
        pa.array([[1], [2]]),
        pa.array([{"a": 1}]),
        pa.nulls(3),
        pa.nulls(3, pa.string()),
        pa.array([1], pa.duration("s")),
        pa.array([1], pa.time64("us")),
        pa.array([b"2015\xff", b"\xff"]).view(pa.string()),
    ],
    ids=str,
)
@pytest.mark.parametrize("unit", [None, "s", "us"])
def test_what_no_calendar_holds_is_unreadable(column: pa.Array, unit: TimeUnit | None) -> None:
    assert set(read(column, unit)) == {None}


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_the_largest_numbers_are_years_that_no_calendar_has(unit: TimeUnit) -> None:
    assert read(pa.array([2**63 - 1, -(2**63)]), unit) == [None, None]


def test_a_dictionary_is_read_once_for_each_text() -> None:
    column = pa.array(["2015-09-12T00:46:58.771Z", "x", None] * 3).dictionary_encode()
    assert read(column) == [MOMENT_MS, None, None] * 3
    assert read(column[1:4]) == [None, None, MOMENT_MS]


def test_no_times_are_no_times() -> None:
    for kind in (pa.string(), pa.int64(), pa.float64(), pa.timestamp("us"), pa.null()):
        assert read(pa.array([], kind)) == []


def test_slices_are_read_where_they_lie() -> None:
    column = pa.array(["x", MOMENT.isoformat(), "1442018818"])
    assert read(column[1:]) == [MOMENT_MS, 1_442_018_818_000]


SECONDS = st.datetimes(datetime(1900, 1, 1), datetime(2199, 12, 31), timezones=OFFSETS).map(  # noqa: DTZ001
    lambda moment: moment.replace(microsecond=0)
)


@given(st.lists(st.tuples(SECONDS, st.booleans()), max_size=20))
def test_times_of_web_servers_are_those_that_strptime_reads(
    moments: list[tuple[datetime, bool]],
) -> None:
    texts = [moment.strftime("%d/%b/%Y:%H:%M:%S %z") for moment, _ in moments]
    expected = [floored_ms(datetime.strptime(t, "%d/%b/%Y:%H:%M:%S %z")) for t in texts]
    shown = [f"[{t}]" if framed else t for t, (_, framed) in zip(texts, moments, strict=True)]
    assert read(pa.array(shown, pa.string())) == expected


@given(st.lists(SECONDS, max_size=20))
def test_times_of_mails_are_those_that_pythons_parser_reads(moments: list[datetime]) -> None:
    texts = [format_datetime(moment) for moment in moments]
    texts += [f"{text} (some zone)" for text in texts]
    texts += [text.partition(", ")[2] for text in texts]
    texts += [format_datetime(moment.astimezone(UTC), usegmt=True) for moment in moments]
    expected = [floored_ms(parsedate_to_datetime(text)) for text in texts]
    assert read(pa.array(texts, pa.string())) == expected


@pytest.mark.parametrize("zone", ["UT", "EST", "EDT", "CST", "CDT", "MST", "MDT", "PST", "PDT"])
def test_the_zones_of_mails_are_those_of_pythons_parser(zone: str) -> None:
    text = f"Fri, 4 Jul 2025 12:30:00 {zone}"
    assert read(pa.array([text])) == [floored_ms(parsedate_to_datetime(text))]


ZONES = st.sampled_from(
    ["Europe/Prague", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "CET", "UTC"]
)
CLOCKS = st.datetimes(datetime(1950, 1, 1), datetime(2100, 1, 1)).map(  # noqa: DTZ001
    lambda moment: moment.replace(microsecond=0)
)


@given(st.lists(st.tuples(CLOCKS, ZONES), max_size=20))
def test_a_zone_by_name_is_that_of_the_iana(times: list[tuple[datetime, str]]) -> None:
    expected = [floored_ms(clock.replace(tzinfo=ZoneInfo(zone))) for clock, zone in times]
    for style in ("{} {}", "{}[{}]"):
        texts = [style.format(clock.isoformat(), zone) for clock, zone in times]
        assert read(pa.array(texts, pa.string())) == expected
    both = [
        f"{clock.replace(tzinfo=ZoneInfo(zone)).isoformat()}[{zone}]"
        for clock, zone in times
        if clock.year > 1970  # before, distances have seconds
    ]
    later = [ms for ms, (clock, _) in zip(expected, times, strict=True) if clock.year > 1970]
    assert read(pa.array(both, pa.string())) == later


@given(st.lists(CLOCKS, max_size=20), ZONES)
def test_what_has_no_zone_is_of_the_one_that_is_told(clocks: list[datetime], zone: str) -> None:
    told = ZoneInfo(zone)
    expected = [floored_ms(clock.replace(tzinfo=told)) for clock in clocks]
    texts = pa.array([clock.isoformat(sep=" ") for clock in clocks], pa.string())
    of_logs = pa.array([clock.strftime("%d/%b/%Y:%H:%M:%S") for clock in clocks], pa.string())
    stamps = pa.array(clocks, pa.timestamp("us"))
    for column in (texts, of_logs, stamps, texts.dictionary_encode()):
        assert to_epoch_ms(column, zone=told)[0].tolist() == expected
    zoned = pa.array(expected, pa.timestamp("ms", "UTC"))
    assert to_epoch_ms(zoned, zone=told)[0].tolist() == expected
    assert to_epoch_ms(pa.array([5]), "ms", told)[0].tolist() == [5]


@pytest.mark.parametrize(
    "rest", ["", ":00", ":00.000", "Z", ":00Z", ":00+00:00", " UTC", ":00 +0000"]
)
def test_the_end_of_a_day_is_the_start_of_the_next(rest: str) -> None:
    texts = [f"2024-02-28T24:00{rest}", f"2024-12-31 24:00{rest}", f"2025-01-01 00:00{rest}"]
    expected = [datetime(2024, 2, 29, tzinfo=UTC), *[datetime(2025, 1, 1, tzinfo=UTC)] * 2]
    assert read(pa.array(texts)) == [floored_ms(each) for each in expected]


@pytest.mark.parametrize("day", ["2025-03-30", "2025-10-26", "2025-06-01"])
def test_the_end_of_a_day_is_that_of_its_zone_also_where_clocks_change(day: str) -> None:
    prague = ZoneInfo("Europe/Prague")
    following = datetime.fromisoformat(day) + timedelta(days=1)
    expected = [floored_ms(following.replace(tzinfo=prague))]
    assert to_epoch_ms(pa.array([f"{day} 24:00"]), zone=prague)[0].tolist() == expected
    assert read(pa.array([f"{day}T24:00 Europe/Prague"])) == expected


def test_a_zone_beside_its_distance_may_be_utc() -> None:
    ten = floored_ms(datetime(2025, 1, 1, 10, tzinfo=UTC))
    texts = ["2025-01-01T10:00Z[UTC]", "2025-01-01T10:00Z[Europe/London]"]
    assert read(pa.array(texts)) == [ten, ten]


def test_the_fractions_of_pythons_logs_are_read_with_the_others() -> None:
    begin = datetime(2025, 3, 1, 10, tzinfo=UTC)
    moments = [begin + timedelta(milliseconds=137 * n) for n in range(500)]
    texts = [f"{each:%Y-%m-%d %H:%M:%S},{each.microsecond // 1000:03d}" for each in moments]
    assert read(pa.array([*texts, "nonsense"])) == [*map(floored_ms, moments), None]


@pytest.mark.parametrize(
    "text",
    [
        *("2024-01-01T24:00:01Z", "2024-01-01T24:01", "2024-13-01T24:00Z", "24:00"),
        *("01/Foo/2025:10:00:00 +0100", "32/Jan/2025:10:00:00 +0100", "1/Mar/25:10:00:00 +0100"),
        *("2025-03-01 10:00 Nowhere", "2025-03-01 10:00 Europe/Prag", "2025-03-01 10:00 ../UTC"),
        *(
            "Sat, 01 Mar 2025",
            "Sat, 01 Mar 2025 10:00:00 Nowhere",
            "2025-03-01" + " GMT-0" * 50_000,
        ),
    ],
)
def test_what_only_looks_like_such_a_time_is_unreadable_and_spoils_no_other(text: str) -> None:
    good = ["01/Mar/2025:09:00:00 +0000", "Sat, 1 Mar 2025 09:00 GMT", "2025-03-01 10:00 CET"]
    nine = floored_ms(datetime(2025, 3, 1, 9, tzinfo=UTC))
    assert read(pa.array([*good, text, *good])) == [nine] * 3 + [None] + [nine] * 3


def test_times_that_lack_a_zone_are_told_from_those_that_need_none() -> None:
    lacking = ["2025-03-01 10:00", "2025-03-01", "01/Mar/2025:10:00:00", "Sat, 1 Mar 2025 10:00"]
    assert all(lack_zone(pa.array([text])) for text in lacking)
    needing_none = ["2025-03-01T10:00Z", "1740823200", "nonsense", "2025-03-01 10:00 CET", None]
    assert not lack_zone(pa.array(needing_none))
    assert lack_zone(pa.array([MOMENT.replace(tzinfo=None)]))
    assert not lack_zone(pa.array([MOMENT]))


def test_a_zone_that_is_none_is_told_with_the_one_that_is_near() -> None:
    with pytest.raises(ConfigurationError, match="The time zone 'Europe/Praha' is unknown") as no:
        zone_of("Europe/Praha")
    assert "Europe/Prague" in str(no.value.hint)
