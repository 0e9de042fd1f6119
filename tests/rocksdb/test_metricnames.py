from __future__ import annotations

import re
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from rocksdict import Options, Rdict

from kstoolkit.rocksdb.metricnames import metric_names
from kstoolkit.rocksdb.opening import open_store
from tests.rocksdb.stalledstore import write_stalled_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kstoolkit.rocksdb.store import Store

TICKER = re.compile(r"\.tickers\['(rocksdb\.[\w.]+)'\]")
NAMES = metric_names()
PLACES = [
    part.replace("'])", "']")
    for each in NAMES
    if each.in_records
    for part in re.split(r" / \(| \+ ", each.in_records)
]
SAID = {
    name
    for each in NAMES
    for why in each.unknown.values()
    for name in re.findall(r"\b(?:memtables\w*_bytes|store\.\w+\(\)\.\w+)", why)
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store whose writer stalled, flushed, compacted, and dumped its statistics."""
    path = tmp_path_factory.mktemp("metrics") / "store"
    write_stalled_store(path)
    with open_store(path) as opened:
        yield opened


def found_at(place: str, store: Store | SimpleNamespace) -> object:
    """Walk to a place as whoever reads of it would; of several jobs, to the last that tells it."""
    names = {"store": store}
    jobs, _, figure = place.partition("[i]")
    last = len(eval(jobs, names)) - 1 if figure else 0  # noqa: S307 - it is our own text
    ways = (place.replace("[i]", f"[{number}]") for number in range(last, -1, -1))
    told = (eval(way, names) for way in ways)  # noqa: S307 - it is our own text
    return next((each for each in told if each is not None), None)


@pytest.mark.parametrize("place", sorted(set(PLACES)))
def test_every_place_holds_a_figure_of_a_real_store(place: str, store: Store) -> None:
    assert found_at(place, store) is not None


@pytest.mark.parametrize("place", sorted(SAID))
def test_what_is_named_instead_of_a_place_is_there_too(place: str, store: Store) -> None:
    whole = place if place.startswith("store.") else f"store.memory().{place}"
    assert found_at(whole, store) is not None


def test_what_is_named_instead_of_a_place_is_looked_up() -> None:
    assert len(SAID) >= 3


def test_tickers_have_the_names_that_rocksdb_dumps(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    options = Options(raw_mode=True)
    options.enable_statistics()
    store = Rdict(str(tmp_path_factory.mktemp("tickers") / "store"), options)
    dumped = {line.split(" ")[0] for line in str(options.get_statistics()).splitlines()}
    store.close()
    named = {name for each in PLACES for name in TICKER.findall(each)}
    assert len(named) > 8
    assert named <= dumped


def test_every_place_is_named_or_said_to_be_unknown() -> None:
    for each in NAMES:
        assert ("in_records" in each.unknown) == (each.in_records is None)
        assert ("in_spark" in each.unknown) == (each.in_spark is None)
        assert (each.in_spark or "rocksdb").startswith("rocksdb")


def test_a_hit_ratio_is_the_share_of_hits_in_hits_and_misses() -> None:
    counts = {"rocksdb.block.cache.index.hit": 3, "rocksdb.block.cache.index.miss": 1}
    dump = SimpleNamespace(tickers=counts)
    store = SimpleNamespace(log=lambda: SimpleNamespace(stats=lambda: [dump]))
    (ratio,) = (each for each in NAMES if each.name == "block-cache-index-hit-ratio")
    assert found_at(str(ratio.in_records), store) == 0.75
    words = ratio.in_rocksdb
    assert words == ("BLOCK_CACHE_INDEX_HIT / (BLOCK_CACHE_INDEX_HIT + BLOCK_CACHE_INDEX_MISS)")
    ratios = [each for each in NAMES if each.name.endswith("hit-ratio")]
    assert len(ratios) == 4
    assert all(" / (" in str(each.in_records) for each in ratios)


def test_both_proposals_are_there_whole() -> None:
    counts = {kip: sum(each.kip == kip for each in NAMES) for kip in ("KIP-471", "KIP-607")}
    assert counts == {"KIP-471": 14, "KIP-607": 22}
    assert len({each.name for each in NAMES}) == len(NAMES)
    assert NAMES.to_pandas().shape == (36, 8)


def test_the_module_needs_no_rocksdb() -> None:
    module = import_module("kstoolkit.rocksdb.metricnames")
    assert "rocksdict" not in vars(module)
