from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.errors import FormatError
from kstoolkit.formats.streams.position import read_position
from tests.formats.streams import encoding

topics = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
offsets = st.dictionaries(
    st.tuples(topics, st.integers(0, 2**31 - 1)), st.integers(0, 2**62), max_size=6
)


@given(offsets, st.integers(0, 200))
def test_positions_come_back_whatever_zeros_follow(
    told: dict[tuple[str, int], int], padding: int
) -> None:
    assert read_position(encoding.position(told, padding=padding)) == told


def test_an_empty_position_is_forty_zero_bytes() -> None:
    assert read_position(bytes(40)) == {}


@pytest.mark.parametrize(
    ("blob", "why"),
    [
        (b"", "1 byte should follow, 0 do"),
        (b"\x00\x7f\xff\xff\xff", "2147483647 topics in 0 bytes"),
        (b"\x00\xff\xff\xff\xff", "-1 topics in 0 bytes"),
        (encoding.position({("in", 0): 41})[:-1], "1 partitions in 11 bytes"),
        (b"\x00" + encoding.int32(1) + encoding.sized(b"\xff") + bytes(4), "a name is no UTF-8"),
    ],
)
def test_bytes_that_are_no_position_are_an_error(blob: bytes, why: str) -> None:
    with pytest.raises(FormatError, match=why):
        read_position(blob)


def test_a_newer_version_is_told_as_one() -> None:
    with pytest.raises(FormatError, match="A Position of version 3"):
        read_position(b"\x03" + bytes(40))


@given(st.binary(max_size=60) | st.binary(max_size=60).map(lambda rest: b"\x00" * 4 + rest))
def test_rubbish_is_a_position_or_an_error(blob: bytes) -> None:
    try:
        found = read_position(blob)
    except FormatError:
        return
    assert len(found) <= len(blob)
