"""The stores of real applications: their retentions, and the rows that reads hide from these."""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kstoolkit.rocksdb.store import Store
from kstoolkit.stores.discovery.discovering import discover
from kstoolkit.stores.growth.growth import _measured_growth
from kstoolkit.stores.opening import open_store
from kstoolkit.stores.rows.segmentedstore import SegmentedStore

if TYPE_CHECKING:
    from kstoolkit.stores.growth.verdict import Growth

FOLDER = Path(__file__).parents[4] / "shared" / "fixtures"

RETENTIONS_S = {
    "actions-1m": 3600,
    "actions-hop": 420,
    "actions-slide": 840,
    "user-sessions": 1230,
    "final-1m": 600,
    "emit-1m": 180,
    "emit-slide": 240,
    "emit-sessions": 630,
    "click-imp-this-join-store": 150,
    "click-imp-other-join-store": 150,
    "click-imp-left-this-join-store": 150,
    "click-imp-left-outer-other-join-store": 150,
    "sensor-max": 7200,
    "win-plain": 3600,
    "win-dups": 3600,
    "sess-plain": 3600,
    "h-1m": 3600,
    "h-win": 3600,
    "h-sess": 3600,
    "win-big": 10800,
}

Grown = dict[tuple[str, str], "Growth"]
NumRead = dict[tuple[str, str], int]
Measure = Callable[[str, str], tuple[Grown, NumRead]]


@pytest.fixture(scope="module")
def measure(tmp_path_factory: pytest.TempPathFactory) -> Measure:
    """Return what measures all stores of a state, and tells how many rows of each were read."""
    folder = tmp_path_factory.mktemp("states")

    @cache
    def of(release: str, state: str) -> tuple[Grown, NumRead]:
        archive = Path(os.environ.get("KSTOOLKIT_FIXTURES_DIR", FOLDER)) / "kafka_streams"
        if not (archive / f"{release}.tar.gz").is_file():
            pytest.skip(f"real stores not present: {archive / release}.tar.gz")
        if not (folder / release).exists():
            with tarfile.open(archive / f"{release}.tar.gz") as tar:
                tar.extractall(folder, filter="data")
        told = (folder / release / "expected" / f"{state}.json").read_text(encoding="utf-8")
        return grown(folder / release / state), {
            (each["task"], each["store"]): len(each["rows"]) for each in json.loads(told)["stores"]
        }

    return of


def grown(state: Path) -> Grown:
    found = {}
    for each in discover(state, look=True):
        with open_store(each.path) as store:
            assert isinstance(store, Store | SegmentedStore)
            opened = [store] if isinstance(store, Store) else list(store.segments.values())
            measured = _measured_growth(store, found=replace(each, kind=store.kind), opened=opened)
        found[each.task or "global", each.store] = measured
    return found


@pytest.mark.parametrize(
    ("release", "state", "num_hiding"),
    [("3.9.2", "clean", 16), ("4.3.1", "clean", 16), ("4.3.1", "headers-clean", 8)],
)
def test_rows_that_reads_hide_are_those_that_are_expired(
    measure: Measure, release: str, state: str, num_hiding: int
) -> None:
    stores, num_read = measure(release, state)
    hiding = 0
    for key, found in stores.items():
        if found.clock in {"window start", "session end"}:
            assert found.expired.error_rows == 0
            assert found.expired.num_rows == found.num_rows - num_read[key], key
            hiding += bool(found.expired.num_rows)
            assert found.expired.num_past_segments == 0
    assert hiding == num_hiding


@pytest.mark.parametrize(("release", "state"), [("2.8.2", "clean"), ("3.9.2", "tuned-clean")])
def test_retentions_are_inferred_from_segments(measure: Measure, release: str, state: str) -> None:
    stores, _ = measure(release, state)
    inferred = {
        name: found.horizon.inferred_retention_ms
        for (_, name), found in stores.items()
        if found.clock in {"window start", "session end"} and len(found.segments) > 1
    }
    assert inferred
    assert inferred == {name: RETENTIONS_S[name] * 1000 for name in inferred}


def test_one_segment_of_a_real_store_tells_no_more_than_a_bound(measure: Measure) -> None:
    """Windows of 2.8 are kept for a day if nobody says otherwise: one segment is half of it."""
    stores, _ = measure("2.8.2", "clean")
    horizon = stores["1_0", "actions-hop"].horizon
    assert (horizon.inferred_retention_ms, horizon.inferred_most_ms) == (None, None)
    assert horizon.inferred_least_ms is not None
    assert 23 * 3_600_000 < horizon.inferred_least_ms <= 24 * 3_600_000


def test_figures_of_whole_stores_hold_together(measure: Measure) -> None:
    stores, _ = measure("3.9.2", "clean")
    history = stores["6_0", "price-history"]
    assert (history.horizon.inferred_least_ms, history.horizon.segment_interval_ms) == (
        3_600_000,
        300_000,
    )
    assert history.versions is not None
    assert history.versions.num_history == 55
    for key, found in stores.items():
        assert found.verdict, key
        assert found.deletions.num_entries is not None
        if found.segments and found.clock != "timestamp":
            assert sum(each.num_rows for each in found.segments) == found.num_rows
            assert all((each.num_entries or 0) >= each.num_rows for each in found.segments)
