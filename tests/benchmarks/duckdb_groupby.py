"""DuckDB's group-by of the three windows: the practical floor.

python -m tests.benchmarks.duckdb_groupby EVENTS WORK
"""

from __future__ import annotations

import argparse
from pathlib import Path

import duckdb

from tests.benchmarks.events import events_in
from tests.benchmarks.marks import WINDOWS, mark

# Sums over the counts, so that no column may be left out.
QUERY = """
    SELECT count(*), sum(counted), max(who), max(what) FROM (
        SELECT time_bucket(INTERVAL '{label}', time) AS begins, "user" AS who, action AS what,
               count(*) AS counted
        FROM read_parquet('{files}') GROUP BY ALL)
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("events", type=Path)
    parser.add_argument("work", type=Path)
    asked = parser.parse_args()
    database = duckdb.connect(config={"threads": 2})
    database.execute("SET TimeZone = 'UTC'")
    mark("begun")
    mark("counted", events=0)
    counters = {}
    for label in WINDOWS:
        told = database.execute(QUERY.format(label=label, files=asked.events / "*.parquet"))
        counters[label] = (told.fetchone() or (0,))[0]
    mark("counted", events=events_in(asked.events))
    mark("told", counters=counters)


if __name__ == "__main__":
    main()
