"""Flink SQL: hours from minutes and days from hours, on RocksDB with checkpoints, from the topic.

python -m tests.benchmarks.flink_sql EVENTS WORK

Counts of windows come when they are closed, and go into totals that are part of the checkpoints.
"""

from __future__ import annotations

import os

from tests.benchmarks import javapeer
from tests.benchmarks.broker import TOPIC
from tests.benchmarks.contestant import WINDOWS, arguments, mark


def main() -> None:
    asked = arguments()
    bootstrap, topic = os.environ[TOPIC].removeprefix("kafka://").split("/")
    told = [bootstrap, topic, str(asked.work / "state")]
    noted = javapeer.run(javapeer.FLINK, asked.work.parent / "classes", *told)
    sizes = {label: label.removeprefix("1 ") for label in WINDOWS}
    mark(
        "told",
        counters={label: noted.get(f"{size} counters", 0) for label, size in sizes.items()},
        totals={label: noted.get(f"{size} events", 0) for label, size in sizes.items()},
        dropped=noted["dropped"],
    )


if __name__ == "__main__":
    main()
