from __future__ import annotations

import ast
import copy
import json
import pickle
import re
from pathlib import Path

import pytest

import kstoolkit
from kstoolkit.cli.terminal import in_flags
from kstoolkit.errors import Option, Sentence, naming
from kstoolkit.records import Figure, Source
from tests.cli.commands import given

PACKAGE = Path(kstoolkit.__file__).parent
NAMES = "action|bound_bytes|column_family|look|other_folders|over|overwrite|pid|profile|retention"
NAMES += "|scratch|since|topic|total|until|window_size"
BY_HAND = re.compile(rf"(?<![\w(])(?:{NAMES})=(?=[\s.:;,\[]|True|$)")
SAYS_BOTH = {"errors.py", "finding.py", "shadow.py", "sides.py"}
"""Where a sentence has other words at a terminal, and so is written twice."""


@pytest.mark.parametrize(
    ("told", "in_python", "at_terminal"),
    [
        (naming("give {retention}."), "give retention=.", "give --retention."),
        (
            naming("by {family}: {names}", family=Option("column_family", "..."), names="a, {b}"),
            "by column_family=...: a, {b}",
            "by --column-family: a, {b}",
        ),
        (
            naming("{why}: or {window_size}", why=naming("no {pid}")),
            "no pid=: or window_size=",
            "no --pid: or --window-size",
        ),
        (
            naming("with {folders}", folders=Option("other_folders", "[...]", "--other-folder F")),
            "with other_folders=[...]",
            "with --other-folder F",
        ),
    ],
)
def test_options_are_named_as_python_has_them_and_as_flags(
    told: Sentence, in_python: str, at_terminal: str
) -> None:
    assert (told, in_flags(told)) == (in_python, at_terminal)
    assert json.dumps(told) == json.dumps(in_python)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])  # noqa: S301 - its own
def test_a_sentence_that_travels_keeps_both(again: object) -> None:
    assert callable(again)
    assert again(naming("give {pid}")).at_terminal == "give --pid"


def test_what_is_in_a_record_is_said_so_and_what_is_the_users_stays() -> None:
    figure = Figure("rss", None, Source.SYSTEM, naming("not given: {pid}"))
    [said] = in_flags((figure,))
    assert said.text == "unknown (not given: --pid)"
    told = {"key": "pid=", "unknown": {"rss": naming("give {pid}")}, "n": [1, (2.0, None)]}
    assert in_flags(told) == told | {"unknown": {"rss": "give --pid"}}


def test_no_text_of_the_package_names_an_option_by_hand() -> None:
    for path in PACKAGE.rglob("*.py"):
        if path.name not in SAYS_BOTH and path.parent.name != "cli":
            for text in texts_in(ast.parse(path.read_text(encoding="utf-8"))):
                assert not BY_HAND.search(text), (path.name, text)


def texts_in(tree: ast.AST) -> list[str]:
    """Return the texts of a module; not docstrings, and of one with values in it the whole."""
    passed = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            passed |= {id(part) for part in node.values}
            parts = (getattr(part, "value", None) for part in node.values)
            texts.append("".join(part if isinstance(part, str) else "{}" for part in parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts += [node.value] * (id(node) not in passed)
    return texts


@pytest.mark.parametrize("command", ["inspect", "levels", "rows"])
def test_the_commands_say_it(command: str, tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "CURRENT").write_text("MANIFEST-000001\n")
    answer = given(command, tmp_path / "store", "--other-folder", tmp_path / "nowhere")
    assert answer.code == 2
    assert "Hint: --other-folder takes folders that there are." in answer.err
