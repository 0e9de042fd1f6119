from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.counters.counters import Counters
from kstoolkit.errors import FormatError
from kstoolkit.formats import countblock
from kstoolkit.formats.actions import parts_in, with_parts

GOLDEN = Path(__file__).parent / "golden"
LARGEST_UINT32 = 2**32 - 1
Row = tuple[int, str, str, int]

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["", "\0", "a\0b", "😀😀", "Čeněk", "\U0010ffff", " ", "x" * 300]
)
ROWS = st.lists(
    st.tuples(
        st.integers(-(2**63), 2**63 - 1),
        TEXTS,
        TEXTS,
        st.integers(0, 2**64 - 1) | st.sampled_from([LARGEST_UINT32, LARGEST_UINT32 + 1]),
    ),
    max_size=30,
)

# What golden/countblock-v1.bin holds. It was written, once and for all, by
# countblock.encode(batch_of(GOLDEN_ROWS)) with pyarrow 26; a block of version 1 stays readable.
GOLDEN_ROWS: list[Row] = [
    (-60_000, "Anna", "read", 1),
    (0, "Anna", "read", LARGEST_UINT32),
    (0, "Anna", "write", 2),
    (1_442_016_000_000, "Čeněk\0", "read", 7),
    (1_442_016_000_000, "😀", "", LARGEST_UINT32 + 1),
]


def batch_of(rows: list[Row]) -> pa.RecordBatch:
    starts, users, actions, counts = zip(*rows, strict=True) if rows else ((), (), (), ())
    return pa.record_batch(
        [
            pa.array(starts, pa.int64()),
            pa.array(users, pa.string()).dictionary_encode(),
            pa.array(actions, pa.string()).dictionary_encode(),
            pa.array(counts, pa.uint64()),
        ],
        schema=countblock.SCHEMA,
    )


def rows_of(batch: pa.RecordBatch) -> list[Row]:
    return list(zip(*(column.to_pylist() for column in batch.columns), strict=True))


def stream(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def zipf_counters(events: int = 200_000) -> Counters:
    rng = np.random.default_rng(7)
    users = pa.array([f"user.{number}" for number in rng.zipf(1.3, events) % 100_000])
    actions = pa.array([f"action {number}" for number in rng.integers(0, 8, events)])
    minutes = rng.integers(0, 360, events) * 60_000 + 1_442_016_000_000
    return Counters.of(minutes, users, actions)


@given(ROWS)
def test_a_block_gives_back_what_was_put_in(rows: list[Row]) -> None:
    decoded = countblock.decode(countblock.encode(batch_of(rows)))
    assert rows_of(decoded) == rows
    assert decoded.schema == countblock.SCHEMA


@pytest.mark.parametrize(
    ("largest", "width"),
    [
        (0, pa.uint32()),
        (LARGEST_UINT32, pa.uint32()),
        (LARGEST_UINT32 + 1, pa.uint64()),
        (2**64 - 1, pa.uint64()),
    ],
)
def test_counts_take_four_bytes_until_one_of_them_needs_eight(largest: int, width: Any) -> None:
    block = countblock.encode(batch_of([(0, "a", "x", 1), (0, "b", "x", largest)]))
    written = pa.ipc.open_stream(block[1:]).read_all()
    assert written.schema.field("count").type == width
    assert countblock.decode(block).column("count").to_pylist() == [1, largest]


def test_a_block_of_version_1_is_read_as_it_was_written() -> None:
    block = (GOLDEN / "countblock-v1.bin").read_bytes()
    assert block[0] == 1
    assert rows_of(countblock.decode(block)) == GOLDEN_ROWS


def test_what_is_written_today_reads_like_the_golden_block() -> None:
    golden = countblock.decode((GOLDEN / "countblock-v1.bin").read_bytes())
    assert countblock.decode(countblock.encode(batch_of(GOLDEN_ROWS))) == golden


@pytest.mark.parametrize("version", [4, 255])
def test_an_unknown_version_is_told_beside_the_known_one(version: int) -> None:
    block = bytes([version]) + countblock.encode(batch_of([]))[1:]
    with pytest.raises(FormatError, match=f"CountBlock of version {version}.* version 6"):
        countblock.decode(block)


@pytest.mark.parametrize("version", [0, 2])
def test_what_no_block_begins_with_is_no_block(version: int) -> None:
    block = bytes([version]) + countblock.encode(batch_of([]))[1:]
    with pytest.raises(FormatError, match=f"no CountBlock: none begins with 0{version}"):
        countblock.decode(block)


def test_a_block_in_parts_says_what_they_are_called() -> None:
    parts = ("region", "op")
    schema = with_parts(countblock.SCHEMA, parts)
    block = countblock.encode(pa.record_batch(batch_of(GOLDEN_ROWS).columns, schema=schema))
    assert block[0] == 3
    assert parts_in(countblock.decode(block).schema) == parts
    assert countblock.decode(block).equals(batch_of(GOLDEN_ROWS))


def test_no_bytes_are_no_block() -> None:
    with pytest.raises(FormatError):
        countblock.decode(b"")


def test_a_block_that_is_cut_anywhere_is_refused() -> None:
    block = zipf_counters(3_000).encode()
    for length in range(len(block)):
        with pytest.raises(FormatError):
            countblock.decode(block[:length])


def test_a_damaged_block_is_refused_or_read_but_nothing_else_ever_happens() -> None:
    block = zipf_counters(500).encode()
    chance = random.Random(11)
    refused = 0
    for _ in range(2_000):
        damaged = bytearray(block)
        for _ in range(chance.choice([1, 1, 4])):
            damaged[chance.randrange(1, len(block))] ^= 1 << chance.randrange(8)
        try:
            rows_of(countblock.decode(bytes(damaged)))
        except FormatError:
            refused += 1
    assert refused > 500


@given(st.binary(max_size=200))
def test_bytes_that_someone_else_wrote_are_refused(junk: bytes) -> None:
    with pytest.raises(FormatError):
        countblock.decode(bytes([countblock.VERSION]) + junk)


@pytest.mark.parametrize(
    "batch",
    [
        pa.record_batch({"window_start_ms": [0], "user": ["a"], "action": ["x"], "count": [1]}),
        batch_of([(0, "a", "x", 1)]).rename_columns(["start", "user", "action", "count"]),
        batch_of([(0, "a", "x", 1)]).select(["window_start_ms", "user", "action"]),
    ],
    ids=["other types", "other names", "fewer columns"],
)
def test_other_columns_are_refused_and_named(batch: pa.RecordBatch) -> None:
    with pytest.raises(FormatError, match="its columns are"):
        countblock.decode(bytes([countblock.VERSION]) + stream(batch))


def test_a_missing_count_is_refused() -> None:
    columns = [*batch_of([(0, "a", "x", 1)]).columns[:3], pa.array([None], pa.uint64())]
    batch = pa.record_batch(columns, schema=countblock.SCHEMA)
    with pytest.raises(FormatError, match="missing"):
        countblock.decode(bytes([countblock.VERSION]) + stream(batch))


@pytest.mark.parametrize("name", ["user", "action"])
def test_a_text_that_is_missing_in_its_dictionary_is_refused(name: str) -> None:
    texts = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), pa.array([None], pa.string()))
    at = countblock.SCHEMA.get_field_index(name)
    batch = batch_of([(0, "a", "x", 1)]).set_column(at, countblock.SCHEMA.field(name), texts)
    with pytest.raises(FormatError, match="missing"):
        countblock.decode(bytes([countblock.VERSION]) + stream(batch))


def test_a_place_outside_its_dictionary_is_refused() -> None:
    users = pa.DictionaryArray.from_arrays(pa.array([5], pa.int32()), pa.array(["a"]), safe=False)
    batch = batch_of([(0, "a", "x", 1)]).set_column(1, countblock.SCHEMA.field("user"), users)
    with pytest.raises(FormatError, match="no CountBlock"):
        countblock.decode(bytes([countblock.VERSION]) + stream(batch))


def test_a_counter_of_ordinary_traffic_takes_less_than_eight_bytes() -> None:
    counters = zipf_counters()
    assert len(counters.encode()) / len(counters) < 8
