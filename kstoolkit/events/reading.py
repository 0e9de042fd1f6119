"""A file of events, counted by pane while it is read: what every task of the file feed does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstoolkit.events.csvfile import read_csv
from kstoolkit.events.dead_letters import letters
from kstoolkit.events.jsonlines import read_json_lines
from kstoolkit.events.judging import Limits, judge
from kstoolkit.events.opening import format_of
from kstoolkit.events.parquetfile import read_parquet

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from kstoolkit.events.pieces import Columns, Piece


_READERS = {"json": read_json_lines, "csv": read_csv, "parquet": read_parquet}


@dataclass(frozen=True, slots=True, eq=False)
class Good:
    """Events of one piece, as columns, and the dead letters beside them."""

    time_ms: NDArray[np.int64]
    users: pa.Array
    actions: pa.Array
    letters: list[pa.RecordBatch]


def read_events(
    path: str, columns: Columns, *, now_ms: int, limits: Limits, file_format: str | None = None
) -> Iterator[Good]:
    """Yield the events of a file piece by piece, and its dead letters.

    Raises
    ------
    OSError
        If the file is damaged or gone: none of what was yielded may count then.
    """
    for piece in _READERS[format_of(path, file_format)](path, columns):
        yield sift(piece, now_ms=now_ms, limits=limits, file=path)


def sift(piece: Piece, *, now_ms: int, limits: Limits, file: str | None) -> Good:
    """Judge the records of a piece: events here, dead letters there."""
    judged = judge(piece.times, piece.users, piece.actions, now_ms=now_ms, limits=limits)
    dead = []
    if piece.unparseable:
        raws, details = zip(*piece.unparseable, strict=True)
        dead.append(letters(["unparseable"] * len(raws), raws, file=file, details=details))
    if judged.bad.size:
        dead.append(letters(judged.reasons, piece.raw(judged.bad), file=file))
    return Good(judged.time_ms, judged.users, judged.actions, dead)


def broken_file(path: str, detail: str) -> pa.RecordBatch:
    """Return the one dead letter of a file that can't be read to its end."""
    return letters(["broken_file"], [""], file=path, details=detail)
