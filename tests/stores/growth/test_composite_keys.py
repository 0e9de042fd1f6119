"""Users of a state that Spark wrote, added up over all windows: the events themselves say how."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

import kstoolkit as kst
from kstoolkit.errors import ConfigurationError
from kstoolkit.rocksdb.faults import ColumnFamilyError
from kstoolkit.stores.growth.fields import key_fields
from kstoolkit.stores.growth.growth import _measured_growth
from kstoolkit.stores.spark.sparkstore import SparkStore
from tests.cli.commands import given, rows
from tests.stores.growth.listedrows import Listed, found
from tests.stores.growth.sparkstate import WINDOW, by_watermark, family, state, window
from tests.stores.spark.madecheckpoints import FIRST, make_checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.formats.spark.checkpoints import Checkpoints

DATA = Path(__file__).parents[3] / "data"
HOURS = DATA / "stores" / "spark" / "hours-by-user"
NOON, HOUR = datetime(2026, 3, 3, 12, tzinfo=UTC), timedelta(hours=1)
NOON_MS, HOUR_MS = 1_772_539_200_000, 3_600_000


def _events() -> Iterator[tuple[str | None, str | None]]:
    for path in sorted((DATA / "sample").glob("*.json.gz")):
        for line in gzip.decompress(path.read_bytes()).splitlines():
            with suppress(ValueError):  # of a line that is no event, as the sample has some
                event = json.loads(line)
                yield event.get("time"), event.get("user")


@pytest.fixture(scope="module")
def hours() -> pd.DataFrame:
    """The users and hours that the query of the bundled store counted, by its own conditions."""
    events = pd.DataFrame(_events(), columns=["time", "user"]).astype("string")
    events = events[events.user.str.match("a.{0,98}$").fillna(value=False)]
    times = pd.to_datetime(events.time, utc=True, format="ISO8601")
    events = events.assign(hour=times.dt.floor("h"))[times < pd.Timestamp("2030-01-01", tz="UTC")]
    return events.drop_duplicates(["user", "hour"])


def test_users_add_up_over_all_windows_and_windows_over_all_users(hours: pd.DataFrame) -> None:
    measured = kst.growth(HOURS, top=1000)
    assert measured.by == ("user",)
    by_user = Counter(hours.user)
    assert {each.key: each.num_rows for each in measured.keys} == by_user
    by_hour = Counter(int(at.timestamp() * 1000) for at in hours.hour)
    assert {each.start_ms: each.num_rows for each in measured.windows} == by_hour
    assert {(each.end_ms or 0) - each.start_ms for each in measured.windows} == {HOUR_MS}
    assert measured.num_keys == len(by_user) == 60
    assert sum(each.data_bytes for each in measured.keys) == measured.data_bytes
    assert kst.growth(HOURS, by="user", top=1000).keys.to_dicts() == measured.keys.to_dicts()
    assert ", by user, " in repr(measured)
    [(most, count)] = by_user.most_common(1)
    assert f"<td>{most}</td>" in measured._repr_html_()
    assert measured.keys.to_pandas()[["key", "num_rows"]].iloc[0].tolist() == [most, count]


def test_an_earlier_version_adds_up_to_less() -> None:
    with kst.open_store(HOURS) as store:
        assert isinstance(store, SparkStore)
        sizes = [kst.growth(store.at(version)).num_keys or 0 for version in (1, 4, 8)]
    assert sizes == sorted(sizes)
    assert sizes[-1] == 60


def test_the_terminal_adds_up_by_a_field(hours: pd.DataFrame) -> None:
    [(most, count)] = Counter(hours.user).most_common(1)
    answer = given("growth", HOURS, "--by", "user", "--top", 1)
    assert answer.code == 0
    [head, first] = answer.out.split("\n\n")[1].splitlines()
    assert head.split() == ["largest", "keys", "by", "user", "rows", "bytes"]
    assert first.split()[:2] == [repr(most), str(count)]
    [told] = rows(given("growth", HOURS, "--by", "user", "--top", 1, "--json").out)
    assert (told["by"], told["fields"]) == (["user"], {})
    assert told["keys"][0]["num_rows"] == count
    wrong = given("growth", HOURS, "--by", "usr")
    assert wrong.code != 0
    assert "no field 'usr'" in wrong.err
    assert "Hint: Give one of user." in wrong.err


def test_keys_of_one_column_are_its_values_and_a_told_serde_reads_them_whole(
    tmp_path: Path,
) -> None:
    make_checkpoint(tmp_path / "query")
    measured = kst.growth(tmp_path / "query")
    assert {each.key for each in measured.keys} == (FIRST.keys() - {"Bo"}) | {"Dee", "Aaron"}
    with kst.open_store(tmp_path / "query", key_serde="bytes") as store:
        raw = kst.growth(store)
        assert raw.by == ()
        assert all(isinstance(each.key, bytes) for each in raw.keys)
        assert kst.growth(store, by="user").keys[0].key == measured.keys[0].key
    with (
        kst.open_store(tmp_path / "query", column_family="x") as store,
        pytest.raises(ColumnFamilyError),
    ):
        kst.growth(store)


def test_other_engines_keys_have_no_fields() -> None:
    store = DATA / "stores" / "kafka-streams" / "small-main-4_3_1" / "0_0" / "actions-1m"
    with pytest.raises(ConfigurationError, match=r"Only keys of Spark's state .* 'user'"):
        kst.growth(store, by="user")
    assert kst.growth(store).by == ()


@pytest.mark.parametrize(
    ("watermark_ms", "past", "told"),
    [
        (NOON_MS, [False, False], "0 rows past the watermark"),
        (NOON_MS + HOUR_MS - 1, [False, False], "0 rows past the watermark"),
        (NOON_MS + HOUR_MS, [True, False], "2 rows past the watermark"),
        (NOON_MS + 2 * HOUR_MS, [True, True], "3 rows past the watermark"),
        (None, [None, None], "unknown what is expired"),
    ],
)
def test_windows_are_past_once_the_watermark_reaches_their_end(
    watermark_ms: int | None, past: list[bool | None], told: str
) -> None:
    columns: dict[str, Any] = {"window": WINDOW, "user": "string"}
    first, second = window(NOON, NOON + HOUR), window(NOON + HOUR, NOON + 2 * HOUR)
    keys = [{"window": first, "user": user} for user in ("Anna", "Bo")]
    keys.append({"window": second, "user": "Anna"})
    measured = _measured_growth(
        Listed([state(columns, keys)]),
        found=found("windowed aggregation", engine="spark"),
        checkpoint=by_watermark(watermark_ms),
        fields=key_fields([family(**columns)]),
    )
    assert [each.is_past for each in measured.windows] == past
    assert all(each.unknown.keys() == {"is_past"} for each in measured.windows) == (None in past)
    assert told in repr(measured)
    assert [(each.key, each.num_rows) for each in measured.keys] == [("Anna", 2), ("Bo", 1)]


def test_of_windows_of_several_lengths_the_bounds_decide() -> None:
    columns: dict[str, Any] = {"window": WINDOW, "user": "string"}
    ends = [NOON + HOUR, NOON + 2 * HOUR]
    keys = [{"window": window(NOON, end), "user": "Anna"} for end in ends]
    for watermark, is_past in ((0, False), (1, None), (2, True)):
        measured = _measured_growth(
            Listed([state(columns, keys)]),
            found=found("windowed aggregation", engine="spark"),
            checkpoint=by_watermark(NOON_MS + watermark * HOUR_MS),
            fields=key_fields([family(**columns)]),
        )
        [use] = measured.windows
        assert (use.end_ms, use.is_past) == (None, is_past)
        assert use.unknown["end_ms"] == "how long the windows are differs"


def test_a_value_of_one_field_that_takes_most_has_a_sentence() -> None:
    columns = {"user": "string", "page": "string"}
    keys = [{"user": f"user-{n}", "page": "home" if n % 4 else f"page-{n}"} for n in range(400)]
    measured = _measured_growth(
        Listed([state(columns, keys)]),
        found=found("aggregation", engine="spark"),
        checkpoint=by_watermark(None),
        fields=key_fields([family(**columns)]),
    )
    told = [each for each in measured.verdict if each.startswith("Keys whose")]
    assert len(told) == 1
    assert told[0].startswith("Keys whose page is 'home' take 300 rows (")
    assert told[0].endswith(": 75 % of the data.")


def _told_by_spark(checkpoints: Checkpoints, path: Path, **options: str) -> list[dict[str, Any]]:
    reader = checkpoints.spark.read.format("statestore").option("path", str(path))
    told: list[dict[str, Any]] = reader.options(**options).load().toArrow().to_pylist()
    return told


def _counted(path: Path, by: str) -> dict[Any, int]:
    return {each.key: each.num_rows for each in kst.growth(path, by=by, top=1000).keys}


@pytest.mark.spark
@pytest.mark.long
def test_every_operators_users_add_up_to_what_spark_reads(checkpoints: Checkpoints) -> None:
    for query, way in (("window", "changelogs"), ("session", "snapshots"), ("dedup", "snapshots")):
        path = checkpoints.make(query, way)
        told = _told_by_spark(checkpoints, path)
        assert _counted(path, "user") == Counter(row["key"]["user"] for row in told)
    assert _counted(path, "n") == Counter(row["key"]["n"] for row in told)
    pairs = {(each.key["user"], each.key["n"]) for each in kst.growth(path, top=1000).keys}
    assert pairs == {(row["key"]["user"], row["key"]["n"]) for row in told}
    path = checkpoints.make("join 2", "snapshots")
    names = [f"{side}-keyWithIndexToValue" for side in ("left", "right")]
    names += [f"{side}-keyToNumValues" for side in ("left", "right")]
    told = [row for name in names for row in _told_by_spark(checkpoints, path, storeName=name)]
    assert _counted(path, "field0") == Counter(row["key"]["field0"] for row in told)
    for inside in ("", f"state/0/0/{names[0]}", f"state/0/{names[1]}"):
        assert kst.growth(path / inside).by == ("field0",)
    path = checkpoints.make("remembering", "changelogs")
    by_n = _told_by_spark(checkpoints, path, stateVarName="by_n")
    told = [*by_n]
    for name in ("total", "seen"):
        told += _told_by_spark(checkpoints, path, stateVarName=name)
    assert _counted(path, "user") == Counter(row["key"]["user"] for row in told)
    assert _counted(path, "n") == Counter(row["user_map_key"]["n"] for row in by_n)
