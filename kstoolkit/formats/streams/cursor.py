"""Reading on and on in one cell, and never past its end."""

from __future__ import annotations

from kstoolkit.errors import FormatError

_VARINT_BYTES = 5
_MORE = 0x80
_BITS = 0x7F


class Cursor:
    r"""A place in some bytes, from which numbers and pieces are read one after the other.

    Each method raises :class:`~kstoolkit.errors.FormatError` if there are fewer bytes left than it
    is asked for, so that no length which the bytes claim is believed before it was looked at.

    Parameters
    ----------
    data
        The bytes of all cells.
    start, end
        Where this cell lies in them.

    Examples
    --------
    >>> cursor = Cursor(memoryview(b"\x00\x00\x00\x02hi"), 0, 6)
    >>> cursor.sized(), cursor.left
    ((4, 6), 0)
    """

    __slots__ = ("_at", "_data", "_end")

    def __init__(self, data: memoryview, start: int, end: int) -> None:
        self._data = data
        self._at = start
        self._end = end

    @property
    def left(self) -> int:
        """How many bytes there are still to be read."""
        return self._end - self._at

    @property
    def at(self) -> int:
        """Where the next byte lies in all the bytes."""
        return self._at

    def span(self, length: int) -> tuple[int, int]:
        """Return from where up to where the next ``length`` bytes lie, and go past them."""
        if length < 0:
            message = f"a length of {length}"
            raise FormatError(message)
        if length > self.left:
            message = f"{_bytes(length)} should follow, {self.left} do"
            raise FormatError(message)
        start = self._at
        self._at = start + length
        return start, self._at

    def within(self, length: int) -> Cursor:
        """Return a cursor of the next ``length`` bytes alone, and go past them."""
        return Cursor(self._data, *self.span(length))

    def sized(self) -> tuple[int, int] | None:
        """Return where the piece lies whose length comes first, as int32; None if that is -1."""
        length = self.int32()
        return None if length == -1 else self.span(length)

    def varint_sized(self) -> tuple[int, int] | None:
        """Return the same of a length that is a varint."""
        length = self.varint()
        return None if length == -1 else self.span(length)

    def take(self, span: tuple[int, int]) -> bytes:
        """Return the bytes of a piece."""
        return bytes(self._data[span[0] : span[1]])

    def text(self, span: tuple[int, int] | None) -> str:
        """Return the UTF-8 text of a piece."""
        if span is None:
            message = "a name is missing"
            raise FormatError(message)
        try:
            return self.take(span).decode()
        except UnicodeDecodeError as error:
            message = "a name is no UTF-8"
            raise FormatError(message) from error

    def text_at(self, span: tuple[int, int] | None) -> tuple[int, int]:
        """Return where a piece lies that must be there, and be UTF-8 text."""
        self.text(span)
        return span or (0, 0)

    def byte(self) -> int:
        """Return the next byte, without sign."""
        return self._data[self.span(1)[0]]

    def int32(self) -> int:
        """Return the next four bytes as a number, big-endian and signed."""
        return int.from_bytes(self.take(self.span(4)), "big", signed=True)

    def int64(self) -> int:
        """Return the next eight bytes as a number, big-endian and signed."""
        return int.from_bytes(self.take(self.span(8)), "big", signed=True)

    def varint(self) -> int:
        """Return the next zig-zag base-128 number, as ``ByteUtils.readVarint`` does."""
        bits = 0
        for place in range(_VARINT_BYTES):
            byte = self.byte()
            bits |= (byte & _BITS) << (7 * place)
            if not byte & _MORE:
                return (bits >> 1) ^ -(bits & 1)
        message = f"a varint of more than {_VARINT_BYTES} bytes"
        raise FormatError(message)

    def finish(self) -> None:
        """Check that nothing is left."""
        if self.left:
            message = f"{_bytes(self.left)} left over"
            raise FormatError(message)


def _bytes(count: int) -> str:
    return f"{count} byte" if count == 1 else f"{count} bytes"
