"""Every notebook answers one question, and is kept with what came out.

The browser's tests run them all in JupyterLab.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.notebooks.running import FOLDER, complaints_of, is_notice, pictures_of, running_for

if TYPE_CHECKING:
    from pathlib import Path

    from nbformat import NotebookNode

NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
IMPORTED = {"IPython", "kstoolkit", "matplotlib", "pandas", "psutil", "pyspark"}
FROM_PYTHON = {
    *("atexit", "datetime", "importlib", "pathlib", "subprocess", "sys", "time", "tracemalloc")
}
MOST_CODE_CELLS = 12
LARGEST_BYTES = 1_500_000
PLACE = re.compile(r"(?<![\w.:/])/(?:tmp|work|home|root|usr|opt|var|Users|private)/[\w.-]+")
TRACEBACK = "Traceback (most recent call last)"


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture
def kept(name: str) -> NotebookNode:
    path = FOLDER / f"{name}.ipynb"
    import nbformat

    read: NotebookNode = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    return read


def test_there_are_fourteen_numbered_notebooks() -> None:
    assert sorted(int(name.partition("_")[0]) for name in NAMES) == list(range(1, 15))


def test_a_picture_before_the_first_cell_is_what_a_cell_came_to(
    name: str, kept: NotebookNode
) -> None:
    path = FOLDER / "pictures" / f"{name}.png"
    begins_with = f"](pictures/{name}.png)" in kept.cells[0].source
    assert ([path.read_bytes()] if begins_with else []) == pictures_of(kept)


def test_the_index_names_every_notebook_by_its_title(name: str, kept: NotebookNode) -> None:
    assert f"[{_title(kept)}]({name}.ipynb)" in (FOLDER / "README.md").read_text()


def test_a_notebook_begins_with_a_question_and_ends_with_its_answer(kept: NotebookNode) -> None:
    headings = [_heading(cell) for cell in kept.cells if cell.cell_type == "markdown"]
    assert _title(kept).endswith("?")
    assert [heading for heading in headings if heading.startswith("# ")] == headings[:1]
    assert "answer" in headings[-1].lower()
    last = [cell for cell in kept.cells if cell.cell_type == "code"][-1]
    assert last.outputs, "the answer is a figure that this notebook measured"


def test_a_notebook_is_short(kept: NotebookNode) -> None:
    assert 0 < len(_code(kept)) <= MOST_CODE_CELLS
    assert max(source.count("\n") for source in _code(kept)) < 25


def test_a_notebook_imports_what_a_person_would(kept: NotebookNode) -> None:
    trees = [ast.parse(re.sub(r"(?m)^[%!].*$", "", source)) for source in _code(kept)]
    assert {module for tree in trees for module in _imported(tree)} <= IMPORTED | FROM_PYTHON


def test_a_notebook_is_kept_with_its_outputs(name: str, kept: NotebookNode) -> None:
    cells = [cell for cell in kept.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert sum(bool(cell.outputs) for cell in cells) >= len(cells) / 2
    assert (FOLDER / f"{name}.ipynb").stat().st_size < LARGEST_BYTES
    assert "widgets" not in kept.metadata


def test_kept_outputs_name_no_place_of_a_machine_and_no_error(kept: NotebookNode) -> None:
    outputs = [output for cell in kept.cells for output in cell.get("outputs", ())]
    assert {output.output_type for output in outputs} <= {
        *("display_data", "execute_result", "stream")
    }
    told = json.dumps([_without_pictures(output) for output in outputs], ensure_ascii=False)
    assert not PLACE.findall(told)
    assert TRACEBACK not in told
    assert complaints_of(kept) == ""


def test_answers_are_markdown_tables_and_plots_not_printed_prose_nor_reprs(
    kept: NotebookNode,
) -> None:
    outputs = [output for cell in kept.cells for output in cell.get("outputs", ())]
    assert [each.text for each in outputs if each.output_type == "stream"] == []
    bare = [each.data for each in outputs if set(each.data) == {"text/plain"}]
    assert bare == []


def test_no_plot_is_kept_as_a_white_card_on_a_dark_page(kept: NotebookNode) -> None:
    outputs = [output for cell in kept.cells for output in cell.get("outputs", ())]
    assert not [each for each in outputs if "needs_background" in each.get("metadata", {})]


def test_whatever_went_to_stderr_is_a_complaint() -> None:
    printed = {"name": "stdout", "text": "done"}
    warned = {"name": "stderr", "text": "x.py:1: UserWarning: of two\n"}
    assert complaints_of(_of_one_cell([printed, warned])) == "x.py:1: UserWarning: of two"
    assert complaints_of(_of_one_cell([printed])) == ""


def test_a_notice_of_what_is_fetched_for_kafka_is_not_kept() -> None:
    notices = [
        "Downloading kafka-clients 3.9.2 into the cache.\nDownloaded 4 jars, 9.5 MiB.\n",
        "The connector to Kafka of Spark 9.9.9 is out of reach. That of 4.2.0 stands in.\n",
        "Made the topic 'counts': 4 partitions, cleanup by compact.\n",
    ]
    others = ["Kafka can't be read.\n", f"{notices[0]}Kafka can't be read.\n", ""]
    outputs = [{"name": "stdout", "text": text} for text in [*notices, *others]]
    told = [is_notice(each) for each in _of_one_cell(outputs).cells[0].outputs]
    assert told == [True] * 3 + [False] * 3


def test_what_outlives_its_kernel_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "any.ipynb"
    told = os.environ | {"JPY_SESSION_NAME": str(path)}
    with subprocess.Popen(["sleep", "60"], env=told, start_new_session=True) as left:
        assert running_for(path) == ["sleep 60"]
        left.kill()
    assert running_for(path) == []


def _of_one_cell(outputs: list[dict[str, str]]) -> NotebookNode:
    import nbformat

    made: NotebookNode = nbformat.from_dict({"cells": [{"outputs": outputs}]})  # type: ignore[no-untyped-call]
    return made


def _title(notebook: NotebookNode) -> str:
    return _heading(notebook.cells[0]).removeprefix("# ")


def _heading(cell: NotebookNode) -> str:
    first: str = cell.source.partition("\n")[0]
    return first if first.startswith("#") else ""


def _code(notebook: NotebookNode) -> list[str]:
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


def _imported(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


def _without_pictures(output: NotebookNode) -> dict[str, object]:
    data = {kind: text for kind, text in output.get("data", {}).items() if "image/" not in kind}
    told = re.sub(r"base64,[\w+/=]+", "", json.dumps(data, ensure_ascii=False))
    return {"data": told, "text": output.get("text", "")}
