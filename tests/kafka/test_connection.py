"""Settings of a connection, as the two clients name them.

Whether a broker answers: asked of a real one, and of what only listens.
"""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from kstoolkit.errors import ConfigurationError, InputError
from kstoolkit.events.topics import read_options
from kstoolkit.kafka.cluster import Cluster
from kstoolkit.kafka.connection import for_java, for_librdkafka
from kstoolkit.kafka.servers import is_ready

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kstoolkit.kafka.broker import Broker


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


def test_a_line_that_ends_with_a_backslash_goes_on_in_the_next(tmp_path: Path) -> None:
    path = tmp_path / "kafka.properties"
    path.write_text(
        "! of Java's tools\nsasl.jaas.config=org.x.PlainLoginModule required \\\n"
        '  username="me" \\\n  password="a=b";\nsasl.mechanism=PLAIN\nhidden-42\n'
    )
    with pytest.raises(InputError, match="Line 6"):
        read_options(path)
    path.write_text(path.read_text().removesuffix("hidden-42\n"))
    told = for_librdkafka(read_options(path))
    assert (told["sasl.username"], told["sasl.password"]) == ("me", "a=b")


def test_what_is_said_to_one_client_wins_over_what_is_said_to_both() -> None:
    given = {"java.client.id": "j", "client.id": "both", "librdkafka.client.id": "l"}
    assert (for_java(given), for_librdkafka(given)) == ({"client.id": "j"}, {"client.id": "l"})


def test_stores_as_java_names_them_reach_librdkafka_as_pem(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.pem", tmp_path / "theirs.pem"
    for path in (ours, theirs):
        path.touch()
    given = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(ours),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(theirs),
    }
    assert for_librdkafka(given) == {
        "ssl.certificate.location": str(ours),
        "ssl.key.location": str(ours),
        "ssl.ca.location": str(theirs),
    }
    assert for_java(given) == given


@pytest.mark.parametrize("which", ["truststore", "keystore"])
def test_a_store_that_java_alone_reads_needs_pem_beside_it(tmp_path: Path, which: str) -> None:
    pem, place = tmp_path / "a.pem", f"ssl.{which}.location"
    pem.touch()
    given = {f"ssl.{which}.type": "JKS", place: "a.jks", f"ssl.{which}.password": "hidden-42"}
    with pytest.raises(ConfigurationError, match=f"{place} is of type JKS") as caught:
        for_librdkafka(given)
    assert "hidden-42" not in str(caught.value)
    names = {"truststore": ["ssl.ca.location"]}.get(
        which, ["ssl.certificate.location", "ssl.key.location"]
    )
    beside = dict.fromkeys(names, str(pem))
    assert for_librdkafka(given | beside) == beside
    assert for_java(given | beside) == given


def test_a_name_that_is_not_checked_is_not_checked_by_both() -> None:
    name = "ssl.endpoint.identification.algorithm"
    for given in ("none", ""):
        assert for_java({name: given}) == {name: ""}
        assert for_librdkafka({name: given}) == {name: "none"}
    assert for_librdkafka({name: "https"}) == {name: "https"}


def test_java_verifies_certificates_always() -> None:
    name = "enable.ssl.certificate.verification"
    with pytest.raises(ConfigurationError, match=name):
        for_java({name: "false"})
    assert for_java({name: "true"}) == {}


@pytest.mark.parametrize("curve", [None, ec.SECP256R1(), ec.SECP521R1()])
def test_keys_of_older_forms_are_told_to_java_in_the_one_it_reads(
    curve: ec.EllipticCurve | None,
) -> None:
    key = ec.generate_private_key(curve) if curve else rsa.generate_private_key(65_537, 2_048)
    old = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    told = for_java({"ssl.key.pem": old.decode()})["ssl.keystore.key"]
    assert told.startswith("-----BEGIN PRIVATE KEY-----\n")
    read = serialization.load_pem_private_key(told.encode(), None)
    assert isinstance(read, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey)
    assert read.private_numbers() == key.private_numbers()


@pytest.mark.parametrize(
    ("inside", "said"),
    [
        ("Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,A5\n\nAAAA", "is an encrypted EC key"),
        ("AAAA", "is no whole EC key"),
        ("MHcC", "is no whole EC key"),
        ("", "is no whole EC key"),
        ("?", "is no whole EC key"),
    ],
)
def test_a_key_that_java_can_not_be_told_is_said(tmp_path: Path, inside: str, said: str) -> None:
    path = tmp_path / "key.pem"
    path.write_text(f"-----BEGIN EC PRIVATE KEY-----\n{inside}\n-----END EC PRIVATE KEY-----\n")
    with pytest.raises(InputError, match=rf"key\.pem' {said}") as caught:
        for_java({"ssl.key.location": str(path)})
    assert "openssl pkcs8" in str(caught.value.hint)


HEAD = b"\0\0\0\7"  # the number of the request that is answered


@contextmanager
def answering(*answers: bytes) -> Iterator[int]:
    """Listen, send this to whoever asks something, and hang up."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            for answer in answers:
                connection.recv(1024)
                connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


@pytest.mark.kafka
def test_a_broker_that_runs_is_ready(broker: Broker) -> None:
    assert is_ready(int(broker.bootstrap.rpartition(":")[2]))


def test_nobody_is_not_ready() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert not is_ready(port)


@pytest.mark.parametrize(
    "answers",
    [
        [b""],
        [b"HTTP/1.1 400 Bad Request\r\n\r\n"],
        [b"\0\0\0\6" + HEAD],  # cut off
        [b"\0\0\0\5" + HEAD + b"\0"],  # too short for an error code
        [b"\0\0\0\6" + b"\0\0\0\1" + b"\0\0"],  # to another request
        [b"\0\0\0\6" + HEAD + b"\0\x23"],  # a version that is not supported
        [b"\0\0\0\2" + HEAD],  # a length that none has
        [b"\x7f\0\0\0" + HEAD],
        [b"\0\0\0\6" + HEAD + b"\0\0", b"\0\0\0\x08" + HEAD + b"\0\0\0\0"],  # no broker yet
        [b"\0\0\0\6" + HEAD + b"\0\0", b""],
    ],
)
def test_what_answers_otherwise_is_not_ready(answers: list[bytes]) -> None:
    with answering(*answers) as port:
        assert not is_ready(port)


def test_a_broker_that_is_registered_is_ready() -> None:
    first, second = b"\0\0\0\6" + HEAD + b"\0\0", b"\0\0\0\x08" + HEAD + b"\0\0\0\1"
    with answering(first, second) as port:
        assert is_ready(port)
