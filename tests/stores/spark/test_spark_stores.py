"""Stores in the checkpoints of real queries: found, opened by their folders, family by family."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import kstoolkit as kst
from kstoolkit.errors import ConfigurationError
from kstoolkit.rocksdb.faults import ColumnFamilyError
from kstoolkit.stores.spark.sparkstore import SparkStore
from tests.rocksdb.madestores import appearance

if TYPE_CHECKING:
    from pathlib import Path

    from tests.formats.spark.checkpoints import Checkpoints

pytestmark = pytest.mark.spark

JOIN_STORES = {
    "left-keyToNumValues": "stream-stream join: left, number of rows by key",
    "left-keyWithIndexToValue": "stream-stream join: left, rows by key and index",
    "right-keyToNumValues": "stream-stream join: right, number of rows by key",
    "right-keyWithIndexToValue": "stream-stream join: right, rows by key and index",
}


def opened(path: Path, **told: str) -> SparkStore:
    store = kst.open_store(path, **told)
    assert isinstance(store, SparkStore)
    return store


def families_of(store: SparkStore, *, internal: bool = False) -> set[str | None]:
    rows = list(store.rows(internal=internal))
    assert all("family" in row.beside for row in rows)
    return {row.family for row in rows}


@pytest.mark.parametrize(
    ("query", "way", "kind"),
    [
        ("count", "snapshots", "aggregation"),
        ("window", "changelogs", "windowed aggregation"),
        ("session", "changelogs", "session window"),
        ("dedup", "snapshots", "deduplication"),
        ("dedup within", "changelogs in snappy", "deduplication within the watermark"),
        ("join 4", "format 2", "stream-stream join"),
        ("remembering", "changelogs", "transformWithState: "),
    ],
)
def test_the_kind_is_what_the_query_does(
    checkpoints: Checkpoints, query: str, way: str, kind: str
) -> None:
    checkpoint = checkpoints.make(query, way)
    before = appearance(checkpoint)
    found = kst.discover(checkpoint)
    operator = checkpoint / "state" / "0"
    assert {each.partition for each in found} == {
        int(each.name) for each in operator.iterdir() if each.name.isdigit()
    }
    for each in found:
        assert (each.engine, each.application, each.operator) == ("spark", checkpoint.name, 0)
        assert each.kind is not None
        assert each.kind.startswith(kind)
        with opened(checkpoint / each.path) as store:
            assert (store.versions[0], store.versions[-1]) == each.versions
            assert store.kind == each.kind
            if each.num_entries is not None:
                assert store.rows(internal=True).count() == each.num_entries
    assert appearance(checkpoint) == before


def test_the_variables_of_an_operator_are_told(checkpoints: Checkpoints) -> None:
    [found] = kst.discover(checkpoints.make("remembering", "changelogs"))
    _, _, names = (found.kind or "").partition(": ")
    assert set(names.split(", ")) == {"total", "seen", "by_n"}


def test_the_four_stores_of_a_join_are_stores_of_their_own_and_families_of_one(
    checkpoints: Checkpoints,
) -> None:
    checkpoint = checkpoints.make("join 2", "snapshots")
    found = [each for each in kst.discover(checkpoint) if each.partition == 0]
    assert {each.store: each.kind for each in found} == JOIN_STORES
    with opened(checkpoint / "state" / "0" / "0") as store:
        assert (store.name, store.kind) == ("symmetricHashJoin", "stream-stream join")
        assert families_of(store) == JOIN_STORES.keys()
        assert store.rows().count() == sum(each.num_entries or 0 for each in found)
    with opened(checkpoint / "state" / "0" / "0" / "left-keyToNumValues") as store:
        assert store.name == "left-keyToNumValues"
        assert store.rows().count() == found[0].num_entries


def test_rows_are_those_of_the_users_variables_unless_all_are_asked_for(
    checkpoints: Checkpoints,
) -> None:
    with opened(checkpoints.make("remembering", "changelogs") / "state" / "0" / "0") as store:
        assert families_of(store) == {"total", "seen", "by_n"}
        every = families_of(store, internal=True)
        assert every == store.families.keys()
        assert "$eventTimers_keyToTimestamp" in every
        table = store.rows().to_arrow()
        assert set(table["family"].to_pylist()) == {"total", "seen", "by_n"}
        assert '"family": "total"' in next(iter(store.rows().json_lines()))


def test_a_time_that_a_row_expires_at_is_not_shown_as_its_own(checkpoints: Checkpoints) -> None:
    for query, is_expiry in (("dedup within", True), ("forgetting", True), ("dedup", False)):
        with opened(checkpoints.make(query, "changelogs") / "state" / "0") as store:
            rows = [row for row in store.rows() if row.timestamp_ms is not None]
            assert rows or not is_expiry
            assert {row.is_expiry for row in rows} <= {is_expiry}
            assert all((" until 20" in str(row)) == is_expiry for row in rows)


def test_one_family_can_be_chosen(checkpoints: Checkpoints) -> None:
    path = checkpoints.make("remembering", "changelogs") / "state" / "0" / "0"
    with opened(path) as store, opened(path, column_family="total") as chosen:
        totals = [row for row in store.rows() if getattr(row, "family", None) == "total"]
        assert [str(row) for row in store.family("total").rows()] == [str(row) for row in totals]
        assert [str(row) for row in chosen.rows()] == [str(row) for row in totals]
        found = store.family("total").rows(key=totals[0].key_bytes)
        assert [row.key for row in found] == [totals[0].key]
        timers = store.family("$eventTimers_timestampToKey").rows()
        assert all(row.timestamp_ms is not None for row in timers)
        with pytest.raises(ColumnFamilyError, match=r"'no-such'.*\nHint: It has: .*total"):
            store.family("no-such")


def test_keys_of_several_families_are_not_asked_for_by_their_bytes(
    checkpoints: Checkpoints,
) -> None:
    with opened(checkpoints.make("remembering", "changelogs") / "state" / "0" / "0") as store:
        for internal in (False, True):
            with pytest.raises(ConfigurationError, match=r"each has its own .*\nHint: .*total"):
                store.rows(key=b"any", internal=internal)


@pytest.mark.parametrize(
    ("query", "family"),
    [
        ("count", None),
        ("window", None),
        ("dedup", None),
        ("session", None),
        ("types", None),
        ("remembering", "total"),
        ("remembering", "by_n"),
        ("join 3", "left-keyWithIndexToValue"),
        ("join 4", "left-keyWithTsToValues"),
    ],
)
def test_each_key_is_written_as_spark_wrote_it(
    checkpoints: Checkpoints, query: str, family: str | None
) -> None:
    path = checkpoints.make(query, "changelogs") / "state" / "0"
    with kst.open_store(path, column_family=family) as store:
        rows = list(store.rows())
        assert rows
        for row in rows[:20]:
            assert store.key_serde.encode is not None
            assert store.key_serde.encode(row.key) == row.key_bytes
        assert rows[0].key in [row.key for row in store.rows(key=rows[0].key)]


def test_rows_are_found_by_some_columns_of_their_keys(checkpoints: Checkpoints) -> None:
    path = checkpoints.make("window", "changelogs")
    with kst.open_store(path) as store:
        rows = list(store.rows())
        assert re.search(r'"window": {"start": "2025-01-01 00:\d\d:00", "end": "2025', str(rows[0]))
        by_user = [row for row in rows if row.key["user"] == "Anna"]
        assert 0 < len(by_user) < len(rows)
        assert list(store.rows(key={"user": "Anna"})) == by_user
        assert list(store.rows(key={"user": "Anna"}, limit=1)) == by_user[:1]
        window = by_user[0].key["window"]
        told = {name: moment.isoformat() for name, moment in window.items()}
        in_window = [row for row in rows if row.key["window"] == window]
        assert list(store.rows(key={"window": told})) == in_window
        assert store.rows(key={"user": "Anna"}).count(exact=False) == len(by_user)
        assert store.rows(key={"user": None}).count() == 0
        with pytest.raises(ConfigurationError, match="5 can't be written as the type string"):
            store.rows(key={"user": 5})
        chosen = store.rows(key={"user": "Anna"})
        with kst.diff_stores(chosen, store) as diff:
            assert (diff.added, diff.removed) == (len(rows) - len(by_user), 0)


def test_serdes_of_the_users_read_the_rows_of_all_families(checkpoints: Checkpoints) -> None:
    path = checkpoints.make("remembering", "changelogs") / "state" / "0" / "0"
    with opened(path, value_serde="bytes") as told, opened(path) as asked:
        for rows in (told.rows(), asked.rows(value_serde="bytes")):
            assert all(row.value == row.value_bytes for row in rows)


def test_versions_of_a_variable_can_be_compared(checkpoints: Checkpoints) -> None:
    with opened(checkpoints.make("remembering", "changelogs") / "state" / "0" / "0") as store:
        before, after = store.at(2), store.at(3)
        totals = [
            {row.key["user"]: row.value["total"] for row in each.family("total").rows()}
            for each in (before, after)
        ]
        with kst.diff_stores(before.family("total"), after.family("total")) as diff:
            assert diff.added == len(totals[1].keys() - totals[0].keys())
            changed = [user for user in totals[0] if totals[0][user] != totals[1][user]]
            assert diff.changed == len(changed) > 0
        with kst.diff_stores(before, after) as diff:
            assert diff.added + diff.removed + diff.changed > len(changed)
            assert all("user" in str(each) for each in diff)


def test_an_operators_partitions_are_read_one_after_the_other(checkpoints: Checkpoints) -> None:
    operator = checkpoints.make("window", "HDFS") / "state" / "0"
    with opened(operator) as store:
        apart = 0
        for partition in store.partitions:
            with opened(operator / str(partition)) as one:
                apart += one.rows().count()
        assert store.rows().count() == apart > 0


def test_rows_of_a_window_can_be_asked_for(checkpoints: Checkpoints) -> None:
    with opened(checkpoints.make("window", "changelogs") / "state" / "0") as store:
        [first, *_] = store.rows()
        assert first.window_start_ms is not None
        same = list(store.rows(window=first.window_start_ms))
        assert {row.window_start_ms for row in same} == {first.window_start_ms}
        assert len(same) == sum(
            row.window_start_ms == first.window_start_ms for row in store.rows()
        )


def test_growth_is_measured_on_variables_of_several_kinds(checkpoints: Checkpoints) -> None:
    path = checkpoints.make("remembering", "changelogs") / "state" / "0" / "0"
    with opened(path) as store:
        assert kst.growth(store).num_rows == store.rows().count()
