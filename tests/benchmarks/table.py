"""The benchmark's table: one line a contestant, and the machine that it ran on."""

from __future__ import annotations

import os
import platform
import shlex
import sys
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kstoolkit.environment import find_java, memory_bytes
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.benchmarks.measuring import Measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a contestant came to.

    Parameters
    ----------
    wall_seconds, cpu_seconds_per_million, peak_bytes
        From its start, start-up included, to its last count.
    first_batch_seconds, first_batch_cpu_seconds
        From the end of start-up to the end of the first batch, or of the warm-up.
    steady_events_per_second, steady_cpu_seconds_per_million
        From there to the last count; ``None`` with one batch only.
    counters
        How many came out, by window or together.
    facts
        What else it had to say.
    """

    name: str
    wall_seconds: float
    cpu_seconds_per_million: float
    peak_bytes: int
    first_batch_seconds: float
    first_batch_cpu_seconds: float
    steady_events_per_second: float | None
    steady_cpu_seconds_per_million: float | None
    counters: dict[str, int]
    facts: dict[str, Any]

    @classmethod
    def of(cls, name: str, measured: Measured, *, warm_up: int = 0) -> Row:
        """Return it; what comes before so many events are counted is the warm-up."""
        begun, last = measured.marked("begun")[0], measured.marked("counted")[-1]
        warm = (mark for mark in measured.marked("counted") if mark.facts["events"] >= warm_up)
        first = next(warm, last)
        told = dict(measured.marked("told")[0].facts)
        events, seconds = last.facts["events"], last.seconds - first.seconds
        steady = events - first.facts["events"]
        cpu_seconds = last.cpu_seconds - first.cpu_seconds
        return cls(
            name=name,
            wall_seconds=measured.wall_seconds,
            cpu_seconds_per_million=measured.cpu_seconds / events * 1e6,
            peak_bytes=measured.peak_bytes,
            first_batch_seconds=first.seconds - begun.seconds,
            first_batch_cpu_seconds=first.cpu_seconds - begun.cpu_seconds,
            steady_events_per_second=steady / seconds if steady else None,
            steady_cpu_seconds_per_million=cpu_seconds / steady * 1e6 if steady else None,
            counters=told.pop("counters"),
            facts=told,
        )

    @property
    def all_counters(self) -> int:
        return sum(self.counters.values())

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


_HEADS = (
    "",
    "wall s",
    "CPU-s/M",
    "first batch s",
    "its CPU s",
    "steady events/s",
    "steady CPU-s/M",
    "peak memory",
    "CPU against ours",
    "rate against ours",
)


def markdown(rows: Sequence[Row]) -> str:
    """Return the table; the ratios are those of the steady part, to the first row."""
    return aligned(_HEADS, [_cells(row, rows[0]) for row in rows])


def aligned(heads: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown whose columns are as wide as what is in them."""
    lines = [heads, ("---", *("---:" for _ in heads[1:])), *cells]
    widths = [max(len(line[place]) for line in lines) for place in range(len(heads))]
    return "\n".join("| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in lines)


def _cells(row: Row, ours: Row) -> tuple[str, ...]:
    cpu, rate = row.steady_cpu_seconds_per_million, row.steady_events_per_second
    return (
        row.name,
        f"{row.wall_seconds:.1f}",
        f"{row.cpu_seconds_per_million:.2f}",
        f"{row.first_batch_seconds:.1f}",
        f"{row.first_batch_cpu_seconds:.1f}",
        "-" if rate is None else f"{rate:,.0f}",
        "-" if cpu is None else f"{cpu:.2f}",
        format_bytes(row.peak_bytes),
        _times(cpu, ours.steady_cpu_seconds_per_million),
        _times(rate, ours.steady_events_per_second),
    )


def _times(theirs: float | None, ours: float | None) -> str:
    return "-" if theirs is None or not ours else f"{theirs / ours:.2f} x"


def disagreements(rows: Sequence[Row]) -> list[str]:
    """Return who counted something else than the first one: windows apart where both say so."""
    ours = rows[0]
    return [
        f"{row.name} has {row.counters}, {ours.name} {ours.counters}"
        for row in rows[1:]
        if row.all_counters != ours.all_counters
        or (len(row.counters) > 1 and row.counters != ours.counters)
    ]


def machine(module: str = "tests.benchmarks") -> dict[str, Any]:
    """Return what a reader has to know of the machine and of the versions."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["python", "-m", module, *sys.argv[1:]]),
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": memory_bytes(),
        "load": round(os.getloadavg()[0], 2),
        "system": platform.platform(),
        "python": platform.python_version(),
        "java": find_java().version,
        "spark": version("pyspark"),
        "pyarrow": version("pyarrow"),
        "duckdb": version("duckdb"),
        "kstoolkit": version("kstoolkit"),
    }


def _cpu_model() -> str | None:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, None)
