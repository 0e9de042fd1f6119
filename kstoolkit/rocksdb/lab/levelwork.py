"""The work that a trial did for each level, out of the log that RocksDB wrote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstoolkit.rocksdb.lab.results import LevelWork
from kstoolkit.rocksdb.log.storelog import read_log

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.rocksdb.log.compactions import Compaction
    from kstoolkit.rocksdb.log.flushes import Flush


@dataclass(slots=True)
class _Sums:
    flushes: int = 0
    compactions: int = 0
    moves: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    duration_ms: float = 0.0

    def flush(self, done: Flush) -> None:
        self.flushes += 1
        self.written_bytes += done.output_bytes or 0
        self.duration_ms += done.duration_ms or 0.0

    def compaction(self, done: Compaction) -> None:
        if done.moved:
            self.moves += 1
            return
        self.compactions += 1
        self.read_bytes += done.input_bytes or 0
        self.written_bytes += done.output_bytes or 0
        self.duration_ms += done.duration_ms or 0.0


def work_by_level(profile: str, path: Path) -> list[LevelWork]:
    """Return a record for each level that something was written or moved to.

    Raises
    ------
    InputError
        If the store at ``path`` has no log.
    """
    log = read_log(path)
    sums: dict[int, _Sums] = {}
    for flush in log.flushes():
        sums.setdefault(0, _Sums()).flush(flush)
    for each in log.compactions():
        if each.to_level is not None:
            sums.setdefault(each.to_level, _Sums()).compaction(each)
    return [
        LevelWork(
            profile=profile,
            level=level,
            num_flushes=of.flushes,
            num_compactions=of.compactions,
            num_moves=of.moves,
            read_bytes=of.read_bytes,
            written_bytes=of.written_bytes,
            duration_ms=of.duration_ms,
        )
        for level, of in sorted(sums.items())
    ]
