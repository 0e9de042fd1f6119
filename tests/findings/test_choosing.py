from __future__ import annotations

from typing import Any

import pytest

from kstoolkit.findings.choosing import Choice
from tests.findings.made import CEILING, HOUR, MINUTE, START, UNKNOWN, finding, findings

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
