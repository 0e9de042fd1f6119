"""A real broker beside the contestants, with the events in a topic before the first of them starts.

It is in a process of its own, so what it takes is not the contestant's.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pyarrow.parquet as pq
from confluent_kafka import Producer

import kstoolkit as kst
from kstoolkit.kafka.broker import Broker
from tests.kafka.clients import make_topic

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

__all__ = ["RECORDS_PER_BATCH", "TOPIC", "events_in_a_topic", "keyed_events_in_a_topic"]

TOPIC, RECORDS_PER_BATCH = "KSTOOLKIT_BENCHMARK_TOPIC", "KSTOOLKIT_BENCHMARK_RECORDS"
"""The environment variables that tell contestants where events are, and how many a batch takes."""

_PARTITIONS, _KEYED = 4, "keyed"


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


@contextmanager
def keyed_events_in_a_topic(events: Path, folder: Path, records_per_batch: int) -> Iterator[Broker]:
    """Run a broker, with the same in a topic that is keyed by ``user|action``, in time order.

    A record's time is its event's, so that those who go by it need not look into its value.
    """
    with Broker(folder) as broker:
        make_topic(broker, _KEYED, _PARTITIONS, retention_ms="-1")
        _produce_keyed(broker.bootstrap, events)
        address = f"kafka://{broker.bootstrap}/{_KEYED}"
        os.environ |= {TOPIC: address, RECORDS_PER_BATCH: str(records_per_batch)}
        yield broker


def _produce_keyed(bootstrap: str, events: Path) -> None:
    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "compression.type": "zstd",
        "linger.ms": 20,
        "queue.buffering.max.messages": 1_000_000,
        "log_level": 0,
    }
    producer = Producer(settings)
    for path in sorted(events.glob("*.parquet")):
        for rows in pq.ParquetFile(path).iter_batches():
            keys = pc.binary_join_element_wise(rows["user"], rows["action"], "|")
            times = rows["time"].cast("int64").to_pylist()
            columns = zip(keys.to_pylist(), _as_json(rows).to_pylist(), times, strict=True)
            for key, value, time_ms in columns:
                producer.produce(_KEYED, value, key, timestamp=time_ms)
            producer.flush()


def _as_json(rows: pa.RecordBatch) -> pa.Array:
    times = pc.replace_substring(rows["time"].cast("string"), " ", "T")
    parts = ['{"time":"', times, '","user":"', rows["user"], '","action":"', rows["action"], '"}']
    return pc.binary_join_element_wise(*parts, "")
