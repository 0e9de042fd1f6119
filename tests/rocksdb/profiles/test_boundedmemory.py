"""Several loaded stores under one bound: what the process really takes, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BOUND_BYTES = 48 << 20
TOLERANCE_BYTES = 24 << 20
"""For what is outside the bound: open files, what the allocator keeps, RocksDB's own tables."""

STORES = 8
DATA_BYTES = 96 << 20

LOAD = """
import json, os, sys
import psutil
from rocksdict import Rdict
from kstoolkit.rocksdb.profiles.profile import Profile
from kstoolkit.rocksdb.profiles.named import bounded_memory
from kstoolkit.rocksdb.profiles.torocksdict import shared_memory

folder, kind, bound_bytes, count, data_bytes = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
bounded = bounded_memory(bound_bytes, count).changed(compression="none")
profile = bounded if kind == "bounded" else Profile(compression="none", disable_wal=True)
shared = shared_memory(profile) if kind == "bounded" else None
process = psutil.Process()
before = process.memory_info().rss
stores = []
for number in range(count):
    options = profile.to_rocksdict(shared=shared)
    store = Rdict(f"{folder}/{number}", options, column_families={"default": options})
    store.set_write_options(profile.write_options())
    stores.append(store)
peak = 0
for written in range(data_bytes // 200 // count):
    key = os.urandom(8)
    for store in stores:
        store[key] = b"v" * 192
    if written % 1000 == 0:
        peak = max(peak, process.memory_info().rss - before)
rows = sum(1 for store in stores for _ in store.keys())
peak = max(peak, process.memory_info().rss - before)
print(json.dumps({"rows": rows, "peak_bytes": peak}))
"""


def peak_bytes(kind: str, folder: Path) -> int:
    """Return by how much a process grew that loaded and then read its stores."""
    numbers = [BOUND_BYTES, STORES, DATA_BYTES]
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(folder), kind, *map(str, numbers)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["rows"] == DATA_BYTES // 200 // STORES * STORES
    return int(found["peak_bytes"])


@pytest.mark.slow
def test_stores_under_one_bound_stay_within_it_and_without_it_they_do_not(tmp_path: Path) -> None:
    for kind in ("bounded", "free"):
        (tmp_path / kind).mkdir()
    bounded = peak_bytes("bounded", tmp_path / "bounded")
    free = peak_bytes("free", tmp_path / "free")
    assert bounded <= BOUND_BYTES + TOLERANCE_BYTES < free
