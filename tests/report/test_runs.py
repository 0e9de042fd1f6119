from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstoolkit.errors import ConfigurationError, OutputError
from kstoolkit.markup import element, plain
from kstoolkit.pipeline.run import LevelCounts
from kstoolkit.report import (
    DeadLetters,
    DeadLetterSample,
    Origin,
    ReportContent,
    ReportFinding,
    ReportUser,
    render_report,
    write_report,
)
from kstoolkit.windows import as_window
from tests.report.pages import HOSTILE, Page, check_harmless

if TYPE_CHECKING:
    from pathlib import Path

HOUR = 3_600_000
TEN = 1_442_052_000_000
NONE = np.array([], dtype=np.int64)


def a_series(**changes: Any) -> LevelCounts:
    options: dict[str, Any] = {
        "times_ms": TEN + np.arange(-10, 10) * HOUR,
        "counts": np.where(np.arange(20) == 10, 61, 7),
        "window": as_window("1 hour"),
        "flagged_ms": np.array([TEN]),
        "expected_low": 2,
        "expected_high": 14,
    }
    return LevelCounts(**(options | changes))


def a_finding(**changes: Any) -> ReportFinding:
    options: dict[str, Any] = {
        "sentence": "ClueBot NG did Main 61 times between 10:00 and 11:00 UTC.",
        "rule": "Unusual 1 hour",
        "user": "ClueBot NG",
        "action": "Main",
        "window": "1 hour",
        "window_start_ms": TEN,
        "window_end_ms": TEN + HOUR,
        "count": 61,
        "expected": "2 to 14",
        "probability": "3 in 10⁹",
        "first_seen_ms": TEN + 60_000,
        "other_levels": [("1 minute", 9), ("1 day", 1_412)],
        "series": a_series(),
    }
    return ReportFinding(**(options | changes))


def a_content(**changes: Any) -> ReportContent:
    origin = Origin(
        generated_at=datetime(2015, 9, 13, 8, 30, tzinfo=UTC),
        versions=[("kstoolkit", "0.1.0"), ("Spark", "4.3.0")],
        command="kstoolkit run data --out out",
        first_event_ms=TEN,
        last_event_ms=TEN + 2 * HOUR,
    )
    options: dict[str, Any] = {
        "title": "Edits of a day",
        "origin": origin,
        "summary": [("Events", "39,244"), ("Late", "unknown (not a live run)")],
        "findings": [a_finding()],
        "users": [ReportUser(user="ClueBot NG", score=12.345, reason="ClueBot NG was busy.")],
        "dead_letters": DeadLetters(
            counts=[("unparsable", 1_200), ("no_user", 3)],
            samples=[
                DeadLetterSample(reason="no_user", raw='{"user":\nnull}', file="a.json", batch=4)
            ],
        ),
    }
    return ReportContent(**(options | changes))


def hostile_content(text: str, series: LevelCounts | None) -> ReportContent:
    finding = a_finding(
        sentence=f"{text} did {text} 61 times.",
        rule=text,
        user=text,
        action=text,
        window=text,
        expected=text,
        probability=text,
        other_levels=[(text, 3)],
        series=series,
    )
    letters = DeadLetters(
        counts=[(text, 2)], samples=[DeadLetterSample(reason=text, raw=text, file=text, batch=1)]
    )
    users = [ReportUser(user=text, score=1.0, reason=f"{text}: many")]
    origin = Origin(
        generated_at=datetime(2015, 9, 13, tzinfo=UTC), versions=[(text, text)], command=text
    )
    return ReportContent(
        title=text,
        origin=origin,
        summary=[(text, text)],
        findings=[finding],
        users=users,
        dead_letters=letters,
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text_everywhere(text: str, tmp_path: Path) -> None:
    path = write_report(tmp_path / "report.html", hostile_content(text, a_series()))
    html = path.read_text(encoding="utf-8")
    page = Page(html)
    check_harmless(page)
    assert not set("\x00\x07\x1b\u202e\u2066") & set(html)
    for markup in ("<script", "<img", "]]>", "<!--"):
        assert markup not in html


@settings(max_examples=60)
@given(st.text(st.characters(exclude_categories=()), max_size=40))
def test_any_text_leaves_the_page_well_formed(text: str) -> None:
    html = render_report(hostile_content(text, None))
    check_harmless(Page(html))
    html.encode()


def test_unseen_characters_are_shown_by_their_code_points() -> None:
    page = Page(
        render_report(a_content(users=[ReportUser(user="a\x00\u202eb", score=1, reason="")]))
    )
    assert "aU+0000U+202Eb" in page.text


def test_names_are_isolated_from_the_direction_of_what_stands_around_them() -> None:
    name = "משתמש"
    html = render_report(
        a_content(findings=[a_finding(user=name, sentence=f"{name} did Main 61 times.")])
    )
    assert f"<bdi>{name}</bdi> did <bdi>Main</bdi> 61 times." in html


def test_very_long_text_loses_its_middle_and_says_how_much() -> None:
    letters = DeadLetters(
        counts=[("unparsable", 1)],
        samples=[DeadLetterSample(reason="unparsable", raw="a" * 5_000 + "the end")],
    )
    page = Page(render_report(a_content(dead_letters=letters)))
    assert "4,207 characters left out" in page.text
    assert "the end" in page.text


def test_the_page_loads_nothing_and_tells_the_browser_so() -> None:
    html = render_report(a_content())
    page = Page(html)
    check_harmless(page)
    (policy,) = [attrs["content"] for _, attrs in page.elements if attrs.get("http-equiv")]
    rules = dict(rule.split(" ", 1) for rule in (policy or "").split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["style-src"] == "'unsafe-inline'"
    assert rules["img-src"] == "data:"
    assert "http://" not in html
    assert "https://" not in html
    assert "@import" not in html


def test_every_fact_of_the_record_is_on_the_page() -> None:
    page = Page(render_report(a_content()))
    facts = [
        "Edits of a day",
        "2015-09-12 10:00 to 12:00 UTC · 1 finding · 1 user scored",
        "Events39,244",
        "Lateunknown (not a live run)",
        "ClueBot NG did Main 61 times between 10:00 and 11:00 UTC.",
        "RuleUnusual 1 hour",
        "Window2015-09-12 10:00 to 11:00 UTC",
        "Count61",
        "Expected2 to 14",
        "Chance of this or more3 in 10⁹",
        "In other windows1 minute: 9 · 1 day: 1,412",
        "First seen2015-09-12 10:01 UTC",
        "12.35",
        "ClueBot NG was busy.",
        "1,203 records not counted",
        "unparsable1,200",
        "no_user · a.json · batch 4",
        '{"user":\nnull}',
        "1 of 1,203 records shown.",
        "Made2015-09-13 08:30 UTC",
        "kstoolkit run data --out out",
        "Spark4.3.0",
    ]
    assert [fact for fact in facts if fact not in page.text] == []


def test_the_figure_shows_the_range_and_says_what_it_is_to_those_who_cannot_see_it() -> None:
    page = Page(render_report(a_content()))
    (drawing,) = [attrs for tag, attrs in page.elements if tag == "svg"]
    assert drawing["role"] == "img"
    assert drawing["aria-label"] == (
        "Main by ClueBot NG. Bar chart of 20 windows with counts from 7 to 61."
    )
    assert "expected2\u201314" in page.text
    assert "1 of 20 windows flagged" in page.text


def test_a_figure_takes_its_colours_and_font_from_the_page() -> None:
    html = render_report(a_content())
    drawn = html[html.index("<svg") : html.index("</svg>")]
    style = html[: html.index("</style>")]
    assert "font-family" not in drawn
    assert not re.search(r"#[0-9a-f]{6}", drawn)
    for variable in set(re.findall(r"var\((--\w+)\)", drawn)):
        assert f"{variable}:" in style


def test_the_finding_s_own_window_is_drawn_even_if_its_count_was_not_recorded() -> None:
    series = a_series(
        times_ms=np.array([TEN - HOUR]), counts=np.array([12]), flagged_ms=NONE, min_count=10
    )
    page = Page(render_report(a_content(findings=[a_finding(count=9, series=series)])))
    assert "1 of 2 windows flagged" in page.text
    assert "one without a bar had fewer than 10 events" in page.text


def test_what_is_left_out_is_announced() -> None:
    findings = [a_finding(series=None)] * 30
    users = [ReportUser(user=f"user {number}", score=1, reason="") for number in range(30)]
    page = Page(render_report(a_content(findings=findings, num_findings=153, users=users)))
    assert "Top 20 of 153 findings shown" in page.text
    assert "Top 20 of 30 users shown" in page.text
    assert len([tag for tag, _ in page.elements if tag == "article"]) == 20
    assert "No plot: the counts around this window were not kept." in page.text


def test_a_run_without_findings_or_dead_letters_says_so() -> None:
    origin = Origin(generated_at=datetime(2015, 9, 13, tzinfo=UTC))
    page = Page(render_report(ReportContent(title="Quiet", origin=origin)))
    for said in (
        "time unknown (no events) · 0 findings · 0 users scored",
        "No findings: no count crossed the line of any rule.",
        "No users were scored.",
        "No dead letters: every record was read and counted.",
        "unknown (not started from a command)",
    ):
        assert said in page.text


def test_the_page_can_be_walked_by_ear_and_by_key() -> None:
    page = Page(render_report(a_content()))
    tags = [tag for tag, _ in page.elements]
    assert dict(page.elements)["html"] == {"lang": "en"}
    assert tags.count("h1") == 1
    assert tags.count("table") == tags.count("caption")
    assert all("scope" in attrs for tag, attrs in page.elements if tag == "th")
    nav = tags.index("nav")
    links = [attrs["href"] for tag, attrs in page.elements[nav:] if tag == "a"][:5]
    assert links == ["#summary", "#findings", "#users", "#dead-letters", "#origin"]


def test_a_full_report_stays_small() -> None:
    minutes = TEN + np.arange(10_000) * 60_000
    counts = np.random.default_rng(1).poisson(5, minutes.size)
    series = a_series(
        times_ms=minutes,
        counts=counts,
        window=as_window("1 minute"),
        flagged_ms=minutes[counts > 12],
        ceiling=12,
    )
    html = render_report(a_content(findings=[a_finding(series=series)] * 3))
    drawings = re.findall(r"<svg.*?</svg>", html, re.DOTALL)
    assert len(drawings) == 3
    assert max(map(len, drawings)) < 24_000
    check_harmless(Page(html))


def test_a_report_is_replaced_whole_and_nothing_else_is_left(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    target.write_text("an earlier one")
    assert write_report(target, a_content(findings=[])) == target
    assert "Edits of a day" in target.read_text(encoding="utf-8")
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("name", ["missing/report.html", "folder", "n" * 300])
def test_a_path_that_cannot_be_written_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError, match=f"can't be written to .*{name}: .*") as caught:
        write_report(tmp_path / name, a_content(findings=[]))
    assert caught.value.hint is not None
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_time_of_making_without_a_zone_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="has no zone"):
        replace(a_content().origin, generated_at=datetime(2015, 9, 13))  # noqa: DTZ001 - the point


@pytest.mark.parametrize("text", HOSTILE)
def test_an_attribute_holds_any_text_and_ends_where_it_should(text: str) -> None:
    ((tag, attributes),) = Page(element("p", title=text)).elements
    assert tag == "p"
    assert list(attributes) == ["title"]
    assert attributes["title"] == plain(text)
