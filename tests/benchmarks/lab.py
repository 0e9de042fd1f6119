"""Level against universal compaction: what each writes, reads and takes on disk.

    python -m tests.benchmarks.lab --writes 2000000 --keys 1000000 [--kinds uniform skewed]

One set of options, which differ in their style of compaction alone: level; universal as RocksDB has
it, which starts to merge at 4 sorted runs; and universal with 12. Small memtables and levels, so
that a store of some hundred megabytes has the depth of one that is a hundred times as large. No
compression, no WAL. Prints the figures of each, and their ratio to level's.
"""

from __future__ import annotations

import argparse
import os
import platform
from typing import TYPE_CHECKING

from kstoolkit.rocksdb.lab.comparing import compare_profiles
from kstoolkit.rocksdb.lab.workloads import KINDS, Workload
from kstoolkit.rocksdb.profiles.profile import Profile

if TYPE_CHECKING:
    from kstoolkit.rocksdb.lab.results import Comparison, Trial

SHOWN = (
    "written_per_user_byte",
    "write_amplification",
    "read_amplification",
    "blocks_per_get",
    "space_amplification",
    "peak_space_amplification",
    "compaction_ms",
    "stall_ms",
    "put_s",
    "settle_s",
    "put_p50_us",
    "put_p99_us",
    "get_p50_us",
    "get_p99_us",
    "sorted_runs",
)


def profiles(memtable_bytes: int) -> list[Profile]:
    """Return what is compared, level first."""
    level = Profile(
        name="level",
        write_buffer_size=memtable_bytes,
        target_file_size_base=memtable_bytes,
        max_bytes_for_level_base=4 * memtable_bytes,
        block_cache_bytes=8 << 20,
        bloom_bits_per_key=10.0,
        compression="none",
        disable_wal=True,
    )
    few = level.changed(name="universal, 4 runs", compaction_style="universal")
    runs = {"level0_slowdown_writes_trigger": 40, "level0_stop_writes_trigger": 60}
    many = few.changed(name="universal, 12 runs", level0_file_num_compaction_trigger=12, **runs)
    return [level, few, many]


def show(found: Comparison) -> None:
    """Print a comparison, and each ratio to the first profile."""
    pace = found.workload.writes_per_second
    print(f"\n{found.workload}, {'unpaced' if pace is None else f'{pace:,.0f} writes a second'}")
    print(f"  {'':<26}", *(f"{trial.profile:>28}" for trial in found))
    for name in SHOWN:
        values = [_number(trial, name) for trial in found]
        print(f"  {name:<26}", *(_cell(value, values[0]) for value in values))
    for trial in found:
        print(f"  {trial}" + ("" if trial.settled else ", not settled"))
        print(f"    {trial.user_bytes:,} user bytes, {trial.live_bytes:,} live")


def _number(trial: Trial, name: str) -> float:
    value = getattr(trial, name)
    return float("nan") if value is None else float(value)


def _cell(value: float, first: float) -> str:
    return f"{value:>16,.2f}" + (f" ({value / first:>7.2f} x)" if first else f"{'':>12}")


def main() -> None:
    """Measure what is asked for, and print it."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.lab")
    parser.add_argument("--writes", type=int, default=2_000_000)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--memtable-bytes", type=int, default=1 << 20)
    parser.add_argument("--pace", type=float, help="writes a second; as fast as may be, if not")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=["uniform"])
    asked = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, memtables of {asked.memtable_bytes:,}")
    for kind in asked.kinds:
        workload = Workload(
            kind, writes=asked.writes, keys=asked.keys, writes_per_second=asked.pace
        )
        show(compare_profiles(workload, profiles(asked.memtable_bytes), seconds=asked.seconds))


if __name__ == "__main__":
    main()
