from __future__ import annotations

import random
import struct
from pathlib import Path

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

# What golden/countblock-v1.bin and -v10.bin hold. Each was written, once and for all, by
# countblock.encode(batch_of(GOLDEN_ROWS)) of its release; blocks of all versions stay readable.
GOLDEN_ROWS: list[Row] = [
    (-60_000, "Anna", "read", 1),
    (0, "Anna", "read", LARGEST_UINT32),
    (0, "Anna", "write", 2),
    (1_442_016_000_000, "Čeněk\0", "read", 7),
    (1_442_016_000_000, "😀", "", LARGEST_UINT32 + 1),
]


def batch_of(rows: list[Row]) -> pa.RecordBatch:
    """Return rows as a block has them: a user's beside each other."""
    places = {user: place for place, user in enumerate(dict.fromkeys(row[1] for row in rows))}
    rows = sorted(rows, key=lambda row: places[row[1]])
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
    batch = batch_of(rows)
    decoded = countblock.decode(countblock.encode(batch))
    assert rows_of(decoded) == rows_of(batch)
    assert decoded.schema == countblock.SCHEMA


@pytest.mark.parametrize(
    ("largest", "width"),
    [(1, 8), (255, 8), (256, 16), (2**16, 32), (2**32 - 1, 32), (2**32, 64), (2**64 - 1, 64)],
)
def test_counts_are_as_narrow_as_the_largest_of_them(largest: int, width: int) -> None:
    block = countblock.encode(batch_of([(0, "a", "x", 1), (0, "b", "x", largest)]))
    written = pa.ipc.open_stream(block[17:]).read_all()
    assert written.schema.field("count").type.bit_width == width
    assert countblock.decode(block).column("count").to_pylist() == [1, largest]


@pytest.mark.parametrize("step_ms", [1, 7, 60_000, 86_400_000, 2**60])
@pytest.mark.parametrize("first_ms", [-(2**63), -1, 0, 1_442_016_000_000])
def test_windows_are_steps_behind_the_first(first_ms: int, step_ms: int) -> None:
    steps = [*range(0, 100 if step_ms < 2**60 else 3, 2), 3]
    starts = [first_ms + step * step_ms for step in steps]
    block = countblock.encode(batch_of([(start, "a", "x", 1) for start in starts]))
    assert block[1:17] == struct.pack(">qQ", first_ms, step_ms)
    written = pa.ipc.open_stream(block[17:]).read_all()
    assert written["window"].to_pylist() == steps
    assert countblock.decode(block).column("window_start_ms").to_pylist() == starts


def test_users_are_entries_behind_the_row_above() -> None:
    block = countblock.encode(batch_of([(at, user, "x", 1) for user in "abc" for at in (0, 5)]))
    users = pa.ipc.open_stream(block[17:]).read_all()["user"].chunk(0)
    assert users.indices.to_pylist() == [0, 0, 1, 0, 1, 0]
    assert users.dictionary.to_pylist() == ["a", "b", "c"]


@pytest.mark.parametrize("version", [1, 10])
def test_a_block_of_an_older_release_is_read_as_it_was_written(version: int) -> None:
    block = (GOLDEN / f"countblock-v{version}.bin").read_bytes()
    assert block[0] == version
    assert rows_of(countblock.decode(block)) == GOLDEN_ROWS


@pytest.mark.parametrize("version", [3, 6])
def test_older_blocks_of_parts_and_of_sessions_are_read(version: int) -> None:
    whole = batch_of(GOLDEN_ROWS)
    schema = countblock.SCHEMA
    if version == 6:
        schema = countblock.SCHEMA_OF_SESSIONS
        whole = pa.record_batch([*whole.columns, pa.array(range(5), pa.int64())], schema=schema)
    whole = pa.record_batch(whole.columns, schema=with_parts(schema, ("region", "op")))
    decoded = countblock.decode(bytes([version]) + stream(whole))
    assert decoded.equals(whole, check_metadata=True)


def test_what_is_written_today_reads_like_the_golden_block() -> None:
    golden = countblock.decode((GOLDEN / "countblock-v1.bin").read_bytes())
    assert countblock.decode(countblock.encode(batch_of(GOLDEN_ROWS))) == golden


@pytest.mark.parametrize("version", [11, 255])
def test_an_unknown_version_is_told_beside_the_known_one(version: int) -> None:
    block = bytes([version]) + countblock.encode(batch_of([]))[1:]
    with pytest.raises(FormatError, match=f"CountBlock of version {version}.* version 10"):
        countblock.decode(block)


@pytest.mark.parametrize("version", [0, 2, 4, 9])
def test_what_no_block_begins_with_is_no_block(version: int) -> None:
    block = bytes([version]) + countblock.encode(batch_of([]))[1:]
    with pytest.raises(FormatError, match=f"no CountBlock: none begins with 0{version}"):
        countblock.decode(block)


def test_a_block_in_parts_says_what_they_are_called() -> None:
    parts = ("region", "op")
    schema = with_parts(countblock.SCHEMA, parts)
    block = countblock.encode(pa.record_batch(batch_of(GOLDEN_ROWS).columns, schema=schema))
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
    for version in (1, 3, 6, countblock.VERSION):
        with pytest.raises(FormatError):
            countblock.decode(bytes([version]) + junk)


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
        countblock.decode(bytes([1]) + stream(batch))


def test_a_missing_count_is_refused() -> None:
    columns = [*batch_of([(0, "a", "x", 1)]).columns[:3], pa.array([None], pa.uint64())]
    batch = pa.record_batch(columns, schema=countblock.SCHEMA)
    with pytest.raises(FormatError, match="missing"):
        countblock.decode(bytes([1]) + stream(batch))


@pytest.mark.parametrize("name", ["user", "action"])
def test_a_text_that_is_missing_in_its_dictionary_is_refused(name: str) -> None:
    texts = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), pa.array([None], pa.string()))
    at = countblock.SCHEMA.get_field_index(name)
    batch = batch_of([(0, "a", "x", 1)]).set_column(at, countblock.SCHEMA.field(name), texts)
    with pytest.raises(FormatError, match="missing"):
        countblock.decode(bytes([1]) + stream(batch))


NARROW = {
    "window": pa.array([0, 1], pa.uint8()),
    "user": pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.uint8()), pa.array(["a", "b"])),
    "action": pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.uint8()), pa.array(["x"])),
    "count": pa.array([1, 2], pa.uint8()),
}


@pytest.mark.parametrize(
    "other",
    [
        {"window": pa.array([0, 1], pa.int8())},
        {"count": pa.array([1.0, 2.0])},
        {"action": pa.array(["x", "x"])},
        {"user": pa.array([0, 1], pa.uint8())},
        {"more": pa.array([0, 1], pa.uint8())},
        {"user": pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array(["a", "b"]))},
        {"action": pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.uint8()), pa.array([1]))},
    ],
)
def test_narrow_columns_of_other_types_are_refused_and_named(other: dict[str, pa.Array]) -> None:
    head = struct.pack(">BqQ", 10, 0, 60_000)
    assert countblock.decode(head + stream(pa.record_batch(NARROW))).num_rows == 2
    with pytest.raises(FormatError, match=r"its columns are|missing"):
        countblock.decode(head + stream(pa.record_batch(NARROW | other)))


def test_a_user_behind_all_that_are_named_is_refused() -> None:
    users = pa.DictionaryArray.from_arrays(pa.array([1, 1], pa.uint8()), pa.array(["a", "b"]))
    batch = pa.record_batch(NARROW | {"user": users})
    with pytest.raises(FormatError, match="behind all that are named"):
        countblock.decode(struct.pack(">BqQ", 10, 0, 1) + stream(batch))


def test_a_place_outside_its_dictionary_is_refused() -> None:
    users = pa.DictionaryArray.from_arrays(pa.array([5], pa.int32()), pa.array(["a"]), safe=False)
    batch = batch_of([(0, "a", "x", 1)]).set_column(1, countblock.SCHEMA.field("user"), users)
    with pytest.raises(FormatError, match="no CountBlock"):
        countblock.decode(bytes([1]) + stream(batch))


def test_a_counter_of_ordinary_traffic_takes_less_than_five_bytes() -> None:
    counters = zipf_counters()
    assert len(counters.encode()) / len(counters) < 5
