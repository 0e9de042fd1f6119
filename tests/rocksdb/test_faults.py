from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rocksdict import AccessType, Options, Rdict

from kstoolkit.errors import ConfigurationError, KstoolkitError
from kstoolkit.rocksdb.faults import (
    ColumnFamilyError,
    DamagedStoreError,
    MissingFileError,
    MissingKeyError,
    NewerFormatError,
    ReadOnlyStoreError,
    StoreClosedError,
    StoreFault,
    StorePermissionError,
    StoreResourceError,
    fault_of,
    translated,
)
from tests.rocksdb.madestores import make_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SAID = [
    ("Corruption: block checksum mismatch in /s/000012.sst offset 0", DamagedStoreError),
    ("Corruption: Corrupt or unsupported format_version: 7 in /s/000012.sst", NewerFormatError),
    ("Corruption: Corruption: IO error: No such file or directory: /s/1.sst", MissingFileError),
    ("IO error: No such file or directory: /s/clock/MANIFEST-000005", MissingFileError),
    ("IO error: While open: /s/000012.sst: Permission denied", StorePermissionError),
    ("IO error: While open: /s/000012.sst: Too many open files", StoreResourceError),
    ("IO error: While appending: /s/000012.log: No space left on device", StoreResourceError),
    ("IO error: While pread: /s/000012.sst: Input/output error", StoreFault),
    ("Not implemented: Not supported operation in read only mode.", ReadOnlyStoreError),
    ("Invalid argument: rocksdict: does not match existing comparator x", StoreFault),
    ("Corruption: merge operator is not properly initialized", StoreFault),
    ("Busy: ", StoreFault),
    ("", StoreFault),
]


@pytest.mark.parametrize(("text", "kind"), SAID)
def test_each_kind_of_refusal_has_an_error_of_its_own(
    text: str, kind: type[KstoolkitError]
) -> None:
    with pytest.raises(kind) as caught, translated("counts"):
        raise Exception(text)  # noqa: TRY002 - what rocksdict raises
    assert type(caught.value) is kind
    assert "counts" in caught.value.message
    assert "/s/" not in caught.value.message
    assert type(caught.value.__cause__) is Exception


ASKED: dict[type[KstoolkitError], Callable[[Rdict], object]] = {
    ColumnFamilyError: lambda store: store.get_column_family("zz"),
    ConfigurationError: lambda store: store["text"],
    MissingKeyError: lambda store: store[b"nobody"],
    ReadOnlyStoreError: lambda store: store.put(b"a", b"b"),
}


@pytest.mark.parametrize("kind", ASKED)
def test_what_rocksdict_really_raises_is_known(kind: type[KstoolkitError], tmp_path: Path) -> None:
    made = str(make_store(tmp_path / "store"))
    store = Rdict(made, Options(raw_mode=True), access_type=AccessType.read_only(False))
    with pytest.raises(kind, match="counts") as caught, translated("counts"):
        ASKED[kind](store)
    assert type(caught.value) is kind
    store.close()
    with pytest.raises(StoreClosedError, match="counts"), translated("counts"):
        store.get(b"a")


def test_a_folder_that_may_not_be_written_is_a_matter_of_permission() -> None:
    told = fault_of(PermissionError("Permission denied (os error 13)"), "counts")
    assert isinstance(told, StorePermissionError)


def test_a_disk_that_fills_up_while_a_file_is_copied_is_the_machine_s_fault() -> None:
    told = fault_of(OSError(errno.ENOSPC, "No space left on device", "/s/000012.sst"), "counts")
    assert isinstance(told, StoreResourceError)
    assert "/s/" not in told.message


def test_errors_of_others_pass_as_they_are() -> None:
    for error in (ConfigurationError("ours"), ZeroDivisionError("not rocksdict's"), OSError(5)):
        with pytest.raises(type(error)) as caught, translated("counts"):
            raise error
        assert caught.value is error


def test_a_missing_key_reads_as_a_sentence() -> None:
    assert str(fault_of(KeyError("key b'a' not found"), "counts")).startswith("The store counts")


@given(st.text())
def test_any_text_becomes_an_error_with_a_sentence(text: str) -> None:
    told = fault_of(Exception(text), "counts")
    assert told is not None
    assert "counts" in told.message
