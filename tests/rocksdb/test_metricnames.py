from __future__ import annotations

import re
from dataclasses import fields
from importlib import import_module

import pytest
from rocksdict import Options, Rdict

from kstoolkit.rocksdb.files.summary import Summary
from kstoolkit.rocksdb.log.compactions import Compaction
from kstoolkit.rocksdb.log.flushes import Flush
from kstoolkit.rocksdb.log.stalltime import StallTime
from kstoolkit.rocksdb.log.statsdumps import StatsDump
from kstoolkit.rocksdb.log.storelog import StoreLog
from kstoolkit.rocksdb.log.writes import WriteAmplification
from kstoolkit.rocksdb.metricnames import metric_names
from kstoolkit.rocksdb.profiles.profile import Profile

OF_A_LOG = {
    "compactions": Compaction,
    "flushes": Flush,
    "stall_time": StallTime,
    "stats": StatsDump,
    "write_amplification": WriteAmplification,
}
IN_LOG = re.compile(r"store\.log\(\)\.(\w+)\(\)(?:\[i\])?\.(\w+)(?:\['(rocksdb\.[\w.]+)'\])?")
NAMES = metric_names()
PLACES = [part for each in NAMES if each.in_records for part in each.in_records.split(" / ")]


def field_names(record: type) -> set[str]:
    return {each.name for each in fields(record)}


@pytest.mark.parametrize("place", [each for each in PLACES if ".log()" in each])
def test_a_figure_that_is_said_to_be_in_the_log_has_a_field(place: str) -> None:
    match = IN_LOG.fullmatch(place)
    assert match
    assert callable(getattr(StoreLog, match[1]))
    assert match[2] in field_names(OF_A_LOG[match[1]])


def test_a_figure_that_is_said_to_be_elsewhere_has_a_field() -> None:
    summary = {each.rpartition(".")[2] for each in PLACES if ".summary()" in each}
    assert summary == {"sst_bytes", "estimated_rows"}
    assert summary <= field_names(Summary)
    assert "block_cache_bytes" in field_names(Profile)


def test_tickers_have_the_names_that_rocksdb_dumps(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    options = Options(raw_mode=True)
    options.enable_statistics()
    store = Rdict(str(tmp_path_factory.mktemp("tickers") / "store"), options)
    dumped = {line.split(" ")[0] for line in str(options.get_statistics()).splitlines()}
    store.close()
    named = {match[3] for each in PLACES if (match := IN_LOG.fullmatch(each)) and match[3]}
    assert len(named) > 8
    assert named <= dumped


def test_every_place_is_named_or_said_to_be_unknown() -> None:
    for each in NAMES:
        assert ("in_records" in each.unknown) == (each.in_records is None)
        assert ("in_spark" in each.unknown) == (each.in_spark is None)
        assert (each.in_spark or "rocksdb").startswith("rocksdb")


def test_both_proposals_are_there_whole() -> None:
    counts = {kip: sum(each.kip == kip for each in NAMES) for kip in ("KIP-471", "KIP-607")}
    assert counts == {"KIP-471": 14, "KIP-607": 22}
    assert len({each.name for each in NAMES}) == len(NAMES)
    assert NAMES.to_pandas().shape == (36, 8)


def test_the_module_needs_no_rocksdb() -> None:
    module = import_module("kstoolkit.rocksdb.metricnames")
    assert "rocksdict" not in vars(module)
