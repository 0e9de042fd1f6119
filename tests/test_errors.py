from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from kstoolkit import errors
from kstoolkit.errors import (
    ColumnError,
    FormatError,
    InputError,
    KstoolkitError,
    OutputError,
    UserError,
    local_folder,
)

CLASSES = [
    value
    for value in vars(errors).values()
    if inspect.isclass(value) and issubclass(value, Exception)
]
TREE = [each for each in CLASSES if not issubclass(each, Warning)]


def test_the_hint_stands_on_a_line_of_its_own() -> None:
    assert str(KstoolkitError("What.", hint="Do this.")) == "What.\nHint: Do this."
    assert str(KstoolkitError("What.")) == "What."


def test_message_and_hint_can_be_read_apart() -> None:
    error = InputError("What.", hint="Do this.")
    assert (error.message, error.hint) == ("What.", "Do this.")


def test_every_error_is_in_the_tree_and_public() -> None:
    assert all(issubclass(error, KstoolkitError) for error in TREE)
    assert not [each.__name__ for each in CLASSES if each.__name__.startswith("_")]


def test_what_the_user_can_mend_is_told_from_faults() -> None:
    faults = {error.__name__ for error in TREE if not issubclass(error, UserError)}
    assert faults == {
        *("FormatError", "KafkaError", "KstoolkitError"),
        *("OnBatchFailed", "RestartsSpent", "RunFailed", "UnreadableFile"),
    }


def test_a_misspelt_column_gets_the_nearest_name() -> None:
    error = ColumnError.missing("nmaespace", ["user", "namespace"], "a.json")
    assert error.hint == "Did you mean 'namespace'? It has: namespace, user."


@pytest.mark.parametrize(
    ("available", "hint"), [(["user"], "It has: user."), ([], "It has: none.")]
)
def test_a_column_like_no_other_gets_the_list_alone(available: list[str], hint: str) -> None:
    assert ColumnError.missing("xyz", available, "a.json").hint == hint


def test_an_unknown_version_names_both_versions() -> None:
    message = str(FormatError.version("CountBlock", 9, 1))
    assert "version 9" in message
    assert "version 1" in message


ELSEWHERE = ["s3://bucket/x", "S3A://bucket/x", "dbfs:/x", "hdfs:///x", "gs://b", "file://host/x"]


@pytest.mark.parametrize("given", [*ELSEWHERE, Path("s3://bucket/x")])
def test_a_folder_of_another_file_system_is_refused(given: str | Path) -> None:
    with pytest.raises(OutputError, match=f"^'{given}' is no folder of this machine"):
        local_folder(given)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("file:/x/y", "/x/y"),
        ("file:///x/y", "/x/y"),
        ("FILE://localhost/x", "/x"),
        (Path("/x/a b").as_uri(), "/x/a b"),
        (Path("/x/a%20b"), "/x/a%20b"),
        ("runs:2026/x", "runs:2026/x"),
        ("10:/x", "10:/x"),
    ],
)
def test_a_folder_of_this_machine_is_a_path(given: str | Path, meant: str) -> None:
    assert local_folder(given) == Path(meant)
