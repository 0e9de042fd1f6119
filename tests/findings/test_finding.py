from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

import pytest

from kstoolkit.findings.finding import Choice, Findings, chance, evidence
from tests.findings.made import CEILING, DAY, HOUR, MINUTE, START, UNKNOWN, finding, findings

# ruff: noqa: RUF001 - a range of numbers is written with an en dash


def test_a_finding_reads_as_one_sentence() -> None:
    assert finding().sentence == (
        "ClueBot NG did “Main” 61 times between 10:00 and 11:00 UTC on 12 September 2015; "
        "it usually does 2–14 in an hour (19 earlier hours, 4,112 peers); "
        "chance of this or more: 3 in 10⁹."
    )


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        ({"count": 1}, "did “Main” once between"),
        ({"count": 1234567}, "did “Main” 1,234,567 times"),
        ({"baseline_windows": 0}, "; no history of its own to compare with yet; 95 % of 4,112 oth"),
        ({"baseline_windows": 1}, "too little history (1 hour) of its own to compare with yet; 95"),
        ({"expected_low": 0, "expected_high": 0}, "usually does 0 in an hour"),
        ({"window": "1 day", "window_ms": DAY, "window_start_ms": START - 10 * HOUR},
         "61 times on 12 September 2015 (UTC); it usually does 2–14 in a day (19 earlier days"),
        ({"window": "5 minutes every 1 minute", "window_ms": 5 * MINUTE},
         "between 10:00 and 10:05 UTC on 12 September 2015; it usually does 2–14 in 5 minutes ("),
        ({"window": "5 minutes", "window_ms": 5 * MINUTE}, "(19 earlier windows of 5 minutes, "),
        ({"window": "10 seconds", "window_ms": 10_000, "window_start_ms": START + 50_000},
         "between 10:00:50 and 10:01 UTC"),
        ({"window_start_ms": START + 13 * HOUR}, "between 23:00 and 00:00 UTC on 12 September"),
        ({"window": "2 hours", "window_ms": 2 * HOUR, "window_start_ms": START + 13 * HOUR},
         "between 23:00 on 12 September 2015 and 01:00 on 13 September 2015 UTC"),
        ({"first_seen_window": "1 minute"}, "; first seen in a window of 1 minute."),
        (UNKNOWN, "; what is usual is unknown (too few peers)."),
        (CEILING | UNKNOWN | {"window": "1 minute", "window_ms": MINUTE},
         "10:00 and 10:01 UTC on 12 September 2015; more than the ceiling of 100 a minute."),
        (CEILING | {"window": "5 minutes", "window_ms": 5 * MINUTE}, "ceiling of 100 in 5 minutes"),
        (CEILING, "more than the ceiling of 100 an hour; it usually does 2–14"),
    ],
)  # fmt: skip
def test_sentences_are_grammatical_for_every_kind_of_finding(
    changed: dict[str, Any], part: str
) -> None:
    assert part in finding(**changed).sentence


@pytest.mark.parametrize(
    ("log10", "text"),
    [(0.0, "1 in 1"), (-1.0, "1 in 10"), (-2.3, "5 in 1,000"), (-6.0, "1 in 1,000,000"),
     (-8.01, "1 in 10⁸"), (-8.53, "3 in 10⁹"), (-9.0, "1 in 10⁹"),
     (-9.01, "less than 1 in 10⁹"), (-1234.5, "less than 1 in 10⁹")],
)  # fmt: skip
def test_chances_are_told_as_people_say_them(log10: float, text: str) -> None:
    assert chance(log10) == text


def test_times_are_aware_and_utc() -> None:
    assert finding().window_end.isoformat() == "2015-09-12T11:00:00+00:00"


def test_a_probability_below_every_float_is_zero_and_its_logarithm_tells() -> None:
    assert finding(log10_probability=-5000.0).probability == 0.0
    assert "less than 1 in 10⁹" in finding(log10_probability=-5000.0).sentence


def test_records_come_back_from_the_table() -> None:
    records = [finding(other_levels={"1 minute": 9, "1 day": 70}), finding(**UNKNOWN)]
    assert list(findings(*records)) == records


def test_findings_are_a_sequence() -> None:
    many = findings(*(finding(count=count) for count in range(5)))
    assert [f.count for f in many[1:4]] == [1, 2, 3]
    assert many[-1].count == 4
    assert isinstance(many[:2], Findings)
    with pytest.raises(IndexError):
        many[5]


def test_the_top_takes_the_best_of_each_kind_in_turn() -> None:
    rows = [finding(user=f"u{n}", log10_probability=-float(n)) for n in range(10, 14)]
    over = [finding(user=f"c{n}", count=n, **CEILING) for n in (150, 900)]
    assert [f.user for f in findings(*rows, *over).top(4)] == ["c900", "u13", "c150", "u12"]


def test_pandas_gets_tidy_columns() -> None:
    frame = findings(finding(), finding(**UNKNOWN)).to_pandas()
    assert str(frame["window_start"][0]) == "2015-09-12 10:00:00+00:00"
    assert str(frame["window_end"][0]) == "2015-09-12 11:00:00+00:00"
    assert frame["expected_high"].isna().tolist() == [False, True]
    assert frame["sentence"][0] == finding().sentence
    assert findings().to_pandas().columns.tolist() == frame.columns.tolist()


def test_json_rows_are_plain_and_complete() -> None:
    row = json.loads(json.dumps(findings(finding(other_levels={"1 day": 70})).to_json_rows()))[0]
    assert row["window_end_ms"] == START + HOUR
    assert row["sentence"] == finding().sentence
    assert row["probability"] == pytest.approx(10**-8.5)
    assert row["other_levels"] == {"1 day": 70}


class Cells(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, _: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_html_shows_the_facts_of_the_repr_and_escapes_what_comes_from_users() -> None:
    hostile = "<script>alert('&')</script>"
    found = findings(finding(user=hostile), finding(action=hostile))
    cells = Cells()
    cells.feed(found._repr_html_())
    assert "script" not in cells.tags
    assert cells.texts.count(hostile) == 2
    assert repr(found) == "Findings(2 about 2 users: 2 Unusual)"
    assert "2 about 2 users: 2 Unusual" in cells.texts


def test_html_says_how_many_are_shown() -> None:
    many = findings(*(finding(user=f"u{n}") for n in range(30)))
    assert "30 about 30 users: 30 Unusual; the top 20 are shown" in many._repr_html_()
    assert many._repr_html_().count("<tr>") == 21


def test_none_found_is_said() -> None:
    assert repr(findings()) == "Findings(none)"
    assert "none" in findings()._repr_html_()


# ruff: noqa: RUF001 - a range of numbers is written with an en dash


def test_a_finding_in_text_and_html_states_the_same_facts() -> None:
    found = finding(other_levels={"1 minute": 7})
    assert repr(found) == (
        "Finding('ClueBot NG', 'Main': 61 in 1 hour from 2015-09-12 10:00:00 UTC, "
        "expected 2–14, chance 3 in 10⁹)"
    )
    html = found._repr_html_()
    for what, figure in evidence(found):
        assert what in html
        assert figure in html
    assert found.sentence in html


def test_what_is_unknown_is_said_with_its_reason() -> None:
    told = dict(evidence(finding(**UNKNOWN | CEILING)))
    assert told["expected"] == "unknown (no baseline)"
    assert told["in other windows"] == "unknown (not kept)"
    assert told["ceiling"] == "100"
    assert "ceiling 100" in repr(finding(**UNKNOWN | CEILING))


def test_a_finding_as_a_table_is_a_row_of_many() -> None:
    found = finding(other_levels={"1 minute": 7})
    assert found.to_pandas().equals(findings(found).to_pandas())


def test_hostile_names_are_escaped() -> None:
    html = finding(user="<script>alert(1)</script>")._repr_html_()
    assert "<script>" not in html


MINUTES = {"window": "1 minute", "window_ms": MINUTE, **UNKNOWN, **CEILING}
ALL = findings(
    finding(user="Anna"),
    finding(user="Annabel", action="(write)"),
    finding(user="Bo", window_start_ms=START + 2 * HOUR),
    finding(user="Bo", **MINUTES, window_start_ms=START + 5 * MINUTE),
)


@pytest.mark.parametrize(
    ("given", "users"),
    [
        ({}, ["Anna", "Annabel", "Bo", "Bo"]),
        ({"user": "Anna"}, ["Anna"]),
        ({"user": "ANN"}, ["Anna", "Annabel"]),
        ({"user": "nobody"}, []),
        ({"action": "(W"}, ["Annabel"]),
        ({"window": "1 minute"}, ["Bo"]),
        ({"rule": "Ceiling 100 per 1 minute", "user": "Anna"}, []),
        ({"since_ms": START + HOUR}, ["Bo"]),
        ({"since_ms": START + HOUR - 1}, ["Anna", "Annabel", "Bo"]),
        ({"until_ms": START}, []),
        ({"until_ms": START + 1}, ["Anna", "Annabel"]),
        ({"since_ms": START, "until_ms": START + HOUR}, ["Anna", "Annabel", "Bo"]),
    ],
)
def test_each_filter_leaves_what_it_names_in_its_order(
    given: dict[str, Any], users: list[str]
) -> None:
    assert [each.user for each in Choice(**given).of(ALL)] == users


def test_known_users_are_left_out_by_their_whole_names() -> None:
    left = Choice().of(ALL, without_users={"Anna", "nobody"})
    assert [each.user for each in left] == ["Annabel", "Bo", "Bo"]
