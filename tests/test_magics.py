"""Magics in a shell of IPython's own, without a notebook."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from rocksdict import Options, Rdict
from traitlets.config import Config

from tests.plots.made import found, made_run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kstoolkit.pipeline.run import Run


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.chdir(tmp_path)
    settings = Config()
    settings.HistoryManager.enabled = False
    InteractiveShell.clear_instance()
    made = InteractiveShell.instance(config=settings, ipython_dir=str(tmp_path / "ipython"))
    made.run_line_magic("load_ext", "storemagic")  # as IPython does wherever it starts
    yield made
    InteractiveShell.clear_instance()


@pytest.fixture
def loaded(shell: Any) -> Any:
    shell.run_line_magic("load_ext", "kstoolkit")
    return shell


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return made_run(tmp_path / "out", findings=[found()])


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "my stores" / "counts"
    path.parent.mkdir()
    written = Rdict(str(path), Options(raw_mode=True))
    written[b"anna"] = b"3"
    written.flush()
    written.close()
    return path


def panel(shell: Any, line: str) -> str:
    """Return the kind of the panel that a line gives, and close it."""
    done = shell.run_cell(f"_panel = {line}\n_panel.close()")
    done.raise_error()
    return type(shell.user_ns["_panel"]).__name__


def said(shell: Any, line: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what a line that fails says, all of it."""
    capsys.readouterr()
    done = shell.run_cell(line)
    assert not done.success
    output = capsys.readouterr()
    return output.out + output.err


def test_findings_are_those_of_a_folder_or_of_a_variable(loaded: Any, run: Run) -> None:
    assert panel(loaded, "%findings") == "FindingsPanel"
    assert panel(loaded, "%findings out") == "FindingsPanel"
    assert panel(loaded, f'%findings "{run.folder.path}"') == "FindingsPanel"
    loaded.user_ns |= {"run": run, "told": run.findings, "place": str(run.folder.path)}
    for name in ("run", "told", "place", "{place}"):
        assert panel(loaded, f"%findings {name}") == "FindingsPanel"


def test_a_profile_is_named_or_held_by_a_variable(loaded: Any) -> None:
    for line in ("%profile", "%profile low_disk", "%profile 'low_disk'"):
        assert panel(loaded, line) == "ProfilePanel"
    loaded.run_cell("import kstoolkit as kst; mine = kst.Profile(name='mine')").raise_error()
    assert panel(loaded, "%profile mine") == "ProfilePanel"


def test_memory_is_that_of_a_store_or_a_formula(loaded: Any, store: Path) -> None:
    loaded.run_cell("import kstoolkit as kst; plan = kst.plan_memory('spark')").raise_error()
    for line in ("%memory", "%memory plan", f"%memory {store}"):
        assert panel(loaded, line) == "MemoryPanel"


def test_a_store_is_named_by_its_folder_with_or_without_quotes(loaded: Any, store: Path) -> None:
    for line in (f"%store {store}", f"%store '{store}'", "%store my stores", "%store ./my stores"):
        assert panel(loaded, line) == "StorePanel"


def test_the_store_of_ipython_keeps_variables_as_before(
    loaded: Any, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store.rename(store.parent.parent / "kept")
    loaded.run_cell("kept = 7\n%store kept").raise_error()
    assert "Stored 'kept' (int)" in capsys.readouterr().out, "a variable, though a folder, too"
    assert panel(loaded, "%store ./kept") == "StorePanel"
    loaded.run_cell("%store\ndel kept\n%store -r kept").raise_error()
    assert "kept -> 7" in " ".join(capsys.readouterr().out.split())
    assert loaded.user_ns["kept"] == 7
    loaded.run_cell("%store kept >kept.txt\n%store -d kept").raise_error()
    assert (store.parent.parent / "kept.txt").read_text().strip() == "7"
    assert "UsageError: Unknown variable 'nothing'" in said(loaded, "%store nothing", capsys)


def test_where_ipython_has_no_store_of_its_own_every_line_is_for_stores(
    shell: Any, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del shell.magics_manager.magics["line"]["store"]
    shell.run_line_magic("load_ext", "kstoolkit")
    store.rename(store.parent.parent / "counts")
    shell.user_ns["counts"] = 7
    assert panel(shell, "%store counts") == "StorePanel"
    assert "There is no folder 'nothing'." in said(shell, "%store nothing", capsys)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("%findings", "There is no folder 'out'. Give the folder of a run"),
        ("%findings empty", "No run in"),
        ("%findings number", "There is no panel for an int."),
        ("%store ./nowhere", "There is no folder 'nowhere'."),
        ("%memory empty", "empty"),
        ("%profile nonsense", "nonsense"),
        ("%memory a\x00b", "There is no folder"),
    ],
)
def test_what_is_wrong_is_one_sentence_without_a_traceback(
    loaded: Any, tmp_path: Path, line: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    loaded.user_ns["number"] = 7
    told = said(loaded, line, capsys).strip()
    assert told.startswith("UsageError: ")
    assert sentence in told
    assert len(told.splitlines()) == 1


def test_a_line_is_never_run(loaded: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for line in ("__import__('os').mkdir('made')", "$(mkdir made)", "; mkdir made", "`mkdir made`"):
        for name in ("findings", "memory", "profile"):
            assert "UsageError" in said(loaded, f"%{name} {line}", capsys)
    loaded.run_cell("import pathlib; made = pathlib.Path('made').exists()").raise_error()
    assert loaded.user_ns["made"] is False


def test_unloading_leaves_the_magics_that_were_there_before(shell: Any) -> None:
    before = dict(shell.magics_manager.magics["line"])
    for _ in range(2):
        shell.run_line_magic("load_ext", "kstoolkit")
        assert shell.find_line_magic("findings") is not None
        shell.run_line_magic("reload_ext", "kstoolkit")
        shell.run_line_magic("unload_ext", "kstoolkit")
        assert shell.magics_manager.magics["line"] == before


def test_unloading_leaves_what_somebody_else_put_there_since(loaded: Any) -> None:
    loaded.register_magic_function(print, "line", "memory")
    loaded.run_line_magic("unload_ext", "kstoolkit")
    assert loaded.find_line_magic("memory") is print
    assert loaded.find_line_magic("findings") is None


def test_a_terminal_shows_a_panel_as_text() -> None:
    lines = "%load_ext kstoolkit\n%profile low_disk\n%store nothing\n"
    done = subprocess.run(
        [sys.executable, "-m", "IPython", "--simple-prompt", "--no-banner", "--quick"],
        input=lines,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "ProfilePanel(low_disk: 12 options that differ from kafka_streams)" in done.stdout
    assert "UsageError: Unknown variable 'nothing'" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
