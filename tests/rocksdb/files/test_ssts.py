from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rocksdict import (
    BlockBasedOptions,
    DBCompressionType,
    Options,
    PlainTableFactoryOptions,
    Rdict,
    SliceTransform,
)

from kstoolkit.errors import FormatError
from kstoolkit.rocksdb.files.ssts import _figures_of, as_count, read_footer, read_properties
from kstoolkit.rocksdb.opening import open_store
from tests.rocksdb.madestores import EVERY, NUM_ROWS, key_of, largest_sst, make_store, value_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
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
    told, why = _figures_of(half)
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


def table(**given_options: object) -> Callable[[Options], None]:
    def change(options: Options) -> None:
        block = BlockBasedOptions()
        for name, value in given_options.items():
            getattr(block, f"set_{name}")(value)
        options.set_block_based_table_factory(block)

    return change


@pytest.mark.parametrize("version", [2, 3, 4, 5, 6])
def test_each_format_tells_its_version_and_its_properties(version: int, tmp_path: Path) -> None:
    sst = largest_sst(make_store(tmp_path / "store", table(format_version=version)))
    footer = read_footer(sst)
    assert footer is not None
    assert footer.format_version == version
    properties = read_properties(sst)
    assert as_count(properties["rocksdb.num.entries"]) == 1000
    assert properties["rocksdb.column.family.name"] == b"default"


@pytest.mark.parametrize(("kind", "name"), [("lz4", b"LZ4"), ("zstd", b"ZSTD")])
def test_a_file_tells_its_compression(kind: str, name: bytes, tmp_path: Path) -> None:
    def compressed(options: Options) -> None:
        options.set_compression_type(getattr(DBCompressionType, kind)())

    sst = largest_sst(make_store(tmp_path / "store", compressed))
    assert read_properties(sst)["rocksdb.compression"] == name


def test_a_table_of_another_kind_has_no_version(tmp_path: Path) -> None:
    options = Options(raw_mode=True)
    plain = PlainTableFactoryOptions()
    options.set_prefix_extractor(SliceTransform.create_fixed_prefix(1))
    options.set_plain_table_factory(plain)
    store = Rdict(str(tmp_path / "store"), options)
    store[b"a"] = b"b"
    store.flush()
    store.close()
    sst = largest_sst(tmp_path / "store")
    footer = read_footer(sst)
    assert footer is not None
    assert footer.format_version is None
    with pytest.raises(FormatError, match=r"can't be made out"):
        read_properties(sst)


@pytest.mark.parametrize("size", [0, 1, 52, 53, 1000])
def test_a_file_that_is_not_finished_has_no_footer(size: int, tmp_path: Path) -> None:
    half = tmp_path / "000001.sst"
    half.write_bytes(largest_sst(make_store(tmp_path / "store")).read_bytes()[:size])
    assert read_footer(half) is None
    with pytest.raises(FormatError):
        read_properties(half)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("whole")
    return largest_sst(make_store(folder / "store")).read_bytes()


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spoilt") / "000001.sst"


@given(data=st.data())
def test_a_damaged_file_is_never_more_than_a_format_error(
    data: st.DataObject, whole: bytes, spoilt: Path
) -> None:
    content = bytearray(whole[-4000:])
    for _ in range(data.draw(st.integers(1, 5))):
        content[-data.draw(st.integers(9, 1500))] = data.draw(st.integers(0, 255))
    spoilt.write_bytes(content)
    try:
        told = read_properties(spoilt)
    except FormatError:
        return
    assert isinstance(told, dict)


@given(st.binary(max_size=12))
def test_a_count_is_a_number_or_unknown(value: bytes) -> None:
    found = as_count(value)
    assert found is None or found >= 0
