"""A real store whose options are so tight that writing it stalls and compacts."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rocksdict import Options, Rdict

if TYPE_CHECKING:
    from collections.abc import Iterator

REAL_LOGS = Path(__file__).parent / "logs"
_MOST_SECONDS = 20


def tight_options() -> Options:
    options = Options(raw_mode=True)
    options.set_write_buffer_size(64 << 10)
    options.set_max_write_buffer_number(2)
    options.set_level_zero_file_num_compaction_trigger(2)
    options.set_level_zero_slowdown_writes_trigger(3)
    options.set_level_zero_stop_writes_trigger(4)
    options.set_target_file_size_base(64 << 10)
    options.set_max_bytes_for_level_base(128 << 10)
    options.set_max_background_jobs(1)
    options.set_stats_dump_period_sec(1)
    options.enable_statistics()
    return options


def write_stalled_store(path: Path) -> None:
    """Write until the log has a stall, a compaction and a dump with a stall in it, and a quiet one.

    RocksDB reads its counters after it has told how long writers waited, so a stall that ends
    just then is in one of them alone: only where nobody writes do they have to agree.
    """
    draws = random.Random(7)
    store = Rdict(str(path), tight_options())
    until = time.monotonic() + _MOST_SECONDS
    for _ in _rounds(until):
        for _ in range(20_000):
            store[draws.randbytes(8)] = bytes(100)
        if _has_all(path / "LOG"):
            break
        time.sleep(0.2)
    store.flush()
    written = _num_dumps(path / "LOG")
    for _ in _rounds(time.monotonic() + _MOST_SECONDS):
        if _num_dumps(path / "LOG") > written + 1:  # the first may have begun before
            break
        time.sleep(0.2)
    store.close()


def _rounds(until: float) -> Iterator[None]:
    while time.monotonic() < until:
        yield


def _has_all(log: Path) -> bool:
    text = log.read_text(errors="replace")
    dumped = any(
        "rocksdb.stall.micros COUNT : 0\n" not in part and "Uptime(secs): 0.0 " not in part
        for part in _dumps(text)  # but for one of the moment of the opening, which covers no time
    )
    return dumped and "compaction_finished" in text and " writes because " in text


def _num_dumps(log: Path) -> int:
    return len(_dumps(log.read_text(errors="replace")))


def _dumps(text: str) -> list[str]:
    return [part for part in text.split("DUMPING STATS")[1:] if "rocksdb.stall.micros" in part]
