"""Records that wait to be sent: whole windows, blocks, and tombstones."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.changelog.topic import (
    Outbox,
    OutboxWriter,
    _blocks_of,
    _records_of,
    counters_of,
    counters_of_blocks,
)
from kstoolkit.counters.counters import Counters
from kstoolkit.errors import FormatError
from kstoolkit.formats import countblock, topicbundle
from kstoolkit.formats.countblock import BlockKey
from kstoolkit.formats.keys import is_block_key
from kstoolkit.formats.topicbundle import ActionBundle, ActionBundles
from tests.changelog.changelogs import HOUR, MINUTE, Rows, counters, few, rows_of, texts

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random


STARTS = st.integers(0, 5) | st.integers(-(2**63), 2**63 - 1)
TOLD = st.dictionaries(
    st.tuples(STARTS, few | texts | st.sampled_from(["", "\0", "x" * 1024]), few | texts),
    st.integers(0, 2**64 - 1),
    max_size=12,
)
BATCHES = st.lists(st.tuples(st.sampled_from([MINUTE, HOUR]), TOLD), max_size=5)
Window = tuple[int, int, str]
Known = dict[Window, tuple[dict[str, int], int]]
Records = tuple[list[bytes], list[bytes | None]]


def written(batches: list[tuple[int, Rows]]) -> Records:
    """Return the records of batches, one behind the other; the n-th is written at n ms."""
    keys: list[bytes] = []
    values: list[bytes | None] = []
    for when, (size_ms, told) in enumerate(batches):
        fresh = _records_of(counters(told), size_ms=size_ms, changed_ms=when)
        keys += fresh[0].to_pylist()
        values += fresh[1].to_pylist()
    return keys, values


def folded(batches: list[tuple[int, Rows]]) -> Known:
    """Return what a reader should know in the end of each window: its counts, and as of when."""
    known: Known = {}
    for when, (size_ms, told) in enumerate(batches):
        fresh: dict[Window, dict[str, int]] = {}
        for (start, user, action), count in told.items():
            fresh.setdefault((size_ms, start, user), {})[action] = count
        known |= {window: (counts, when) for window, counts in fresh.items()}
    return known


def known(
    keys: list[bytes], values: list[bytes | None]
) -> dict[Window, tuple[dict[str, int], int]]:
    found: dict[Window, tuple[dict[str, int], int]] = {}
    for size_ms, told in counters_of(keys, values).items():
        rows = rows_of(told.counters)
        assert len(rows) == len(told.counters) == len(told.changed_ms)
        for (key, count), when in zip(rows.items(), told.changed_ms.tolist(), strict=True):
            found.setdefault((size_ms, key[0], key[1]), ({}, when))[0][key[2]] = count
    return found


@given(BATCHES)
def test_the_last_record_of_each_window_is_what_is_told(batches: list[tuple[int, Rows]]) -> None:
    assert known(*written(batches)) == folded(batches)


@given(BATCHES)
def test_a_compacted_topic_tells_the_same(batches: list[tuple[int, Rows]]) -> None:
    keys, values = written(batches)
    last = dict(zip(keys, values, strict=True))
    assert known(list(last), list(last.values())) == folded(batches)


@given(TOLD)
def test_counters_come_back_in_their_order(told: Rows) -> None:
    counted = counters(told)
    keys, values = _records_of(counted, size_ms=MINUTE, changed_ms=7)
    assert len(keys) == len({(start, user) for start, user, _ in told})
    read = counters_of(keys, values)
    assert set(read) == ({MINUTE} if told else set())
    for back in read.values():
        assert rows_of(back.counters) == told
        order = np.lexsort((back.counters.action, back.counters.start_ms, back.counters.user))
        assert order.tolist() == list(range(len(told)))


def test_a_record_holds_the_latest_of_its_counts_changes() -> None:
    counted = counters({(0, "a", "x"): 1, (0, "a", "y"): 2, (9, "a", "x"): 3})
    keys, values = _records_of(counted, size_ms=MINUTE, changed_ms=np.array([5, 8, 6]))
    assert counters_of(keys, values)[MINUTE].changed_ms.tolist() == [8, 8, 6]


def test_actions_that_a_later_record_leaves_out_are_gone() -> None:
    first = {(0, "a", "x"): 1, (0, "a", "y"): 2, (0, "b", "x"): 3}
    read = counters_of(*written([(MINUTE, first), (MINUTE, {(0, "a", "x"): 4})]))
    assert rows_of(read[MINUTE].counters) == {(0, "a", "x"): 4, (0, "b", "x"): 3}


def test_a_tombstone_takes_a_window_away_until_it_is_told_again() -> None:
    keys, values = written([(MINUTE, {(0, "a", "x"): 1, (0, "b", "x"): 2})])
    told = counters_of([*keys, keys[0]], [*values, None])[MINUTE]
    assert rows_of(told.counters) == {(0, "b", "x"): 2}
    assert (told.gone.names.to_pylist(), told.gone.start_ms.tolist()) == (["a"], [0])
    again = counters_of([*keys, keys[0], keys[0]], [*values, None, values[0]])[MINUTE]
    assert rows_of(again.counters) == {(0, "a", "x"): 1, (0, "b", "x"): 2}
    assert not len(again.gone)


def test_tombstones_alone_leave_no_counts() -> None:
    keys, _ = written([(MINUTE, {(0, "a", "x"): 1}), (HOUR, {(0, "a", "x"): 1})])
    told = counters_of(keys, [None, None])
    assert {size_ms: len(each.counters) for size_ms, each in told.items()} == {MINUTE: 0, HOUR: 0}
    assert {size_ms: each.gone.names.to_pylist() for size_ms, each in told.items()} == {
        MINUTE: ["a"],
        HOUR: ["a"],
    }


def test_a_damaged_record_that_a_later_one_replaces_does_no_harm() -> None:
    keys, values = written([(MINUTE, {(0, "a", "x"): 1})])
    assert known([*keys, *keys], [b"\x02damaged", *values]) == known(keys, values)
    with pytest.raises(FormatError, match="no CountBundle"):
        counters_of([*keys, *keys], [*values, b"\x02damaged"])


def test_an_action_that_is_named_twice_is_told() -> None:
    twice = ActionBundles.of([ActionBundle(["x", "y", "x"], [1, 2, 3], 0)])
    keys, _ = written([(MINUTE, {(60, "Anna", "x"): 1})])
    with pytest.raises(FormatError, match="'Anna' from 60 ms on names the action 'x' twice"):
        counters_of(keys, topicbundle.encode_many(twice))


@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=30) | st.none()), max_size=6))
def test_any_values_are_read_or_told(junk: list[tuple[bool, bytes | None]]) -> None:
    keys, _ = written([(MINUTE, {(0, "a", "x"): 1, (0, "b", "x"): 1})])
    values = [None if raw is None else b"\x02\x12" + raw for _, raw in junk]
    try:
        read = counters_of([keys[is_first] for is_first, _ in junk], values)
    except FormatError:
        return
    assert set(read) == ({MINUTE} if junk else set())


def block_key(number: int, *, size_ms: int = MINUTE, epoch: int = 0) -> BlockKey:
    return BlockKey(bucket=3, epoch=epoch, batch=number, part=0, size_ms=size_ms)


@given(BATCHES, st.integers(20, 2_000), st.randoms())
def test_blocks_tell_the_newest_count_in_whatever_order_they_come(
    batches: list[tuple[int, Rows]], most_bytes: int, chance: Random
) -> None:
    records = [
        (*record, number + 100)
        for number, (size_ms, told) in enumerate(batches)
        for record in _blocks_of(
            counters(told), block_key(number, size_ms=size_ms), most_bytes=most_bytes
        )
    ]
    chance.shuffle(records)
    keys, blocks = [key for key, _, _ in records], [block for _, block, _ in records]
    read = counters_of_blocks(keys, blocks, [when for _, _, when in records])
    newest: dict[int, dict[tuple[int, str, str], tuple[int, int]]] = {}
    for number, (size_ms, told) in enumerate(batches):
        fresh = {where: (count, number + 100) for where, count in told.items()}
        if fresh:
            newest[size_ms] = newest.get(size_ms, {}) | fresh
    assert {
        size_ms: dict(
            zip(
                rows_of(each.counters),
                zip(rows_of(each.counters).values(), each.changed_ms.tolist(), strict=True),
                strict=True,
            )
        )
        for size_ms, each in read.items()
    } == newest


def test_a_new_epoch_is_newer_than_every_batch_of_the_one_before() -> None:
    [old] = _blocks_of(counters({(0, "a", "x"): 9}), block_key(7))
    [new] = _blocks_of(counters({(0, "a", "x"): 1}), block_key(2, epoch=1))
    told = counters_of_blocks([new[0], old[0]], [new[1], old[1]], [20, 10])[MINUTE]
    assert (told.counters.count.tolist(), told.changed_ms.tolist()) == ([1], [20])


def test_a_batch_that_is_written_twice_has_the_same_keys_and_blocks() -> None:
    counted = counters({(0, f"user {number}", "x"): number for number in range(500)})
    once, again = (list(_blocks_of(counted, block_key(1), most_bytes=2_000)) for _ in range(2))
    assert len(once) > 1
    assert once == again
    assert len({each for each, _ in once}) == len(once)


def test_no_block_is_longer_than_a_record_may_be() -> None:
    counted = counters({(0, f"user {number}", "x"): number for number in range(500)})
    blocks = list(_blocks_of(counted, block_key(1), most_bytes=2_000))
    assert max(len(block) for _, block in blocks) <= 2_000
    told = counters_of_blocks([k for k, _ in blocks], [b for _, b in blocks], [0] * len(blocks))
    assert told[MINUTE].counters.total == counted.total


def test_no_counts_make_no_records() -> None:
    assert not list(_blocks_of(Counters.empty(), block_key(1)))
    keys, values = _records_of(Counters.empty(), size_ms=MINUTE, changed_ms=0)
    assert (len(keys), len(values)) == (0, 0)
    assert counters_of(keys, values) == {}
    assert counters_of_blocks([], [], []) == {}


def test_a_block_of_no_counts_and_a_tombstone_tell_nothing() -> None:
    [(first, block)] = _blocks_of(counters({(0, "a", "x"): 9}), block_key(7))
    told = counters_of_blocks([first, first], [block, None], [0, 0])
    assert told == {}
    assert not len(counters_of_blocks([first], [Counters.empty().encode()], [0])[MINUTE].counters)


def test_records_of_the_two_forms_are_told_apart_by_key_and_value() -> None:
    counted = counters({(0, "a", "x"): 9})
    keys, values = _records_of(counted, size_ms=MINUTE, changed_ms=0)
    [(other, block)] = _blocks_of(counted, block_key(7))
    assert is_block_key([keys[0].as_py(), other]).tolist() == [False, True]
    assert [values[0].as_py()[0], block[0]] == [topicbundle._VERSION, countblock.VERSION]
    with pytest.raises(FormatError, match="not of a user's window"):
        counters_of([other], [block])
    with pytest.raises(FormatError, match="not of a block"):
        counters_of_blocks([keys[0].as_py()], [block], [0])
    with pytest.raises(FormatError, match="a block of many users' counts"):
        counters_of(keys, [block])


def test_a_reader_that_knows_only_the_drawn_layout_reads_a_record() -> None:
    keys, values = _records_of(counters({(-5, "Čeněk", "x"): 300}), size_ms=HOUR, changed_ms=1)
    read_key, value = keys[0].as_py(), values[0].as_py()
    assert read_key[4:-16].decode() == "Čeněk"
    assert struct.unpack(">qq", read_key[-16:]) == (-5, HOUR)
    assert value == bytes([2, 0x12, 2, 0xAC, 0x02, 0x18, 1, 0x22, 1]) + b"x"
    assert isinstance(keys, pa.Array)


COUNTED = Counters.of(np.zeros(3, int), pa.array(["Ann", "Ann", "Bo"]), pa.array(["a", "b", "a"]))


def outbox_written(path: Path, *, blocks: bool) -> tuple[pa.Table, OutboxWriter]:
    writer = OutboxWriter(path, Outbox(0, 7, blocks), changed_ms=5)
    writer.write(2, 60_000, COUNTED)
    writer.forget(60_000, COUNTED)
    writer.close()
    return pq.read_table(path), writer


def test_each_users_window_is_a_record_and_then_a_tombstone(tmp_path: Path) -> None:
    table, writer = outbox_written(tmp_path / "records.parquet", blocks=False)

    keys, values = table["key"].to_pylist(), table["value"].to_pylist()
    assert keys[:2] == keys[2:]
    assert values[2:] == [None, None]
    told = counters_of(keys[:2], values[:2])[60_000]
    assert told.counters.to_table().equals(COUNTED.to_table())
    assert told.changed_ms.tolist() == [5, 5, 5]
    assert writer.rows == 4
    assert writer.size_bytes == sum(map(len, keys)) + sum(map(len, values[:2]))


def test_blocks_hold_many_counts_and_are_never_taken_back(tmp_path: Path) -> None:
    table, writer = outbox_written(tmp_path / "blocks.parquet", blocks=True)

    assert writer.rows == table.num_rows == 1
    told = counters_of_blocks(table["key"].to_pylist(), table["value"].to_pylist(), [5])[60_000]
    assert told.counters.to_table().equals(COUNTED.to_table())


@pytest.mark.parametrize("blocks", [True, False])
def test_nothing_counted_is_nothing_written(tmp_path: Path, *, blocks: bool) -> None:
    writer = OutboxWriter(tmp_path / "none.parquet", Outbox(0, 7, blocks), changed_ms=5)
    writer.write(2, 60_000, Counters.empty())
    writer.close()
    assert (writer.rows, writer.size_bytes) == (0, 0)
