"""Whatever a file of the changelog has become, its counts are right or it is told by its name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kstoolkit.changelog.countsfile import _GROUPS_KEY, CountsFile
from kstoolkit.errors import FormatError
from tests.changelog.changelogs import HOUR, MINUTE, Rows, rows_of, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

USERS = [f"user {n}" for n in range(30)]
TOLD: dict[int, Rows] = {
    MINUTE: {(MINUTE * n, user, "read"): n + 1 for n in range(3) for user in USERS},
    HOUR: {(0, user, "read"): 7 for user in USERS},
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path, 3, TOLD) / "part-00000.parquet"


def everything(path: Path) -> list[object]:
    """Ask a file all that it can be asked; its counts come last."""
    file = CountsFile.open(path)
    asked: list[object] = [file.num_rows, sorted(file.window_lengths_ms())]
    for length in (MINUTE, HOUR):
        asked += [file.rows(length), file.span_ms("window_start", length)]
    asked.append(file.span_ms("changed_at"))
    return [*asked, {n: [rows_of(part) for part in file.read(n)] for n in (MINUTE, HOUR)}]


def test_a_file_that_is_cut_short_is_told(path: Path) -> None:
    data = path.read_bytes()
    for length in range(0, len(data), 131):
        path.write_bytes(data[:length])
        with pytest.raises(FormatError, match=r"part-00000\.parquet is damaged"):
            everything(path)


def test_a_page_with_a_flipped_bit_is_never_counted(path: Path) -> None:
    data, whole = path.read_bytes(), everything(path)
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")  # Parquet has no checksum of it
    told = 0
    for place in range(4, footer, 11):
        flipped = bytearray(data)
        flipped[place] ^= 1 << (place % 8)
        path.write_bytes(flipped)
        try:
            assert everything(path)[-1] == whole[-1]
        except FormatError:
            told += 1
    assert told > 100


def with_text_for_times(table: pa.Table) -> pa.Table:
    return table.set_column(1, "window_start", pa.array(["noon"] * len(table)))


def with_text_for_counts(table: pa.Table) -> pa.Table:
    return table.set_column(4, "count", pa.array(["many"] * len(table)))


def with_lists_for_users(table: pa.Table) -> pa.Table:
    return table.set_column(2, "user", pa.array([["Anna"]] * len(table)))


def with_parts_of_counts(table: pa.Table) -> pa.Table:
    return table.set_column(4, "count", pa.array([0.5] * len(table)))


def with_negative_counts(table: pa.Table) -> pa.Table:
    return table.set_column(4, "count", pa.array([-1] * len(table)))


def with_nobody(table: pa.Table) -> pa.Table:
    return table.set_column(2, "user", pa.array([None] * len(table), pa.string()))


@pytest.mark.parametrize(
    "change",
    [
        with_text_for_times,
        with_text_for_counts,
        with_lists_for_users,
        with_parts_of_counts,
        with_negative_counts,
        with_nobody,
    ],
    ids=lambda f: f.__name__,
)
def test_a_file_of_another_program_that_does_not_fit_is_told(
    path: Path, change: Callable[[pa.Table], pa.Table]
) -> None:
    table = pq.ParquetFile(path).read().replace_schema_metadata()
    pq.write_table(change(table), path)
    with pytest.raises(FormatError, match=r"part-00000\.parquet is .*no part of a changelog"):
        everything(path)


def test_times_are_found_by_name_whatever_the_order_of_columns(path: Path) -> None:
    """The old file's metadata goes along, and it may even have as many row groups."""
    before = everything(path)
    groups = {_GROUPS_KEY: json.dumps({"buckets": 4, "groups": [[0, HOUR]]})}
    table = pq.ParquetFile(path).read()
    pq.write_table(table.select(table.column_names[::-1]).replace_schema_metadata(groups), path)
    assert everything(path)[:-1] == before[:-1]
    assert CountsFile.open(path).span_ms("changed_at") == (3_000, 3_000)


@pytest.mark.parametrize("said", ["", "[1]", "{}", '{"buckets": 4, "groups": [7]}', "\x80"])
def test_what_a_file_says_of_its_row_groups_must_make_sense(path: Path, said: str) -> None:
    with pq.ParquetFile(path) as file:
        table, schema = file.read(), file.schema_arrow
    with pq.ParquetWriter(path, schema, store_schema=False) as writer:
        writer.write_table(table.cast(schema))
        writer.add_key_value_metadata({_GROUPS_KEY: said})
    with pytest.raises(FormatError, match=r"part-00000\.parquet is damaged"):
        CountsFile.open(path)
