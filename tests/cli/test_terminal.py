from __future__ import annotations

import csv
import io
import json
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.cli.terminal import (
    _WIDEST_CELL,
    _visible,
    accept_any_text,
    note,
    print_csv,
    print_json,
    print_table,
    say,
)


@given(st.text())
def test_no_text_can_command_a_terminal_or_turn_its_direction(text: str) -> None:
    categories = {unicodedata.category(c) for c in _visible(text)}
    assert not categories & {"Cc", "Cs", "Zl", "Zp"}
    bidirectional = {unicodedata.bidirectional(c) for c in _visible(text)}
    assert not bidirectional & {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@given(st.text(st.characters(categories=("L", "M", "N", "P", "S", "Zs"))))
def test_what_people_write_stays_as_it_is(text: str) -> None:
    assert _visible(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J\x1b]0;title\x07", r"\x1b[2J\x1b]0;title\x07"),
        ("two\nlines\r", r"two\nlines\r"),
        ("\x9b31m", r"\x9b31m"),
        ("txt.\u202eexe", r"txt.\u202eexe"),
        ("inv\u200bisible", r"inv\u200bisible"),
        ("\U000e0041", r"\U000e0041"),
        ("क्\u200dष 👩\u200d💻", "क्\u200dष 👩\u200d💻"),  # joiners that writing needs
    ],
)
def test_what_hides_is_shown_and_what_joins_is_kept(text: str, shown: str) -> None:
    assert _visible(text) == shown


def test_results_go_to_stdout_and_notes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    say("a\x1b")
    note("b\x1b")
    assert tuple(capsys.readouterr()) == ("a\\x1b\n", "b\\x1b\n")


@given(st.lists(st.dictionaries(st.text(), st.text() | st.integers() | st.none())))
def test_each_line_of_json_is_one_object_in_ascii(given_rows: list[dict[str, object]]) -> None:
    written = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", written)
        print_json(given_rows)
    lines = written.getvalue().splitlines()
    assert [json.loads(line) for line in lines] == given_rows
    assert written.getvalue().isascii()


def test_a_number_that_json_does_not_have_is_never_printed() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        print_json([{"score": float("nan")}])


def test_csv_for_programs_is_exact_and_in_utf_8_whatever_the_locale(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="latin-1"))
    row = {"user": 'a,"b"\n\x1b名前', "count": 1, "more": "left out"}
    print_csv(["user", "count"], [row])
    sys.stdout.flush()
    read = csv.DictReader(io.StringIO(written.getvalue().decode("utf-8"), newline=""))
    assert list(read) == [{"user": row["user"], "count": "1"}]


def test_csv_in_a_terminal_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    print_csv(["user"], [{"user": "\x1b[2J"}])
    assert screen.getvalue() == "user\n\\x1b[2J\n"


def test_a_stream_that_lacks_a_character_writes_an_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    accept_any_text()
    say("“Zoë”")
    sys.stdout.flush()
    assert written.getvalue() == b"\\u201cZo\\xeb\\u201d\n"


def test_columns_are_aligned_where_characters_are_wide(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["a", "n", "b"], [["名前", "1", "x"], ["e\u0301", "10", "y"]], right="n")
    assert capsys.readouterr().out == "a      n  b\n名前   1  x\ne\u0301     10  y\n"


def test_a_long_cell_is_cut_visibly_except_in_the_last_column(
    capsys: pytest.CaptureFixture[str],
) -> None:
    long = "名" * _WIDEST_CELL
    print_table(["a", "b"], [[long, long]])
    first, last = capsys.readouterr().out.splitlines()[1].split()
    assert first == "名" * ((_WIDEST_CELL - 1) // 2) + "…"
    assert last == long
