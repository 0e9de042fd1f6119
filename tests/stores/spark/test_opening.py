from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
from typer.testing import CliRunner

import kstoolkit as kst
from kstoolkit.cli.application import app
from kstoolkit.errors import CheckpointError, ConfigurationError, FormatError, KstoolkitError
from kstoolkit.rocksdb.faults import (
    DamagedStoreError,
    MissingFileError,
    NoStoreError,
    StoreClosedError,
    StoreResourceError,
)
from kstoolkit.stores.spark.sparkstore import SparkStore
from tests.rocksdb.madestores import appearance
from tests.stores.spark.madecheckpoints import (
    changes,
    cut,
    key_of,
    make_checkpoint,
    make_snapshot,
    value_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LATEST = {"Aaron": 5, "Anna": 9, "Cy": 3, "Dee": 4}


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    return make_checkpoint(tmp_path / "query")


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def opened(path: Path, **told: Any) -> SparkStore:
    store = kst.open_store(path, **told)
    assert isinstance(store, SparkStore)
    return store


def counts(store: SparkStore) -> dict[str, int]:
    return {row.key["user"]: row.value["count"] for row in store.rows()}


def test_the_latest_version_is_a_snapshot_and_what_changed_since(partition: Path) -> None:
    with opened(partition) as store:
        assert counts(store) == LATEST
        assert (store.name, store.kind, store.version, store.batch) == (
            "default",
            "aggregation",
            4,
            3,
        )
        assert store.operator.name == "stateStoreSave"
        assert list(store.families) == ["default"]
        assert store.schema[0].value.names == ["count"]
        assert repr(store) == f"SparkStore({str(partition)!r}, aggregation, version 4)"


def test_rows_come_in_the_order_of_keys_on_disk(partition: Path) -> None:
    with opened(partition) as store:
        keys = [row.key_bytes for row in store.rows()]
        assert keys == sorted(keys)
        assert len(keys) == 4


@pytest.mark.parametrize(
    ("version", "held"),
    [
        (1, {"Anna": 1}),
        (2, {"Anna": 1, "Bo": 2, "Cy": 3}),
        (3, {"Anna": 1, "Cy": 3, "Dee": 4}),
        (4, LATEST),
    ],
)
def test_each_version_is_what_it_was(partition: Path, version: int, held: dict[str, int]) -> None:
    with opened(partition) as store:
        assert store.versions == [1, 2, 3, 4]
        assert counts(store.at(version)) == held
        assert counts(store.at(batch=version - 1)) == held


def test_a_version_that_is_not_there_is_refused_with_those_that_are(partition: Path) -> None:
    with opened(partition) as store:
        with pytest.raises(CheckpointError, match=r"no version 7.*\nHint: .*: 1, 2, 3, 4\."):
            store.at(7)
        with pytest.raises(ConfigurationError, match="Both version 2 and batch 1"):
            store.at(2, batch=1)


def test_versions_before_the_oldest_snapshot_need_their_changelogs(partition: Path) -> None:
    (partition / "1.changelog").unlink()
    with opened(partition) as store:
        assert store.versions == [2, 3, 4]


def test_one_key_is_found_by_its_bytes(partition: Path) -> None:
    with opened(partition) as store:
        [first, *_] = store.rows()
        assert [row.key for row in store.rows(key=first.key_bytes)] == [first.key]
        assert store.rows(key=b"nobody").count() == 0
        assert store.rows(prefix=first.key_bytes[:8]).count() == 4


def test_one_key_is_found_by_what_its_columns_hold(partition: Path) -> None:
    with opened(partition) as store:
        for key in ("Anna", {"user": "Anna"}):
            assert [row.value for row in store.rows(key=key)] == [{"count": 9}]
        assert store.rows(key={"user": "nobody"}).count() == 0
        assert [row.key for row in store.family("default").rows(key="Cy")] == [{"user": "Cy"}]
        for wrong in ({"usr": "Anna"}, 5, {}):
            with pytest.raises(ConfigurationError):
                store.rows(key=wrong)
        with pytest.raises(
            ConfigurationError, match=r"text 'An': .* columns user\.\nHint: Give key"
        ):
            store.rows(prefix="An")


def test_another_serde_may_read_the_rows(partition: Path) -> None:
    with opened(partition, value_serde="bytes") as store:
        assert all(isinstance(row.value, bytes) for row in store.rows())
        assert all("user" in row.key for row in store.rows())


def test_what_the_checkpoint_tells_cannot_be_told(partition: Path) -> None:
    with pytest.raises(ConfigurationError, match="kind='window' is told"):
        kst.open_store(partition, kind="window")


def test_the_partitions_of_an_operator_are_one_store(partition: Path) -> None:
    other = partition.with_name("1")
    shutil.copytree(partition, other, ignore=shutil.ignore_patterns("_metadata"))
    (other / "4.changelog").write_bytes(changes(Zoe=26))
    with opened(partition.parent) as store:
        assert store.partitions == [0, 1]
        assert store.rows().count() == 4 + 4
        assert counts(store)["Zoe"] == 26
        assert counts(store.at(2)) == {"Anna": 1, "Bo": 2, "Cy": 3}


def test_a_checkpoint_of_one_operator_is_that(partition: Path) -> None:
    root = partition.parents[2]
    for path in (root, root / "state"):
        with opened(path) as store:
            assert (store.path, store.partitions) == (partition.parent, [0])
            assert counts(store) == LATEST


def test_a_checkpoint_of_several_operators_says_which_stores_it_has(partition: Path) -> None:
    root = partition.parents[2]
    shutil.copytree(partition.parent, root / "state" / "1")
    for path in (root, root / "state"):
        with pytest.raises(NoStoreError) as caught:
            kst.open_store(path)
        assert str(partition) in str(caught.value)
        assert str(root / "state" / "1" / "0") in str(caught.value)


def test_what_is_no_store_of_a_checkpoint_says_which_it_has(partition: Path) -> None:
    state, operator = partition.parents[1], partition.parent
    for path in (state / "9", state / "a", operator / "9", operator / "left", partition / "no"):
        with pytest.raises(NoStoreError) as caught:
            kst.open_store(path)
        assert str(partition) in str(caught.value)


def test_without_a_commit_there_is_no_state(partition: Path) -> None:
    for commit in (partition.parents[2] / "commits").iterdir():
        commit.unlink()
    with pytest.raises(CheckpointError, match="No micro-batch of the checkpoint"):
        kst.open_store(partition)
    [found] = kst.discover(partition)
    assert found.versions is None
    assert "no batch" in found.unknown["kind"]


def test_a_batch_that_is_not_committed_is_not_read(partition: Path) -> None:
    (partition.parents[2] / "commits" / "3").unlink()
    with opened(partition) as store:
        assert (store.version, store.versions) == (3, [1, 2, 3])


def test_tables_of_a_snapshot_are_held_where_they_lie_and_what_is_unpacked_is_bounded(
    partition: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(partition, scratch=scratch) as store:
        assert counts(store) == LATEST
        tables = list(scratch.rglob("*.sst"))
        assert {each.resolve().parent for each in tables if each.is_symlink()} == {
            partition / "SSTs"
        }
        assert {each.stat().st_nlink for each in partition.glob("SSTs/*")} == {1}
    usage: Any = shutil.disk_usage(scratch)._replace(free=4 << 10)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with (
        opened(partition, scratch=scratch) as store,
        pytest.raises(StoreResourceError, match=r"KiB are to be copied .* more than half"),
    ):
        counts(store)
    assert not list(scratch.iterdir())


def test_a_partition_that_nobody_asks_lets_deleted_tables_go_and_is_read_anew(
    partition: Path, scratch: Path
) -> None:
    with opened(partition, scratch=scratch) as store:
        assert counts(store) == LATEST
        (state,) = store._held.values()
        state._asked_at -= 100
        state.let_go_if_idle()
        were_held = not state.is_let_go  # as nothing was deleted
        for each in partition.glob("SSTs/*"):
            held = each.read_bytes()
            each.unlink()
            each.write_bytes(held)
        state.let_go_if_idle()
        assert (were_held, state.is_let_go) == (True, True)
        assert not list(scratch.iterdir())
        assert counts(store) == LATEST


def test_nothing_of_the_checkpoint_changes_and_nothing_is_left(
    partition: Path, scratch: Path
) -> None:
    root = partition.parents[2]
    before = appearance(root)
    with opened(partition, scratch=scratch) as store:
        assert counts(store) == LATEST
        assert counts(store.at(2)) != LATEST
        assert len(list(scratch.iterdir())) == 2
    assert list(scratch.iterdir()) == []
    assert appearance(root) == before
    with pytest.raises(StoreClosedError):
        store.rows().count()
    with pytest.raises(StoreClosedError):
        store.at(2)


def test_closing_in_the_middle_of_the_rows_is_said(partition: Path) -> None:
    store = opened(partition)
    rows = store.source.parts[0].opened().rows()
    next(rows)
    store.close()
    with pytest.raises(StoreClosedError):
        next(rows)


def replaced(name: str, edit: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def replace(partition: Path) -> None:
        path = partition / name
        path.write_bytes(edit(path.read_bytes()))

    return replace


def without_sst(partition: Path) -> None:
    next((partition / "SSTs").iterdir()).unlink()


def with_a_short_sst(partition: Path) -> None:
    cut(next((partition / "SSTs").iterdir()))


def with_member(name: str, content: bytes) -> Callable[[Path], None]:
    def add(partition: Path) -> None:
        with ZipFile(partition / "2.zip", "a", compression=8) as archive:
            archive.writestr(name, content)

    return add


def with_a_bomb(partition: Path) -> None:
    zeros = bytes(1 << 20)
    with (
        ZipFile(partition / "2.zip", "a", ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("000009.log", "w") as member,
    ):
        for _ in range(300):
            member.write(zeros)


def with_table_named(name: str) -> Callable[[Path], None]:
    """Have the metadata call a table by another name, as one that RocksDB writes to."""

    def edit(partition: Path) -> None:
        path = partition / "2.zip"
        with ZipFile(path) as archive:
            members = {each: archive.read(each) for each in archive.namelist()}
        head, _, told = members["metadata"].partition(b"\n")
        found = json.loads(told)
        found["sstFiles"][0]["localFileName"] = name
        members["metadata"] = head + b"\n" + json.dumps(found).encode()
        with ZipFile(path, "w") as archive:
            for each, raw in members.items():
                archive.writestr(each, raw)

    return edit


DAMAGES: dict[str, tuple[Callable[[Path], None], type[KstoolkitError], str]] = {
    "no SST": (without_sst, MissingFileError, r"needs SSTs/\S+, which is missing"),
    "a short SST": (with_a_short_sst, DamagedStoreError, r"bytes, and it has"),
    "a cut zip": (lambda at: cut(at / "2.zip"), FormatError, r"2\.zip: A snapshot of .* no zip"),
    "a zip bomb": (with_a_bomb, FormatError, r"files of 3\d\d,\d{3},\d{3} bytes, which is more"),
    "a way out": (with_member("../../evil", b"x"), FormatError, r"a file '../../evil'"),
    "a table called CURRENT": (with_table_named("CURRENT"), FormatError, "'CURRENT' in SSTs"),
    "a cut changelog": (lambda at: cut(at / "3.changelog"), FormatError, r"3\.changelog: "),
    "no changelog": (lambda at: (at / "3.changelog").unlink(), MissingFileError, "of version 3"),
    "a newer schema": (
        replaced("_metadata/schema", lambda raw: raw.replace(b"v2", b"v9", 1)),
        FormatError,
        "version 9: this kstoolkit reads up to version",
    ),
    "no schema": (
        lambda at: (at / "_metadata" / "schema").unlink(),
        MissingFileError,
        "lacks the file",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_said_and_nothing_is_left(partition: Path, scratch: Path, damage: str) -> None:
    harm, kind, told = DAMAGES[damage]
    harm(partition)
    before = appearance(partition.parents[2])
    with opened(partition, scratch=scratch) as store, pytest.raises(kind, match=told):
        store.rows().count()
    assert list(scratch.iterdir()) == []
    assert appearance(partition.parents[2]) == before
    kst.discover(partition.parents[2])


def test_versions_beside_a_damaged_one_can_be_read(partition: Path) -> None:
    cut(partition / "4.changelog")
    with opened(partition) as store:
        assert counts(store.at(3)) == {"Anna": 1, "Cy": 3, "Dee": 4}


def test_what_cannot_be_linked_is_copied(
    partition: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    with opened(partition, scratch=scratch) as store:
        assert counts(store) == LATEST


def test_two_versions_can_be_compared(partition: Path) -> None:
    with opened(partition) as store, kst.diff_stores(store.at(2), store.at(4)) as diff:
        assert str(diff.counts) == "2 added, 1 removed, 1 changed, 1 equal"
        told = {each["key"]["user"]: each["change"] for each in map(json.loads, diff.json_lines())}
        assert told == {"Aaron": "added", "Dee": "added", "Bo": "removed", "Anna": "changed"}


def test_growth_tells_who_takes_the_room(partition: Path) -> None:
    grown = kst.growth(partition)
    assert (grown.num_rows, grown.num_keys, grown.kind) == (4, 4, "aggregation")
    assert {each.key for each in grown.keys} == LATEST.keys()
    assert grown.size_bytes is not None


def test_every_store_of_a_checkpoint_is_found(partition: Path) -> None:
    root = partition.parents[2]
    [found] = kst.discover(root.parent)
    assert (found.engine, found.application, found.store) == ("spark", "query", "default")
    assert (found.operator, found.partition, found.versions) == (0, 0, (1, 4))
    assert (found.path, found.kind) == (str(partition), "aggregation")
    files = [each for each in partition.rglob("*") if each.is_file()]
    assert found.size_bytes == sum(each.stat().st_size for each in files)
    assert found.num_entries is None
    assert "since the latest snapshot" in found.unknown["num_entries"]
    assert [each.path for each in kst.discover(partition)] == [str(partition)]


def test_a_snapshot_tells_how_many_rows_there_are(partition: Path) -> None:
    for batch in (2, 3):
        (partition.parents[2] / "commits" / str(batch)).unlink()
    [found] = kst.discover(partition)
    assert (found.versions, found.num_entries) == ((1, 2), 3)


def test_an_operator_without_metadata_is_found_with_why(partition: Path) -> None:
    (partition.parent / "_metadata" / "metadata").unlink()
    [found] = kst.discover(partition.parents[2])
    assert found.kind is None
    assert "lacks the file" in found.unknown["kind"]
    with pytest.raises(MissingFileError, match=r"lacks the file .*\nHint: Spark before 4\.0"):
        kst.open_store(partition)


def test_what_a_newer_spark_wrote_is_not_said_to_be_of_a_newer_kstoolkit(partition: Path) -> None:
    path = partition.parent / "_metadata" / "metadata"
    path.write_bytes(path.read_bytes().replace(b"v1", b"v7", 1))
    with pytest.raises(FormatError, match=r"version 7: .*\nHint: A newer Spark wrote it"):
        kst.open_store(partition)


def test_rows_and_stores_are_printed(partition: Path) -> None:
    told = CliRunner().invoke(app, ["rows", str(partition), "--json"], catch_exceptions=False)
    rows = [json.loads(line) for line in told.stdout.splitlines()]
    assert {row["key"]["user"]: row["value"]["count"] for row in rows} == LATEST
    assert all(row["key_hex"] == key_of(row["key"]["user"])[1:].hex() for row in rows)
    assert all(row["value_hex"] == value_of(row["value"]["count"])[1:].hex() for row in rows)
    found = CliRunner().invoke(app, ["stores", str(partition.parents[2])], catch_exceptions=False)
    assert "aggregation" in found.stdout


def test_the_keys_are_as_many_as_the_latest_snapshot_counted(partition: Path) -> None:
    with opened(partition) as store:
        told = store.count()
        assert (told.num_keys, told.version, told.is_current) == (3, 2, False)
        assert repr(told) == "KeyCount(3 keys at version 2, and what changed since)"
        assert store.count(exact=True) == len(LATEST)
        at_snapshot = store.at(2).count()
        assert (at_snapshot.num_keys, at_snapshot.version, at_snapshot.is_current) == (3, 2, True)
        assert (store.rows().count(exact=False), store.rows().count()) == (3, len(LATEST))
        assert store.at(1).rows().count(exact=False) == 1
        assert store.family("default").rows().count(exact=False) == len(LATEST)
        [unknown] = [each for each in store.at(1).count().figures() if each.name == "num_keys"]
        assert "made of changes alone" in unknown.text
        assert {str(each.source) for each in told.figures()} == {"store on disk"}
    with pytest.raises(StoreClosedError):
        store.count()


def test_the_keys_of_all_partitions_are_summed(partition: Path) -> None:
    other = partition.with_name("1")
    shutil.copytree(partition, other)
    make_snapshot(other, 4, LATEST)
    with opened(partition.parent) as store:
        told = store.count()
        assert (told.num_keys, told.version, told.is_current) == (3 + 4, 2, False)
        assert store.count(exact=True) == 4 + 4


def test_a_damaged_snapshot_tells_no_count(partition: Path) -> None:
    cut(partition / "2.zip")
    with opened(partition) as store, pytest.raises(FormatError, match=r"2\.zip"):
        store.count()


def test_the_columns_of_all_partitions_are_there_without_a_row(partition: Path) -> None:
    with opened(partition.parent) as store:
        nothing = store.rows(since="2025-01-01").to_arrow()
        assert len(nothing) == 0
        assert nothing.schema.field("partition") == store.rows().to_arrow().schema.field(
            "partition"
        )
        first = next(iter(store.rows()))
        assert first.to_dict("counts")["partition"] == 0
        assert str(first).endswith("(partition 0)")
