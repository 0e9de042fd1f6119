"""CONTRIBUTING's examples of a rule and of a panel are such as the house takes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kstoolkit.environment import Check, Diagnosis
from kstoolkit.errors import ConfigurationError
from kstoolkit.findings import rules, scoring
from kstoolkit.findings.baselines import Baselines
from kstoolkit.findings.calibration import Everyone
from kstoolkit.widgets import panel
from kstoolkit.windows import as_window

if TYPE_CHECKING:
    from types import ModuleType

    from kstoolkit.findings.scoring import Brief

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
MADE_BY_THE_READER = {"kstoolkit/widgets/machine.py", "tests/widgets/test_machine.py"}
HOUR = 3_600_000


def programs(heading: str) -> list[str]:
    part = PAGE.split(f"\n### {heading}\n")[1].split("\n### ")[0]
    found = re.findall(r"^ *```python\n(.*?)^ *```$", part, flags=re.MULTILINE | re.DOTALL)
    return [re.sub(r"^   ", "", program, flags=re.MULTILINE) for program in found]


def run_in(module: ModuleType, program: str, **more: Any) -> dict[str, Any]:
    """Run a program among a module's names, as if it stood there, and return its own."""
    names = vars(module) | more
    exec(compile(program, "CONTRIBUTING.md", "exec"), names)  # noqa: S102 - our own page
    return names


@pytest.fixture(scope="module")
def newcomer() -> Any:
    return run_in(rules, programs("A rule")[0])["Newcomer"]


def test_the_rule_has_a_name_and_takes_what_makes_sense(newcomer: Any) -> None:
    assert newcomer("1 hour", 50).name == "Newcomer above 50 per 1 hour"
    assert newcomer("1 hour", 50).window == as_window("1 hour")
    with pytest.raises(ConfigurationError, match="count"):
        newcomer("1 hour", "many")


@pytest.fixture(scope="module")
def last_hour() -> tuple[pa.Table, Brief]:
    """Return the counts of an hour after thirty, and what is known of all users by then."""
    hours = [{f"user {n}": 1 + n % 3 for n in range(300)} for _ in range(30)]
    hours.append({"user 7": 90, "stranger": 90, "guest": 51, "shy": 50})
    baselines, everyone = Baselines.empty(HOUR), Everyone(HOUR)
    for number, hour in enumerate(hours):
        counts = {"window_start_ms": [number * HOUR] * len(hour), "user": [*hour]}
        counts |= {"action": ["x"] * len(hour), "count": [*hour.values()]}
        closed = baselines.close(pa.table(counts), (number + 1) * HOUR)
        everyone.add([closed.moments], [closed.facts])
    return closed.material, everyone.brief(len(hours) * HOUR)


def test_the_rule_finds_who_has_no_history_and_nobody_else(
    newcomer: Any, last_hour: tuple[pa.Table, Brief]
) -> None:
    (counts, brief), rule = last_hour, newcomer("1 hour", 50)
    find = run_in(scoring, programs("A rule")[1], Newcomer=newcomer)["_new"]
    chosen = find(rule, scoring._Evidence(counts, brief))
    assert sorted(counts.take(pa.array(chosen))["user"].to_pylist()) == ["guest", "stranger"]
    still_open = counts.append_column("is_open", pa.array([True] * len(counts)))
    assert not len(find(rule, scoring._Evidence(still_open, brief)))
    assert not len(find(rule, scoring._Evidence(counts, None)))


def test_the_panel_lives_shows_and_escapes() -> None:
    made = run_in(panel, programs("A panel")[0])["MachinePanel"]
    mended = Check("<b>Java</b>", ok=False, found="none")
    shown = made(Diagnosis((mended,)))
    assert "&lt;b&gt;Java" in shown.static_html()
    shown.face._handle_custom_msg({"pressed": ["again", 0]}, [])
    assert "Python" in shown.static_html()


def test_each_file_that_the_page_names_is_there() -> None:
    paths = set(re.findall(r"`((?:kstoolkit|tests|docs)/[\w./]*\w\.\w+)`", PAGE))
    assert len(paths) > 15
    assert {path for path in paths if not (ROOT / path).exists()} == MADE_BY_THE_READER


def test_each_private_name_that_the_page_gives_is_in_the_package() -> None:
    names = set(re.findall(r"`(_[a-zA-Z]\w+)`", PAGE))
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "kstoolkit").rglob("*.py"))
    assert len(names) > 8
    assert [name for name in sorted(names) if not re.search(rf"\b{name}\b", text)] == []
