"""Sorted runs of rows, merged: what is read of each run at a time is one block."""

from __future__ import annotations

from bisect import bisect_left
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.formats.columns import ByteColumn

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from pathlib import Path


def merged(runs: Sequence[Path], *, without_last: int = 0) -> Generator[pa.Table]:
    """Yield the rows of all runs by their identities; rows of one identity come in one table.

    Parameters
    ----------
    runs
        Files of Arrow's stream format, each in the order of its column ``identity``.
    without_last
        How many bytes at the end of each identity not to look at; rows come without them.
    """
    with ExitStack() as open_files:
        heads = [_Head(open_files, path, without_last) for path in runs]
        while heads:
            # Rows below the least last one that is known are all here; what equals it may go on.
            last = min((head.last for head in heads if not head.ended), default=None)
            parts = [head.taken_below(last) for head in heads]
            for head in heads:
                if head.last == last or not len(head.rows):
                    head.read_on()
            heads = [head for head in heads if len(head.rows) or not head.ended]
            rows = [part for part in parts if len(part)]
            if rows:
                yield _sorted(rows)


class _Head:
    """The front of a run: rows that were read, and not yet merged."""

    __slots__ = ("_blocks", "_without_last", "ended", "last", "rows")

    def __init__(self, open_files: ExitStack, path: Path, without_last: int) -> None:
        file = open_files.enter_context(pa.OSFile(str(path), "rb"))
        stream = open_files.enter_context(pa.ipc.open_stream(file))
        self._blocks, self._without_last = iter(stream), without_last
        self.rows = stream.schema.empty_table()
        self.last, self.ended = b"", False
        self.read_on()

    def read_on(self) -> None:
        block = next(self._blocks, None)
        if block is None:
            self.ended = True
            return
        rows = pa.Table.from_batches([block])
        if self._without_last:
            identity = ByteColumn.from_arrow(block.column("identity"))
            shorter = identity.part(end=-self._without_last).to_arrow()
            rows = rows.set_column(0, "identity", shorter)
        self.rows = pa.concat_tables([self.rows, rows]).combine_chunks()
        self.last = rows["identity"][-1].as_py()

    def taken_below(self, last: bytes | None) -> pa.Table:
        """Take the rows whose identity is less; None: all there are."""
        rows, identity = self.rows, self.rows["identity"]
        number = len(rows)
        if last is not None:
            number = bisect_left(range(number), last, key=lambda row: identity[row].as_py())
        self.rows = rows.slice(number)
        return rows.slice(0, number)


def _sorted(parts: list[pa.Table]) -> pa.Table:
    if len(parts) == 1:
        return parts[0]
    rows = pa.concat_tables(parts).combine_chunks()
    return rows.take(pc.sort_indices(rows["identity"]))
