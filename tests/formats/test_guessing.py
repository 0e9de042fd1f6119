from __future__ import annotations

import json
import random
import struct
import uuid
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.formats.bytecolumn import ByteColumn
from kstoolkit.formats.guessing import Guess, guess_serde
from kstoolkit.formats.serdes import SERDE_NAMES

if TYPE_CHECKING:
    from collections.abc import Sequence

RANDOM = random.Random(7)
NUMBERS = [RANDOM.randrange(-500, 100_000) for _ in range(50)]
MOMENTS = [1_700_000_000_000 + RANDOM.randrange(10**9) for _ in range(50)]
FLOATS = [RANDOM.gauss(0, 1000) for _ in range(50)]

COLUMNS: dict[str, tuple[str, list[bytes]]] = {
    "counts": ("long", [struct.pack(">q", number) for number in NUMBERS]),
    "moments": ("long", [struct.pack(">q", number) for number in MOMENTS]),
    "zeros": ("long", [bytes(8)] * 9),
    "integers": ("integer", [struct.pack(">i", number) for number in NUMBERS]),
    "shorts": ("short", [struct.pack(">h", number % 999) for number in NUMBERS]),
    "doubles": ("double", [struct.pack(">d", number) for number in FLOATS]),
    "whole doubles": ("double", [struct.pack(">d", number) for number in NUMBERS]),
    "floats": ("float", [struct.pack(">f", number) for number in FLOATS]),
    "flags": ("boolean", [b"\x00", b"\x01", b"\x01"]),
    "ids": ("uuid", [str(uuid.UUID(int=number**3)).encode() for number in MOMENTS]),
    "objects": ("json", [json.dumps({"n": number}).encode() for number in NUMBERS]),
    "names": ("string", [b"Anna", "zo\u00eb".encode(), "\u540d\u524d".encode(), b"", b"user|17"]),
    "names of eight letters": ("string", [b"username", b"username"]),
    "mostly names": ("string", [b"Anna"] * 19 + [b"a\x00b"]),
    "numbers as text": ("string", [str(number).encode() for number in NUMBERS]),
    "schema registry": ("bytes", [b"\x00\x00\x00\x00\x07" + bytes([n, 2]) * n for n in range(9)]),
    "anything": ("bytes", [RANDOM.randbytes(length) for length in range(1, 30)]),
    "hashes of eight bytes": ("bytes", [RANDOM.randbytes(8) for _ in range(50)]),
}


def guess(cells: Sequence[bytes | None]) -> Guess:
    return guess_serde(ByteColumn.of(cells))


@pytest.mark.parametrize("name", COLUMNS)
def test_what_was_written_is_guessed(name: str) -> None:
    serde, cells = COLUMNS[name]
    found = guess([*cells, None])
    assert found.serde == serde
    assert 0.4 < found.confidence <= 1
    assert len(found.reasons) == 2


def test_a_schema_registry_is_named_with_its_schema() -> None:
    assert "a schema's number in front (7)" in guess(COLUMNS["schema registry"][1]).reasons[1]


def test_few_rows_make_less_sure_than_many() -> None:
    cell = struct.pack(">q", 3)
    assert guess([cell]).confidence < guess([cell] * 5).confidence < guess([cell] * 50).confidence


def test_a_cell_of_another_width_is_no_number() -> None:
    cells = COLUMNS["counts"][1]
    assert guess([*cells, b"\xff"]).serde == "bytes"
    assert guess([*cells, b""]).serde == "bytes"


def test_of_no_rows_nothing_is_known() -> None:
    assert guess([]) == guess([None, None]) == Guess("bytes", 0.0, ("no rows",))


def test_of_empty_rows_nothing_is_known() -> None:
    assert guess([b"", b""]) == Guess("bytes", 0.0, ("2 rows", "all of them empty"))


@pytest.mark.parametrize("cell", [b"[" * 100_000, b"{" * 100_000, b'{"a": 1', b"[1] 2"])
def test_what_only_begins_as_json_is_text(cell: bytes) -> None:
    assert guess([b"{}", cell]).serde in {"string", "json"}
    assert guess([b"{}", cell[:100]]).serde == "string"


def test_text_that_was_cut_within_a_letter_is_still_text() -> None:
    assert guess([("x" + "\u540d" * 40_000).encode()]).serde == "string"


@given(st.lists(st.none() | st.binary(max_size=40), max_size=30))
def test_rubbish_is_guessed_as_something(cells: list[bytes | None]) -> None:
    found = guess(cells)
    assert found.serde in SERDE_NAMES
    assert 0 <= found.confidence <= 1


@given(st.sampled_from([1, 2, 4, 8, 16, 36]), st.data())
def test_rubbish_of_one_width_is_guessed_as_something(width: int, data: st.DataObject) -> None:
    cells = data.draw(st.lists(st.binary(min_size=width, max_size=width), max_size=9))
    assert guess([*cells]).serde in SERDE_NAMES
