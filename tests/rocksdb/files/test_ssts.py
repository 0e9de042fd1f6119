from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from rocksdict import Options, Rdict

from kstoolkit.rocksdb.files.ssts import _told
from kstoolkit.rocksdb.opening import open_store
from tests.rocksdb.madestores import EVERY, NUM_ROWS, key_of, make_store, value_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kstoolkit.rocksdb.store import Store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with open_store(make_store(tmp_path_factory.mktemp("ssts") / "store")) as opened:
        yield opened


def test_files_are_told_exactly(store: Store) -> None:
    *_, last = files = sorted(store.ssts("default"), key=lambda each: each.name)
    deletions = NUM_ROWS // EVERY
    assert [each.num_entries for each in files] == [1000, 1000, 1000, deletions]
    assert [each.num_deletions for each in files] == [0, 0, 0, deletions]
    assert [each.tombstone_density for each in files] == [0, 0, 0, 1]
    assert {each.level for each in files} == {0}
    assert (last.smallest_key, last.largest_key) == (key_of(0), key_of(NUM_ROWS - EVERY))
    assert files[0].raw_value_bytes == 1000 * len(value_of(0))
    assert files[0].raw_key_bytes == 1000 * (len(key_of(0)) + 8)
    assert files[0].format_version == 6
    assert files[0].compression == "Snappy"
    assert files[0].size_bytes == (store.path / files[0].name).stat().st_size
    assert files[0].created_at is not None
    assert timedelta(0) <= datetime.now(UTC) - files[0].created_at < timedelta(hours=1)


def test_what_a_file_does_not_say_is_unknown(store: Store) -> None:
    file = store.ssts()[0]
    assert file.filter_policy is None
    assert file.unknown == {"filter_policy": "the file does not say"}


def test_each_file_is_of_one_column_family(tmp_path: Path) -> None:
    made = make_store(tmp_path / "store")
    writer = Rdict(str(made), Options(raw_mode=True))
    other = writer.get_column_family("other")
    other[b"c"] = b"3"
    other.flush()
    other.close()
    writer.close()
    with open_store(made) as opened:
        owners = [each.column_family for each in opened.ssts()]
        assert owners == ["default"] * 4 + ["other"] * owners.count("other")
        assert {each.smallest_key for each in opened.ssts("other")} == {b"a", b"c"}
        assert len(opened.levels()) == 2


def test_a_file_whose_properties_can_t_be_read_is_told_without_them(tmp_path: Path) -> None:
    half = tmp_path / "000001.sst"
    half.write_bytes(bytes(1000))
    told, why = _told(half)
    assert told == {"format_version": None}
    assert "can't be made out" in why["compression"]
    assert why["format_version"]


def test_levels_add_their_files_up(store: Store) -> None:
    (level,) = store.levels()
    files = store.ssts()
    assert level.num_files == len(files) == 4
    assert level.size_bytes == sum(each.size_bytes for each in files)
    assert level.num_entries == NUM_ROWS + NUM_ROWS // EVERY
    assert level.num_deletions == NUM_ROWS // EVERY
    assert (level.smallest_key, level.largest_key) == (key_of(0), key_of(NUM_ROWS - 1))
    assert level.compression == "Snappy"
    assert level.unknown == {}
    assert level.to_dict()["smallest_key"] == key_of(0).hex()
    assert "4 files" in repr(level)


def test_a_compacted_store_has_its_rows_further_down(tmp_path: Path) -> None:
    made = make_store(tmp_path / "store")
    writer = Rdict(str(made), Options(raw_mode=True))
    writer.compact_range(None, None)
    writer.close()
    with open_store(made) as opened:
        (level,) = opened.levels("default")
    assert level.level == 6
    assert (level.num_entries, level.num_deletions) == (NUM_ROWS - NUM_ROWS // EVERY, 0)


def test_every_figure_of_a_file_is_the_store_s(store: Store) -> None:
    for record in (*store.ssts(), *store.levels()):
        assert {str(each.source) for each in record.figures()} == {"store on disk"}
