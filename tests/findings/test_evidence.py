# ruff: noqa: RUF001 - a range of numbers is written with an en dash
from __future__ import annotations

from kstoolkit.findings.evidence import evidence
from tests.findings.made import CEILING, UNKNOWN, finding, findings


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
