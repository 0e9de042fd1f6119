from __future__ import annotations

import json
import math
import random
import struct
import time
import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.errors import ConfigurationError
from kstoolkit.formats.columns import ByteColumn, Undecoded
from kstoolkit.formats.serdes import SERDE_NAMES, Guess, Serde, guess_serde, serde_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


rubbish = st.lists(st.none() | st.binary(max_size=40), max_size=20)


def read(serde: str | Callable[[bytes], Any], cells: list[bytes | None]) -> list[Any]:
    column = ByteColumn.of(cells)
    return serde_of(serde).decode(column).to_list(column)


@given(st.lists(st.text()))
def test_strings_of_any_characters_come_back(texts: list[str]) -> None:
    assert read("string", [text.encode() for text in texts]) == texts


@pytest.mark.parametrize(("name", "form"), [("long", ">q"), ("integer", ">i"), ("short", ">h")])
@given(data=st.data())
def test_whole_numbers_come_back(name: str, form: str, data: st.DataObject) -> None:
    bits = struct.calcsize(form) * 8 - 1
    numbers = data.draw(st.lists(st.integers(-(2**bits), 2**bits - 1)))
    assert read(name, [struct.pack(form, number) for number in numbers]) == numbers


@given(st.lists(st.floats(allow_nan=False)))
def test_doubles_come_back(numbers: list[float]) -> None:
    assert read("double", [struct.pack(">d", number) for number in numbers]) == numbers


@given(st.lists(st.floats(width=32, allow_nan=False)))
def test_floats_come_back(numbers: list[float]) -> None:
    assert read("float", [struct.pack(">f", number) for number in numbers]) == numbers


def test_a_number_that_is_none_stays_none_of_them() -> None:
    assert math.isnan(read("double", [struct.pack(">d", math.nan)])[0])


@given(st.lists(st.uuids()))
def test_uuids_are_their_36_characters(ids: list[uuid.UUID]) -> None:
    assert read("uuid", [str(each).encode() for each in ids]) == [str(each) for each in ids]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5
)


@given(st.lists(json_values))
def test_json_comes_back(values: list[Any]) -> None:
    assert read("json", [json.dumps(value).encode() for value in values]) == values


@pytest.mark.parametrize("name", SERDE_NAMES)
@given(cells=rubbish)
def test_of_rubbish_every_byte_is_shown_and_said_why(name: str, cells: list[bytes | None]) -> None:
    for cell, value in zip(cells, read(name, cells), strict=True):
        if isinstance(value, Undecoded):
            assert value.raw == cell
            assert value.why
        elif cell is None:
            assert value is None


@pytest.mark.parametrize(
    ("name", "cell", "why"),
    [
        ("long", b"1234567", "7 bytes, not 8"),
        ("string", b"ab\xff", "no UTF-8 at byte 2"),
        ("boolean", b"\x02", "neither 00 nor 01"),
        ("uuid", b"0" * 16, "no UUID of 36 characters"),
        ("uuid", b"\xff" * 36, "no UTF-8 at byte 0"),
        ("void", b"x", "1 byte, where none should be"),
        ("json", b"[" * 100_000, "ValueError: JSON that is nested too deep"),
    ],
)
def test_what_a_cell_lacks_is_said(name: str, cell: bytes, why: str) -> None:
    [value] = read(name, [cell])
    assert isinstance(value, Undecoded)
    assert value.why == why


def test_one_bad_cell_leaves_its_neighbours_alone() -> None:
    good = (7).to_bytes(8, "big")
    assert read("long", [good, b"", None, good]) == [7, Undecoded(b"", "0 bytes, not 8"), None, 7]
    assert read("uuid", [b"\xff", str(uuid.UUID(int=1)).encode()])[1] == str(uuid.UUID(int=1))


def test_values_of_one_type_stay_an_arrow_array() -> None:
    column = ByteColumn.of([(7).to_bytes(8, "big"), None])
    values = serde_of("long").decode(column).values
    assert isinstance(values, pa.Array)
    assert values.equals(pa.array([7, None], pa.int64()))


def test_a_callable_is_asked_about_each_cell_and_may_fail() -> None:
    def read_it(raw: bytes) -> dict[str, int]:
        return {"size": len(raw) // (len(raw) - 1)}

    found = read(read_it, [b"abc", b"a", None])
    assert found[0] == {"size": 1}
    assert found[1].why.startswith("ZeroDivisionError: ")
    assert found[2] is None
    assert serde_of(read_it).name == "read_it"


@pytest.mark.parametrize("name", SERDE_NAMES)
def test_a_cell_that_is_hidden_as_null_has_no_problem(name: str) -> None:
    shown = ByteColumn.of([b"1234567"])
    hidden = ByteColumn(shown.data, shown.starts, shown.ends, ~shown.is_null)
    decoded = serde_of(name).decode(hidden)
    assert decoded.to_list(hidden) == [None]
    assert not decoded.problems


def test_a_serde_is_its_own_serde() -> None:
    mine = Serde("mine", serde_of("long").decode)
    assert serde_of(mine) is mine


def test_an_unknown_name_is_told_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match="no serde 'lng'") as caught:
        serde_of("lng")
    assert "long" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("string", "名前"),
        ("long", -(2**63)),
        ("integer", 7),
        ("short", -1),
        ("double", 0.1),
        ("float", 0.5),
        ("boolean", True),
        ("uuid", str(uuid.UUID(int=5))),
        ("bytes", b"\xff"),
    ],
)
def test_what_is_written_is_what_is_read(name: str, value: Any) -> None:
    encode = serde_of(name).encode
    assert encode is not None
    assert read(name, [encode(value)]) == [value]


@pytest.mark.parametrize(
    ("name", "value"), [("short", 2**15), ("long", "x"), ("float", 1e300), ("boolean", "maybe")]
)
def test_what_a_serde_cannot_write_is_said(name: str, value: Any) -> None:
    encode = serde_of(name).encode
    assert encode is not None
    with pytest.raises(ConfigurationError, match="is no such number"):
        encode(value)


def test_json_can_be_read_and_not_asked_for() -> None:
    assert serde_of("json").encode is None
    assert serde_of(bytes.hex).encode is None


def test_strings_keep_their_type_beside_one_that_is_none() -> None:
    values = serde_of("string").decode(ByteColumn.of([b"x", b"\xff", None])).values
    assert isinstance(values, pa.Array)
    assert values.equals(pa.array(["x", None, None], pa.large_string()))


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("long", "-7", -7),
        ("double", "0.5", 0.5),
        ("boolean", "true", True),
        ("bytes", "00ff", b"\x00\xff"),
    ],
)
def test_a_terminal_gives_values_as_text(name: str, text: str, value: Any) -> None:
    encode = serde_of(name).encode
    assert encode is not None
    assert read(name, [encode(text)]) == [value]


@pytest.mark.parametrize("value", ["xyz", 7, 10**12, None, 0.5])
def test_what_is_neither_bytes_nor_hex_is_refused(value: Any) -> None:
    encode = serde_of("bytes").encode
    assert encode is not None
    with pytest.raises(ConfigurationError, match="neither bytes nor hex"):
        encode(value)


def test_half_a_character_can_not_be_written() -> None:
    encode = serde_of("string").encode
    assert encode is not None
    with pytest.raises(ConfigurationError, match="half a character"):
        encode("\ud800")


@pytest.mark.parametrize("name", ["long", "void"])
def test_many_cells_of_the_wrong_length_are_told_without_looking_at_all_for_each(name: str) -> None:
    column = ByteColumn.of([b"1234567"] * 200_000)
    began = time.monotonic()
    problems = serde_of(name).decode(column).problems
    assert time.monotonic() - began < 10
    assert len(problems) == 200_000


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
