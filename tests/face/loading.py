"""Which large packages a command loads, each in a process of its own that begins with none.

A program reads lines of JSON with arguments from stdin, and gives each command to a fork of itself:
that costs a command what it imports, and not what Python takes to start.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

__all__ = ["ASKED", "LARGE", "loaded_by"]

RUN = "TMP/kstoolkit-run-of-0.1/out"
REPLICA = "TMP/kstoolkit-run-of-0.1/replica"
KEPT = "data/stores/kafka-streams/small-main-4_3_1/0_0/rocksdb/user-count"
CHECKPOINT = "data/stores/spark/hours-by-user"
GIVEN = "--event-time time --user user --action action --out TMP/new"

ASKED = [
    "--version",
    f"summary {RUN}",
    f"findings {RUN}",
    f"users {RUN}",
    f"counts {RUN} --window '1 hour'",
    f"find {RUN}",
    f"report {RUN}",
    f"restore {RUN} TMP/replica",
    f"get {REPLICA} --user nobody --window '1 hour' --at 2026-03-03T10:00Z",
    f"compact {RUN}",
    f"inspect {KEPT}",
    f"levels {KEPT}",
    f"memory {KEPT}",
    f"advice {KEPT}",
    f"log {KEPT}",
    "checkup data/stores/kafka-streams",
    "stores data/stores",
    f"rows {KEPT}",
    f"growth {CHECKPOINT}",
    f"diff {CHECKPOINT} --versions 5 7",
    f"export {KEPT} --to TMP/rows.csv --overwrite",
    "profile spark",
    "profile spark --to rocksdict",
    "compare-profiles spark --writes 100 --keys 10",
    "simulate --events 100 --users 10 --out TMP/simulated",
    "doctor",
    "broker status --dir TMP/nowhere",
    # These end before anything is started or asked for; what they need is loaded by then.
    f"run TMP/none.json {GIVEN}",
    "data fetch none",
    "produce TMP/none.json --to kafka://127.0.0.1:1/none --event-time time --user user",
    f"lag {RUN}",
]
"""Commands that cost little; ``TMP`` is where the run that is kept has been put."""

LARGE = {
    *("IPython", "confluent_kafka", "duckdb", "google.protobuf", "grpc", "ipywidgets"),
    *("matplotlib", "numpy", "pandas", "prometheus_client", "psutil", "py4j", "pyarrow"),
    *("pyspark", "rocksdict", "scipy", "tqdm", "typer"),
}
"""What is large, or talks to something, or may not be installed."""


def loaded_by(
    commands: list[list[str]], *, together: bool = False, **environment: str
) -> list[tuple[int, list[str]]]:
    """Return the exit code of each command, and which of the large packages it has loaded.

    Together, commands are given one after the other in one process: what all of them have loaded.
    """
    some = [commands] if together else [[each] for each in commands]
    done = subprocess.run(
        [sys.executable, "-m", __name__],
        input="".join(f"{json.dumps(each)}\n" for each in some),
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return [(code, names) for code, names in map(json.loads, done.stdout.splitlines())]


def _answer(commands: list[list[str]]) -> None:
    """Give commands in a fork, and print what became of them."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, json.dumps(_given(commands)).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        sys.stdout.write(f"{told.read()}\n")
    os.waitpid(child, 0)


def _given(commands: list[list[str]]) -> tuple[int, list[str]]:
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123 - imports nothing more
        sys.stdout = sys.stderr = nowhere
        from kstoolkit.cli import main

        return max(map(main, commands)), sorted(LARGE & sys.modules.keys())


if __name__ == "__main__":
    for line in sys.stdin:
        _answer(json.loads(line))
        sys.stdout.flush()
