"""Settings of a connection, as the two clients name them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kstoolkit.errors import ConfigurationError, InputError
from kstoolkit.kafka.cluster import Cluster
from kstoolkit.kafka.connection import for_java, for_librdkafka, read_options

if TYPE_CHECKING:
    from pathlib import Path


def test_a_user_and_password_reach_both_clients() -> None:
    given = {"sasl.mechanisms": "SCRAM-SHA-512", "sasl.username": "me", "sasl.password": 'a"b\\c'}
    java = for_java(given)
    assert java["sasl.mechanism"] == "SCRAM-SHA-512"
    assert java["sasl.jaas.config"].endswith('username="me" password="a\\"b\\\\c";')
    assert "sasl.password" not in java
    assert for_librdkafka(java) == {
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "me",
        "sasl.password": 'a"b\\c',
    }


def test_files_of_a_certificate_and_its_key_are_told_to_java_as_text(tmp_path: Path) -> None:
    for name in ("ca", "cert", "key"):
        (tmp_path / f"{name}.pem").write_text(f"-- {name} --")
    java = for_java(
        {
            "security.protocol": "SSL",
            "ssl.ca.location": str(tmp_path / "ca.pem"),
            "ssl.certificate.location": str(tmp_path / "cert.pem"),
            "ssl.key.location": str(tmp_path / "key.pem"),
        }
    )
    assert java == {
        "security.protocol": "SSL",
        "ssl.truststore.location": str(tmp_path / "ca.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "-- cert --",
        "ssl.keystore.key": "-- key --",
    }


def test_what_one_client_knows_is_told_to_that_one() -> None:
    given = {"java.max.block.ms": "5", "librdkafka.socket.timeout.ms": "7", "client.id": "us"}
    assert for_java(given) == {"max.block.ms": "5", "client.id": "us"}
    assert for_librdkafka(given) == {"socket.timeout.ms": "7", "client.id": "us"}


def test_a_setting_that_is_none_is_said_at_once() -> None:
    cluster = Cluster("127.0.0.1:1", {"max.block.ms": "5"})
    with pytest.raises(ConfigurationError, match=r"max\.block\.ms") as caught:
        cluster.wait(600_000, print)
    assert "java." in str(caught.value)


def test_a_file_of_settings_is_read_and_a_bad_line_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "kafka.properties"
    path.write_text("# ours\n\nsasl.username = me\nsasl.password=a=b\n")
    assert read_options(path) == {"sasl.username": "me", "sasl.password": "a=b"}
    path.write_text("sasl.username=me\nhidden-42\n")
    with pytest.raises(InputError, match="Line 2") as caught:
        read_options(path)
    assert "hidden-42" not in str(caught.value)


def test_a_mechanism_without_a_module_asks_for_its_own_setting() -> None:
    with pytest.raises(ConfigurationError, match="GSSAPI"):
        for_java({"sasl.mechanism": "GSSAPI", "sasl.username": "me"})
