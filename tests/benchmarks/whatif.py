"""How long it takes to say what other rules would have told of a day of a million users.

    python -m tests.benchmarks.whatif [--users 1000000] [--folder FOLDER]

The day is the simulator's, some ten counters of an hour for each user, in a run's folder that the
package's own writers make; what the default rule finds lies there too. Each set of rules is then
asked about in a process of its own: seconds, and the most memory that it held (VmHWM).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import kstoolkit as kst
from kstoolkit.changelog.changelog import BatchFolders
from kstoolkit.changelog.countsfile import ChangelogWriter
from kstoolkit.counters.counters import Counters
from kstoolkit.findings.rulefiles import rules_to_json
from kstoolkit.findings.rules import DEFAULT_RULES
from kstoolkit.findings.stories import judged_in_windows
from kstoolkit.pipeline.batches import MicroBatch
from kstoolkit.pipeline.runfolder import RunFolder, Settings
from kstoolkit.windows import as_window
from tests.benchmarks.table import machine

if TYPE_CHECKING:
    from kstoolkit.findings.rules import Rule

BUCKETS, HOUR, AT_ONCE, EVENTS_OF_A_USER = 8, 3_600_000, 50_000, 22
BEGIN = datetime(2026, 3, 2, tzinfo=UTC)
END_MS = int(BEGIN.timestamp() * 1_000) + 24 * HOUR
ABNORMAL = {"burst": 5, "low-and-slow": 2, "25-fold-hour": 10, "campaign": 40}
RULES: dict[str, tuple[Rule, ...]] = {
    "one that learns": (kst.Unusual("1 hour", 50),),
    "a limit": (kst.Ceiling("1 hour", 30),),
    "all kinds": (
        kst.Budget(50),
        kst.Unusual("1 hour"),
        kst.Unusual("1 hour", by=[]),
        kst.Drift("1 hour", by=[]),
        kst.TooEven("1 hour"),
        kst.Campaign("1 hour"),
        kst.Ceiling("1 hour", 30),
    ),
}
_PROGRAM = """
import json, sys, time
from pathlib import Path
import kstoolkit as kst
from tests.benchmarks.whatif import RULES
began = time.monotonic()
found = kst.what_if(sys.argv[1], RULES[sys.argv[2]])
seconds = time.monotonic() - began
peak = Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]
told = {"before": len(found.before), "after": len(found.after), "gained": len(found.gained)}
told |= {"lost": len(found.lost), "findings": found.figures["findings"][1]}
print(json.dumps({"seconds": round(seconds, 1), "peak_mib": int(peak) >> 10, **told}))
"""


def hours(number: int, users: int) -> Counters:
    """Return the hours' counts of some of the simulator's users, under names of their own."""
    made = kst.simulate(
        event_count=EVENTS_OF_A_USER * users,
        users=users,
        duration="1 day",
        start=BEGIN,
        abnormal=ABNORMAL,
        seed=number,
    ).events()
    time_ms = made["time"].cast(pa.int64()).to_numpy()
    users_of = made["user"].combine_chunks().dictionary_encode()
    names = pc.binary_join_element_wise(users_of.dictionary.cast(pa.string()), str(number), ".")
    named = pa.DictionaryArray.from_arrays(users_of.indices, names)
    return Counters.of(time_ms - time_ms % HOUR, named, made["action"].cast(pa.string()))


def write(out: Path, users: int) -> int:
    """Make the run's folder, as one batch left it, and return how many counters it has."""
    out.mkdir(parents=True)
    columns = {"event_time": "time", "user": "user", "action": "action"}
    told: dict[str, Any] = {"time": "event", "feed": "files", "partitions": 2, "source": "made"}
    rules = rules_to_json(DEFAULT_RULES)
    settings = Settings(("1 hour",), buckets=BUCKETS, columns=columns, rules=rules, **told)
    RunFolder(out).save(settings)
    kinds = ("findings", "dead_letters", "statistics", "changelog")
    folders = {kind: BatchFolders(out / kind) for kind in kinds}
    place = {kind: folders[kind].begin(0, 0) for kind in kinds}
    path = place["changelog"] / "part-00000.parquet"
    writer, parts = ChangelogWriter(path, buckets=BUCKETS, changed_ms=END_MS), []
    for number in range(-(-users // AT_ONCE)):
        parts.append(hours(number, min(AT_ONCE, users - number * AT_ONCE)))
        for bucket, part in parts[-1].by_bucket(BUCKETS):
            writer.write(bucket, HOUR, part)
    writer.close()
    counts = {as_window("1 hour"): Counters.newest(parts).to_table()}
    found, _ = judged_in_windows(counts, DEFAULT_RULES, None)
    seen = found.schema.get_field_index("first_seen_ms")
    clock = pa.array(np.full(len(found), END_MS))
    pq.write_table(
        found.set_column(seen, found.schema.field(seen), clock).cast(found.schema),
        place["findings"] / "part-00000-3600000.parquet",
        compression="zstd",
    )
    MicroBatch(0, END_MS, 1.0, events=users, reached_ms=END_MS - 1).save(place["statistics"])
    for kind in kinds:
        folders[kind].mark(0, 0)
    return writer.rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.whatif")
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="where the run is, or is made")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kstoolkit-what-if-") as work:
        out = given.folder or Path(work) / "out"
        if not out.exists():
            began = time.monotonic()
            rows = write(out, given.users)
            print(f"{rows:,} counters, written in {time.monotonic() - began:.0f} s", flush=True)
        for name in RULES:
            command = [sys.executable, "-c", _PROGRAM, str(out), name]
            told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            print(f"{name}: " + ", ".join(f"{k} {v:,}" for k, v in json.loads(told).items()))
    print("  ".join(f"{name}={value}" for name, value in machine().items()))


if __name__ == "__main__":
    main()
