"""Replicas: how fast they are restored and asked, and what they take on disk.

    python -m tests.benchmarks.replicas --users 1000000 --profiles replica point_lookup

Makes a changelog of two windows of an hour, with some actions for each user, then for each profile
restores it and asks for users who are there and for users who are not: cold (just opened, and its
files dropped from the kernel's page cache) and warm. ``replica`` is what a replica has unless told
otherwise. Everything runs on one core but for what RocksDB does in the background.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from dataclasses import dataclass, fields
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kstoolkit.changelog.changelog import BatchFolders
from kstoolkit.changelog.countsfile import ChangelogWriter
from kstoolkit.counters.counters import Counters
from kstoolkit.replica.windowstore import WindowStore
from kstoolkit.rocksdb.profiles.named import profile_names

if TYPE_CHECKING:
    from collections.abc import Sequence

HOUR_MS = 3_600_000
WINDOWS, ACTIONS, BUCKETS = 2, 3, 8


@dataclass(frozen=True, slots=True)
class Rates:
    """What one profile came to.

    ``sst_bytes`` are those of the files that hold the counts, ``disk_bytes`` what all files of the
    segments take, as ``du`` counts.
    """

    profile: str
    restore_records_per_second: float
    restore_sst_bytes_per_second: float
    sst_bytes_per_user: float
    disk_bytes_per_user: float
    cold_gets_per_second: float
    cold_p99_us: float
    present_gets_per_second: float
    present_p50_us: float
    present_p99_us: float
    absent_gets_per_second: float
    absent_p50_us: float
    absent_p99_us: float
    many_gets_per_second: float


def write_changelog(root: Path, users: int) -> int:
    """Write one micro-batch: each user's actions in each window; return how many records."""
    names = pa.array([f"user {number}" for number in range(users)])
    actions = pa.array([f"action {number}" for number in range(ACTIONS)])
    rows = users * WINDOWS * ACTIONS
    user = np.repeat(np.arange(users, dtype=np.int32), WINDOWS * ACTIONS)
    start_ms = np.tile(np.repeat(np.arange(WINDOWS) * HOUR_MS, ACTIONS), users)
    action = np.tile(np.arange(ACTIONS, dtype=np.int32), users * WINDOWS)
    count = np.random.default_rng(7).integers(1, 1_000, rows).astype(np.uint64)
    counters = Counters(names, actions, user, action, start_ms, count)
    folders = BatchFolders(root)
    writer = ChangelogWriter(
        folders.begin(0, 0) / "part-00000.parquet", buckets=BUCKETS, changed_ms=HOUR_MS
    )
    for bucket, part in counters.by_bucket(BUCKETS):
        writer.write(bucket, HOUR_MS, part)
    writer.close()
    folders.mark(0, 0)
    return rows


def measure(root: Path, path: Path, profile: str, *, users: int, gets: int) -> Rates:
    """Restore the changelog under one profile, and ask for users."""
    named = None if profile == "replica" else profile
    began = time.perf_counter()
    store = WindowStore.restore(root, path=path, profile=named, progress=False)
    seconds = time.perf_counter() - began
    segments = store.segments()
    sst_bytes = sum(each.sst_bytes or 0 for each in segments)
    disk_bytes = sum(each.disk_bytes or 0 for each in segments)
    store.close()
    random = Random(7)
    there = [f"user {random.randrange(users)}" for _ in range(gets)]
    absent = [f"nobody {number}" for number in range(gets)]
    _drop_from_page_cache(path)
    with WindowStore.open(path, profile=named) as store:
        cold = _ask(store, there)
        warm, none = _ask(store, there), _ask(store, absent)
        began = time.perf_counter()
        for first in range(0, gets, 1_000):
            store.get_many(there[first : first + 1_000], window="1 hour", at=0)
        many_seconds = time.perf_counter() - began
    return Rates(
        profile,
        users * WINDOWS * ACTIONS / seconds,
        sst_bytes / seconds,
        sst_bytes / users,
        disk_bytes / users,
        _rate(cold),
        _percentile(cold, 99),
        _rate(warm),
        _percentile(warm, 50),
        _percentile(warm, 99),
        _rate(none),
        _percentile(none, 50),
        _percentile(none, 99),
        gets / many_seconds,
    )


def _drop_from_page_cache(folder: Path) -> None:
    """Have the kernel forget what it read of the files below a folder, where it can."""
    if not hasattr(os, "posix_fadvise"):
        return
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())  # pages that are not on disk yet would stay
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _ask(store: WindowStore, users: Sequence[str]) -> np.ndarray:
    """Return how long each get took, in nanoseconds."""
    times = np.empty(len(users), np.int64)
    clock = time.perf_counter_ns
    before = clock()
    for place, user in enumerate(users):
        store.get(user, window="1 hour", at="1970-01-01T00:30Z")
        now = clock()
        times[place] = now - before
        before = now
    return times


def _rate(times: np.ndarray) -> float:
    return len(times) / (float(times.sum()) / 1e9)


def _percentile(times: np.ndarray, percent: int) -> float:
    return float(np.percentile(times, percent)) / 1_000


def main() -> None:
    """Measure what is asked for, and print it."""
    known = ["replica", *profile_names()]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--gets", type=int, default=100_000)
    parser.add_argument("--profiles", nargs="*", choices=known, default=known)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        root = Path(place, "changelog")
        records = write_changelog(root, asked.users)
        print(f"{asked.users:,} users, {records:,} records, {asked.gets:,} gets")
        for profile in asked.profiles:
            rates = measure(root, Path(place, profile), profile, users=asked.users, gets=asked.gets)
            print(f"\n{profile}")
            for field in fields(Rates)[1:]:
                print(f"  {field.name:<28} {getattr(rates, field.name):>14,.1f}")


if __name__ == "__main__":
    main()
