from __future__ import annotations

from typing import TYPE_CHECKING

from rocksdict import Rdict

from kstoolkit.rocksdb.lab.trial import _stall_counts, _TrialStatistics
from kstoolkit.rocksdb.profiles.profile import Profile

if TYPE_CHECKING:
    from pathlib import Path


def test_what_a_real_store_counts_is_read(tmp_path: Path) -> None:
    options = Profile(statistics=True, disable_wal=False).to_rocksdict()
    store = Rdict(str(tmp_path), options)
    for number in range(100):
        store.put(b"%03d" % number, b"value")
        store.get(b"%03d" % number)
    store.flush()
    tickers = _TrialStatistics(options)
    counts = _stall_counts(
        str(store.property_value("rocksdb.cf-write-stall-stats")),
        str(store.property_value("rocksdb.db-write-stall-stats")),
    )
    store.close()
    assert tickers.count("number.keys.written", "number.keys.read") == 200
    assert tickers.count("flush.write.bytes") > 100
    assert tickers.histograms["db.get.micros"].count == 100
    assert counts["l0_file_count_limit_stops"] == 0
    assert counts["write_buffer_manager_limit_stops"] == 0
    assert len(counts) == 11
