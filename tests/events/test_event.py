from __future__ import annotations

import os
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import get_args

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.events.event import (
    _DAY_MS,
    _LONGEST_RAW,
    REASONS,
    SCHEMA,
    DeadLetters,
    Judged,
    Limits,
    TimeUnit,
    _is_longer,
    _is_missing,
    as_text,
    judge,
    letters,
    only_utf8,
    to_epoch_ms,
)

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


NOW_MS = 1_442_018_818_771
LIMITS = Limits(text_bytes=8)
IN_ORDER = [
    "no_user",
    "no_action",
    "no_time",
    "bad_time",
    "future_time",
    "long_user",
    "long_action",
]


def judged(
    times: object, users: object, actions: object, limits: Limits = LIMITS, now_ms: int = NOW_MS
) -> Judged:
    return judge(pa.array(times), pa.array(users), pa.array(actions), now_ms=now_ms, limits=limits)


TIMES = st.sampled_from(
    [(None, "no_time"), ("never", "bad_time"), ("2099-01-01", "future_time"), ("2015-01-01", None)]
)
TEXTS = st.sampled_from([None, "", "ok", "12345678", "123456789", "ééééé"])


@given(st.lists(st.tuples(TIMES, TEXTS, TEXTS), min_size=1, max_size=30))
def test_of_all_that_is_wrong_the_first_reason_is_told(
    rows: list[tuple[tuple[str | None, str | None], str | None, str | None]],
) -> None:
    expected: dict[int, str] = {}
    for place, ((_, what), user, action) in enumerate(rows):
        wrong = {what}
        wrong |= {"no_user"} if not user else {"long_user"} if len(user.encode()) > 8 else set()
        wrong |= (
            {"no_action"} if not action else {"long_action"} if len(action.encode()) > 8 else set()
        )
        if found := [reason for reason in IN_ORDER if reason in wrong]:
            expected[place] = found[0]
    times = pa.array([time for (time, _), _, _ in rows], pa.string())
    users, actions = (pa.array([row[at] for row in rows], pa.string()) for at in (1, 2))
    found_all = judge(times, users, actions, now_ms=NOW_MS, limits=LIMITS)
    assert dict(zip(found_all.bad.tolist(), found_all.reasons, strict=True)) == expected
    good = [place for place in range(len(rows)) if place not in expected]
    assert found_all.users.to_pylist() == [rows[place][1] for place in good]
    assert found_all.actions.to_pylist() == [rows[place][2] for place in good]
    assert len(found_all.time_ms) == len(good)


def test_every_reason_code_is_explained() -> None:
    assert set(IN_ORDER) < set(REASONS)


def test_a_limit_itself_is_allowed_and_one_more_is_not() -> None:
    just = judged([NOW_MS + _DAY_MS], ["12345678"], ["ää" * 2])
    assert just.reasons == []
    assert judged([NOW_MS + _DAY_MS + 1], ["a"], ["x"]).reasons == ["future_time"]
    assert judged([0], ["123456789"], ["x"]).reasons == ["long_user"]
    assert judged([0], ["a"], ["ää" * 2 + "x"]).reasons == ["long_action"]


def test_the_unit_of_times_is_taken_from_the_limits() -> None:
    assert judged([5], ["a"], ["x"]).time_ms.tolist() == [5_000]
    assert judged([5], ["a"], ["x"], Limits(time_unit="ms")).time_ms.tolist() == [5]


def test_records_without_any_event_leave_empty_columns() -> None:
    found = judged([None, None], ["a", "b"], ["x", "x"])
    assert (len(found.time_ms), len(found.users), len(found.actions)) == (0, 0, 0)
    assert found.bad.tolist() == [0, 1]


def test_no_records_are_no_events() -> None:
    found = judge(*(pa.array([], pa.string()),) * 3, now_ms=0, limits=LIMITS)
    assert (len(found.time_ms), found.bad.tolist()) == (0, [])


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        (pa.array(["a", None, ""]), ["a", None, ""]),
        (pa.array(["a", None], pa.large_string()), ["a", None]),
        (pa.array(["a", None], pa.string_view()), ["a", None]),
        (pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
        (pa.array(["b", "a", "b"]).dictionary_encode()[1:], ["a", "b"]),
        (pa.array([7, None, -1]), ["7", None, "-1"]),
        (pa.array([7, 7], pa.uint8()).dictionary_encode(), ["7", "7"]),
        (pa.array([True, False, None]), ["true", "false", None]),
        (pa.array([1.5, None]), ["1.5", None]),
        (pa.array([b"a", "é".encode(), b"\xff", None]), ["a", "é", None, None]),
        (pa.array([b"a", b"\xff"], pa.large_binary()), ["a", None]),
        (pa.array([b"ab", b"\xff\xfe"], pa.binary(2)), ["ab", None]),
        (pa.array([b"a", b"\xff", b"a"]).view(pa.string()), ["a", None, "a"]),
        (pa.array([b"a", b"\xff", b"a"]).dictionary_encode(), ["a", None, "a"]),
        (pa.array([[1], None]), [None, None]),
        (pa.array([{"a": 1}]), [None]),
        (pa.nulls(2), [None, None]),
        (pa.array([None, None], pa.string()), [None, None]),
        (pa.array([b"0" * 16], pa.uuid()), ["0" * 16]),
        (pa.DictionaryArray.from_arrays([0, 1, 2, None], ["a", None, "a"]), ["a", None, "a", None]),
        (pa.DictionaryArray.from_arrays(pa.array([1], pa.int8()), ["b", "a"]), ["a"]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_users_of_any_type_become_text(values: pa.Array, texts: list[str | None]) -> None:
    found = as_text(values)
    assert found.to_pylist() == texts
    assert found.type == pa.dictionary(pa.int32(), pa.string())
    entries = found.dictionary.to_pylist()
    assert len(set(entries)) == len(entries), "a text stands twice in the dictionary"
    assert None not in entries


@pytest.mark.parametrize("kind", [pa.string(), pa.int64(), pa.null(), pa.binary(), pa.bool_()])
def test_no_values_are_no_texts(kind: pa.DataType) -> None:
    assert as_text(pa.array([], kind)).to_pylist() == []


@given(st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)))
def test_lengths_are_those_of_utf8(texts: list[str | None]) -> None:
    column = as_text(pa.array(texts, pa.string()))
    lengths = [len((text or "").encode()) for text in texts]
    rows = len(texts)
    assert np.broadcast_to(_is_missing(column), rows).tolist() == [each == 0 for each in lengths]
    for limit in (0, 3, 100):
        longer = [each > limit for each in lengths]
        assert np.broadcast_to(_is_longer(column, limit), rows).tolist() == longer


def test_columns_where_all_is_well_cost_no_mask() -> None:
    column = as_text(pa.array(["a", "b"] * 10))
    assert _is_missing(column).shape == _is_longer(column, 1).shape == ()


@given(st.lists(st.none() | st.binary(max_size=6), max_size=10))
def test_bytes_that_are_no_utf8_are_no_text(values: list[bytes | None]) -> None:
    def text(value: bytes | None) -> str | None:
        try:
            return None if value is None else value.decode()
        except UnicodeDecodeError:
            return None

    column = pa.array(values, pa.binary())
    assert only_utf8(column.view(pa.string())).to_pylist() == [text(value) for value in values]
    assert as_text(column).to_pylist() == [text(value) for value in values]


def test_letters_tell_reason_text_file_and_detail() -> None:
    batch = letters(["no_user", "bad_time"], ["a", "b"], file="f.json", details=["x", None])
    assert batch.schema == SCHEMA
    assert batch.to_pylist() == [
        {"reason": "no_user", "raw": "a", "file": "f.json", "detail": "x"},
        {"reason": "bad_time", "raw": "b", "file": "f.json", "detail": None},
    ]


def test_each_letter_may_have_its_own_file() -> None:
    batch = letters(["no_user"] * 2, ["a", "b"], file=["f.json", None])
    assert batch.column("file").to_pylist() == ["f.json", None]


def test_no_letters_are_an_empty_batch() -> None:
    assert letters([], []).num_rows == 0


@given(st.text(max_size=50))
def test_any_text_can_be_kept(raw: str) -> None:
    (kept,) = letters(["unparseable"], [raw]).column("raw").to_pylist()
    assert kept == raw.encode("utf-8", "replace").decode()


def test_a_long_text_is_cut_and_says_so() -> None:
    just, longer = "é" * _LONGEST_RAW, "é" * (_LONGEST_RAW + 1)
    kept = letters(["long_user"] * 2, [just, longer]).column("raw").to_pylist()
    assert kept[0] == just
    assert kept[1] == f"{just}… (cut; 65,537 characters in all)"


def test_a_file_whose_name_is_no_utf8_can_be_told() -> None:
    batch = letters(["broken_file"], [""], file=os.fsdecode(b"caf\xe9.json"))
    assert batch.column("file").to_pylist() == ["caf?.json"]


def test_reasons_are_counted_the_most_frequent_first() -> None:
    reasons = ["bad_time", "no_user", "no_user", "future_time"]
    found = DeadLetters(pa.Table.from_batches([letters(reasons, ["x"] * 4)]))
    assert list(found.by_reason.items()) == [("no_user", 2), ("bad_time", 1), ("future_time", 1)]
    assert repr(found) == "DeadLetters(4: 2 no_user, 1 bad_time, 1 future_time)"
    assert list(found.to_pandas()["reason"]) == reasons


def test_no_dead_letters_have_no_reasons() -> None:
    found = DeadLetters(SCHEMA.empty_table())
    assert (len(found), found.by_reason, repr(found)) == (0, {}, "DeadLetters(0)")


@pytest.mark.parametrize("reason", REASONS)
def test_a_reason_code_is_one_word_and_is_explained(reason: str) -> None:
    assert reason.replace("_", "").isalpha()
    assert " " in REASONS[reason]
