"""The events that every contestant counts: skewed users, in time order, always the same."""

from __future__ import annotations

import os
import shutil
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCHEMA = pa.schema(
    [
        pa.field("time", pa.timestamp("ms", tz="UTC")),
        pa.field("user", pa.string()),
        pa.field("action", pa.string()),
    ]
)
ACTIONS = ("buy", "click", "edit", "like", "login", "read", "search", "write")
START_MS = 1_767_225_600_000
"""2026-01-01 00:00 UTC: hours and the day begin with the first event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """Which events: times and actions uniform, users by a Zipf law.

    Its tail is endless and is folded back onto ``users``: a long tail of users who come once.
    """

    events: int = 8_000_000
    users: int = 800_000
    exponent: float = 1.2
    hours: int = 6
    files: int = 8
    seed: int = 1

    @property
    def name(self) -> str:
        return "-".join(f"{name}={value}" for name, value in asdict(self).items())

    def write(self, root: Path) -> Path:
        """Return the folder of these events' files; they are written if they are not there yet."""
        folder = root / self.name
        if not folder.exists():
            hidden = root / f".{os.getpid()}-{self.name}"
            hidden.mkdir(parents=True)
            for number, table in enumerate(self._tables()):
                path = hidden / f"part-{number:02d}.parquet"
                pq.write_table(table, path, compression="zstd")
                # Spark's file source takes files by age, and looks at whole seconds.
                os.utime(path, (START_MS // 1000 + number,) * 2)
            shutil.rmtree(folder, ignore_errors=True)
            hidden.rename(folder)
        return folder

    def _tables(self) -> Iterator[pa.Table]:
        draws = np.random.default_rng(self.seed)
        times = START_MS + np.sort(draws.integers(0, self.hours * 3_600_000, self.events))
        names = pa.array([f"user-{number:06d}" for number in draws.permutation(self.users)])
        for part in np.array_split(times, self.files):
            ranks = draws.zipf(self.exponent, len(part)) % self.users
            actions = draws.integers(0, len(ACTIONS), len(part))
            columns = [
                pa.array(part, pa.timestamp("ms", tz="UTC")),
                names.take(pa.array(ranks)),
                pa.array(ACTIONS).take(pa.array(actions)),
            ]
            yield pa.table(columns, schema=SCHEMA)


def events_in(folder: Path) -> int:
    """Return how many events a folder holds."""
    return sum(pq.read_metadata(path).num_rows for path in folder.glob("*.parquet"))
