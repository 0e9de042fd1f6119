"""The benchmark: ours and its rivals on the same events, in turn, each in processes of its own.

python -m tests.benchmarks [--events 8000000] [--out benchmark.json]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.benchmarks import latency
from tests.benchmarks.broker import events_in_a_topic
from tests.benchmarks.events import Events
from tests.benchmarks.measuring import measure
from tests.benchmarks.table import Row, disagreements, machine, markdown

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parents[2]
CONTESTANTS: dict[str, tuple[str, ...]] = {
    "ours": ("ours",),
    "ours, from Spark's own source": ("ours", "--frame"),
    "ours, from Kafka": ("ours", "--topic"),
    "ours, from Kafka into Kafka": ("ours", "--topic", "--changelog", "bundles"),
    "ours, from Kafka into Kafka, in blocks": ("ours", "--topic", "--changelog", "blocks"),
    "Spark streaming, RocksDB, one flow": ("spark_streaming",),
    "Spark streaming, RocksDB, three queries": ("spark_streaming", "--queries"),
    "Spark batch, three group-bys, warm": ("spark_batch",),
    "DuckDB, three group-bys": ("duckdb_groupby",),
}


def main() -> int:
    asked = _asked()
    events = Events(events=asked.events, users=max(asked.events // 10, 1), files=asked.files)
    print(f"{asked.events:,} events, {asked.files_per_batch} of {asked.files} files a batch")
    folder = events.write(asked.cache)
    rows = []
    chosen = asked.only or list(CONTESTANTS)
    with ExitStack() as ending:
        temporary = tempfile.TemporaryDirectory(prefix="kstoolkit-benchmark-")
        work = ending.enter_context(temporary)
        if any("--topic" in CONTESTANTS[name] for name in chosen):
            batch = asked.events * asked.files_per_batch // asked.files
            ending.enter_context(events_in_a_topic(folder, Path(work) / "broker", batch))
        for name in chosen:
            rows.append(_run(name, folder, Path(work), asked.files_per_batch))
            print(f"{name}: {rows[-1].wall_seconds:.1f} s", flush=True)
        live = None if asked.no_live else latency.live(Path(work) / "live")
    _tell(rows, live, asked.out)
    wrong = disagreements(rows)
    print("\n".join(wrong) or "All agree on how many counters there are.")
    return 1 if wrong else 0


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks")
    parser.add_argument("--events", type=int, default=8_000_000)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--files-per-batch", type=int, default=2)
    parser.add_argument("--only", action="append", choices=CONTESTANTS, help="just these")
    parser.add_argument("--no-live", action="store_true", help="leave out the live run")
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    cache = Path(tempfile.gettempdir()) / "kstoolkit-benchmark-events"
    parser.add_argument("--cache", type=Path, default=cache, help="where events are kept")
    return parser.parse_args()


def _run(name: str, events: Path, work: Path, files_per_batch: int) -> Row:
    module, *options = CONTESTANTS[name]
    place = work / "-".join(CONTESTANTS[name])
    place.mkdir()
    command = [sys.executable, "-m", f"tests.benchmarks.{module}", str(events), str(place)]
    command += [*options, "--files-per-batch", str(files_per_batch)]
    return Row.of(name, measure(command, place / "stderr.log", cwd=ROOT))


def _tell(rows: Sequence[Row], live: latency.Latency | None, out: Path | None) -> None:
    about = machine()
    told: dict[str, Any] = {"machine": about, "rows": [row.to_dict() for row in rows]}
    print("\n" + markdown(rows) + "\n")
    for row in rows:
        print(f"{row.name}: {row.counters}", *(f"{k}={v}" for k, v in row.facts.items()), sep="  ")
    if live is not None:
        told["live"] = live.to_dict()
        print(f"\n{live}")
    print("\n" + "  ".join(f"{name}={value}" for name, value in about.items()))
    if out:
        out.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
