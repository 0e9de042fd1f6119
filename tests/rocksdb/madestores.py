"""Stores that the tests make, and what a folder looks like to whoever must not change it."""

from __future__ import annotations

import hashlib
import shutil
from typing import TYPE_CHECKING

from rocksdict import Options, Rdict

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NUM_ROWS = 3_000
EVERY = 10
"""Each so many-th row is deleted again."""


def key_of(number: int) -> bytes:
    return b"user-%06d" % number


def value_of(number: int) -> bytes:
    return hashlib.sha256(key_of(number)).digest()


LIVE = {key_of(each): value_of(each) for each in range(NUM_ROWS) if each % EVERY}


def small_options(change: Callable[[Options], None] | None = None) -> Options:
    """Return options under which few rows make several files."""
    options = Options(raw_mode=True)
    options.set_write_buffer_size(1 << 20)
    options.set_disable_auto_compactions(True)
    if change is not None:
        change(options)
    return options


def make_store(path: Path, change: Callable[[Options], None] | None = None) -> Path:
    """Leave a store as a killed writer would: ``LIVE`` in four files, two rows more in the WAL."""
    writing = path.with_name(f"{path.name}-writing")
    store = Rdict(str(writing), small_options(change))
    other = store.create_column_family("other", small_options(change))
    for start in range(0, NUM_ROWS, 1000):
        for number in range(start, start + 1000):
            store[key_of(number)] = value_of(number)
        store.flush()
    for number in range(0, NUM_ROWS, EVERY):
        del store[key_of(number)]
    store.flush()
    other[b"a"], other[b"b"] = b"1", b"2"
    store.flush_wal()
    shutil.copytree(writing, path, ignore=shutil.ignore_patterns("rocksdict-config.json"))
    other.close()
    store.close()
    shutil.rmtree(writing)
    return path


def largest_sst(path: Path) -> Path:
    return max(path.glob("*.sst"), key=lambda each: each.stat().st_size)


def appearance(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Return what a folder looks like: each entry's time of change, size and content."""
    there = [folder, *sorted(folder.rglob("*"))]
    return {
        str(each.relative_to(folder)): (
            each.stat().st_mtime_ns,
            each.stat().st_size if each.is_file() else 0,
            hashlib.sha256(each.read_bytes()).hexdigest() if each.is_file() else "folder",
        )
        for each in there
    }
