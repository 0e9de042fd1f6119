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
from kstoolkit.report.runs import _command_of, _origin_of, title_of
from tests.changelog.changelogs import HOUR, MINUTE, Rows, write
from tests.report.made import HOURS, MINUTES, SETTINGS, TEN, Made, made_run, over, unusual
from tests.report.pages import HOSTILE, Page, check_harmless

if TYPE_CHECKING:
    from kstoolkit.pipeline.run import Run


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


def drawn(page: Page, label: str) -> list[str]:
    """Return what the strips of a level say to those who can't see them."""
    told = [attrs["aria-label"] or "" for tag, attrs in page.elements if tag == "svg"]
    return [each for each in told if each.startswith(f"{label}: ")]


def headings(page: Page) -> list[str]:
    told = re.findall("<h3[^>]*>(.*?)</h3>", page.html)
    return [re.sub("<[^>]*>", "", each) for each in told if "rank" in each]


def missing(facts: list[str], page: Page) -> list[str]:
    return [fact for fact in facts if fact not in page.text]


def test_open_ones_come_first_and_the_surest_before_others(made: Made) -> None:
    made.findings([unusual("Bo", -3), unusual("Anna", -9.5), over("Di", 20), over("Cy", 90)])
    made.statistics(reached_ms=TEN + 7 * HOUR)
    told = [
        "1Anna · read sure, open",
        "2Bo · read hint, open",
        "3Cy · read sure",
        "4Di · read sure",
    ]
    page = page_of(made.run)
    assert headings(page) == told
    assert "4 users, 4 incidents: 3 sure, 1 hint; 2 open." in page.text
    assert "1Annaread: 61 in 1 hour, expected 2\N{EN DASH}142015-09-12 15:00sure, open" in page.text
    assert "3Cyread: 90 in 1 minute, ceiling 102015-09-12 10:00sure" in page.text


def test_of_many_users_the_first_have_a_card_and_all_are_counted(made: Made) -> None:
    made.findings([unusual(f"user {n}", -1 - n / 10) for n in range(30)])
    page = page_of(made.run)
    told = [f"{place}user {30 - place} · read hint, open" for place in range(1, 21)]
    assert headings(page) == told
    assert "Top 20 of 30 users shown, 30 incidents: " in page.text
    page = page_of(made.run, limit=3)
    assert "Top 3 of 30 users shown" in page.text
    assert len([tag for tag, _ in page.elements if tag == "article"]) == 3


def test_a_user_has_one_card_with_all_its_incidents(made: Made) -> None:
    mine = [unusual("Anna", -9 + n, window_start_ms=TEN + n * 100 * HOUR) for n in range(4)]
    others = [unusual(f"user {n:02}", -2, window_start_ms=TEN) for n in range(12)]
    made.findings(mine + others)
    page = page_of(made.run)
    assert [each.split(" ·")[0].lstrip("0123456789") for each in headings(page)].count("Anna") == 1
    assert len(headings(page)) == 13
    incidents = [each for each in made.run.incidents() if each.user == "Anna"]
    assert len(incidents) == 4
    assert missing([each.sentence for each in incidents], page) == []
    assert missing([f"incident{each.id}" for each in incidents], page) == []
    assert "and 3 incidents more" in page.text
    assert "4 findings, most abnormal first." in page.text
    (told,) = [label for label in page.values("aria-label") if label.count("from 2015-09") == 4]
    assert "; sure from 2015-09-12 10:00 to 2015-09-12 11:00; " in told


def test_of_very_many_incidents_of_a_user_some_are_told_and_all_are_counted(made: Made) -> None:
    mine = [unusual("Anna", -9, window_start_ms=TEN + n * 100 * HOUR) for n in range(30)]
    made.findings(mine)
    page = page_of(made.run)
    assert "Top 20 of 30 incidents shown." in page.text
    assert "and 29 incidents more" in page.text


def test_a_card_folds_its_findings_as_evidence(made: Made) -> None:
    starts = [TEN + 4 * HOUR, TEN + 5 * HOUR, TEN + 6 * HOUR]
    found = [unusual("Anna", -p, window_start_ms=s) for p, s in zip((3, 9, 5), starts, strict=True)]
    made.findings([*found, unusual("Anna", -4, action="write", count=70), unusual("Bo", -2)])
    made.run.mark(made.run.incidents().top(1)[0], "confirmed")
    page = page_of(made.run)
    assert headings(page) == [
        "1Anna · read and 1 other sure, open, confirmed",
        "2Bo · read hint, open",
    ]
    assert "2 incidents · " in page.text
    (incident, _) = made.run.incidents().top(2)
    assert incident.sentence in page.text
    assert f"Evidenceincident{incident.id}stateopen" in page.text
    assert "markedconfirmed" in page.text
    assert "4 findings, most abnormal first.ActionWindow, UTCCountExpectedChanceread" in page.text
    assert "write2015-09-12 15:00, 1 hour702\N{EN DASH}141 in 10,000" in page.text
    assert "Counts of “read” alone" in page.text
    folded = re.findall("<details>.*?</details>", page.html)
    assert len(folded) == 2
    assert "<table>" in folded[0]
    assert "<table>" not in folded[1]  # one finding, which its sentence tells


def test_findings_of_several_rules_say_which_found_them(made: Made) -> None:
    made.findings([unusual("Anna", -9), over("Anna", 20, window_start_ms=TEN + 5 * HOUR)])
    page = page_of(made.run)
    assert "ExpectedChanceRule" in page.text
    assert "20unknown (no baseline)unknown (ceiling 10)Ceiling 10 per 1 minute" in page.text


def test_of_very_many_findings_of_one_user_some_are_shown(made: Made) -> None:
    made.findings([unusual("Anna", -3, window_start_ms=TEN + n * HOUR) for n in range(30)])
    assert "Top 20 of 30 findings shown, most abnormal first." in page_of(made.run).text


def test_what_was_merged_is_told_with_what_it_is_part_of(made: Made) -> None:
    for number, hour in enumerate((0, 8, 4)):
        told = unusual("Anna", -3 - hour, window_start_ms=TEN + hour * HOUR)
        made.findings([told], number)
    assert made.run.incidents().facts() == "2: 1 open, 1 merged"
    page = page_of(made.run)
    assert headings(page) == ["1Anna · read sure, open"]
    assert "3 findings, most abnormal first." in page.text
    assert "1 incident · " in page.text


def test_a_campaign_has_a_card_and_no_counts_of_one_user(made: Made) -> None:
    told = {"kind": "Campaign", "rule": "Campaign 1 hour", "action": "invite"}
    made.findings([unusual("", -9, **told)])
    page = page_of(made.run)
    assert headings(page) == ["1newcomers to invite · invite sure, open"]
    assert "1newcomers to inviteinvite: 61 in 1 hour" in page.text
    assert "<figure>" not in page.html.partition('id="appendix"')[0]


def test_the_strips_have_the_counts_at_every_level_and_flag_what_was_found(made: Made) -> None:
    starts = [TEN + 5 * HOUR, TEN + 6 * HOUR]
    made.findings([unusual("Anna", -9 + n, window_start_ms=s) for n, s in enumerate(starts)])
    page = page_of(made.run)
    assert drawn(page, "1 hour") == ["1 hour: up to 61, 2 windows flagged"]
    assert drawn(page, "1 minute") == ["1 minute: up to 4, 0 windows flagged"]
    assert "1 hourup to 61expected 2\N{EN DASH}14" in page.text


def test_the_page_says_which_counts_were_not_kept(tmp_path: Path) -> None:
    made = Made(tmp_path / "out", replace(SETTINGS, min_count=(3, 5)))
    made.counts({HOUR: {(TEN + 5 * HOUR, "Anna", "read"): 61}})
    made.findings([unusual("Anna", -9)])
    said = ["1 minute: counts below 3 are not kept.", "1 hour: counts below 5 are not kept."]
    assert missing(said, page_of(made.run)) == []


def test_the_finding_s_own_window_is_drawn_even_if_its_count_was_not_recorded(
    tmp_path: Path,
) -> None:
    made = Made(tmp_path / "out", replace(SETTINGS, min_count=(1, 10)))
    made.counts({HOUR: {(TEN + 4 * HOUR, "Anna", "read"): 12}})
    made.findings([unusual("Anna", -9, count=9)])
    assert drawn(page_of(made.run), "1 hour") == ["1 hour: up to 12, 1 window flagged"]


def test_what_a_ceiling_found_is_drawn_with_it(made: Made) -> None:
    made.findings([over("Bo", 20)])
    page = page_of(made.run)
    assert "1 minuteup to 3ceiling 10" in page.text
    assert 'class="ceiling"' in page.html


def test_each_level_is_read_once_for_all_users(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    made.findings([unusual("Anna", -9), unusual("Bo", -3, window_start_ms=TEN)])
    run, read = made.run, list[tuple[int, set[str] | None]]()
    counters = type(run.changelog).counters

    def noted(self: Any, window_ms: int, *, users: set[str] | None = None, **told: Any) -> Any:
        read.append((window_ms, users))
        return counters(self, window_ms, users=users, **told)

    monkeypatch.setattr(type(run.changelog), "counters", noted)
    page_of(run)
    of_cards = [each for each in read if each[1] is not None]
    assert of_cards == [(MINUTE, {"Anna", "Bo"}), (HOUR, {"Anna", "Bo"})]


def test_users_with_the_highest_scores_are_told_on_their_card_or_in_the_appendix(
    made: Made,
) -> None:
    scores = made.run.users()[["user", "score", "reason"]]
    user, score, reason = scores.loc[0]
    page = page_of(made.run, limit=1)
    assert f"1{user}{score:,.2f}{reason}" in page.text
    assert "one of the highest 1 scores of 2 users" in page.text
    made.findings([unusual("Anna", -9)])
    (place,) = scores.index[scores["user"] == "Anna"]
    page = page_of(made.run)
    assert f"by scoreNo. {place + 1} of 2 users, " in page.text.partition("Appendix")[2]
    listed = page.html.partition('id="scores"')[2].partition("</section>")[0]
    assert ("Bo" in listed, "Anna" in listed) == (True, False)


def test_the_summary_says_what_was_looked_for(made: Made) -> None:
    said = ["events126", "windows1 minute, 1 hourrulesUnusual 1 hour, 5 false alarms a day"]
    assert missing(said, page_of(made.run)) == []


def test_the_summary_says_of_a_budget_what_each_rule_has_of_it(tmp_path: Path) -> None:
    rules = rules_to_json([Budget(5), Ceiling("1 hour", 9), Unusual("1 hour"), Unusual("1 minute")])
    made = Made(tmp_path / "out", replace(SETTINGS, rules=rules))
    said = "Ceiling 9 per 1 hourUnusual 1 hour, 2.5 false alarms a dayUnusual 1 minute, 2.5 "
    assert f"rules{said}false" in page_of(made.run).text


def test_the_summary_leaves_out_what_the_page_counts_itself(made: Made) -> None:
    page = page_of(made.run)
    labels = re.findall("<dt><bdi>(.*?)</bdi>", page.html.partition('id="summary"')[2])
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


def test_dead_letters_say_where_they_came_from_as_a_reader_elsewhere_may_see_it(made: Made) -> None:
    made.statistics(dead_letters={"no_user": 1})
    made.letters(["no_user"], number=7)
    assert "no_user · data/a.json · batch 7" in page_of(made.run).text


def test_three_dead_letters_are_shown_or_one_of_each_reason(made: Made) -> None:
    made.statistics(dead_letters={"no_user": 3_000, "bad_time": 1})
    made.letters(["no_user"] * 3_000 + ["bad_time"])
    page = page_of(made.run)
    shown = re.findall("<pre[^>]*>(.*?)</pre>", page.html)
    assert shown == ["no_user 0", "bad_time 3000", "no_user 1"]


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
    for markup in ("<script>alert", "<img", "]]>", "<!--"):
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
    assert "4,767 characters left out" in page.text
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
        "1Annaread: 61 in 1 hour, expected 2\N{EN DASH}142015-09-12 15:00likely, open",
        "it usually does 2\N{EN DASH}14 in an hour",
        "chance of this or more: 3 in 10⁹",
        "stateopenmore than expected47rulesUnusual 1 hour, 5 false alarms a daymarkedno",
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


def test_strips_hold_lines_alone_whose_look_and_texts_are_the_page_s(run: Run) -> None:
    page = page_of(run)
    within = re.findall(r"<svg.*?</svg>", page.html, re.DOTALL)
    assert len(within) == 3
    assert {tag for each in within for tag in re.findall(r"<(\w+)", each)} == {"svg", "path"}
    assert not [each for each in within if "style" in each or "fill" in each]
    style = page.html[: page.html.index("</style>")]
    kinds = {kind for each in within for kind in re.findall(r'path [^>]*class="(\w+)"', each)}
    assert {"count", "flag", "expected", "incident"} <= kinds
    assert [kind for kind in kinds if f"path.{kind}" not in style and kind != "sure"] == []


def test_users_that_are_left_out_are_announced(made: Made) -> None:
    made.counts({HOUR: {(TEN, f"user {n}", "read"): 3 for n in range(30)}})
    assert "the highest 20 scores of 30 users" in page_of(made.run).text


def test_the_page_can_be_walked_by_ear_and_by_key(run: Run) -> None:
    page = page_of(run)
    tags = [tag for tag, _ in page.elements]
    assert dict(page.elements)["html"] == {"lang": "en"}
    assert tags.count("h1") == 1
    assert tags.count("table") == tags.count("caption")
    assert all("scope" in attrs for tag, attrs in page.elements if tag == "th")
    nav = tags.index("nav")
    links = [attrs["href"] for tag, attrs in page.elements[nav:] if tag == "a"]
    assert links[:3] == ["#incidents", "#users", "#appendix"]
    assert links[3:8] == ["#summary", "#rules", "#scores", "#dead-letters", "#origin"]
    assert links[8:] == ["#user-1"]


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
    assert len(drawings) == 3 * len(made.run.incidents()) == 9  # of a week each
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
