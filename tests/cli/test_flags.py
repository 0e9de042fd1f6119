from __future__ import annotations

import re
from pathlib import Path

import pytest

import kstoolkit
from kstoolkit.cli.terminal import hints_in_flags, in_flags, reasons_in_flags
from kstoolkit.errors import InputError
from tests.cli.commands import given

ARGUMENT = re.compile(r"(?<![\w(])(?:look|other_folders|bound_bytes|pid|scratch)=")
QUOTED = re.compile(r'"([^"\n]*)"')


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("its place is none: look=True looks at its rows", "its place is none: --look looks"),
        ("other_folders= takes folders that there are.", "--other-folder takes folders"),
        ("with other_folders=[...]; other_folders=[] opens", "PATH; in Python, other_folders=[] o"),
        ("with other_folders=['a/<b>/SSTs'].", "with --other-folder 'a/<b>/SSTs'."),
        ("Give scratch= (or TMPDIR) another one.", "Set TMPDIR to another one."),
        ("no pid: pid=..., or profile=...", "no pid: --pid, or --profile"),
        ("speak of it: give retention=", "give --retention"),
        ("by the longest: give retention=.", "give --retention."),
        ("Name another, or say overwrite=True.", "or say --overwrite."),
        ("Choose one by column_family=...: seen, total.", "by --column-family: seen, total."),
        ("Say of which, by window_size=.", "by --window-size."),
        ("Read another version of the state: its", "Read another --version of the state"),
        ("Give the key's bytes instead.", "in hex, as --key 0x00ff."),
        ("Give key=... with the values", "Give --key with the values"),
        ("Give action= or total=True.", "Give --action or --total."),
        ("rows: give rows(since=..., until=...), or raise disk_bytes.", "--since or --until."),
        ("in Python: tickers=...; a_pid=3", "in Python: tickers=...; a_pid=3"),
    ],
)
def test_arguments_are_named_as_the_options_they_are(told: str, said: str) -> None:
    assert said in in_flags(told)


def test_no_hint_of_the_rocksdb_rooms_speaks_python_after_that() -> None:
    package = Path(kstoolkit.__file__).parent
    hints = [
        text
        for file in (package / "rocksdb" / "files").glob("*.py")
        for text in QUOTED.findall(file.read_text(encoding="utf-8"))
        if ARGUMENT.search(text)
    ]
    assert len(hints) >= 5
    for hint in hints:
        assert not ARGUMENT.search(in_flags(hint).replace("in Python, other_folders=[]", ""))


def test_no_sentence_of_the_rooms_of_stores_speaks_python_after_that() -> None:
    package = Path(kstoolkit.__file__).parent / "stores"
    names = "retention|overwrite|column_family|window_size|action|total"
    argument = re.compile(rf"(?<![\w(])(?:{names})=(?=[\s.:]|True|$)")
    told = [
        text
        for room in ("rows", "growth", "comparing", "spark")
        for file in (package / room).glob("*.py")
        for text in QUOTED.findall(file.read_text(encoding="utf-8"))
        if argument.search(text)
    ]
    assert len(told) >= 6
    for sentence in told:
        assert not argument.search(in_flags(sentence)), sentence


def test_what_the_user_calls_so_is_no_sentence() -> None:
    told = {"keys": [{"key": {"unknown": 5, "verdict": ["window_size=."]}}]}
    assert reasons_in_flags(told)["keys"][0]["key"]["unknown"] == 5


def test_a_hint_is_put_so_and_the_error_goes_on() -> None:
    error = InputError("There is none.", hint="Give other_folders=[...].")
    with pytest.raises(InputError, match=r"There is none\."), hints_in_flags():
        raise error
    assert error.hint == "Give --other-folder PATH."


@pytest.mark.parametrize("command", ["inspect", "levels"])
def test_the_commands_say_it(command: str, tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "CURRENT").write_text("MANIFEST-000001\n")
    answer = given(command, tmp_path / "store", "--other-folder", tmp_path / "nowhere")
    assert answer.code == 2
    assert "Hint: --other-folder takes folders that there are." in answer.err
