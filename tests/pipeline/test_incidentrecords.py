"""What a topic is told of incidents, batch by batch, against all that there is at each time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kstoolkit.changelog.changelog import BatchFolders
from kstoolkit.findings.finding import FINDINGS_SCHEMA
from kstoolkit.findings.incidents import incidents_of
from kstoolkit.pipeline.incidentrecords import KEPT, changed_incidents, told_findings
from tests.changelog.changelogs import HOUR
from tests.report.made import TEN, unusual

if TYPE_CHECKING:
    from pathlib import Path

_BESIDE = {"mark", "newcomers"}
BATCHES = st.lists(
    st.tuples(
        st.lists(
            st.tuples(st.sampled_from("abc"), st.integers(0, 40), st.sampled_from([0, -7])),
            max_size=3,
        ),
        st.integers(0, 8),
        st.booleans(),
        st.booleans(),
    ),
    max_size=8,
)


class Told:
    """A run's folder that is filled batch by batch, and what a consumer holds of its topic."""

    def __init__(self, out: Path) -> None:
        self.out, self.held = out, dict[str, Any]()
        self.records: list[tuple[str, str | None]] = []
        self.statistics = BatchFolders(out / "statistics")

    def batch(
        self, number: int, found: list[dict[str, Any]], now: dict[str, int], epoch: int = 0
    ) -> list[tuple[str, str | None]]:
        findings = BatchFolders(self.out / "findings")
        place = findings.begin(epoch, number) / "part-00000.parquet"
        pq.write_table(pa.Table.from_pylist(found, FINDINGS_SCHEMA), place)
        kept = self.statistics.folder(epoch, number) / KEPT
        again = kept.read_bytes() if kept.exists() else b""
        after = self.statistics.begin(epoch, number)
        if again:  # as the sink does
            kept.write_bytes(again)
        folders = (self.statistics.folder(epoch, number - 1), after)
        of = (self.out, epoch, number)
        tables = [
            pq.read_table(each) for each in changed_incidents(of, [place], folders, now, None)
        ]
        told = tables[0] if tables else pa.table({"key": [], "value": []})
        findings.mark(epoch, number)
        records = list(zip(*(told[name].to_pylist() for name in ("key", "value")), strict=True))
        for key, value in records:
            self.held.pop(key, None)
            if value is not None:
                self.held[key] = json.loads(value)
        self.records += records
        return records

    def check(self, now: dict[str, int]) -> None:
        found = incidents_of(told_findings(self.out), parts=None, **now)
        assert {key: self.plain(each) for key, each in self.held.items()} == {
            f"incident:{each['id']}": self.plain(each) for each in found.to_dicts()
        }

    @staticmethod
    def plain(record: dict[str, Any]) -> dict[str, Any]:
        beside = {*_BESIDE, "record", "version"}
        return {name: value for name, value in record.items() if name not in beside}


@settings(max_examples=60, deadline=None)
@given(BATCHES)
@example([([("a", 0, -7)], 0, False, False), ([("a", 0, 0)], 0, False, True)])
def test_who_keeps_the_last_record_of_each_key_has_all_incidents(
    tmp_path_factory: pytest.TempPathFactory, batches: list[Any]
) -> None:
    told, reached = Told(tmp_path_factory.mktemp("told")), 0
    for number, (rows, more, again, forgets) in enumerate(batches):
        reached += more
        now = {"reached_ms": TEN + reached * HOUR, "clock_ms": TEN + 50 * number}
        at = {"first_seen_ms": now["clock_ms"]}
        found = [unusual(u, float(p), window_start_ms=TEN + h * HOUR, **at) for u, h, p in rows]
        if forgets:  # as a run does that told findings alone before
            told.statistics.begin(0, number - 1)
        if again:  # by other rules, and cut off before its end
            told.batch(number, found[1:] + found[:1][: number % 2], now)
        records = told.batch(number, found, now)
        if again:  # as Spark does with a batch whose end was not noted
            assert told.batch(number, found, now) == records
        told.check(now)


def test_a_record_tells_what_an_incident_is_by_now(tmp_path: Path) -> None:
    told = Told(tmp_path)
    early = {"reached_ms": TEN + HOUR, "clock_ms": TEN}
    ((key, value),) = told.batch(0, [unusual("Anna", -9, window_start_ms=TEN)], early)
    assert value is not None
    record = json.loads(value)
    assert key == f"incident:{record['id']}"
    assert list(record)[:2] == ["record", "version"]
    assert (record["record"], record["version"], record["state"]) == ("incident", 1, "open")
    assert (record["user"], record["findings"], record["peak"]) == ("Anna", 1, 61)
    assert not _BESIDE & record.keys()
    assert told.batch(1, [], early | {"clock_ms": TEN + 1}) == []  # nothing to tell, nothing sent
    ((_, value),) = told.batch(2, [], {"reached_ms": TEN + 4 * HOUR, "clock_ms": TEN + 2})
    assert value is not None
    assert json.loads(value)["state"] == "resolved"


def test_what_is_found_no_more_is_taken_back_by_a_record_without_a_value(tmp_path: Path) -> None:
    told, now = Told(tmp_path), {"reached_ms": TEN, "clock_ms": TEN}
    ((key, _),) = told.batch(0, [unusual("Anna", -9)], now)
    assert told.batch(1, [unusual("Anna", 0)], now) == [(key, None)]


def test_of_who_is_not_concerned_nothing_is_read(tmp_path: Path) -> None:
    told, now = Told(tmp_path), {"reached_ms": TEN, "clock_ms": TEN}
    told.batch(0, [unusual("Anna", -9)], now)
    assert [t.num_rows for t in told_findings(tmp_path, (0, 1), {"Bo"})] == [0]
    (file,) = (tmp_path / "findings").rglob("*.parquet")
    file.write_bytes(b"")  # would be an error to read
    assert told.batch(1, [], now) == []


def test_after_a_reset_all_incidents_are_told_again(tmp_path: Path) -> None:
    told, now = Told(tmp_path), {"reached_ms": TEN, "clock_ms": TEN}
    first = told.batch(3, [unusual("Anna", -9)], now)
    assert told.batch(0, [], now, epoch=1) == first
    told.check(now)


@pytest.mark.parametrize(
    "damage", [b"", b"\xff", b"{", b"[]", b"[{}, {}]", b"[1, 2]", b'[{"reached_ms": 1}, {"a": []}]']
)
def test_where_what_was_kept_is_damaged_all_incidents_are_told_again(
    tmp_path: Path, damage: bytes
) -> None:
    told, now = Told(tmp_path), {"reached_ms": TEN, "clock_ms": TEN}
    first = told.batch(0, [unusual("Anna", -9)], now)
    (told.statistics.folder(0, 0) / "part-incidents.json").write_bytes(damage)
    assert told.batch(1, [], now) == first
    assert told.batch(2, [], now) == []
    told.check(now)


def test_a_batch_that_is_repeated_by_other_rules_takes_back_what_it_told_before(
    tmp_path: Path,
) -> None:
    told, now = Told(tmp_path), {"reached_ms": TEN, "clock_ms": TEN}
    told.batch(0, [unusual("Anna", -9), unusual("Bo", -9)], now)
    later = {"window_start_ms": TEN + HOUR}
    told.batch(1, [unusual("Anna", -9, **later), unusual("Cy", -9), unusual("Bo", 0)], now)
    assert {each["user"] for each in told.held.values()} == {"Anna", "Cy"}
    told.batch(1, [], now)  # Anna's grew no more, nobody found Cy, and Bo's is there still
    told.check(now)
    assert {each["user"]: each["findings"] for each in told.held.values()} == {"Anna": 1, "Bo": 1}
    told.batch(1, [unusual("Cy", -9)], now)
    told.check(now)
    told.batch(2, [], now)
    told.check(now)
