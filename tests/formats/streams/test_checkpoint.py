from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.errors import FormatError
from kstoolkit.formats.streams.checkpoint import Checkpoint, read_checkpoint

topics = st.text("abcAB._-19", min_size=1)


def written(offsets: dict[tuple[str, int], int], newline: str) -> bytes:
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    return "".join(line + newline for line in ["0", str(len(lines)), *lines]).encode()


@given(
    st.dictionaries(st.tuples(topics, st.integers(0, 2**31)), st.integers(0, 2**63 - 1)),
    st.sampled_from(["\n", "\r\n"]),
)
def test_offsets_come_back_on_every_platform(
    offsets: dict[tuple[str, int], int], newline: str
) -> None:
    assert read_checkpoint(written(offsets, newline)) == Checkpoint({**offsets})


def test_an_unknown_offset_is_none_and_others_below_zero_are_skipped() -> None:
    found = read_checkpoint(b"0\n3\na 0 -4\nb 0 -1\nc 0 7")
    assert found == Checkpoint({("a", 0): None, ("c", 0): 7}, num_skipped=1)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "ends before its count of lines"),
        (b"0\n", "ends before its count of lines"),
        (b"1\n0\n", "A checkpoint file of version 1"),
        (b"x\n0\n", "'x' in a checkpoint file is no number"),
        (b"0\n2\na 0 1\n", "says 2 lines and has 1"),
        (b"0\n1\na 0\n", "has 2 fields, not 3"),
        (b"0\n1\na b 0 1\n", "has 4 fields, not 3"),
        (b"0\n1\na 0 1_0\n", "'1_0' in a checkpoint file is no number"),
        (b"0\n1\na 0 " + b"9" * 5000, "in a checkpoint file is no number"),
        (b"0\n1\n\xff 0 1\n", "byte 4 is no UTF-8"),
    ],
)
def test_what_is_wrong_with_a_checkpoint_is_said(content: bytes, why: str) -> None:
    with pytest.raises(FormatError, match=why):
        read_checkpoint(content)


def test_of_a_long_line_the_beginning_is_told() -> None:
    with pytest.raises(FormatError, match="200000 fields") as caught:
        read_checkpoint(b"0\n1\n" + b"a " * 200_000)
    assert len(str(caught.value)) < 300


@given(st.binary(max_size=60) | st.text("0123456789 \n-a", max_size=60).map(str.encode))
def test_rubbish_is_a_checkpoint_or_an_error(content: bytes) -> None:
    try:
        found = read_checkpoint(content)
    except FormatError:
        return
    assert len(found.offsets) + found.num_skipped <= content.count(b"\n") + 1
