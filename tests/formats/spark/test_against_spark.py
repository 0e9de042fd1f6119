"""Whatever Spark's own reader says of a checkpoint, we say too, from its files alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import types as T  # noqa: N812 - as Spark's own documentation has it

from kstoolkit.formats.columns import ByteColumn
from kstoolkit.formats.spark.checksums import crc32c
from kstoolkit.formats.spark.statefiles import read_changelog
from kstoolkit.formats.spark.unsaferow import row_serde
from tests.formats.spark import queries
from tests.formats.spark.checkpoints import StateRow, StoreAt

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

    from tests.formats.spark.conftest import Checkpoints

pytestmark = pytest.mark.spark

JOIN_STORES = tuple(
    f"{side}-{name}"
    for side in ("left", "right")
    for name in ("keyToNumValues", "keyWithIndexToValue")
)
ROCKSDB = ("snapshots", "changelogs")
WAYS_OF = {
    "count": ("snapshots", "checksums"),
    "global count": ("snapshots",),
    "window": (*ROCKSDB, "format 2"),
    "dedup": ("snapshots", "changelogs in zstd"),
    "dedup within": ("snapshots", "changelogs in snappy"),
    "session": ROCKSDB,
    "join 2": ROCKSDB,
    "join 3": ROCKSDB,
    "join 4": ("old delimiter", "checksums", "format 2"),
    "remembering": ("checksums in snapshots", "changelogs"),
    "forgetting": ROCKSDB,
}
"""Each kind of operator, with snapshots of every version and with changelogs, at the least."""

SELDOM = {("session", "changelogs"), ("dedup within", "changelogs in snappy")}
EVERY_WAY = [
    pytest.param(query, way, marks=pytest.mark.long) if (query, way) in SELDOM else (query, way)
    for query, ways in WAYS_OF.items()
    for way in ways
]
ON_HDFS = ("window", "dedup", "dedup within", "session")


def last_batch(checkpoint: Path) -> int:
    folder = checkpoint / "commits"
    return max(int(path.name) for path in folder.iterdir() if path.name.isdigit())


def of_spark(checkpoints: Checkpoints, checkpoint: Path, way: str, **options: str) -> Any:
    """Return what Spark's reader says, as an Arrow table."""
    with queries.conf(checkpoints.spark, queries.FORMAT_2 if way == "format 2" else {}):
        return frame(checkpoints, checkpoint, **options).toArrow()


def frame(checkpoints: Checkpoints, checkpoint: Path, **options: str) -> DataFrame:
    reader = checkpoints.spark.read.format("statestore").option("path", str(checkpoint))
    return reader.options(**options).load()


def at(
    checkpoint: Path, tmp_path: Path, store: str = "default", batch: int | None = None
) -> StoreAt:
    return StoreAt(checkpoint, tmp_path, last_batch(checkpoint) if batch is None else batch, store)


def alike(rows: list[tuple[Any, ...]]) -> list[str]:
    return sorted(repr(row) for row in rows)


def told_by_spark(rows: list[StateRow], table: Any) -> list[tuple[Any, ...]]:
    """Return Spark's rows of bytes, whose keys we read as plain rows."""
    families = {row.family.name: row.family for row in rows}
    found = []
    for row in table.to_pylist():
        family = families[row["column_family_name"]]
        column = ByteColumn.of([row["key_bytes"]])
        [key] = row_serde(family.key).decode(column).to_list(column)
        found.append((family.name, key, row["value_bytes"]))
    return found


@pytest.mark.parametrize(("query", "way"), EVERY_WAY)
def test_every_row_of_every_family_is_that_of_spark(
    checkpoints: Checkpoints, tmp_path: Path, query: str, way: str
) -> None:
    checkpoint = checkpoints.make(query, way)
    for store in JOIN_STORES if query == "join 2" else ("default",):
        rows = at(checkpoint, tmp_path, store).rows()
        options = {"_readAllColumnFamilies": "true", "storeName": store}
        table = of_spark(checkpoints, checkpoint, way, **options)
        ours = [(row.family.name, row.key, row.value_bytes) for row in rows]
        assert ours, "there is nothing to compare"
        assert alike(ours) == alike(told_by_spark(rows, table))


@pytest.mark.parametrize(
    ("query", "way"),
    [
        ("session", "snapshots"),
        *((query, "HDFS") for query in ON_HDFS),
        ("count", "checksums on HDFS"),
    ],
)
def test_keys_and_values_are_those_of_spark(
    checkpoints: Checkpoints, tmp_path: Path, query: str, way: str
) -> None:
    checkpoint = checkpoints.make(query, way)
    rows = at(checkpoint, tmp_path).rows()
    table = of_spark(checkpoints, checkpoint, way)
    assert rows
    assert alike([(row.partition, row.key, row.value) for row in rows]) == alike(
        [(row["partition_id"], row["key"], row["value"]) for row in table.to_pylist()]
    )


@pytest.mark.parametrize("store", JOIN_STORES)
def test_the_four_stores_of_a_join_are_those_of_spark(
    checkpoints: Checkpoints, tmp_path: Path, store: str
) -> None:
    checkpoint = checkpoints.make("join 2", "HDFS")
    rows = at(checkpoint, tmp_path, store).rows()
    table = of_spark(checkpoints, checkpoint, "HDFS", storeName=store)
    assert rows
    assert alike([(row.partition, row.key, row.value) for row in rows]) == alike(
        [(row["partition_id"], row["key"], row["value"]) for row in table.to_pylist()]
    )


@pytest.mark.parametrize("way", ["snapshots", "changelogs", "format 2", "HDFS"])
def test_earlier_batches_are_those_of_spark(
    checkpoints: Checkpoints, tmp_path: Path, way: str
) -> None:
    checkpoint = checkpoints.make("window", way)
    rows = at(checkpoint, tmp_path, batch=1).rows()
    table = of_spark(checkpoints, checkpoint, way, batchId="1")
    assert rows
    assert alike([(row.key, row.value) for row in rows]) == alike(
        [(row["key"], row["value"]) for row in table.to_pylist()]
    )


@pytest.mark.parametrize(
    ("query", "variable", "of_value"),
    [
        ("remembering", "total", "value"),
        ("remembering", "seen", "list_element"),
        ("remembering", "by_n", "user_map_value"),
        ("forgetting", "value_ttl", "value"),
        ("forgetting", "list_ttl", "list_element"),
        ("forgetting", "map_ttl", "user_map_value"),
    ],
)
def test_state_variables_are_those_of_spark(
    checkpoints: Checkpoints, tmp_path: Path, query: str, variable: str, of_value: str
) -> None:
    checkpoint = checkpoints.make(query, "changelogs")
    rows = [row for row in at(checkpoint, tmp_path).rows() if row.family.name == variable]
    table = of_spark(checkpoints, checkpoint, "changelogs", stateVarName=variable)
    told = []
    for row in table.to_pylist():
        in_map = "user_map_key" in row
        key = {"key": row["key"], "userKey": row["user_map_key"]} if in_map else row["key"]
        told.append((key, row[of_value]))
    assert rows
    assert alike([(row.key, row.value) for row in rows]) == alike(told)
    if query == "forgetting":
        assert all(row.timestamp_ms == row.value["ttlExpirationMs"] for row in rows)


@pytest.mark.parametrize("query", ["remembering", "forgetting"])
def test_timers_are_those_of_spark(checkpoints: Checkpoints, tmp_path: Path, query: str) -> None:
    checkpoint = checkpoints.make(query, "changelogs")
    table = of_spark(checkpoints, checkpoint, "changelogs", readRegisteredTimers="true")
    told = [(row["key"], row["expiration_timestamp_ms"]) for row in table.to_pylist()]
    rows = at(checkpoint, tmp_path).rows()
    for name in ("keyToTimestamp", "timestampToKey"):
        timers = [row for row in rows if row.family.name.endswith(name)]
        assert timers
        assert alike([(row.key["key"], row.timestamp_ms) for row in timers]) == alike(told)
        assert all(row.family.is_internal for row in timers)


def test_the_event_time_of_a_joined_row_is_its_columns(
    checkpoints: Checkpoints, tmp_path: Path
) -> None:
    rows = at(checkpoints.make("join 4", "old delimiter"), tmp_path).rows()
    sides = {"left-keyWithTsToValues": "ts", "right-keyWithTsToValues": "ts2"}
    joined = [row for row in rows if row.family.name in sides]
    assert {row.family.name for row in joined} == sides.keys()
    for row in joined:
        moment = row.value[sides[row.family.name]]
        assert row.timestamp_ms == round(moment.timestamp() * 1000)


@pytest.mark.parametrize("query", ["window", "session"])
def test_windows_are_those_of_the_rows(
    checkpoints: Checkpoints, tmp_path: Path, query: str
) -> None:
    rows = at(checkpoints.make(query, "snapshots"), tmp_path).rows()
    assert rows
    for row in rows:
        window = row.key["window"] if query == "window" else row.value["session_window"]
        bounds = [round(window[name].timestamp() * 1000) for name in ("start", "end")]
        assert [row.window_start_ms, row.window_end_ms] == bounds


def test_when_a_key_may_come_again_is_its_time(checkpoints: Checkpoints, tmp_path: Path) -> None:
    rows = at(checkpoints.make("dedup within", "snapshots"), tmp_path).rows()
    assert rows
    assert all(row.timestamp_ms == row.value["expiresAtMicros"] // 1000 for row in rows)


def test_values_of_every_type_are_those_of_spark(checkpoints: Checkpoints, tmp_path: Path) -> None:
    """Spark's reader has no Arrow for values whose columns share names, and for three types."""
    checkpoint = checkpoints.make("types", "changelogs")
    rows = at(checkpoint, tmp_path).rows()
    table = numbered(frame(checkpoints, checkpoint)).toArrow()
    ours = [(row.key, numbered_values(row.value)) for row in rows]
    assert len(rows) == 24
    assert alike(ours) == alike([(row["key"], row["value"]) for row in table.to_pylist()])
    for row in rows:
        n = row.key["integers"][0]
        assert row.value["first#6"] == 12 * n + 5
        seconds = 5 * 3600 + 6 * 60 + 7.25
        calendar = {"months": 14, "days": 21 + n, "microseconds": int(seconds * 1_000_000)}
        assert row.value["first#8"] == calendar
        assert variant_number(row.value["first#10"]) == n


WITHOUT_ARROW = (6, 8, 10)


def numbered(told: DataFrame) -> DataFrame:
    """Return Spark's rows, the columns of the value named by their positions."""
    value = told.schema["value"].dataType
    assert isinstance(value, T.StructType)
    fields = [T.StructField(f"c{n}", field.dataType) for n, field in enumerate(value)]
    renamed = told["value"].cast(T.StructType(fields))
    return told.select("key", renamed.dropFields(*(f"c{n}" for n in WITHOUT_ARROW)).alias("value"))


def numbered_values(row: dict[str, Any]) -> dict[str, Any]:
    return {f"c{n}": cell for n, cell in enumerate(row.values()) if n not in WITHOUT_ARROW}


def variant_number(raw: bytes) -> int:
    """Return the number in a variant ``{"n": number}``, which we show as its bytes."""
    size = int.from_bytes(raw[:4], "little")
    value, metadata = raw[4 : 4 + size], raw[4 + size :]
    assert metadata.endswith(b"n")
    return int.from_bytes(value[6:], "little", signed=True)


def test_the_lineage_of_a_changelog_names_the_versions_before_it(checkpoints: Checkpoints) -> None:
    folder = checkpoints.make("window", "format 2") / "state" / "0" / "0"
    uids = {
        int(path.name.split("_")[0]): path.stem.partition("_")[2]
        for path in folder.glob("*.changelog")
    }
    third = read_changelog((folder / f"3_{uids[3]}.changelog").read_bytes())
    assert (third.version, third.lineage) == (3, ((1, uids[1]), (2, uids[2])))


def test_checksums_of_files_are_those_of_spark(checkpoints: Checkpoints) -> None:
    folder = checkpoints.make("window", "format 2") / "state" / "0" / "0"
    checked = 0
    for path in folder.glob("[0-9]*.changelog.crc"):
        told = json.loads(path.read_text())
        raw = path.with_suffix("").read_bytes()
        found = int(crc32c(ByteColumn.of([raw]))[0])
        assert told["mainFileSize"] == len(raw)
        assert found == told["value"] % 2**32
        checked += 1
    assert checked == 4
