"""Private keys as Java reads them: PKCS #8 and nothing else.

OpenSSL wrote others for long, and some tools still do: ``BEGIN RSA PRIVATE KEY`` (PKCS #1, RFC
8017, appendix A.1.2) and ``BEGIN EC PRIVATE KEY`` (SEC 1, RFC 5915). PKCS #8 (RFC 5208) is the same
key in an envelope that names its algorithm, and for EC the curve::

    SEQUENCE { INTEGER 0, SEQUENCE { algorithm, parameters }, OCTET STRING { the key } }
"""

from __future__ import annotations

import base64
import re
import textwrap
from typing import TYPE_CHECKING

from kstoolkit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator


_BLOCK = re.compile(r"-----BEGIN (RSA|EC) PRIVATE KEY-----([^-]*)-----END \1 PRIVATE KEY-----")
_OLD_AND_ENCRYPTED = re.compile(r"-----BEGIN (RSA|EC) PRIVATE KEY-----\s*Proc-Type")

_INTEGER, _OCTETS, _NAME, _SEQUENCE, _PARAMETERS = 0x02, 0x04, 0x06, 0x30, 0xA0
_VERSION = bytes([_INTEGER, 1, 0])
_RSA = bytes.fromhex("06092a864886f70d010101" + "0500")  # 1.2.840.113549.1.1.1, without parameters
_EC = bytes.fromhex("06072a8648ce3d0201")  # 1.2.840.10045.2.1
_LONG = 0x80


def for_java_to_read(pem: str, place: str) -> str:
    """Return a key's PEM text as PKCS #8; what is no RSA or EC key of the older kind, as it is.

    Parameters
    ----------
    pem
        What the file says.
    place
        Where it was found.

    Raises
    ------
    InputError
        If the key is of an older kind, and encrypted or damaged.

    Examples
    --------
    >>> for_java_to_read("-----BEGIN PRIVATE KEY-----", "key.pem")
    '-----BEGIN PRIVATE KEY-----'
    """
    if (found := _OLD_AND_ENCRYPTED.search(pem)) is not None:
        raise _unreadable(place, f"is an encrypted {found[1]} key of an older form")
    if (found := _BLOCK.search(pem)) is None:
        return pem
    kind, body = found.groups()
    try:
        key = base64.b64decode("".join(body.split()), validate=True)
        algorithm = _RSA if kind == "RSA" else _EC + _curve(key)
    except (ValueError, LookupError) as error:
        raise _unreadable(place, f"is no whole {kind} key") from error
    whole = _told(_SEQUENCE, _VERSION + _told(_SEQUENCE, algorithm) + _told(_OCTETS, key))
    lines = "\n".join(textwrap.wrap(base64.b64encode(whole).decode(), 64))
    return f"-----BEGIN PRIVATE KEY-----\n{lines}\n-----END PRIVATE KEY-----\n"


def _curve(key: bytes) -> bytes:
    """Return the name of an EC key's curve, as it stands in the key."""
    ((_, inside),) = _parts(key)
    (name,) = (body for tag, body in _parts(inside) if tag == _PARAMETERS)
    ((tag, _),) = _parts(name)
    if tag != _NAME:
        raise LookupError
    return name


def _parts(der: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the tag and content of each value that stands in some DER (X.690, 8.1)."""
    while der:
        tag, size, begin = der[0], der[1], 2
        if size & _LONG:
            begin += size & ~_LONG
            size = int.from_bytes(der[2:begin], "big")
        if len(der) < begin + size:
            raise IndexError
        yield tag, der[begin : begin + size]
        der = der[begin + size :]


def _told(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < _LONG:
        return bytes([tag, size]) + content
    digits = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, _LONG | len(digits)]) + digits + content


def _unreadable(place: str, why: str) -> InputError:
    message = f"The key in {place!r} {why}, which Java does not read."
    return InputError(message, hint="Write it as PKCS #8: openssl pkcs8 -topk8 -in KEY -out NEW")
