from __future__ import annotations

import os

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
    _is_longer,
    _is_missing,
    as_text,
    judge,
    letters,
)
from kstoolkit.events.times import only_utf8

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
