from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from kstoolkit.views.parts import (
    Point,
    bars,
    buttons,
    code,
    facts,
    field,
    form,
    lines,
    numbers,
    said,
    sentence,
    sizes,
    source,
    table,
    words,
)
from kstoolkit.views.records import rows_of
from kstoolkit.views.still import still
from tests.plots.made import HOSTILE


def test_what_stands_still_has_the_same_words_and_figures_as_the_part() -> None:
    part = table(
        "Users",
        "users",
        [words("user", pa.array(["Anna", "<b>"])), numbers("events", np.array([1_200, 7]))],
    )
    html = still(part)
    assert re.findall(r"<bdi>(.*?)</bdi>", html) == ["Anna", "1,200", "&lt;b&gt;", "7"]
    assert "<caption>2 users</caption>" in html


def test_a_long_table_says_that_the_first_rows_are_shown() -> None:
    part = table("Users", "users", [words("user", pa.array([f"u{n}" for n in range(30)]))])
    html = still(part)
    assert "the first 20 of 30 users" in html
    assert "u19" in html
    assert "u20" not in html


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_are_texts_in_every_part(name: str) -> None:
    parts = [
        sentence(f"{name} did.", name),
        said(name),
        facts([(name, name)]),
        table(name[:20], "rows", [words("name", pa.array([name])), sizes(name, [1])]),
        form(name, field(name, name, name, type="choice", options=[(name, name)])),
        code(name, name),
        bars(name, [(name, name, [(name, 1, name)])], limit=(2, name)),
        lines("Courses", [(name, [0, 1])], [(name, [[None, (1, "1")]])]),
    ]
    for part in parts:
        html = still(part)
        assert "<script" not in html
        assert "\u202e" not in html
        assert "\x1b" not in html


def test_charts_stand_still_as_their_last_figures_and_what_is_alike_as_its_sentence() -> None:
    points: list[list[Point]] = [[(1, "1 B"), (2, "2 B")], [(3, "3 B"), None]]
    part = lines("Costs", [("a", [0, 1]), ("b", [0, 1])], [("disk", points)], alike=["No stall."])
    html = still(part)
    assert re.findall(r"<bdi>(.*?)</bdi>", html) == ["disk", "2 B", "unknown"]
    assert "<p>No stall.</p>" in html


def test_of_more_rows_than_are_sent_it_is_said_how_many_there_are() -> None:
    frame = pd.DataFrame({"number": np.arange(10_001), "rate": [np.inf, *[1.0] * 10_000]})
    part = rows_of(frame)
    assert part["rows"] == 10_000
    assert part["noun"] == "rows, the first of 10,001"
    assert part["columns"][1]["values"][:2] == [None, 1.0]
    assert part["columns"][1]["texts"][0] == "inf"
    assert rows_of(frame[:1])["one"] == "row"


def test_nothing_said_is_no_part() -> None:
    assert (said(""), facts([]), buttons("none")) == ({}, {}, {})


def test_the_script_reads_no_markup_and_loads_nothing() -> None:
    script = source("view.js")
    for way in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "fetch(",
    ):
        assert way not in script
    assert "http" not in script.replace("http://www.w3.org/2000/svg", "")
    assert "url(" not in source("view.css")
    assert "@import" not in source("view.css")
