"""What a page says of a run: of runs whose folders are filled without Spark."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstoolkit.changelog.compaction import compact
from kstoolkit.errors import OutputError
from kstoolkit.events.event import REASONS
from kstoolkit.findings.rulefiles import rules_to_json
from kstoolkit.findings.rules import Budget, Ceiling, Unusual
from kstoolkit.markup import element, plain
from kstoolkit.report.report import Report
from kstoolkit.report.runs import _command_of, _counts, _drawn, _origin_of, title_of
from tests.changelog.changelogs import HOUR, MINUTE, Rows, write
from tests.report.made import HOURS, MINUTES, SETTINGS, TEN, Made, made_run, over, unusual
from tests.report.pages import HOSTILE, Page, check_harmless

if TYPE_CHECKING:
    from kstoolkit.pipeline.run import Run
    from kstoolkit.pipeline.story import LevelCounts


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """A run with counts."""
    made = Made(tmp_path / "out")
    made.counts({HOUR: HOURS, MINUTE: MINUTES})
    made.statistics(events=126, dead_letters={"no_user": 2})
    return made


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run with a bit of everything."""
    return made_run(tmp_path / "out")


def page_of(run: Run, **options: Any) -> Page:
    page = Page(Report().add(run, **options).html())
    check_harmless(page)
    return page


def drawn(run: Run) -> list[LevelCounts]:
    incidents = run.incidents().top(20)
    counts = _counts(run, (each.peak for each in incidents))
    return [_drawn(run.settings, counts, each.peak, incidents.evidence) for each in incidents]


def headings(page: Page) -> list[str]:
    told = re.findall("<h3[^>]*>(.*?)</h3>", page.html)
    return [re.sub("<[^>]*>", "", each) for each in told if "rank" in each]


def missing(facts: list[str], page: Page) -> list[str]:
    return [fact for fact in facts if fact not in page.text]


def test_open_ones_come_first_and_the_surest_before_others(made: Made) -> None:
    made.findings([unusual("Bo", -3), unusual("Anna", -9.5), over("Di", 20), over("Cy", 90)])
    made.statistics(reached_ms=TEN + 7 * HOUR)
    told = ["1Anna · read", "2Bo · read", "3Cy · read", "4Di · read"]
    page = page_of(made.run)
    assert headings(page) == told
    row = "1Annaread2015-09-12 15:00opensure1"
    assert row in page.text
    assert "3Cyread2015-09-12 10:00resolvedsure1" in page.text


def test_of_many_incidents_the_first_are_described_and_all_are_counted(made: Made) -> None:
    made.findings([unusual(f"user {n}", -1 - n / 10) for n in range(30)])
    page = page_of(made.run)
    assert headings(page) == [f"{place}user {30 - place} · read" for place in range(1, 21)]
    assert "Top 20 of 30 incidents shown" in page.text
    page = page_of(made.run, limit=3)
    assert "Top 3 of 30 incidents shown" in page.text
    assert len([tag for tag, _ in page.elements if tag == "article"]) == 3


def test_a_second_incident_of_a_user_comes_after_the_first_one_of_everybody(made: Made) -> None:
    mine = [unusual("Anna", -9, window_start_ms=TEN + n * 100 * HOUR) for n in range(30)]
    others = [unusual(f"user {n:02}", -2, window_start_ms=TEN) for n in range(12)]
    made.findings(mine + others)
    told = [each.split(" ·")[0].lstrip("0123456789") for each in headings(page_of(made.run))]
    assert (told[0], told[13:]) == ("Anna", ["Anna"] * 7)
    assert sorted(told[1:13]) == [f"user {n:02}" for n in range(12)]


def test_what_another_incident_found_of_the_same_is_marked_too(made: Made) -> None:
    earlier = unusual("Anna", -5, window_start_ms=TEN, count=1)
    made.findings([unusual("Anna", -9), earlier])
    first, second = drawn(made.run)
    assert first.flagged_ms.tolist() == second.flagged_ms.tolist() == [TEN, TEN + 5 * HOUR]
    assert "what was expected is that of the peak" in page_of(made.run).text


def test_an_incident_is_one_article_with_its_findings_as_evidence(made: Made) -> None:
    starts = [TEN + 4 * HOUR, TEN + 5 * HOUR, TEN + 6 * HOUR]
    found = [unusual("Anna", -p, window_start_ms=s) for p, s in zip((3, 9, 5), starts, strict=True)]
    made.findings([*found, unusual("Anna", -4, action="write", count=70), unusual("Bo", -2)])
    made.run.mark(made.run.incidents().top(1)[0], "confirmed")
    page = page_of(made.run)
    assert headings(page) == ["1Anna · read and 1 other", "2Bo · read"]
    assert "2 incidents · " in page.text
    (incident, _) = made.run.incidents().top(2)
    assert incident.sentence in page.text
    assert f"incident{incident.id}stateopensince2015-09-12 14:00 UTC" in page.text
    assert "certaintysuremarkedconfirmed" in page.text
    assert "4 findings, most abnormal first.ActionWindow, UTCCountExpectedChanceRule" in page.text
    assert "write2015-09-12 15:00, 1 hour702\N{EN DASH}141 in 10,000Unusual 1 hour, 5" in page.text
    assert "open, confirmed" in page.text


def test_of_very_many_findings_of_one_incident_some_are_shown(made: Made) -> None:
    made.findings([unusual("Anna", -3, window_start_ms=TEN + n * HOUR) for n in range(30)])
    assert "Top 10 of 30 findings shown, most abnormal first." in page_of(made.run).text


def test_what_was_merged_is_told_with_what_it_is_part_of(made: Made) -> None:
    for number, hour in enumerate((0, 8, 4)):
        told = unusual("Anna", -3 - hour, window_start_ms=TEN + hour * HOUR)
        made.findings([told], number)
    assert made.run.incidents().facts() == "2: 1 open, 1 merged"
    page = page_of(made.run)
    assert headings(page) == ["1Anna · read"]
    assert "3 findings, most abnormal first." in page.text
    assert "1 incident · " in page.text


def test_a_campaign_is_drawn_by_how_many_newcomers_were_found(made: Made) -> None:
    told = {"kind": "Campaign", "rule": "Campaign 1 hour", "action": "invite"}
    made.findings([unusual("", -9, **told)])
    (series,) = drawn(made.run)
    assert (series.counts.tolist(), series.flagged_ms.tolist()) == ([61], [TEN + 5 * HOUR])
    page = page_of(made.run)
    assert headings(page) == ["1newcomers to invite · invite"]
    assert "in windows of 1 hour; one without a bar was not found." in page.text


def test_the_plot_has_the_counts_of_this_user_and_action_and_all_flagged_windows(
    made: Made,
) -> None:
    starts = [TEN + 5 * HOUR, TEN + 6 * HOUR]
    made.findings([unusual("Anna", -9 + n, window_start_ms=s) for n, s in enumerate(starts)])
    (series,) = drawn(made.run)
    assert dict(zip(series.times_ms.tolist(), series.counts.tolist(), strict=True)) == {
        start: n for (start, user, action), n in HOURS.items() if (user, action) == ("Anna", "read")
    }
    assert series.flagged_ms.tolist() == starts
    assert (series.expected_low, series.expected_high) == (2, 14)
    assert (series.window.size_ms, series.ceiling) == (HOUR, None)
    assert series.min_count == 1


def test_the_plot_says_which_counts_were_not_kept(tmp_path: Path) -> None:
    made = Made(tmp_path / "out", replace(SETTINGS, min_count=(3, 5)))
    made.counts({HOUR: {(TEN + 5 * HOUR, "Anna", "read"): 61}})
    made.findings([unusual("Anna", -9)])
    assert "one without a bar had fewer than 5 events" in page_of(made.run).text


def test_the_finding_s_own_window_is_drawn_even_if_its_count_was_not_recorded(
    tmp_path: Path,
) -> None:
    made = Made(tmp_path / "out", replace(SETTINGS, min_count=(1, 10)))
    made.counts({HOUR: {(TEN + 4 * HOUR, "Anna", "read"): 12}})
    made.findings([unusual("Anna", -9, count=9)])
    page = page_of(made.run)
    assert "1 of 2 windows flagged" in page.text
    assert "one without a bar had fewer than 10 events" in page.text


def test_what_a_ceiling_does_not_know_is_said_to_be_unknown_and_why(made: Made) -> None:
    made.findings([over("Bo", 20)])
    (series,) = drawn(made.run)
    assert series.ceiling == 10
    page = page_of(made.run)
    assert "20unknown (no baseline)unknown (ceiling 10)Ceiling 10 per 1 minute" in page.text


def test_the_most_abnormal_users_come_first_and_all_are_counted(made: Made) -> None:
    user, score, reason = made.run.users()[["user", "score", "reason"]].loc[0]
    page = page_of(made.run, limit=1)
    assert f"1{user}{score:,.2f}{reason}" in page.text
    assert "Top 1 of 2 users shown" in page.text


def test_the_summary_says_what_was_looked_for(made: Made) -> None:
    said = "events126windows1 minute, 1 hourrulesUnusual 1 hour, 5 false alarms a day"
    assert said in page_of(made.run).text


def test_the_summary_says_of_a_budget_what_each_rule_has_of_it(tmp_path: Path) -> None:
    rules = rules_to_json([Budget(5), Ceiling("1 hour", 9), Unusual("1 hour"), Unusual("1 minute")])
    made = Made(tmp_path / "out", replace(SETTINGS, rules=rules))
    said = "Ceiling 9 per 1 hour; Unusual 1 hour, 2.5 false alarms a day; Unusual 1 minute, 2.5 "
    assert f"rules{said}false" in page_of(made.run).text


def test_the_summary_leaves_out_what_the_page_counts_itself(made: Made) -> None:
    page = page_of(made.run)
    labels = re.findall("<dt><bdi>(.*?)</bdi>", page.html.partition('id="incidents"')[0])
    counted = {label for label, _ in made.run.summary().rows()} - set(labels)
    assert counted == {"findings reported", "dead letters: it has no user"}


def test_dead_letters_are_counted_with_what_their_reason_means(made: Made) -> None:
    made.statistics(dead_letters={"no_user": 1, "bad_time": 2})
    made.letters(["bad_time", "no_user", "bad_time"])
    page = page_of(made.run)
    reasons = f"bad_time: {REASONS['bad_time']}2no_user: {REASONS['no_user']}1"
    assert f"3 records not counted, by reason.ReasonRecords{reasons}" in page.text
    assert re.findall("<pre[^>]*>(.*?)</pre>", page.html) == [
        *("bad_time 0", "no_user 1", "bad_time 2")
    ]


def test_dead_letters_say_where_they_came_from_as_a_reader_elsewhere_may_see_it(
    made: Made,
) -> None:
    made.statistics(dead_letters={"no_user": 1})
    made.letters(["no_user"], number=7)
    assert "no_user · data/a.json · batch 7" in page_of(made.run).text


def test_ten_dead_letters_are_shown_at_most_and_each_reason_is_among_them(made: Made) -> None:
    made.statistics(dead_letters={"no_user": 3_000, "bad_time": 1})
    made.letters(["no_user"] * 3_000 + ["bad_time"])
    page = page_of(made.run)
    shown = re.findall("<pre[^>]*>(.*?)</pre>", page.html)
    assert shown == ["no_user 0", "bad_time 3000", *(f"no_user {n}" for n in range(1, 9))]


def test_the_time_covered_is_that_of_the_shortest_windows(made: Made) -> None:
    origin = _origin_of(made.run)
    assert origin.span_ms == (TEN, TEN + 60 * MINUTE)
    assert datetime.now(UTC) - origin.generated_at < timedelta(minutes=5)


def test_the_versions_are_told_and_that_of_the_run_if_it_is_another(tmp_path: Path) -> None:
    made = Made(tmp_path / "out", replace(SETTINGS, written_by="0.0.7"))
    versions = dict(_origin_of(made.run).versions)
    assert versions.keys() == {"kstoolkit", "PySpark", "Python"}
    assert versions["kstoolkit"].endswith("(the run: 0.0.7)")


def command(**changes: Any) -> list[str]:
    told = _command_of(replace(SETTINGS, **changes), Path.cwd() / "out" / "it's")
    assert told is not None
    return shlex.split(told, comments=True)


def test_the_command_makes_the_run_and_its_report_again() -> None:
    columns = {"event_time": "time", "user": "concat(a, ' ', b)", "action": "ns"}
    given = command(columns=columns, windows=("1 minute", "5 minutes every 1 minute"))
    assert given == [
        *("kstoolkit", "run", "data/edits.json.gz", "--event-time", "time"),
        *("--user", "concat(a, ' ', b)", "--action", "ns"),
        *("--windows", "1 minute,5 minutes every 1 minute", "--buckets", "4"),
        *("--out", "out/it's", "&&", "kstoolkit", "report", "out/it's"),
    ]


def test_the_command_names_options_that_are_not_the_default_ones() -> None:
    given = command(
        rules=rules_to_json([Ceiling("1 minute", 10)]), time="processing", min_count=(3, 3)
    )
    assert given[given.index("--rules") + 1] == "rules.toml"
    assert given[given.index("--min-count") + 1] == "3"
    assert "--processing-time" in given
    usual = command(rules=rules_to_json([Unusual("1 hour", 5)]), min_count=(1, 1))
    assert not {"--rules", "--min-count", "--processing-time"} & set(usual)


def test_the_command_does_not_tell_whose_home_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/maria")
    told = _command_of(replace(SETTINGS, source="/home/maria/my events/*.json"), Path("o"))
    assert told is not None
    assert told.startswith("kstoolkit run ~/'my events/*.json' ")
    assert "maria" not in told


@pytest.mark.parametrize("feed", ["frame", "staged"])
def test_a_run_on_a_dataframe_has_no_command(tmp_path: Path, feed: str) -> None:
    made = Made(tmp_path / "out", replace(SETTINGS, feed=feed, source="a DataFrame"))
    page = page_of(made.run)
    assert "<h1><bdi>Abnormal users</bdi></h1>" in page.html
    assert "unknown (not started from a command)" in page.text


def test_the_title_names_the_source_without_its_folder() -> None:
    assert title_of(SETTINGS) == "Abnormal users in edits.json.gz"


def test_a_long_title_stands_whole_above_the_report_of_a_run(tmp_path: Path) -> None:
    source = f"data/{'x' * 80}.json"
    made = Made(tmp_path / "out", replace(SETTINGS, source=source))
    page = made.run.report(tmp_path / "report.html").read_text()
    assert f"<h1><bdi>Abnormal users in {Path(source).name}</bdi></h1>" in page


def test_a_run_without_any_batch_is_reported_as_empty(tmp_path: Path) -> None:
    page = page_of(Made(tmp_path / "out").run)
    said = [
        "time unknown (no events) · 0 incidents · 0 users scored",
        "No incidents: no count crossed the line of any rule.",
        "No users were scored.",
        "No dead letters: every record was read and counted.",
    ]
    assert missing(said, page) == []
    assert "Data from" not in page.text


def test_the_report_is_written_whole(made: Made, tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>"
    made.findings([unusual(hostile, -9), over("Anna", 20)])
    made.letters(["no_user"] * 2)
    page = made.run.report(tmp_path / "report.html").read_text()
    assert hostile not in page
    for said in (
        "Abnormal users in edits.json.gz",
        "2 incidents",
        "no_user 1",
        "<svg",
        "kstoolkit run",
    ):
        assert said in page


def test_a_compacted_run_is_reported_alike(made: Made) -> None:
    write(made.out / "changelog", 1, {HOUR: {(TEN, "Bo", "read"): 4}})
    write(made.out / "changelog", 2, {HOUR: {(TEN, "Bo", "read"): 5}})
    made.findings([unusual("Bo", -9)])
    before = page_of(made.run).text
    assert compact(made.out).batches_folded == 2
    after = page_of(made.run).text
    assert after.partition("Made")[0] == before.partition("Made")[0]


def hostile_run(out: Path, text: str) -> Run:
    """Return a run that has a text wherever one may stand; Arrow's have no lone surrogates."""
    utf8 = text.encode("utf-8", "replace").decode()
    columns = dict.fromkeys(SETTINGS.columns, text)
    made = Made(out, replace(SETTINGS, source=text, columns=columns, written_by=text))
    made.counts({HOUR: {(TEN, utf8, utf8): 61}})
    about = {"action": utf8, "rule": utf8, "first_seen_window": utf8, "window_start_ms": TEN}
    made.findings([unusual(utf8, -9, **about, other_levels=[(utf8, 3)])])
    made.statistics(events=61, dead_letters={utf8: 2})
    made.letters([utf8], raws=[utf8], file=utf8, details=[utf8])
    return made.run


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text_everywhere(text: str, tmp_path: Path) -> None:
    run = hostile_run(tmp_path / "out", text)
    html = run.report(tmp_path / "report.html").read_text(encoding="utf-8")
    check_harmless(Page(html))
    assert not set("\x00\x07\x1b\u202e\u2066") & set(html)
    for markup in ("<script", "<img", "]]>", "<!--"):
        assert markup not in html


@settings(max_examples=20, deadline=None)
@given(st.text(st.characters(exclude_categories=()), max_size=40))
def test_any_text_leaves_the_page_well_formed(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    run = hostile_run(tmp_path_factory.mktemp("any") / "out", text)
    page_of(run).html.encode()


def test_unseen_characters_are_shown_by_their_code_points(made: Made) -> None:
    made.findings([unusual("a\x00\u202eb", -9)])
    assert "aU+0000U+202Eb" in page_of(made.run).text


def test_names_are_isolated_from_the_direction_of_what_stands_around_them(made: Made) -> None:
    name = "משתמש"
    made.findings([unusual(name, -9)])
    assert f"<bdi>{name}</bdi> did “<bdi>read</bdi>” 61 times" in page_of(made.run).html


def test_very_long_text_loses_its_middle_and_says_how_much(made: Made) -> None:
    made.letters(["no_user"], raws=["a" * 5_000 + "the end"])
    page = page_of(made.run)
    assert "4,207 characters left out" in page.text
    assert "the end" in page.text


def test_the_page_loads_nothing_and_tells_the_browser_so(run: Run) -> None:
    page = page_of(run)
    (policy,) = [attrs["content"] for _, attrs in page.elements if attrs.get("http-equiv")]
    rules = dict(rule.split(" ", 1) for rule in (policy or "").split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["style-src"] == "'unsafe-inline'"
    assert rules["img-src"] == "data:"


def test_every_fact_of_the_run_is_on_the_page(run: Run) -> None:
    facts = [
        "Abnormal users in edits.json.gz",
        "2015-09-12 10:00 to 11:00 UTC · 1 incident · 2 users scored",
        "events39,244",
        "state in memoryunknown (",
        "Anna did “read” 61 times between 15:00 and 16:00 UTC",
        "since2015-09-12 15:00 UTCuntil2015-09-12 16:00 UTC",
        "peak61 in 1 hourexpected there2\N{EN DASH}14more than expected47",
        "rulesUnusual 1 hour, 5 false alarms a daycertaintylikelymarkedno",
        "1 finding, most abnormal first.",
        "read2015-09-12 15:00, 1 hour612\N{EN DASH}143 in 10⁹Unusual 1 hour, 5 false alarms a day",
        "1,203 records not counted",
        f"unparseable: {REASONS['unparseable']}1,200",
        "no_user · a.json · batch 4",
        '{"user":\nnull}',
        "1 of 1,203 records shown.",
        "Data from2015-09-12 10:00 UTCData to2015-09-12 11:00 UTC",
        "Made by kstoolkit run data/edits.json.gz",
        "PySpark",
    ]
    assert missing(facts, page_of(run)) == []


def test_the_figure_shows_the_range_and_says_what_it_is_to_those_who_cannot_see_it(
    run: Run,
) -> None:
    page = page_of(run)
    (drawing,) = [attrs for tag, attrs in page.elements if tag == "svg"]
    assert drawing["role"] == "img"
    assert drawing["aria-label"] == (
        "read by Anna. Bar chart of 7 windows with counts from 1 to 61."
    )
    assert "expected2\u201314" in page.text
    assert "1 of 7 windows flagged" in page.text


def test_a_figure_takes_its_colours_and_font_from_the_page(run: Run) -> None:
    html = page_of(run).html
    drawn = html[html.index("<svg") : html.index("</svg>")]
    style = html[: html.index("</style>")]
    assert "font-family" not in drawn
    assert not re.search(r"#[0-9a-f]{6}", drawn)
    for variable in set(re.findall(r"var\((--\w+)\)", drawn)):
        assert f"{variable}:" in style


def test_users_that_are_left_out_are_announced(made: Made) -> None:
    made.counts({HOUR: {(TEN, f"user {n}", "read"): 3 for n in range(30)}})
    assert "Top 20 of 30 users shown" in page_of(made.run).text


def test_the_page_can_be_walked_by_ear_and_by_key(run: Run) -> None:
    page = page_of(run)
    tags = [tag for tag, _ in page.elements]
    assert dict(page.elements)["html"] == {"lang": "en"}
    assert tags.count("h1") == 1
    assert tags.count("table") == tags.count("caption")
    assert all("scope" in attrs for tag, attrs in page.elements if tag == "th")
    nav = tags.index("nav")
    links = [attrs["href"] for tag, attrs in page.elements[nav:] if tag == "a"][:5]
    assert links == ["#summary", "#incidents", "#users", "#dead-letters", "#origin"]


def test_a_full_report_stays_small(tmp_path: Path) -> None:
    made, actions = Made(tmp_path / "out"), ("read", "write", "drop")
    minutes = TEN + np.arange(10_000) * MINUTE
    drawn = np.random.default_rng(1).poisson(5, minutes.size)
    counts = list(zip(minutes.tolist(), drawn.tolist(), strict=True))
    three = [(user, each) for user in ("Anna", "Bo", "Cy") for each in actions]
    rows: Rows = {(at, *who): n for at, n in counts if n for who in three}
    made.counts({MINUTE: rows})
    flagged = [(at, n, *who) for at, n in counts if n > 12 for who in three]
    made.findings([over(u, n, window_start_ms=at, action=each) for at, n, u, each in flagged])
    drawings = re.findall(r"<svg.*?</svg>", page_of(made.run).html, re.DOTALL)
    assert len(drawings) == len(made.run.incidents()) == 3  # of a week each
    assert min(len(each.findings) for each in made.run.incidents()) > 50
    assert max(map(len, drawings)) < 24_000


def test_a_report_is_replaced_whole_and_nothing_else_is_left(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "page" / "report.html"
    target.parent.mkdir()
    target.write_text("an earlier one")
    assert run.report(target) == target
    assert "Abnormal users" in target.read_text(encoding="utf-8")
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize("name", ["missing/report.html", "folder", "n" * 300])
def test_a_path_that_cannot_be_written_is_named(run: Run, tmp_path: Path, name: str) -> None:
    place = tmp_path / "page"
    (place / "folder").mkdir(parents=True)
    with pytest.raises(OutputError, match=f"can't be written to .*{name}: .*") as caught:
        run.report(place / name)
    assert caught.value.hint is not None
    assert [path.name for path in place.iterdir()] == ["folder"]


@pytest.mark.parametrize("text", HOSTILE)
def test_an_attribute_holds_any_text_and_ends_where_it_should(text: str) -> None:
    ((tag, attributes),) = Page(element("p", title=text)).elements
    assert tag == "p"
    assert list(attributes) == ["title"]
    assert attributes["title"] == plain(text)
