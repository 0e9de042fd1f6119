"""Real stores, logs and trials for the tests of plots: small, and made once."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from rocksdict import Rdict

from kstoolkit.records import Records
from kstoolkit.rocksdb.lab.comparing import compare_profiles
from kstoolkit.rocksdb.lab.results import Comparison
from kstoolkit.rocksdb.lab.workloads import Workload
from kstoolkit.rocksdb.log.storelog import read_log
from kstoolkit.rocksdb.opening import open_store
from tests.rocksdb.lab.smallprofile import LEVEL
from tests.rocksdb.stalledstore import REAL_LOGS, tight_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kstoolkit.rocksdb.log.storelog import StoreLog
    from kstoolkit.rocksdb.store import Store

KEPT: list[TemporaryDirectory[str]] = []


@cache
def tight_store() -> Path:
    """Return a store of two levels and many small files, with flushes and compactions behind it."""
    folder = TemporaryDirectory(prefix="kstoolkit-tests-")
    KEPT.append(folder)
    path = Path(folder.name) / "tight"
    store = Rdict(str(path), tight_options())
    for number in range(12_000):
        key = hashlib.md5(b"%d" % number, usedforsecurity=False).digest()[:8]
        store[key] = bytes(100)
    for number in range(0, 12_000, 100):
        del store[hashlib.md5(b"%d" % number, usedforsecurity=False).digest()[:8]]
    store.flush()
    store.close()
    return path


def opened() -> Iterator[Store]:
    """Yield the tight store, opened."""
    with open_store(tight_store()) as store:
        yield store


@cache
def log_named(name: str) -> StoreLog:
    """Return one of the excerpts of real logs."""
    return read_log(REAL_LOGS / name)


@cache
def compared() -> Comparison:
    """Return a comparison of two profiles with gets among the writes."""
    workload = Workload("uniform", writes=6_000, keys=2_000, reads_per_write=0.2)
    universal = LEVEL.changed(name="universal", compaction_style="universal")
    return compare_profiles(workload, [LEVEL, universal], progress=False)


def renamed(found: Comparison, names: list[str]) -> Comparison:
    """Return a comparison with as many trials as names, each a real one under another name."""
    trials = [replace(found[n % len(found)], profile=name) for n, name in enumerate(names)]
    moments = [
        replace(each, profile=name)
        for n, name in enumerate(names)
        for each in found.series
        if each.profile == found[n % len(found)].profile
    ]
    return Comparison(found.workload, trials, Records(moments, "moments"), found.levels)


def lengths(axes: Any) -> list[float]:
    """Return how long each bar of the Axes is, but for those of the legend."""
    return [patch.get_width() for patch in axes.patches if patch.get_width()]
