"""Rows in the order of their identities, however many: sorted runs in a scratch folder.

Rows come in the order of one engine's disk. As many as fit into a run are sorted in memory and
written as Arrow's stream format; the runs are merged as they are read
(:mod:`kstoolkit.stores.comparing.merging`). Should there be many, some are merged into one first.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.errors import ConfigurationError
from kstoolkit.stores.comparing.merging import merged
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


RUN_BYTES = 32 << 20
MOST_RUNS = 32
_BLOCK_BYTES = 512 << 10  # of each run, this much is in memory while it is merged


@dataclass(slots=True)
class Allowance:
    """How much scratch disk may be taken, and how much is."""

    disk_bytes: int
    taken_bytes: int = 0

    def take(self, size_bytes: int) -> None:
        """Take so much more.

        Raises
        ------
        ConfigurationError
            If that is more than may be taken.
        """
        self.taken_bytes += size_bytes
        if self.taken_bytes > self.disk_bytes:
            message = (
                f"The rows to compare take more than {format_bytes(self.disk_bytes)} of scratch "
                "disk."
            )
            hint = "Compare fewer rows: give rows(since=..., until=...), or raise disk_bytes."
            raise ConfigurationError(message, hint=hint)

    def remove(self, path: Path) -> None:
        """Remove a file, and give back what it took."""
        self.taken_bytes -= path.stat().st_size
        path.unlink()


@dataclass(slots=True)
class Spool:
    """Sorted runs of one store's rows.

    Parameters
    ----------
    folder
        Where to write them; made by whoever removes it.
    name
        What their names begin with.
    schema
        The columns of the rows; the first is ``identity``.
    allowance
        How much disk they may take.
    """

    folder: Path
    name: str
    schema: pa.Schema
    allowance: Allowance
    runs: list[Path] = field(default_factory=list)
    _held: list[pa.Table] = field(default_factory=list)
    _held_bytes: int = 0
    _written: int = 0

    def add(self, rows: pa.Table) -> None:
        """Add rows in any order."""
        self._held.append(rows)
        self._held_bytes += rows.nbytes
        if self._held_bytes >= RUN_BYTES:
            self._end_run()

    def finish(self) -> None:
        """Write what is still in memory, and leave no more runs than can be merged at once."""
        if self._held:
            self._end_run()
        while len(self.runs) > MOST_RUNS:
            some, self.runs = self.runs[:MOST_RUNS], self.runs[MOST_RUNS:]
            with closing(merged(some)) as tables:
                self.runs.append(self._write(tables))
            for path in some:
                self.allowance.remove(path)

    def _end_run(self) -> None:
        rows = pa.concat_tables(self._held).combine_chunks()
        self._held, self._held_bytes = [], 0
        rows = rows.take(pc.sort_indices(rows["identity"]))
        self.runs.append(self._write([rows]))

    def _write(self, tables: Iterable[pa.Table]) -> Path:
        self._written += 1
        path = self.folder / f"{self.name}-{self._written}.arrows"
        return write_tables(tables, path, self.schema, self.allowance)


def write_tables(
    tables: Iterable[pa.Table], path: Path, schema: pa.Schema, allowance: Allowance
) -> Path:
    """Write tables of one schema to a file, in blocks that are small in memory; return where.

    Raises
    ------
    ConfigurationError
        If they take more disk than they may.
    """
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    counted = 0
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, schema, options=options) as to:
        for table in tables:
            to.write_table(table.combine_chunks(), max_chunksize=_block_rows(table))
            allowance.take(file.tell() - counted)
            counted = file.tell()
    allowance.take(path.stat().st_size - counted)
    return path


def _block_rows(table: pa.Table) -> int:
    row_bytes = int(table.nbytes) // max(len(table), 1) + 1
    return max(1, _BLOCK_BYTES // row_bytes)
