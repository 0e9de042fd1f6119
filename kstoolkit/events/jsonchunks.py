"""JSON lines as bytes: runs of whole lines, and where each line of a run begins and ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kstoolkit.events.opening import open_stream

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray


CHUNK_BYTES = 8 << 20
LONGEST_LINE_BYTES = 32 << 20
_BOM = b"\xef\xbb\xbf"
_NEWLINE, _RETURN, _OPEN, _CLOSE = b"\n\r{}"


def chunks_of(path: str | Path, chunk_bytes: int, longest_bytes: int) -> Iterator[bytes]:
    """Yield runs of whole lines; of a line that is too long, a beginning that is too long."""
    held, skipping = b"", False
    with open_stream(path) as stream:
        begin = stream.read(len(_BOM)).removeprefix(_BOM)
        while read := begin + stream.read(chunk_bytes):
            begin = b""
            if skipping:
                _, newline, read = read.partition(b"\n")
                skipping = not newline
            if skipping:
                continue
            lines, newline, rest = read.rpartition(b"\n")
            if newline:
                yield held + lines
                held = b""
            held += rest
            if len(held) > longest_bytes:
                yield held[: longest_bytes + 1]
                held, skipping = b"", True
    if held:
        yield held


class Lines:
    """Where the lines of a chunk that hold something begin and end."""

    __slots__ = ("chunk", "ends", "longest_bytes", "one_object_each", "starts")

    def __init__(self, chunk: bytes, starts: NDArray[np.intp], ends: NDArray[np.intp]) -> None:
        self.chunk, self.starts, self.ends = chunk, starts, ends
        self.longest_bytes = int((ends - starts).max(initial=0))
        self.one_object_each = False

    @classmethod
    def of(cls, chunk: bytes) -> Lines:
        """Find the lines, and whether each begins with { and ends with }.

        If each does, no row of the parser can be anything but one line, given that there are as
        many rows as lines: after a closing brace, nothing inside an object may go on with an
        opening one.
        """
        data = np.frombuffer(chunk, dtype=np.uint8)
        breaks = np.flatnonzero(data == _NEWLINE)
        starts, ends = np.r_[0, breaks + 1], np.r_[breaks, len(data)]
        filled = ends > starts
        lines = cls(chunk, starts[filled], ends[filled])
        lines.ends = lines.ends - (data[lines.ends - 1] == _RETURN)
        filled = lines.ends > lines.starts
        lines.starts, lines.ends = lines.starts[filled], lines.ends[filled]
        opened, closed = data[lines.starts] == _OPEN, data[lines.ends - 1] == _CLOSE
        lines.one_object_each = bool(opened.all() and closed.all())
        return lines

    def may_be_objects(self, longest_bytes: int) -> bool:
        """Whether a parser that takes as many rows from the chunk as it has lines took each line.

        Such a parser passes over NUL and over bytes that are no UTF-8, so there must be none.
        """
        is_short = self.longest_bytes <= longest_bytes
        return (
            self.one_object_each and is_short and b"\0" not in self.chunk and _is_utf8(self.chunk)
        )

    def raw(self, chosen: NDArray[np.intp]) -> list[str]:
        """Return the chosen lines."""
        return [
            self.chunk[self.starts[place] : self.ends[place]].decode("utf-8", "replace")
            for place in chosen
        ]


def shown(line: bytes) -> str:
    """Return a line as text for people, whatever its bytes are."""
    return line.removesuffix(b"\r").decode("utf-8", "replace")


def _is_utf8(chunk: bytes) -> bool:
    if chunk.isascii():
        return True
    try:
        chunk.decode()
    except UnicodeDecodeError:
        return False
    return True
