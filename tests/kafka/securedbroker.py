"""A real broker that lets in whoever shows a password or a certificate, for tests.

It has three doors, all on loopback: one that is open, by which it speaks to itself and tests look
at it; one with TLS, a user and a password (``PLAIN`` or ``SCRAM-SHA-512``); and one with TLS where
the client shows a certificate, too. Its own certificate is for ``127.0.0.1``, not ``localhost``.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import trustme
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives import serialization

from kstoolkit.kafka.broker import Broker, Identity

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["SecuredBroker"]

USER = "counter"

_DOORS = """
# Of a name that is there twice, the last one counts.
listeners=PLAINTEXT://127.0.0.1:{open},SASL_SSL://127.0.0.1:{sasl},SSL://127.0.0.1:{mutual},\
CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{open},SASL_SSL://127.0.0.1:{sasl},\
SSL://127.0.0.1:{mutual}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
ssl.truststore.type=PEM
ssl.truststore.location={truststore}
listener.name.ssl.ssl.client.auth=required
listener.name.sasl_ssl.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512
listener.name.sasl_ssl.plain.sasl.jaas.config=\
org.apache.kafka.common.security.plain.PlainLoginModule required user_{user}="{password}";
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
"""


class SecuredBroker(Broker):
    """A broker behind TLS.

    Parameters
    ----------
    folder
        Where it lives; certificates and keys lie beside it.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.password = f"hush-{secrets.token_hex(12)}"
        self._papers = folder.with_name(f"{folder.name} papers")
        self._papers.mkdir()
        self._ports = Identity.new()

        authority, stranger = trustme.CA(), trustme.CA()
        authority.cert_pem.write_to_path(self.ca)
        stranger.cert_pem.write_to_path(self.other_ca)
        server = authority.issue_cert("127.0.0.1")
        keystore = _modern(server) + b"".join(each.bytes() for each in server.cert_chain_pems)
        self._keystore.write_bytes(keystore)
        client = authority.issue_cert("client@example.org")
        self.key.write_bytes(client.private_key_pem.bytes())
        self.certificate.write_bytes(client.cert_chain_pems[0].bytes())

    @property
    def ca(self) -> Path:
        """Who vouches for the broker and its clients."""
        return self._papers / "ca.pem"

    @property
    def other_ca(self) -> Path:
        """Somebody who vouches for nobody."""
        return self._papers / "other ca.pem"

    @property
    def certificate(self) -> Path:
        """A client's certificate."""
        return self._papers / "client.pem"

    @property
    def key(self) -> Path:
        """And its key, as OpenSSL used to write keys: Java knows no such form."""
        return self._papers / "client key.pem"

    @property
    def sasl(self) -> str:
        """The address of the door where passwords are asked for."""
        return f"127.0.0.1:{self._ports.port}"

    @property
    def mutual(self) -> str:
        """The address of the door where certificates are asked for."""
        return f"127.0.0.1:{self._ports.controller_port}"

    @property
    def sasl_options(self) -> dict[str, str]:
        """What a client with a password is told."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": self.password,
            "ssl.ca.location": str(self.ca),
        }

    @property
    def mutual_options(self) -> dict[str, str]:
        """What a client with a certificate is told."""
        return {
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.ca),
            "ssl.certificate.location": str(self.certificate),
            "ssl.key.location": str(self.key),
        }

    def let_in(self, user: str, password: str) -> None:
        """Give somebody a password for ``SCRAM-SHA-512``."""
        told = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        wanted = UserScramCredentialUpsertion(user, told, password.encode())
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        admin.alter_user_scram_credentials([wanted])[user].result(30)

    @property
    def _keystore(self) -> Path:
        return self._papers / "broker.pem"

    def _properties(self, identity: Identity) -> str:
        doors = _DOORS.format(
            open=identity.port,
            controller=identity.controller_port,
            sasl=self._ports.port,
            mutual=self._ports.controller_port,
            keystore=self._keystore,
            truststore=self.ca,
            user=USER,
            password=self.password,
        )
        return super()._properties(identity) + doors


def _modern(certificate: trustme.LeafCert) -> bytes:
    """Return a certificate's key in the form that Java reads (PKCS #8)."""
    key = serialization.load_pem_private_key(certificate.private_key_pem.bytes(), None)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
