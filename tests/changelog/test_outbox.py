"""Records that wait to be sent: whole windows, blocks, and tombstones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kstoolkit.changelog.outbox import Outbox, OutboxWriter
from kstoolkit.changelog.topicblocks import counters_of_blocks
from kstoolkit.changelog.topicrecords import counters_of
from kstoolkit.counters.counters import Counters

if TYPE_CHECKING:
    from pathlib import Path

COUNTED = Counters.of(np.zeros(3, int), pa.array(["Ann", "Ann", "Bo"]), pa.array(["a", "b", "a"]))


def written(path: Path, *, blocks: bool) -> tuple[pa.Table, OutboxWriter]:
    writer = OutboxWriter(path, Outbox(0, 7, blocks), changed_ms=5)
    writer.write(2, 60_000, COUNTED)
    writer.forget(60_000, COUNTED)
    writer.close()
    return pq.read_table(path), writer


def test_each_users_window_is_a_record_and_then_a_tombstone(tmp_path: Path) -> None:
    table, writer = written(tmp_path / "records.parquet", blocks=False)

    keys, values = table["key"].to_pylist(), table["value"].to_pylist()
    assert keys[:2] == keys[2:]
    assert values[2:] == [None, None]
    told = counters_of(keys[:2], values[:2])[60_000]
    assert told.counters.to_table().equals(COUNTED.to_table())
    assert told.changed_ms.tolist() == [5, 5, 5]
    assert writer.rows == 4
    assert writer.size_bytes == sum(map(len, keys)) + sum(map(len, values[:2]))


def test_blocks_hold_many_counts_and_are_never_taken_back(tmp_path: Path) -> None:
    table, writer = written(tmp_path / "blocks.parquet", blocks=True)

    assert writer.rows == table.num_rows == 1
    told = counters_of_blocks(table["key"].to_pylist(), table["value"].to_pylist(), [5])[60_000]
    assert told.counters.to_table().equals(COUNTED.to_table())


@pytest.mark.parametrize("blocks", [True, False])
def test_nothing_counted_is_nothing_written(tmp_path: Path, *, blocks: bool) -> None:
    writer = OutboxWriter(tmp_path / "none.parquet", Outbox(0, 7, blocks), changed_ms=5)
    writer.write(2, 60_000, Counters.empty())
    writer.close()
    assert (writer.rows, writer.size_bytes) == (0, 0)
