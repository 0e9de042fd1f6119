from __future__ import annotations

import errno
import gzip
import os
import random
from typing import TYPE_CHECKING

import pytest
import zstandard

from kstoolkit.errors import ConfigurationError, InputError
from kstoolkit.events.opening import check_name, format_of, open_stream, patiently_each

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TEXT = b"".join(b"line %d of a text that compresses\n" % number for number in range(5_000))
GZIP = gzip.compress(TEXT, mtime=0)
ZSTD = zstandard.ZstdCompressor(write_checksum=True).compress(TEXT)


def read(path: Path) -> bytes:
    parts = []
    with open_stream(path) as stream:
        while part := stream.read(10_000):
            parts.append(part)
    return b"".join(parts)


def written(folder: Path, data: bytes, name: str = "events.json") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (TEXT, TEXT),
        (b"", b""),
        (b"\x1f", b"\x1f"),
        (GZIP, TEXT),
        (GZIP + GZIP, TEXT + TEXT),
        (gzip.compress(b""), b""),
        (gzip.compress(b"") + GZIP, TEXT),
        (ZSTD, TEXT),
        (ZSTD + ZSTD, TEXT + TEXT),
        (zstandard.compress(b""), b""),
        (zstandard.ZstdCompressor(write_content_size=False).compress(TEXT), TEXT),
    ],
    ids=[
        "plain",
        "empty",
        "one byte",
        "gzip",
        "two gzip members",
        "empty gzip",
        "an empty and a full gzip member",
        "zstd",
        "two zstd frames",
        "empty zstd",
        "zstd of unknown length",
    ],
)
@pytest.mark.parametrize("name", ["events.json", "événements 😀.json", "odd [name]?.json"])
def test_what_is_compressed_is_told_from_the_first_bytes(
    tmp_path: Path, data: bytes, text: bytes, name: str
) -> None:
    assert read(written(tmp_path, data, name)) == text


@pytest.mark.parametrize("whole", [GZIP, ZSTD], ids=["gzip", "zstd"])
def test_a_compressed_file_that_is_cut_anywhere_is_an_os_error(
    tmp_path: Path, whole: bytes
) -> None:
    for length in [*range(4, 40), *range(len(whole) - 40, len(whole)), len(whole) // 2]:
        with pytest.raises(OSError, match=r"."):
            read(written(tmp_path, whole[:length]))


@pytest.mark.parametrize("whole", [GZIP, ZSTD], ids=["gzip", "zstd"])
@pytest.mark.parametrize("rest", [b"junk", b"\0" * 512, b"{}\n"])
def test_what_follows_compressed_data_makes_the_file_a_broken_one(
    tmp_path: Path, whole: bytes, rest: bytes
) -> None:
    with pytest.raises(OSError, match=r"."):
        read(written(tmp_path, whole + rest))


@pytest.mark.parametrize("whole", [GZIP, ZSTD], ids=["gzip", "zstd"])
def test_a_second_part_that_is_cut_is_an_os_error(tmp_path: Path, whole: bytes) -> None:
    for length in (5, 100, len(whole) - 1):
        with pytest.raises(OSError, match=r"."):
            read(written(tmp_path, whole + whole[:length]))


@pytest.mark.parametrize("whole", [GZIP, ZSTD], ids=["gzip", "zstd"])
def test_compressed_data_that_is_damaged_is_never_read_as_something_else(
    tmp_path: Path, whole: bytes
) -> None:
    chance = random.Random(3)
    refused = 0
    for _ in range(150):
        damaged = bytearray(whole)
        damaged[chance.randrange(10, len(whole))] ^= 1 << chance.randrange(8)
        try:
            assert read(written(tmp_path, bytes(damaged))) == TEXT
        except OSError:
            refused += 1
    assert refused > 140


@pytest.mark.parametrize("name", ["events.json.gz", "events.json.zst", "EVENTS.JSON.GZ"])
@pytest.mark.parametrize("data", [b"", b"{}\n", b"\x1f", TEXT])
def test_a_name_that_says_compressed_holds_to_it(tmp_path: Path, name: str, data: bytes) -> None:
    with pytest.raises(OSError, match="says compressed, but it begins with"):
        read(written(tmp_path, data, name))


def test_a_folder_or_nothing_can_not_be_opened(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"."):
        open_stream(tmp_path)
    with pytest.raises(FileNotFoundError):
        open_stream(tmp_path / "none.json")


def test_a_name_that_is_no_utf8_is_an_os_error_that_says_so() -> None:
    name = os.fsdecode(b"caf\xe9.json")
    with pytest.raises(OSError, match="not UTF-8: rename it"):
        check_name(name)
    with pytest.raises(OSError, match="not UTF-8: rename it"):
        open_stream(name)


@pytest.mark.parametrize(
    ("name", "file_format"),
    [
        ("a.json", "json"),
        ("a.jsonl", "json"),
        ("a.ndjson.zst", "json"),
        ("a.2015-09-12.JSON.GZ", "json"),
        ("a.csv.gz", "csv"),
        ("part-0.snappy.parquet", "parquet"),
        ("folder.csv/a.pq", "parquet"),
    ],
)
def test_the_format_is_what_the_name_ends_with(name: str, file_format: str) -> None:
    assert format_of(name) == file_format


@pytest.mark.parametrize(
    "name", ["a.json.tmp", "a.csv.part", "a.log", "a", ".json", "a.gz", "json"]
)
def test_a_name_that_ends_otherwise_says_no_format(name: str) -> None:
    with pytest.raises(InputError, match="does not say which format"):
        format_of(name)
    assert format_of(name, "csv") == "csv"


def test_an_unknown_format_is_told_with_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match=r"'xml' is unknown.*\n.*json, csv, parquet"):
        format_of("a.json", "xml")


def test_what_is_read_on_after_a_fault_is_of_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("1\n2\n3\n")
    failing = [True]

    def lines() -> Iterator[str]:
        for number, line in enumerate(path.read_text().splitlines()):
            if number == 1 and failing:
                failing.pop()
                raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
            yield line

    assert list(patiently_each(str(path), lines)) == ["1", "2", "3"]
    failing.append(True)
    there = patiently_each(str(path), lines)
    assert next(there) == "1"
    path.write_text("another\none, and longer\n")
    with pytest.raises(OSError, match="it has changed meanwhile") as raised:
        next(there)
    assert raised.value.errno is None
