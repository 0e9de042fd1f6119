from __future__ import annotations

import struct
import tracemalloc
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstoolkit.errors import FormatError
from kstoolkit.formats.spark import statefiles
from kstoolkit.formats.spark.compression import decompressed
from kstoolkit.formats.spark.statefiles import _REMOVE_RANGE, APPEND, PUT, REMOVE, read_changelog
from tests.formats.spark.sparkfiles import Change, changelog, lz4, snappy, utf, zstd

if TYPE_CHECKING:
    from collections.abc import Callable

CODECS: dict[str, Callable[[bytes], bytes]] = {"lz4": lz4, "snappy": snappy, "zstd": zstd}
KEYS = st.binary(min_size=1, max_size=30)
PUTS = st.tuples(st.just(PUT), KEYS, st.binary(max_size=50))
REMOVALS = st.tuples(st.just(REMOVE), KEYS, st.none())
OTHERS = st.tuples(st.sampled_from([APPEND, _REMOVE_RANGE]), KEYS, st.binary(max_size=50))
LINEAGE = st.lists(st.tuples(st.integers(1, 99), st.text(max_size=9)), max_size=3)


def read(raw: bytes) -> tuple[int, tuple[tuple[int, str], ...], list[Any]]:
    log = read_changelog(raw)
    found = [
        change
        for batch in log.changes
        for change in zip(
            batch.kind.tolist(), batch.key.to_list(), batch.value.to_list(), strict=True
        )
    ]
    return log.version, log.lineage, found


@pytest.mark.parametrize("codec", CODECS)
@given(st.sampled_from([1, 3]), st.lists(PUTS | REMOVALS), LINEAGE)
def test_puts_and_removals_come_back(
    codec: str, version: int, changes: list[Change], lineage: list[tuple[int, str]]
) -> None:
    raw = CODECS[codec](changelog(version, changes, lineage))
    told = tuple(lineage) if version == 3 else ()
    assert read(raw) == (version, told, changes)


@pytest.mark.parametrize("codec", CODECS)
@given(st.sampled_from([2, 4]), st.lists(PUTS | REMOVALS | OTHERS), LINEAGE)
def test_changes_of_all_types_come_back(
    codec: str, version: int, changes: list[Change], lineage: list[tuple[int, str]]
) -> None:
    raw = CODECS[codec](changelog(version, changes, lineage))
    told = tuple(lineage) if version == 4 else ()
    assert read(raw) == (version, told, changes)


@pytest.mark.parametrize("version", [1, 2])
def test_a_long_file_comes_in_batches(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statefiles, "_BATCH_BYTES", 1000)
    changes: list[Change] = [(PUT, b"%d" % n, bytes(n % 700)) for n in range(3000)]
    log = read_changelog(lz4(changelog(version, changes), block=1 << 10))
    batches = list(log.changes)
    assert len(batches) > 1
    assert sum(map(len, batches)) == 3000
    assert read(lz4(changelog(version, changes), block=1 << 10))[2] == changes


def test_a_value_longer_than_a_batch_comes_back_whole() -> None:
    changes: list[Change] = [(PUT, b"k", bytes(9 << 20)), (PUT, b"l", b"")]
    assert read(lz4(changelog(1, changes)))[2] == changes


@pytest.mark.parametrize("key_bytes", [0x276 << 8 | 0x30, 2 << 16])
def test_a_first_key_whose_length_looks_like_a_version_is_a_key(key_bytes: int) -> None:
    changes: list[Change] = [(PUT, bytes(key_bytes), b"v")]
    assert read(lz4(changelog(1, changes)))[::2] == (1, changes)


def test_a_file_without_changes_has_none() -> None:
    assert read(lz4(changelog(1, []))) == (1, (), [])
    assert read(lz4(changelog(2, []))) == (2, (), [])


def test_blocks_that_did_not_get_shorter_are_read_as_they_are() -> None:
    assert read(lz4(changelog(1, [(PUT, b"k", b"v")]), stored=True))[2] == [(PUT, b"k", b"v")]


def test_streams_behind_each_other_are_one() -> None:
    raw = changelog(1, [(PUT, b"k", b"v")])
    for codec in (lz4, snappy, zstd):
        assert read(codec(raw[:5]) + codec(raw[5:]))[2] == [(PUT, b"k", b"v")]


@given(st.data())
@settings(max_examples=300)
def test_damage_is_said_and_nothing_else_is_raised(data: st.DataObject) -> None:
    codec = data.draw(st.sampled_from(sorted(CODECS)))
    version = data.draw(st.integers(1, 4))
    raw = bytearray(CODECS[codec](changelog(version, [(PUT, b"key", b"value" * 9)] * 3)))
    for _ in range(data.draw(st.integers(0, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(raw[: data.draw(st.integers(0, len(raw)))])
    with suppress(FormatError):
        read(cut)


@given(st.binary(max_size=300))
def test_of_rubbish_inside_a_codec_nothing_else_is_raised(raw: bytes) -> None:
    for head in (b"", utf("v2"), utf("v4") + utf("[]")):
        with suppress(FormatError):
            read(zstd(head + raw))


@given(st.binary(min_size=1, max_size=3000), st.integers(0, 2**20))
def test_a_flipped_byte_of_an_lz4_block_does_not_go_unseen(bare: bytes, at: int) -> None:
    raw = bytearray(lz4(bare))
    place = 21 + at % (len(raw) - 42)
    raw[place] ^= 0x41
    with suppress(FormatError):
        assert b"".join(decompressed(bytes(raw))) == bare


def test_a_file_that_ends_too_soon_is_said() -> None:
    bare = changelog(1, [(PUT, b"key", b"value")])
    for end in range(len(bare)):
        with pytest.raises(FormatError):
            read(lz4(bare[:end]))
    whole = lz4(bare)
    for end in range(len(whole) - 21):  # of an empty block at the end, nothing is missed
        with pytest.raises(FormatError):
            read(whole[:end])


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"ZV\x00\x00", "no LZF chunk at byte 0"),
        (b"ZV\x00\x00\x01xZV\x02\x00\x00", "no LZF chunk at byte 6"),
        (b"ZV\x01\x00\x02\x00\x03\x20\x00", "no LZF chunk at byte 0"),
        (b"ZV\x01\x00\x02\x00\x09\x00a", "no LZF chunk at byte 0"),
        (b"ZV\x01\x00\x03\x00\x09\x00a\xe0", "no LZF chunk at byte 0"),
        (b"", "no codec"),
        (b"PK\x03\x04", "no codec"),
        (b"LZ4Block\x25" + struct.pack("<III", 1, 2**31, 0) + b"x", "no LZ4 block at byte 0"),
        (b"LZ4Block\x2f" + struct.pack("<III", 2**31, 9, 0) + b"x", "no LZ4 block at byte 0"),
        (b"LZ4Block\x35" + struct.pack("<III", 1, 9, 0) + b"x", "no LZ4 block at byte 0"),
        (b"\x82SNAPPY\x00" + bytes(8) + b"\xff\xff\xff\xff", "no Snappy block"),
        (snappy(b"")[:16] + struct.pack(">i", 6) + b"\xff\xff\xff\xff\x0fx", "no Snappy block"),
        (zstd(utf("v4") + utf("{}")), "ends within a change"),
        (zstd(utf("v4") + utf('[{"version":1}]') + b"\x00"), "lineage"),
        (zstd(utf("v2") + b"\x07" + struct.pack(">i", 0) + bytes(4)), "type 0x07"),
        (zstd(struct.pack(">i", -2)), "key of -2 bytes"),
        (zstd(struct.pack(">i", 1) + b"k" + struct.pack(">i", -2)), "value of -2 bytes"),
        (zstd(utf("v2") + b"\x01" + struct.pack(">i", 1) + b"k" + struct.pack(">i", -1)), "-1"),
    ],
)
def test_what_is_wrong_is_said(raw: bytes, told: str) -> None:
    with pytest.raises(FormatError, match=told):
        read(raw)


@pytest.mark.parametrize("length", [2**31 - 1, 64 << 20])
def test_a_length_alone_takes_no_memory(length: int) -> None:
    raw = zstd(struct.pack(">i", length) + b"short")
    with pytest.raises(FormatError):
        read(raw)


def test_a_bomb_is_refused_before_it_is_large() -> None:
    """A hundred megabytes of zeros fit in some kilobytes of zstd."""
    raw = zstd(struct.pack(">i", 2**30) + bytes(100 << 20))
    assert len(raw) < 20_000
    tracemalloc.start()
    with pytest.raises(FormatError, match="more than"):
        read(raw)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 50 << 20


def contents(raw: bytes) -> bytes:
    return b"".join(decompressed(raw))


@pytest.mark.parametrize("codec", CODECS)
@given(st.binary(max_size=500), st.integers(1, 300))
def test_codecs_give_back_what_they_were_given(codec: str, one: bytes, times: int) -> None:
    assert contents(CODECS[codec](one * times)) == one * times
