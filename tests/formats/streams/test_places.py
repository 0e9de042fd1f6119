from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.errors import FormatError
from kstoolkit.formats.streams.places import (
    read_checkpoint,
    read_offsets,
    segment_interval_ms,
    segment_start_ms,
)
from tests.formats.streams import encoding

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
    assert read_checkpoint(written(offsets, newline)) == offsets


def test_an_unknown_offset_is_none_and_others_below_zero_are_skipped() -> None:
    found = read_checkpoint(b"0\n3\na 0 -4\nb 0 -1\nc 0 7")
    assert found == {("a", 0): None, ("c", 0): 7}


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
    assert len(found) <= content.count(b"\n") + 1


named_topics = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=9)
partitions = st.dictionaries(
    st.tuples(named_topics, st.integers(0, 2**31 - 1)), st.integers(0, 2**62)
)


@given(partitions, st.sampled_from([0, 1]))
def test_offsets_and_status_come_back(told: dict[tuple[str, int], int], status: int) -> None:
    rows = [
        (f"{topic}-{partition}".encode(), encoding.int64(offset))
        for (topic, partition), offset in told.items()
    ]
    rows += [(b"status", encoding.int64(status)), (b"position", b"\x00" * 40)]
    state = ("closed", "open")[status]
    assert read_offsets(rows) == (told, state)


def test_an_offset_that_the_engine_did_not_know_is_none() -> None:
    """``StateManagerUtil`` and ``OffsetCheckpoint`` write -4 for it, into rows as into files."""
    assert read_offsets([(b"a-0", (-4).to_bytes(8, signed=True))]) == ({}, None)


def test_no_rows_say_nothing() -> None:
    assert read_offsets([]) == ({}, None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"status", encoding.int64(2)),
        (b"status", b""),
        (b"topic-0", b""),
        (b"topic-0", bytes(9)),
        (b"topic-", encoding.int64(1)),
        (b"topic", encoding.int64(1)),
        (b"-7", encoding.int64(1)),
        (b"t-" + b"9" * 5000, encoding.int64(1)),
        (b"t-\xc2\xb2", encoding.int64(1)),
        (b"\xff-7", encoding.int64(1)),
    ],
)
def test_a_row_that_can_not_be_read_says_nothing_and_the_others_are_read(
    key: bytes, value: bytes
) -> None:
    found = read_offsets([(b"a-0", encoding.int64(5)), (key, value), (b"b-1", encoding.int64(6))])
    assert found == ({("a", 0): 5, ("b", 1): 6}, None)


@given(st.lists(st.tuples(st.binary(max_size=9), st.binary(max_size=9))))
def test_rubbish_never_raises(rows: list[tuple[bytes, bytes]]) -> None:
    offsets, _ = read_offsets(rows)
    assert len(offsets) <= len(rows)


stores = st.text("ab.:-19_", min_size=1)


@given(st.text(max_size=9) | stores, st.text("0123456789.:-ab", max_size=25) | st.text(max_size=9))
def test_any_folder_is_a_segment_or_none(store: str, ending: str) -> None:
    for folder in (ending, store + ending):
        start_ms = segment_start_ms(store, folder)
        assert start_ms is None or -(2**63) < start_ms < 2**63


@given(stores, st.integers(-(2**62), 2**62))
def test_folders_come_back(store: str, start_ms: int) -> None:
    assert segment_start_ms(store, f"{store}.{start_ms}") == start_ms


@pytest.mark.parametrize(
    "folder",
    ["202311142300", "counts-202311142300", "counts:1700002800000", "counts.1700002800000"],
)
def test_folders_of_every_age_say_where_they_begin(folder: str) -> None:
    assert segment_start_ms("counts", folder) == 1_700_002_800_000


@pytest.mark.parametrize(
    "folder",
    [
        *("", "counts", "counts.", "counts.x", "counts-1700002800000", "count.1", "counts2.1"),
        *("202313142300", "counts-202302302300", "counts.99999999999999999999", "counts.+1"),
        *("counts.9999999999999999999", "counts.1_0", "counts.\u0661", "counts.1\n"),
    ],
)
def test_other_folders_are_no_segments(folder: str) -> None:
    assert segment_start_ms("counts", folder) is None


@given(st.integers(1, 10**8), st.lists(st.integers(1, 10**6), min_size=1))
def test_the_interval_found_is_a_multiple_of_the_true_one(interval_ms: int, ids: list[int]) -> None:
    found = segment_interval_ms([each * interval_ms for each in ids])
    assert found is not None
    assert found % interval_ms == 0


@given(st.integers(1, 10**8), st.integers(1, 10**6))
def test_of_two_neighbours_it_is_the_true_one(interval_ms: int, number: int) -> None:
    starts = [number * interval_ms, (number + 1) * interval_ms]
    assert segment_interval_ms(starts) == interval_ms


@pytest.mark.parametrize("starts", [[], [0]])
def test_nothing_is_known_of_no_segment_or_of_one_that_never_ends(starts: list[int]) -> None:
    assert segment_interval_ms(starts) is None
