"""A small checkpoint, written by the description of its files: an aggregation by user."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rocksdict import Options, Rdict

from tests.formats.spark.sparkfiles import changelog, chunks, snapshot, utf, zstd
from tests.formats.spark.sparkrows import row_schema, written_row

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

KEY, VALUE = row_schema(user="string"), row_schema(count="long")
PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CONF = {
    "spark.sql.streaming.stateStore.providerClass": PROVIDER,
    "spark.sql.streaming.stateStore.rocksdb.mergeOperatorVersion": "2",
    "spark.sql.streaming.stateStore.compression.codec": "zstd",
}
PUT, REMOVE = 0x01, 0x10
FIRST = {"Anna": 1, "Bo": 2, "Cy": 3}


def key_of(user: str) -> bytes:
    return b"\x00" + written_row(KEY, {"user": user})


def value_of(count: int) -> bytes:
    return b"\x00" + written_row(VALUE, {"count": count})


def changes(**counts: int | None) -> bytes:
    """Return a changelog that sets the counts of some users; None removes one."""
    return zstd(
        changelog(
            1,
            [
                (
                    REMOVE if count is None else PUT,
                    key_of(user),
                    None if count is None else value_of(count),
                )
                for user, count in counts.items()
            ],
        )
    )


def make_checkpoint(root: Path) -> Path:
    """Write a checkpoint of four batches: version 2 is a snapshot, 1, 3 and 4 are changelogs.

    Returns the folder of its one partition.
    """
    operator = root / "state" / "0"
    partition = operator / "0"
    for folder in (root / "offsets", root / "commits", operator / "_metadata"):
        folder.mkdir(parents=True)
    for batch in range(4):
        head = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": CONF})
        (root / "offsets" / str(batch)).write_text(f"v1\n{head}\n-")
        (root / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    (operator / "_metadata" / "metadata").write_text(f"v1\n{json.dumps(_operator())}")
    (partition / "_metadata").mkdir(parents=True)
    schema = utf("v2") + chunks(json.dumps(KEY)) + chunks(json.dumps(VALUE))
    (partition / "_metadata" / "schema").write_bytes(schema)
    (partition / "1.changelog").write_bytes(changes(Anna=1))
    make_snapshot(partition, 2, FIRST)
    (partition / "3.changelog").write_bytes(changes(Bo=None, Dee=4))
    (partition / "4.changelog").write_bytes(changes(Anna=9, Aaron=5))
    return partition


def make_snapshot(
    partition: Path, version: int, counts: Mapping[str, int], *, file_each: bool = False
) -> None:
    """Write a snapshot: a zip, and SST files beside it; of all users, or one of each."""
    home = partition.parent.parent.parent / "writing"
    store = Rdict(str(home), Options(raw_mode=True))
    for user, count in counts.items():
        store[key_of(user)] = value_of(count)
        if file_each:
            store.flush()
    store.flush()
    (partition / "SSTs").mkdir(exist_ok=True)
    listed = []
    for path in sorted(home.glob("*.sst")):
        stored = f"{path.stem}-{version}.sst"
        (partition / "SSTs" / stored).write_bytes(path.read_bytes())
        listed.append(
            {"localFileName": path.name, "dfsSstFileName": stored, "sizeBytes": path.stat().st_size}
        )
    members = {
        path.name: path.read_bytes()
        for path in home.iterdir()
        if path.name == "CURRENT" or path.name.startswith(("MANIFEST", "OPTIONS"))
    }
    store.close()
    Rdict.destroy(str(home))
    told = {"sstFiles": listed, "numKeys": len(counts), "numInternalKeys": 0}
    (partition / f"{version}.zip").write_bytes(snapshot(told, members))


def _operator() -> dict[str, object]:
    store = {"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 1}
    return {
        "operatorInfo": {"operatorId": 0, "operatorName": "stateStoreSave"},
        "stateStoreInfo": [store],
    }


def cut(path: Path) -> None:
    """Leave a file without its last third."""
    raw = path.read_bytes()
    path.write_bytes(raw[: len(raw) * 2 // 3])
