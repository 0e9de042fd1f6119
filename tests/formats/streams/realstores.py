"""Real stores of Kafka Streams, read through the layouts, and what their applications had read."""

from __future__ import annotations

import gzip
import json
import struct
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kstoolkit.formats.columns import ByteColumn
from kstoolkit.formats.streams.kinds import Kind, live_family
from kstoolkit.formats.streams.places import segment_interval_ms, segment_start_ms
from kstoolkit.formats.streams.recognising import recognise
from kstoolkit.formats.streams.rows import split
from kstoolkit.rocksdb.opening import open_store
from tests.formats.streams import encoding

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kstoolkit.formats.columns import RowColumns
    from kstoolkit.formats.streams.recognising import Place, Recognised

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, repr=False)
class Read:
    """One RocksDB of a store: its rows on disk, what it was taken for, and how it came apart."""

    store: str
    task: str
    path: Path
    disk: list[tuple[bytes, bytes]]
    offsets: list[tuple[bytes, bytes]]
    recognised: Recognised
    rows: RowColumns
    by_name: Recognised

    def tell(self) -> Iterator[Row]:
        """Yield a row as the expected ones are, with its value on disk, whole, beside it."""
        rows = self.rows
        columns = {
            "start": rows.window_start_ms,
            "end": rows.window_end_ms,
            "ts": rows.timestamp_ms,
            "valid_to": rows.valid_to_ms,
            "headers": rows.headers,
        }
        told = {name: each.to_pylist() for name, each in columns.items() if each is not None}
        cells = zip(rows.key.to_list(), rows.value.to_list(), rows.row.tolist(), strict=True)
        for at, (key, value, row) in enumerate(cells):
            yield {
                "key": key,
                "value": value,
                "on_disk": self.disk[row][1],
                **{name: column[at] for name, column in told.items()},
            }


def read_state(state: Path) -> Iterator[Read]:
    """Yield each RocksDB of a state directory, taken apart as what it is recognised for."""
    for current in sorted(state.rglob("CURRENT")):
        yield read_store(current.parent)


def read_store(path: Path) -> Read:
    place: Place = "store" if path.parent.name == "rocksdb" else "segment"
    store = path.name if place == "store" else path.parent.name
    start_ms = interval_ms = None
    if place == "segment":
        starts = [segment_start_ms(store, each.name) for each in path.parent.iterdir()]
        interval_ms = segment_interval_ms([each for each in starts if each is not None])
        start_ms = segment_start_ms(store, path.name)
    with open_store(path) as opened:
        names = opened.column_families
        family = live_family(names)
        disk = list(opened.iter_rows(cf=family))
        offsets = list(opened.iter_rows(cf="offsets")) if "offsets" in names else []
    keys, values = (
        ByteColumn.of([key for key, _ in disk]),
        ByteColumn.of([each for _, each in disk]),
    )
    recognised = recognise(
        names,
        keys,
        values,
        place=place,
        segment_start_ms=start_ms,
        segment_interval_ms=interval_ms,
        store=store,
    )
    rows = split(recognised.kind, keys, values, family=family)
    task = path.parents[1].name
    nothing = ByteColumn.of([])
    by_name = recognise(names, nothing, nothing, place=place, store=store)
    return Read(store, task, path, disk, offsets, recognised, rows, by_name)


def on_disk_of(stores: list[Row]) -> dict[tuple[str, str], Row]:
    """Return the expected stores by task and name; those on disk alone."""
    return {
        (each["task"], each["store"]): each for each in stores if "InMemory" not in each["classes"]
    }


def as_on_disk(value_hex: str, classes: str) -> bytes:
    """Return the value on disk of one that went through adapters."""
    value = bytes.fromhex(value_hex)
    if "KeyValueToTimestamped" in classes:
        return value[8:]
    if "PlainToHeaders" in classes:
        return value.removeprefix(b"\x00" + b"\xff" * 8)
    if "TimestampedToHeaders" in classes:
        return value.removeprefix(b"\x00")
    return value


def meaning(value: object) -> tuple[object, int | None, list[Any]]:
    """Return the bare value of an expected one, its timestamp, and its headers."""
    if not isinstance(value, dict) or "value" not in value:
        return value, None, []
    timestamp = value.get("ts", -1)
    return value["value"], None if timestamp == -1 else timestamp, value.get("headers", [])


def says(raw: bytes | None, value: object) -> bool:
    """Return whether bytes are those of a value, by the serde that its type gives away."""
    if raw is None or value is None:
        return raw is None and value is None
    if isinstance(value, dict):
        return "hex" not in value or raw.hex() == value["hex"]
    if isinstance(value, str):
        return raw.decode() == value
    if isinstance(value, float):
        return bool(struct.unpack(">d", raw)[0] == value)
    return int.from_bytes(raw, "big", signed=True) == value


def headers_of(row: Row) -> list[Any]:
    return [
        [each["name"], None if each["value"] is None else each["value"].hex()]
        for each in row.get("headers") or []
    ]


def printed_list(rows: RowColumns) -> Iterator[tuple[str, str]]:
    """Yield keys and elements as Kafka Streams prints them."""
    assert rows.timestamp_ms is not None
    columns = (rows.record_key, rows.record_value)
    texts = [[(cell or b"").decode() for cell in column.to_list()] for column in columns]
    times, sides = rows.timestamp_ms.to_pylist(), rows.details["side"].to_pylist()
    for key, value, at, side in zip(*texts, times, sides, strict=True):
        yield f"TimestampedKeyAndJoinSide:<{side},{key}:{at}>", f"<{side},{value}>"


def printed_subscriptions(rows: RowColumns) -> Iterator[tuple[str, str]]:
    """Yield keys, as they are on disk, and subscriptions as Kafka Streams prints them."""
    told = pa.table(rows.details).to_pylist()
    for key, each in zip(rows.key.to_list(), told, strict=True):
        assert key == encoding.combined_key(each["foreign_key"], each["subscriber_key"])
        first, second = struct.unpack(">qq", each["hash"])
        parts = [
            f"version={each['version']}",
            f"primaryKey={each['subscriber_key'].decode()}",
            f"instruction={each['instruction']}",
            f"hash=[{first}, {second}]",
        ]
        if each["version"]:
            parts.append(f"primaryPartition={each['primary_partition']}")
        yield key.hex(), f"SubscriptionWrapper{{{', '.join(parts)}}}"


PRINTED = {Kind.LIST_VALUE: printed_list, Kind.FOREIGN_KEY_SUBSCRIPTION: printed_subscriptions}

Partition = tuple[str, int]


def changelogs_of(path: Path) -> dict[Partition, list[Row]]:
    found = defaultdict(list)
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            found[record["topic"], record["partition"]].append(record)
    return found


def changelog_of(read: Read) -> Partition:
    application, task = read.path.parents[2].name, read.task
    partition = task.partition("_")[2] or "0"
    return f"{application}-{read.store}-changelog", int(partition)


Contents = dict[str, tuple[str, int | None]]


def replayed(read: Read, records: list[Row], up_to: int) -> Contents:
    """Return what a store holds after a record; the times are kept only if the store keeps them."""
    stamped = read.recognised.kind is not Kind.KEY_VALUE
    state: Contents = {}
    for record in records:
        if record["offset"] <= up_to:
            state.pop(record["key"], None)
            if record["value"] is not None:
                state[record["key"]] = (record["value"], record["ts"] if stamped else None)
    return state


def contents(read: Read) -> Contents:
    return {row["key"].hex(): (row["value"].hex(), row.get("ts")) for row in read.tell()}
