from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.formats.streams.offsets import OffsetRows, read_offsets
from tests.formats.streams import encoding

topics = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=9)
partitions = st.dictionaries(st.tuples(topics, st.integers(0, 2**31 - 1)), st.integers(0, 2**62))


@given(partitions, st.sampled_from([0, 1]))
def test_offsets_status_and_position_come_back(
    told: dict[tuple[str, int], int], status: int
) -> None:
    rows = [
        (f"{topic}-{partition}".encode(), encoding.int64(offset))
        for (topic, partition), offset in told.items()
    ]
    rows += [(b"status", encoding.int64(status)), (b"position", encoding.position(told))]
    state = ("closed", "open")[status]
    assert read_offsets(rows) == OffsetRows(told, state, told, ())  # type: ignore[arg-type]


def test_no_rows_say_nothing() -> None:
    assert read_offsets([]) == OffsetRows({}, None, None, ())


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (b"status", encoding.int64(2), "the status 2 is neither 0 nor 1"),
        (b"status", b"", "0 bytes where a number of 8 should be"),
        (b"position", b"", "no Position"),
        (b"topic-", encoding.int64(1), "the key is no topic and partition"),
        (b"topic", encoding.int64(1), "the key is no topic and partition"),
        (b"-7", encoding.int64(1), "the key is no topic and partition"),
        (b"t-" + b"9" * 5000, encoding.int64(1), "the key is no topic and partition"),
        (b"t-\xc2\xb2", encoding.int64(1), "the key is no topic and partition"),
        (b"\xff-7", encoding.int64(1), "the topic is no UTF-8"),
    ],
)
def test_a_row_that_can_not_be_read_is_told_and_the_others_are_read(
    key: bytes, value: bytes, why: str
) -> None:
    found = read_offsets([(b"a-0", encoding.int64(5)), (key, value), (b"b-1", encoding.int64(6))])
    assert found.offsets == {("a", 0): 5, ("b", 1): 6}
    assert len(found.problems) == 1
    assert why in found.problems[0]


@given(st.lists(st.tuples(st.binary(max_size=9), st.binary(max_size=9))))
def test_rubbish_never_raises(rows: list[tuple[bytes, bytes]]) -> None:
    found = read_offsets(rows)
    assert len(found.offsets) + len(found.problems) <= len(rows)
