"""A plan for Kafka Streams beside what its window stores really take on disk, once they rest."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import kstoolkit as kst
from kstoolkit.rocksdb.opening import open_store
from tests.rocksdb.lab.drivenstreams import Row, driven

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kstoolkit.kafka.broker import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

USERS, ACTIONS, GRACE_S = 10_000, 8, 600


def events(rate: int, seconds: int, interval_s: int) -> Iterator[Row]:
    """Yield what users do, the n-th 1/n as much as the first, until a segment is about to end."""
    draws, number = np.random.default_rng(3), rate * seconds
    share = np.cumsum(1 / np.arange(1, USERS + 1))
    users = np.searchsorted(share / share[-1], draws.random(number)).tolist()
    actions = draws.integers(0, ACTIONS, number).tolist()
    began_s = time.time_ns() // 1_000_000_000 // interval_s * interval_s - seconds
    for place, (user, action) in enumerate(zip(users, actions, strict=True)):
        key = b"user|%010d|action|%d" % (user * 7_919 % 9_999_991, action)
        yield key, b"seen", began_s * 1_000 + place * 1_000 // rate


@pytest.mark.parametrize(
    ("size_s", "came", "segments"), [(60, (400, 1_320), 3), (3_600, (10, 15_000), 2)]
)
def test_segments_rows_and_bytes_are_those_on_disk(
    size_s: int, came: tuple[int, int], segments: int, broker: Broker, tmp_path: Path
) -> None:
    retention = f"{GRACE_S} seconds"
    law: dict[str, Any] = {"users": USERS, "actions": ACTIONS, "retention": retention}
    window = f"{size_s} seconds"
    plan = kst.plan_capacity(
        rate=came[0], windows=[window], partitions=1, engine="kafka_streams", **law
    )
    rows_in = events(*came, (size_s + GRACE_S) // 2)
    spans = {"size_ms": size_s * 1_000, "grace_ms": GRACE_S * 1_000}
    found = driven(broker, tmp_path, rows_in, ["windows"], **spans).segments("windows")
    sizes = [sum(file.stat().st_size for file in each.glob("*.sst")) for each in found]
    rows = []
    for each in found:
        with open_store(each) as store:
            rows.append(sum(1 for _ in store.iter_rows()))
    [(label, kept)] = [(t.term, t) for t in plan.terms if t.term.startswith("rows of ")]
    assert len(found) == segments
    assert f"in {segments} segments" in kept.formula
    assert f"{segments} RocksDB instances" in str(plan)
    assert plan["a counter"] == pytest.approx(sum(sizes) / sum(rows), rel=0.25)
    segment = plan[f"a segment of {label.removeprefix('rows of ')}"]
    assert segment == pytest.approx(max(sizes), rel=0.25)
    if size_s < GRACE_S:  # of long windows, the one that is being filled has few rows
        assert kept.value == pytest.approx(sum(rows), rel=0.1)
        assert plan["state"] == pytest.approx(sum(sizes), rel=0.25)
    assert sum(sizes) < plan["disk"]
