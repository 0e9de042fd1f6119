"""Connections with TLS, passwords and certificates, to a real broker that asks for them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

import kstoolkit as kst
from kstoolkit.errors import ConfigurationError, InputError
from kstoolkit.events.topics import _CONFIG_FILE
from kstoolkit.kafka.cluster import Cluster
from kstoolkit.kafka.connection import for_java
from tests.cli.commands import given, harmless, rows
from tests.kafka.clients import read_all
from tests.kafka.securedbroker import USER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.kafka.securedbroker import SecuredBroker

pytestmark = pytest.mark.kafka

PATIENCE_MS = 60_000
SOON_SECONDS = 20  # on a machine that has much to do; two on one that has not
QUOTED = """p"w,\\=' x"""


def without(options: Mapping[str, str], *names: str) -> dict[str, str]:
    return {name: value for name, value in options.items() if name not in names}


def of_java(secured: SecuredBroker) -> dict[str, str]:
    """What a program in Java would have been told, on one line in single quotes."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f"{module} required username={USER} password='{secured.password}';",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(secured.ca),
    }


WAYS_IN: dict[str, Callable[[SecuredBroker], tuple[str, dict[str, str]]]] = {
    "a password": lambda at: (at.sasl, at.sasl_options),
    "no mechanism named": lambda at: (at.sasl, without(at.sasl_options, "sasl.mechanism")),
    "a password by SCRAM": lambda at: (
        at.sasl,
        {
            **at.sasl_options,
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "anna",
            "sasl.password": QUOTED,
        },
    ),
    "a certificate": lambda at: (at.mutual, at.mutual_options),
    "a certificate as Java names it": lambda at: (
        at.mutual,
        {"security.protocol": "SSL", "ssl.ca.pem": at.ca.read_text()}
        | {
            name: value
            for name, value in for_java(at.mutual_options).items()
            if name.startswith("ssl.keystore.")
        },
    ),
    "Java's settings": lambda at: (at.sasl, of_java(at)),
    "another name, unchecked": lambda at: (
        at.sasl.replace("127.0.0.1", "localhost"),
        at.sasl_options | {"ssl.endpoint.identification.algorithm": ""},
    ),
}


@pytest.mark.parametrize("way", WAYS_IN)
def test_whoever_shows_what_is_asked_for_is_let_in(secured: SecuredBroker, way: str) -> None:
    if "SCRAM" in way:
        secured.let_in("anna", QUOTED)
    bootstrap, options = WAYS_IN[way](secured)
    Cluster(bootstrap, options).wait(0, print)


MISTAKES: dict[str, tuple[Callable[[SecuredBroker], tuple[str, dict[str, str]]], str, str]] = {
    "a wrong password": (
        lambda at: (at.sasl, at.sasl_options | {"sasl.password": f"no-{at.password}"}),
        "does not let this client in: .*Invalid username or password",
        "sasl.password",
    ),
    "a mechanism that the broker has not": (
        lambda at: (at.sasl, at.sasl_options | {"sasl.mechanism": "SCRAM-SHA-256"}),
        "supported mechanisms: PLAIN,SCRAM-SHA-512",
        "sasl.mechanism",
    ),
    "an issuer that is unknown": (
        lambda at: (at.sasl, at.sasl_options | {"ssl.ca.location": str(at.other_ca)}),
        "is not trusted: unable to get local issuer certificate",
        "ssl.ca.location",
    ),
    "a name that the certificate is not for": (
        lambda at: (at.sasl.replace("127.0.0.1", "localhost"), at.sasl_options),
        "is not trusted: Hostname mismatch, certificate is not valid for 'localhost'",
        "a name of the broker",
    ),
    "no TLS where there is some": (
        lambda at: (at.sasl, without(at.sasl_options, "security.protocol")),
        "speaks TLS, and security.protocol=PLAINTEXT",
        "SASL_SSL",
    ),
    "TLS where there is none": (
        lambda at: (at.bootstrap, at.sasl_options),
        "speaks no TLS, and security.protocol=SASL_SSL",
        "SASL_PLAINTEXT",
    ),
    "no password where one is asked for": (
        lambda at: (at.sasl, {"security.protocol": "SSL", "ssl.ca.location": str(at.ca)}),
        "wants a password, and security.protocol=SSL",
        "SASL_SSL",
    ),
    "no certificate where one is asked for": (
        lambda at: (at.mutual, {"security.protocol": "SSL", "ssl.ca.location": str(at.ca)}),
        "wants a certificate of the client",
        "ssl.key.location",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_is_wrong_is_said_soon_instead_of_waited_for(
    secured: SecuredBroker, mistake: str
) -> None:
    made, said, hint = MISTAKES[mistake]
    bootstrap, options = made(secured)
    began = time.monotonic()
    with pytest.raises(ConfigurationError, match=said) as caught:
        Cluster(bootstrap, options).wait(PATIENCE_MS, print)
    assert time.monotonic() - began < SOON_SECONDS
    assert bootstrap in caught.value.message
    assert "\n" not in caught.value.message
    assert hint in str(caught.value.hint)
    assert secured.password not in str(caught.value)


def test_whoever_asks_without_waiting_hears_what_is_wrong_too(secured: SecuredBroker) -> None:
    with pytest.raises(ConfigurationError, match="speaks TLS"):
        Cluster(secured.mutual).partitions("any")


def test_a_file_that_is_not_there_is_named(secured: SecuredBroker) -> None:
    options = secured.sasl_options | {"ssl.ca.location": "no/ca.pem"}
    with pytest.raises(InputError, match=r"'no/ca.pem', which is ssl.ca.location, can't be read"):
        Cluster(secured.sasl, options).wait(0, print)


@pytest.fixture
def config(secured: SecuredBroker, tmp_path: Path) -> Path:
    """The settings in a file, as its owner would write them."""
    path = tmp_path / "client.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in secured.sasl_options.items()))
    return path


@pytest.mark.parametrize("by", ["option", "environment"])
def test_files_go_to_a_secured_topic_with_settings_from_a_file(
    secured: SecuredBroker, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    events = tmp_path / "events.json"
    events.write_text('{"time": "2026-03-01T00:00:00Z", "user": "Zoë"}\n' * 3)
    told: tuple[object, ...] = ("--kafka-config", config)
    if by == "environment":
        monkeypatch.setenv(_CONFIG_FILE, str(config))
        told = ()
    command = ("produce", events, "--to", f"kafka://{secured.sasl}/by-{by}")
    answer = given(*command, "--event-time", "time", "--user", "user", "--json", *told)
    assert (answer.code, rows(answer.out)[0]["records"]) == (0, 3)
    assert len(read_all(secured, f"by-{by}")) == 3
    assert secured.password not in answer.out + answer.err
    if by == "environment":
        topic = f"kafka://{secured.sasl}/by-{by}"
        named: dict[str, Any] = {"event_time": "time", "user": "user", "action": "user"}
        owned = secured.sasl_options | {"bootstrap.servers": secured.sasl}
        assert kst.kafka_topic(topic, **named).options == owned
        assert kst.kafka_topic(topic, **named, options={}).options == {}


def test_a_command_with_a_wrong_password_ends_soon_with_code_2(
    secured: SecuredBroker, config: Path, tmp_path: Path
) -> None:
    wrong = f"{secured.password}-not"
    config.write_text(config.read_text().replace(secured.password, wrong))
    events = tmp_path / "events.json"
    events.write_text('{"time": "2026-03-01T00:00:00Z", "user": "Zoë"}\n')
    topic, settings = f"kafka://{secured.sasl}/refused", ("--kafka-config", config)
    named = ("--event-time", "time", "--user", "user")
    for command in (
        ("produce", events, "--to", topic, *named),
        ("run", topic, *named, "--action", "user", "--out", tmp_path / "out"),
        ("restore", topic, tmp_path / "replica"),
        ("lag", f"kafka://{secured.sasl}", "--group", "any"),
    ):
        began = time.monotonic()
        answer = given(*command, *settings)
        assert time.monotonic() - began < 2 * SOON_SECONDS
        assert (answer.code, answer.out) == (2, "")
        assert f"The broker at '{secured.sasl}' does not let this client in" in answer.err
        assert wrong not in answer.err
        assert harmless(answer.err)
