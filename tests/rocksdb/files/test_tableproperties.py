from __future__ import annotations

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
from kstoolkit.rocksdb.files.tableproperties import as_count, read_footer, read_properties
from tests.rocksdb.madestores import largest_sst, make_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


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
