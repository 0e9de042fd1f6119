from __future__ import annotations

from typing import Any

import pytest

import kstoolkit as kst
from kstoolkit.errors import ConfigurationError

SOURCE = kst.files("in", event_time="time", user="user", action="action")


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("source", "data/sample"),
        ("source", kst.frame(None, event_time="time", user="user", action="action")),  # type: ignore[arg-type]
        ("cascade", "1 minute"),
        ("cascade", ["1 minute", "1 hour"]),
        ("rules", "rules.toml"),
        ("rules", kst.Ceiling("1 hour", 5)),
        ("rules", [5]),
        ("buckets", "8"),
        ("buckets", 1.5),
        ("buckets", 0),
        ("time", "wall"),
    ],
)
def test_what_is_given_for_something_else_is_said_before_spark_starts(
    name: str, given: Any
) -> None:
    arguments = {"source": SOURCE} | {name: given}
    with pytest.raises(ConfigurationError, match=f"^{name} is "):
        kst.Pipeline(**arguments)


@pytest.mark.parametrize("rules", [None, [], (kst.Exempt(pattern="x.*"),)])
def test_rules_are_a_sequence_or_the_default(rules: Any) -> None:
    assert kst.Pipeline(source=SOURCE, rules=rules).judged_by is not None
