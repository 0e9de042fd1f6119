"""The logs of all stores that real Kafka Streams applications wrote."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

from kstoolkit.rocksdb.log.storelog import read_log

FOLDER = Path(__file__).parents[4] / "shared" / "fixtures"
AT_INFO = {"tuned-clean", "leveled-clean"}


@pytest.fixture(scope="module", params=["2.8.2", "3.9.2", "4.3.1"])
def folders(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    there = Path(os.environ.get("KSTOOLKIT_FIXTURES_DIR", FOLDER))
    archive = there / "kafka_streams" / f"{request.param}.tar.gz"
    if not archive.is_file():
        pytest.skip(f"real stores not present: {archive}")
    folder = tmp_path_factory.mktemp("logs")
    with tarfile.open(archive) as packed:
        members = [each for each in packed if Path(each.name).name.startswith(("LOG", "OPTIONS"))]
        packed.extractall(folder, [each for each in members if each.isfile()], filter="data")
    return sorted({path.parent for path in folder.rglob("OPTIONS-*")})


def test_stalls_are_known_exactly_where_the_writer_logs_them(folders: list[Path]) -> None:
    for folder in folders:
        log = read_log(folder)
        stalls, flushes = log.stalls(), log.flushes()
        if AT_INFO & set(folder.parts):
            assert (stalls.unknown, flushes.unknown, log.level) == (None, None, "info")
            assert log.began_at is not None
        else:
            assert "at level ERROR" in str(stalls.unknown)
            assert (len(stalls), len(flushes), log.level) == (0, 0, None)
    assert len(folders) > 50


def test_no_job_of_a_cleanly_closed_store_is_left_open(folders: list[Path]) -> None:
    logs = [read_log(folder) for folder in folders if AT_INFO & set(folder.parts)]
    for log in logs:
        flushes = log.flushes()
        merges = [each for each in log.compactions() if not each.moved]
        assert len(flushes) > 0
        assert all((each.unknown, each.status) == ({}, "OK") for each in flushes)
        assert all(each.unknown == {} for each in merges if each.status == "OK")


def test_a_compaction_that_the_closing_cut_short_has_no_end_and_no_output(
    folders: list[Path],
) -> None:
    logs = [read_log(folder) for folder in folders if AT_INFO & set(folder.parts)]
    cut = [
        (log, each)
        for log in logs
        for each in log.compactions()
        if not each.moved and each.status != "OK"
    ]
    if "4.3.1" not in folders[0].parts:
        assert cut == []
        return
    ((log, merge),) = cut
    assert merge.status == "Shutdown in progress: Database shutdown"
    assert (merge.finished_at, merge.num_files_out, merge.output_bytes) == (None, 0, 0)
    assert merge.wasted_bytes == 5_757
    assert "Shutdown in progress" in merge.unknown["finished_at"]
    done = [each.output_bytes or 0 for each in log.compactions() if each.status == "OK"]
    assert log.write_amplification().compacted_bytes == sum(done)
