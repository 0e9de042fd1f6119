"""A damaged store is read as far as it goes, and says in a line what is lost."""

from __future__ import annotations

import os
import re
import shutil
from itertools import groupby
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rocksdict import Options, Rdict

from kstoolkit.errors import FormatError, KstoolkitError
from kstoolkit.rocksdb.faults import (
    DamagedStoreError,
    EncryptedStoreError,
    MissingFileError,
    NewerFormatError,
    NoStoreError,
)
from kstoolkit.rocksdb.opening import open_store
from tests.rocksdb.madestores import LIVE, appearance, key_of, make_store, small_options, value_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

FIRST, SECOND, _, TOMBSTONES = range(4)
"""Rows 0 to 999, rows 1000 to 1999, the rest, and the deletions of each tenth."""

OTHER = {b"a": b"1", b"b": b"2"}
KEPT = {key: value for key, value in LIVE.items() if not key_of(1000) <= key < key_of(2000)}
BACK = {key_of(each): value_of(each) for each in range(3000)}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("damaged") / "store")


@pytest.fixture(
    params=["store", "größe 'x'\n\x1b[31m;$(reboot)", os.fsdecode(b"\xff\xfe000013.sst")]
)
def store(made: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Return a store that the test may spoil, in folders of odd names too."""
    name: str = request.param
    return shutil.copytree(made, tmp_path / name)


def sst(folder: Path, number: int) -> Path:
    return sorted(folder.glob("*.sst"))[number]


def manifest(folder: Path) -> Path:
    return next(folder.glob("MANIFEST-*"))


def wal(folder: Path) -> Path:
    return max(folder.glob("*.log"), key=lambda each: each.stat().st_size)


def cut(file: Path, share: float) -> None:
    file.write_bytes(file.read_bytes()[: int(file.stat().st_size * share)])


def flip(file: Path, share: float) -> None:
    content = bytearray(file.read_bytes())
    content[int(len(content) * share)] ^= 1
    file.write_bytes(content)


def encrypt(folder: Path) -> None:
    for each in folder.glob("*.sst"):
        each.write_bytes(bytes(byte ^ 0xA5 for byte in each.read_bytes()))


def renew(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-12] = 7
    file.write_bytes(content)


def remove(*files: Path) -> None:
    for each in files:
        each.unlink()


def steps(*each: Callable[[Path], object]) -> Callable[[Path], None]:
    def all_of_them(folder: Path) -> None:
        for spoil in each:
            spoil(folder)

    return all_of_them


SPOILT: dict[str, tuple[Callable[[Path], object], dict[bytes, bytes], str]] = {
    "a missing SST": (
        lambda f: sst(f, SECOND).unlink(),
        KEPT,
        r"1 of 4 SST files is missing \(\d+\.sst; 45\.\d KiB of 1\d\d\.\d KiB\): keys that it held",
    ),
    "missing deletions": (lambda f: sst(f, TOMBSTONES).unlink(), BACK, "deleted ones may be back"),
    "half an SST": (
        lambda f: cut(sst(f, SECOND), 0.5),
        KEPT,
        r"sst has 23,\d+ of its 46,\d+ bytes",
    ),
    "an empty SST": (lambda f: cut(sst(f, SECOND), 0), KEPT, r"has 0 of its"),
    "a bad index": (lambda f: flip(sst(f, SECOND), 0.99), KEPT, "can't be opened"),
    "a bad end": (lambda f: flip(sst(f, SECOND), 0.9999), KEPT, "ends as no SST file does"),
    "a cut WAL": (lambda f: cut(wal(f), 0.9), LIVE, "its WAL is torn or damaged"),
    "a flipped WAL": (lambda f: flip(wal(f), 0.3), LIVE, "its WAL is torn or damaged"),
}


@pytest.mark.parametrize("what", SPOILT)
def test_what_is_left_is_read_and_what_is_lost_is_said(
    what: str, store: Path, tmp_path: Path
) -> None:
    spoil, expected, words = SPOILT[what]
    spoil(store)
    before = appearance(store)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with open_store(store, partly=True, scratch=scratch) as opened:
        assert dict(opened.iter_rows(cf="default")) == expected
        assert {key: opened.get(key, cf="default") for key in expected} == expected
        told = str(opened.damage)
        assert re.search(words, told), told
        assert str(scratch) not in told
        assert opened.summary().damage == told
    assert appearance(store) == before
    assert not list(scratch.iterdir())


def test_of_a_whole_store_nothing_is_said_to_be_lost(made: Path) -> None:
    with open_store(made, partly=True) as opened:
        assert dict(opened.iter_rows(cf="default")) == LIVE
        assert dict(opened.iter_rows(cf="other")) == OTHER
        assert opened.damage is None
        assert opened.summary().damage.startswith("none seen (what was not read")


def test_rows_behind_damage_in_a_wal_are_read(tmp_path: Path) -> None:
    writer = Rdict(str(tmp_path / "writing"), Options(raw_mode=True))
    for number in range(3_000):
        writer[key_of(number)] = value_of(number)
    writer.flush_wal()
    store = shutil.copytree(tmp_path / "writing", tmp_path / "store")
    writer.close()
    flip(wal(store), 0.3)
    with open_store(store, partly=True) as opened:
        rows = dict(opened.iter_rows())
        assert opened.damage is not None
    assert 2_000 < len(rows) < 3_000
    assert rows.items() <= BACK.items()
    assert key_of(2_999) in rows


REFUSED: dict[str, tuple[Callable[[Path], object], type[Exception], str]] = {
    "nothing is left": (
        lambda f: remove(*f.glob("*.sst")),
        MissingFileError,
        r"\.sst, which it needs, is missing",
    ),
    "it is encrypted": (encrypt, EncryptedStoreError, "encrypted, or damaged"),
    "it is encrypted, and has no MANIFEST": (
        steps(encrypt, lambda f: manifest(f).unlink()),
        DamagedStoreError,
        "MANIFEST-.*missing",
    ),
    "its format is newer": (lambda f: renew(sst(f, SECOND)), NewerFormatError, "format_version 7"),
    "no CURRENT": (
        lambda f: (f / "CURRENT").unlink(),
        DamagedStoreError,
        "damaged: CURRENT, which names its MANIFEST, is missing",
    ),
    "a CURRENT of junk": (
        lambda f: (f / "CURRENT").write_bytes(b"x\n"),
        DamagedStoreError,
        "CURRENT names no MANIFEST",
    ),
    "no MANIFEST": (
        lambda f: manifest(f).unlink(),
        DamagedStoreError,
        r"MANIFEST-\d+, which CURRENT names, is missing",
    ),
    "an empty MANIFEST": (lambda f: cut(manifest(f), 0), DamagedStoreError, "MANIFEST"),
    "half a MANIFEST": (lambda f: cut(manifest(f), 0.5), DamagedStoreError, "middle of a record"),
    "half a MANIFEST, and an SST": (
        steps(lambda f: cut(manifest(f), 0.5), lambda f: sst(f, SECOND).unlink()),
        DamagedStoreError,
        "middle of a record",
    ),
    "a flipped MANIFEST": (lambda f: flip(manifest(f), 0.5), DamagedStoreError, "MANIFEST"),
    "neither": (
        steps(lambda f: manifest(f).unlink(), lambda f: (f / "CURRENT").unlink()),
        DamagedStoreError,
        "CURRENT, which",
    ),
    "only a log is left": (
        lambda f: remove(*(each for each in f.iterdir() if not each.name.startswith("LOG"))),
        NoStoreError,
        "no CURRENT file",
    ),
    "a file of it is a pipe": (
        steps(lambda f: os.mkfifo(f / "000901.sst"), lambda f: sst(f, SECOND).unlink()),
        DamagedStoreError,
        "is no file, but a pipe",
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_has_nothing_to_read_is_refused_as_ever(made: Path, tmp_path: Path, why: str) -> None:
    spoil, kind, words = REFUSED[why]
    store = shutil.copytree(made, tmp_path / "store")
    spoil(store)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with pytest.raises(kind, match=words) as caught:
        open_store(store, partly=True, scratch=scratch)
    assert type(caught.value) is kind
    assert not list(scratch.iterdir())


def leveled(path: Path, random: Random) -> dict[bytes, set[bytes]]:
    """Write a store of several levels; return all values that each key ever had."""
    options = small_options()
    options.set_disable_auto_compactions(False)
    options.set_level_compaction_dynamic_level_bytes(False)
    options.set_write_buffer_size(64 << 10)
    options.set_target_file_size_base(32 << 10)
    options.set_max_bytes_for_level_base(64 << 10)
    writer = Rdict(str(path), options)
    had: dict[bytes, set[bytes]] = {}
    for number in range(30_000):
        key = key_of(random.randrange(4_000))
        if number % 4:
            value = value_of(number)
            writer[key] = value
            had.setdefault(key, set()).add(value)
        else:
            del writer[key]
    writer.flush()
    writer.close()
    Rdict(str(path), small_options()).close()  # which removes the files that are no longer needed
    return had


def test_without_one_file_of_many_levels_the_newest_value_that_is_left_is_shown(
    tmp_path: Path,
) -> None:
    had = leveled(tmp_path / "store", Random(5))
    with open_store(tmp_path / "store") as opened:
        rows, files = dict(opened.iter_rows()), list(opened.ssts())
    assert len({each.level for each in files}) > 1
    num_changed = 0
    for lost in files[:: max(1, len(files) // 4)]:
        store = shutil.copytree(tmp_path / "store", tmp_path / lost.name)
        (store / lost.name).unlink()
        with open_store(store, partly=True) as opened:
            left = dict(opened.iter_rows())
            assert {key: opened.get(key) for key in left} == left
            assert [each.name for each in opened.ssts()] == [
                each.name for each in files if each is not lost
            ]
        changed = {key for key in rows.keys() | left.keys() if rows.get(key) != left.get(key)}
        num_changed += len(changed)
        assert all(lost.smallest_key <= key <= lost.largest_key for key in changed)
        assert all(value in had[key] for key, value in left.items())
    assert num_changed


@pytest.fixture(scope="module")
def one_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("one") / "store"
    writer = Rdict(str(path), small_options())
    for key, value in BACK.items():
        writer[key] = value
    writer.flush()
    writer.close()
    return path


@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_of_blocks_that_cant_be_read_only_their_own_rows_are_missing(
    one_file: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    store = shutil.copytree(one_file, tmp_path_factory.mktemp("bad") / "store")
    whole = sst(store, 0).read_bytes()
    places = data.draw(st.sets(st.integers(0, int(len(whole) * 0.9)), min_size=1, max_size=12))
    torn = bytearray(whole)
    for each in places:
        torn[each] ^= 0xFF
    sst(store, 0).write_bytes(torn)
    with open_store(store, partly=True) as opened:
        rows = dict(opened.iter_rows())
        told = str(opened.damage)
        assert rows.items() <= BACK.items()
        lost = sorted(BACK.keys() - rows.keys())
        [count] = re.findall(r"^(\d+) blocks? of \d+\.sst", told)
        # Each block has about 4 KiB, and a row in it at least 32 bytes.
        assert 0 < len(lost) <= int(count) * 4200 // 32
        assert len(list(runs(lost))) <= int(count) <= len(places)
        assert dict(opened.iter_rows(start=lost[0])) == {
            key: value for key, value in rows.items() if key >= lost[0]
        }
        with pytest.raises(DamagedStoreError):
            opened.get(lost[0])


def runs(keys: list[bytes]) -> Iterator[list[bytes]]:
    """Yield keys that follow one another, together."""
    numbered = [(int(key[-6:]) - place, key) for place, key in enumerate(keys)]
    for _, some in groupby(numbered, key=lambda each: each[0]):
        yield [key for _, key in some]


@settings(deadline=None, max_examples=20)
@given(data=st.data())
def test_rows_of_other_files_beside_a_bad_block_are_read(
    made: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    store = shutil.copytree(made, tmp_path_factory.mktemp("beside") / "store")
    spoilt = data.draw(st.sets(st.sampled_from([FIRST, SECOND, TOMBSTONES]), min_size=1))
    for number in spoilt:
        content = bytearray(sst(store, number).read_bytes())
        for each in data.draw(st.sets(st.integers(0, int(len(content) * 0.5)), min_size=1)):
            content[each] ^= 0xFF
        sst(store, number).write_bytes(content)
    with open_store(store, partly=True) as opened:
        rows = dict(opened.iter_rows(cf="default"))
        assert list(rows) == sorted(rows)
        assert rows.items() <= BACK.items()
        assert all(rows.get(key) == value for key, value in LIVE.items() if key >= key_of(2_000))
        if SECOND not in spoilt:
            assert KEPT.keys() - rows.keys() <= {key_of(each) for each in range(1_000)}
        if TOMBSTONES not in spoilt:
            assert rows.items() <= LIVE.items()
        assert dict(opened.iter_rows(cf="other")) == OTHER
    assert not list(opened.column_families)


def test_a_store_whose_rows_are_all_in_bad_blocks_has_none(one_file: Path, tmp_path: Path) -> None:
    store = shutil.copytree(one_file, tmp_path / "store")
    size = sst(store, 0).stat().st_size
    content = bytearray(sst(store, 0).read_bytes())
    content[: int(size * 0.95)] = os.urandom(int(size * 0.95))
    sst(store, 0).write_bytes(content)
    with open_store(store, partly=True) as opened:
        assert len(list(opened.iter_rows())) < len(BACK) * 0.1
        assert re.match(r"\d\d blocks of", str(opened.damage))


def test_asked_for_all_of_it_damage_is_raised(made: Path, tmp_path: Path) -> None:
    store = shutil.copytree(made, tmp_path / "store")
    flip(sst(store, SECOND), 0.3)
    with open_store(store) as opened, pytest.raises(FormatError, match="checksum"):
        list(opened.iter_rows(cf="default"))


@settings(deadline=None, max_examples=80)
@given(data=st.data())
def test_whatever_happens_to_its_files_rows_are_those_that_were_written_or_it_is_refused(
    made: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("any")
    store = shutil.copytree(made, root / "store")
    names = sorted(each.name for each in store.iterdir() if each.name != "LOG")
    for name in data.draw(st.sets(st.sampled_from(names), min_size=1, max_size=3)):
        spoil(store / name, data)
    before = appearance(store)
    (root / "scratch").mkdir()
    try:
        with open_store(store, partly=True, scratch=root / "scratch") as opened:
            for family in opened.column_families:
                assert dict(opened.iter_rows(cf=family)).items() <= (BACK | OTHER).items()
    except KstoolkitError as error:
        assert error.message  # noqa: PT017 - either way
    assert appearance(store) == before
    assert not list((root / "scratch").iterdir())


def spoil(file: Path, data: st.DataObject) -> None:
    """Remove a file, cut it, or change some bytes of it."""
    content = bytearray(file.read_bytes())
    how = data.draw(st.sampled_from(["remove", "cut", "flip"]))
    if how == "remove":
        file.unlink()
    elif how == "cut" or not content:
        file.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    else:
        for at in data.draw(st.sets(st.integers(0, len(content) - 1), min_size=1, max_size=4)):
            content[at] ^= data.draw(st.integers(1, 255))
        file.write_bytes(content)
