"""A real broker beside the contestants, with the events in a topic before the first of them starts.

It is in a process of its own, so what it takes is not the contestant's.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import kstoolkit as kst
from kstoolkit.kafka.broker import Broker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["RECORDS_PER_BATCH", "TOPIC", "events_in_a_topic"]

TOPIC, RECORDS_PER_BATCH = "KSTOOLKIT_BENCHMARK_TOPIC", "KSTOOLKIT_BENCHMARK_RECORDS"
"""The environment variables that tell contestants where events are, and how many a batch takes."""

_PARTITIONS = 4


@contextmanager
def events_in_a_topic(events: Path, folder: Path, records_per_batch: int) -> Iterator[None]:
    """Run a broker, with the events of a folder of Parquet files as JSON in a topic."""
    with Broker(folder) as broker:
        address = f"kafka://{broker.bootstrap}/events"
        sent = kst.produce(
            str(events), address, event_time="time", user="user", partitions=_PARTITIONS
        )
        print(f"produced: {sent!r}", flush=True)
        os.environ |= {TOPIC: address, RECORDS_PER_BATCH: str(records_per_batch)}
        yield
