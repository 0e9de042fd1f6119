from __future__ import annotations

import os

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.events.dead_letters import LONGEST_RAW, REASONS, SCHEMA, DeadLetters, letters


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
    just, longer = "é" * LONGEST_RAW, "é" * (LONGEST_RAW + 1)
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
