"""What a checkpoint's texts say: JSON behind a line of its version, or Java's binary data.

Spark writes its logs, its metadata of operators and that of snapshots as files that begin with a
line ``v<number>``; its schema files and changelogs begin as Java's ``DataOutputStream`` writes:
big-endian numbers, and texts behind their length. Whatever is not there, or is of another type than
it should be, is a :class:`~kstoolkit.errors.FormatError`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, TypeVar

from kstoolkit.errors import FormatError
from kstoolkit.formats.columns import foreign_version

_DAMAGED = "The file is damaged, or is another than it is taken for."
_LARGEST_SHOWN = 60
_VERSION = re.compile(r"v[0-9]{1,9}")
_HALF = re.compile(r"[\ud800-\udfff]")
T = TypeVar("T")


def object_of(raw: bytes | str, what: str) -> dict[str, Any]:
    """Return the object that a JSON text holds; ``what`` it should be is for the message."""
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError) as error:
        message = f"What should be {what} is no JSON: {shown(raw)}."
        raise FormatError(message, hint=_DAMAGED) from error
    return _as(found, dict, what)


def versioned_lines(raw: bytes, what: str, known: range) -> tuple[int, list[str]]:
    """Return the version in a file's first line, ``v<number>``, and its other lines."""
    try:
        first, *rest = raw.decode().split("\n")
    except UnicodeDecodeError as error:
        message = f"A {what} that is no text: {shown(raw)}."
        raise FormatError(message, hint=_DAMAGED) from error
    if not _VERSION.fullmatch(first):
        message = f"A {what} begins with {shown(first)}, not with its version."
        raise FormatError(message, hint=_DAMAGED)
    version = int(first[1:])
    if version not in known:
        raise foreign_version(what, version, known[-1], "Spark")
    return version, rest


def member(found: dict[str, Any], name: str, what: str) -> dict[str, Any]:
    """Return the object of this name in another; {} if there is none."""
    value = found.get(name)
    return {} if value is None else _as(value, dict, f"{name} of {what}")


def items(found: dict[str, Any], name: str, what: str) -> list[dict[str, Any]]:
    """Return the list of objects of this name; [] if there is none."""
    value = found.get(name)
    listed = [] if value is None else _as(value, list, f"{name} of {what}")
    return [_as(each, dict, f"an item of {name} of {what}") for each in listed]


def texts(found: dict[str, Any], name: str, what: str) -> dict[str, str]:
    """Return the object of texts of this name; {} if there is none."""
    pairs = member(found, name, what)
    return {key: _as(value, str, f"{key} in {name} of {what}") for key, value in pairs.items()}


def text(found: dict[str, Any], name: str, what: str) -> str:
    """Return the text of this name, which has no half of a character."""
    value = _as(found.get(name), str, f"{name} of {what}")
    if not value.isascii() and _HALF.search(value):
        message = f"What should be {name} of {what} is no text: {shown(value)}."
        raise FormatError(message, hint=_DAMAGED)
    return value


def integer(found: dict[str, Any], name: str, what: str, default: int | None = None) -> int:
    """Return the whole number of 64 bits of this name, or ``default`` where there is none."""
    value = found.get(name, default)
    if isinstance(value, bool):
        value = str(value).lower()
    number = _as(value, int, f"{name} of {what}")
    if not -(2**63) <= number < 2**63:
        message = f"What should be {name} of {what} is a number of {number.bit_length()} bits."
        raise FormatError(message, hint=_DAMAGED)
    return number


def _as(value: Any, kind: type[T], what: str) -> T:
    if isinstance(value, kind):
        return value
    message = f"What should be {what} is {shown(value)}."
    raise FormatError(message, hint=_DAMAGED)


def shown(value: Any) -> str:
    """Return a value as a message may show it; of what has parts, which kind it is.

    >>> shown("a" * 100), shown([[1], [2]]), shown(None)
    ("'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'…", 'a list', 'null')
    """
    if isinstance(value, dict | list):  # maybe nested deeper than Python can print
        return "an object" if isinstance(value, dict) else "a list"
    if not isinstance(value, str | bytes):
        return json.dumps(value, default=repr)
    first = value[:_LARGEST_SHOWN]
    text = first if isinstance(first, str) else first.decode("latin-1")
    return repr(text) + ("…" if len(value) > _LARGEST_SHOWN else "")


@dataclass(slots=True)
class JavaData:
    """Bytes of a ``what``, read from front to back: as far as ``at`` by now.

    What is not there, or is no text, is a :class:`~kstoolkit.errors.FormatError`.
    """

    raw: bytes
    what: str
    at: int = 0

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        if not 0 <= count <= len(self.raw) - self.at:
            msg = f"{count:,} bytes are missing at byte {self.at:,}"
            raise self.fault(msg)
        self.at += count
        return self.raw[self.at - count : self.at]

    def integer(self, width: int) -> int:
        """Return the next whole number, which has a sign."""
        return int.from_bytes(self.take(width), "big", signed=True)

    def text(self) -> str:
        """Return the next text, as ``writeUTF`` wrote it."""
        raw = self.take(int.from_bytes(self.take(2), "big"))
        try:
            # Java writes NUL as two bytes, and what lies beyond 16 bits as two halves of a pair.
            halves = raw.replace(b"\xc0\x80", b"\x00").decode("utf-8", "surrogatepass")
            return halves.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError as error:
            msg = f"no text at byte {self.at - len(raw):,}"
            raise self.fault(msg) from error

    def chunks(self) -> str:
        """Return the next text that was too long for one: a number of parts, then those."""
        count = self.integer(4)
        if not 0 <= count <= len(self.raw) - self.at:
            msg = f"a text of {count:,} parts at byte {self.at - 4:,}"
            raise self.fault(msg)
        return "".join([self.text() for _ in range(count)])

    def fault(self, reason: str) -> FormatError:
        """Return the error that says what is wrong with these bytes."""
        message = f"A {self.what} of {len(self.raw):,} bytes: {reason}."
        return FormatError(message, hint="The file is damaged, or was not written to its end.")
