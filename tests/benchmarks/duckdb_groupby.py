"""DuckDB's group-by of the three windows: the practical floor.

python -m tests.benchmarks.duckdb_groupby EVENTS WORK
"""

from __future__ import annotations

import duckdb

from tests.benchmarks.contestant import CORES, WINDOWS, arguments, mark
from tests.benchmarks.events import events_in

# Sums over the counts, so that no column may be left out.
QUERY = """
    SELECT count(*), sum(counted), max(who), max(what) FROM (
        SELECT time_bucket(INTERVAL '{label}', time) AS begins, "user" AS who, action AS what,
               count(*) AS counted
        FROM read_parquet('{files}') GROUP BY ALL)
"""


def main() -> None:
    asked = arguments()
    database = duckdb.connect(config={"threads": CORES})
    database.execute("SET TimeZone = 'UTC'")
    mark("begun")
    mark("counted", events=0)
    counters, totals = {}, {}
    for label in WINDOWS:
        told = database.execute(QUERY.format(label=label, files=asked.events / "*.parquet"))
        counters[label], totals[label] = map(int, (told.fetchone() or (0, 0))[:2])
    mark("counted", events=events_in(asked.events))
    mark("told", counters=counters, totals=totals)


if __name__ == "__main__":
    main()
