from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import kstoolkit as kst
from kstoolkit.errors import ConfigurationError, OutputError

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = kst.files("in", event_time="time", user="user", action="action")


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("source", "data/sample"),
        ("source", kst.frame(None, event_time="time", user="user", action="action")),  # type: ignore[arg-type]
        ("cascade", "1 minute"),
        ("cascade", ["1 minute", "1 hour"]),
        ("rules", 5),
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


def test_no_two_topics_of_a_pipeline_are_the_same() -> None:
    columns: Any = {"event_time": "time", "user": "user", "action": "action"}
    topic = kst.kafka_topic("kafka://a:1,b:2/events", **columns)
    log, found = kst.kafka_changelog("kafka://b:2/counts"), kst.kafka_findings("kafka://c:3/events")
    assert kst.Pipeline(source=topic, changelog=log, findings_to=found).changelog is log
    for other in ("changelog", "findings_to"):
        same: Any = kst.kafka_changelog if other == "changelog" else kst.kafka_findings
        given: Any = {"source": topic, other: same("kafka://b:2,d:4/events")}
        with pytest.raises(ConfigurationError, match=f"^source and {other} are the same topic, "):
            kst.Pipeline(**given)
    with pytest.raises(ConfigurationError, match=r"^changelog and findings_to are the same topic"):
        kst.Pipeline(source=SOURCE, changelog=log, findings_to=kst.kafka_findings(str(log.address)))


@pytest.mark.parametrize("rules", [None, [], (kst.Exempt(pattern="x.*"),)])
def test_rules_are_a_sequence_or_the_default(rules: Any) -> None:
    assert kst.Pipeline(source=SOURCE, rules=rules).judged_by is not None


@pytest.mark.parametrize(
    "write",
    [
        lambda out: kst.Pipeline(source=SOURCE).run(out),
        lambda out: kst.Pipeline(source=SOURCE).start(out),
        kst.load_run,
        kst.simulate(event_count=1_000).write,
    ],
)
def test_what_writes_to_a_folder_refuses_one_of_another_file_system(
    write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OutputError, match=r"^'gs://bucket/x' is no folder of this machine"):
        write("gs://bucket/x")
    assert not list(tmp_path.iterdir())
