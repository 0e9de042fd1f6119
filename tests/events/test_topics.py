"""Topics as sources: what is an address of one, and what may be said of it."""

from __future__ import annotations

from typing import Any

import pytest

from kstoolkit.errors import ConfigurationError
from kstoolkit.events.topics import Address, address_of, kafka_topic, parse_address

COLUMNS: dict[str, Any] = {"event_time": "time", "user": "user", "action": "action"}


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("kafka://a:9092,b:9093/actions", Address("a:9092,b:9093", "actions")),
        ("kafka://[::1]:9092/my.topic_1-x", Address("[::1]:9092", "my.topic_1-x")),
        ("KAFKA://127.0.0.1:1/t", Address("127.0.0.1:1", "t")),
        ("data/sample", None),
        ("kafka:/a:9092/t", None),
    ],
)
def test_an_address_names_servers_and_a_topic(text: str, address: Address | None) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text",
    [
        "kafka://",
        "kafka://a:9092",
        "kafka://a:9092/",
        "kafka://a:9092/x/y",
        "kafka://a:9092/t?x=1",
        "kafka://a:9092/t\n",
        "kafka://a:9092/.",
        "kafka://a:9092/%2e%2e",
        f"kafka://a:9092/{'t' * 250}",
        "kafka://a:0/t",
        "kafka://a:65536/t",
        "kafka://a:²/t",
        "kafka://a:\uff19/t",
        "kafka://a:-1/t",
        "kafka://a:9092,,b:9092/t",
        "kafka://[::1/t",
        "kafka://a]:9092/t",
        "kafka://a\0:9092/t",
        "kafka://\u2100:9092/t",
        "kafka://me:secret@a:9092/t",
    ],
)
def test_what_is_no_address_is_a_mistake_that_is_explained(text: str) -> None:
    with pytest.raises(ConfigurationError) as mistake:
        parse_address(text)
    assert "secret" not in str(mistake.value)


@pytest.mark.parametrize(
    ("topic", "bootstrap"), [(5, "a:1"), (None, None), ("t", ["a:1"]), ("t", "")]
)
def test_what_is_no_text_is_no_topic(topic: Any, bootstrap: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"topic is|bootstrap is"):
        address_of(topic, bootstrap)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("max_records_per_batch", 0),
        ("max_records_per_batch", 1.5),
        ("max_records_per_batch", "9"),
        ("key", 5),
        ("value", 5),
        ("value", " "),
        ("event_time", ""),
        ("user", None),
        ("starting", None),
        ("starting", {0: -5}),
        ("starting", "0001-01-01T00:00+14:00"),
        ("starting", "2026-01-31T08:00"),
    ],
)
def test_what_makes_no_sense_of_a_topic_is_named(name: str, given: Any) -> None:
    told: dict[str, Any] = {**COLUMNS, name: given}
    with pytest.raises(ConfigurationError, match=name):
        kafka_topic("kafka://a:9092/t", **told)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("sasl.password=hush", "The options of the connection are of type str."),
        ({"sasl.password": ["hush"]}, "The option 'sasl.password' is of type list."),
        ({7: "hush"}, "The option 7 is of type str."),
    ],
)
def test_options_that_are_none_are_refused_and_not_shown(options: Any, said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        kafka_topic("kafka://a:9092/t", options=options, **COLUMNS)
    assert refused.value.message == said
    assert "hush" not in str(refused.value)
