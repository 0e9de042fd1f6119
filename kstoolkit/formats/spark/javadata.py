"""What Java's DataOutputStream wrote: big-endian numbers, and texts behind their length."""

from __future__ import annotations

from dataclasses import dataclass

from kstoolkit.errors import FormatError


@dataclass(slots=True)
class JavaData:
    r"""Bytes, read from front to back.

    Parameters
    ----------
    raw
        The bytes.
    what
        What they are, for messages: ``"schema file"``.
    at
        How many have been read.

    Examples
    --------
    >>> data = JavaData(b"\x00\x02v2\x00\x00\x00\x07", "schema file")
    >>> data.text(), data.integer(4)
    ('v2', 7)
    """

    raw: bytes
    what: str
    at: int = 0

    def take(self, count: int) -> bytes:
        """Return the next bytes.

        Raises
        ------
        FormatError
            If there are fewer.
        """
        if not 0 <= count <= len(self.raw) - self.at:
            msg = f"{count:,} bytes are missing at byte {self.at:,}"
            raise self.fault(msg)
        self.at += count
        return self.raw[self.at - count : self.at]

    def integer(self, width: int) -> int:
        """Return the next whole number, which has a sign."""
        return int.from_bytes(self.take(width), "big", signed=True)

    def text(self) -> str:
        """Return the next text, as ``writeUTF`` wrote it.

        Raises
        ------
        FormatError
            If there is none.
        """
        raw = self.take(int.from_bytes(self.take(2), "big"))
        try:
            # Java writes NUL as two bytes, and what lies beyond 16 bits as two halves of a pair.
            halves = raw.replace(b"\xc0\x80", b"\x00").decode("utf-8", "surrogatepass")
            return halves.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError as error:
            msg = f"no text at byte {self.at - len(raw):,}"
            raise self.fault(msg) from error

    def chunks(self) -> str:
        """Return the next text that was too long for one: a number of parts, then those.

        Raises
        ------
        FormatError
            If there is none.
        """
        count = self.integer(4)
        if not 0 <= count <= len(self.raw) - self.at:
            msg = f"a text of {count:,} parts at byte {self.at - 4:,}"
            raise self.fault(msg)
        return "".join([self.text() for _ in range(count)])

    def fault(self, reason: str) -> FormatError:
        """Return the error that says what is wrong with these bytes."""
        message = f"A {self.what} of {len(self.raw):,} bytes: {reason}."
        return FormatError(message, hint="The file is damaged, or was not written to its end.")
