"""Kafka Streams: three windowed counts of the topic, each with its RocksDB and its changelog.

python -m tests.benchmarks.kafka_streams EVENTS WORK [--large-cache]

The topic is keyed as it is counted, by ``user|action``: it needs no repartition topic, which is the
best case that it can have. What came out is read from its changelog topics, as consumers see them.
"""

from __future__ import annotations

import os

from tests.benchmarks import javapeer
from tests.benchmarks.broker import TOPIC
from tests.benchmarks.contestant import WINDOWS, arguments, mark

CACHE_BYTES, COMMIT_MS = 10 << 20, 30_000
"""Kafka Streams' defaults."""
LARGE_CACHE_BYTES, SHORT_COMMIT_MS = 512 << 20, 10_000
STORES = dict(zip(WINDOWS, ("minute", "hour", "day"), strict=True))


def main() -> None:
    asked = arguments("large-cache")
    bootstrap, topic = os.environ[TOPIC].removeprefix("kafka://").split("/")
    cache = (LARGE_CACHE_BYTES, SHORT_COMMIT_MS) if asked.large_cache else (CACHE_BYTES, COMMIT_MS)
    application = asked.work.name
    told = [bootstrap, topic, application, str(asked.work / "state"), *map(str, cache)]
    noted = javapeer.run(javapeer.KAFKA_STREAMS, asked.work.parent / "classes", *told)
    from tests.benchmarks.changelogs import last_counts  # after what is measured

    found = {
        label: last_counts(bootstrap, f"{application}-{store}-changelog")
        for label, store in STORES.items()
    }
    mark(
        "told",
        counters={label: each.counters for label, each in found.items()},
        totals={label: each.events for label, each in found.items()},
        changelog_records=sum(each.records for each in found.values()),
        **noted,
    )


if __name__ == "__main__":
    main()
