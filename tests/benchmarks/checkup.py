"""How long a checkup of a state directory takes, and how much memory, in processes of its own.

By default, of a directory with as many RocksDBs as asked for, each a copy of a sample's::

    python -m tests.benchmarks.checkup [--state DIR] [--rocksdbs 69] [--rounds 5]
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

SAMPLE = Path(__file__).parents[2] / "data" / "stores" / "kafka-streams" / "small-main-4_3_1"
_OF_A_TASK = 4
_PROGRAM = """
import sys
from pathlib import Path
from kstoolkit.operations.checkup import checkup
found = checkup(sys.argv[1])
peak = Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]
print(found.plan.instances, int(peak) * 1024)
"""


def main() -> None:
    """Look at it as often as was asked, and print the least, the middle and the most."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--state", type=Path)
    parser.add_argument("--rocksdbs", type=int, default=69)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as base:
        state = given.state or _made(Path(base) / "app", given.rocksdbs)
        took, peaks = [], []
        for _ in range(given.rounds):
            began = time.monotonic()
            command = [sys.executable, "-c", _PROGRAM, str(state)]
            told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            took.append(time.monotonic() - began)
            rocksdbs, peak = map(int, told.split())
            peaks.append(peak)
    spread = f"{min(took):.1f} to {max(took):.1f} s, {median(took):.1f} in the middle"
    print(f"checkup of {rocksdbs} RocksDBs: {spread}; {max(peaks) / 1e6:.0f} MB at most")


def _made(state: Path, rocksdbs: int) -> Path:
    """Make tasks of the sample's stores; the last one has as many as are left."""
    for task in range(-(-rocksdbs // _OF_A_TASK)):
        shutil.copytree(SAMPLE / "0_0", state / f"0_{task}")
        left = rocksdbs - _OF_A_TASK * task
        for each in sorted(state.glob(f"0_{task}/*/*/CURRENT"))[left:]:
            shutil.rmtree(each.parent)
    return state


if __name__ == "__main__":
    main()
