"""Files as records: each line as it is, and whose and of when it is as the readers say."""

from __future__ import annotations

import base64
import csv
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.errors import ColumnError
from kstoolkit.events.jsonobjects import json_objects
from kstoolkit.events.judging import Limits
from kstoolkit.events.pieces import Columns
from kstoolkit.events.rawrecords import RawRecords, read_raw_records, simulated_records
from kstoolkit.events.reading import read_events
from kstoolkit.events.simulator import simulate

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = Columns("time", "user", "action")
NOW_MS = 2_000_000_000_000


def every(path: Path, columns: Columns = COLUMNS) -> RawRecords:
    """Return a file's records at once."""
    found = list(read_raw_records(str(path), columns))
    return RawRecords(
        [value for part in found for value in part.values],
        [user for part in found for user in part.users],
        np.concatenate([part.time_ms for part in found]),
        np.concatenate([part.has_time for part in found]),
    )


def people(records: RawRecords) -> list[str | None]:
    return [None if each is None else each.decode() for each in records.users]


def test_lines_and_rubbish_keep_their_order_and_bytes(tmp_path: Path) -> None:
    lines = [b'{"time": 1, "user": "Ann"}', b"{", b"\xff", b'{"time": "x", "user": 7}', b"  a "]
    path = tmp_path / "a.json"
    path.write_bytes(b"\xef\xbb\xbf" + b"\r\n \t\n".join(lines))
    found = every(path)
    assert found.values == lines
    assert people(found) == ["Ann", None, None, "7", None]
    assert found.time_ms[found.has_time].tolist() == [1_000]
    assert found.has_time.tolist() == [True, False, False, False, False]


def test_a_wrong_line_among_thousands_is_the_only_one_without_a_user(tmp_path: Path) -> None:
    lines = [b'{"time": %d, "user": "u%d"}' % (n, n % 9) for n in range(5_000)]
    lines[1_234] = b'{"time": 5, "user": '
    (tmp_path / "a.json").write_bytes(b"\n".join(lines))
    found = every(tmp_path / "a.json")
    assert found.values == lines
    assert [place for place, user in enumerate(found.users) if user is None] == [1_234]
    assert found.time_ms.tolist() == [0 if n == 1_234 else n * 1_000 for n in range(5_000)]


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x1a"), max_size=8)
RECORD = st.fixed_dictionaries(
    {},
    optional={
        "time": st.one_of(st.integers(1, 10**10), st.just("2026-03-01T00:00:01Z"), TEXT),
        "user": st.one_of(TEXT, st.integers(-5, 5), st.booleans(), st.none(), st.lists(TEXT)),
        "action": TEXT,
    },
)
LINE = st.one_of(
    RECORD.map(lambda record: json.dumps(record).encode()),
    st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"").replace(b"\r", b"")),
)


@given(st.lists(LINE, max_size=12))
def test_whoever_is_an_event_s_user_is_the_key_of_its_record(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_bytes(b"[]\n" + b"\n".join(lines))  # no line but the first may begin with a mark
    found = every(path)
    assert found.values == [b"[]", *(line for line in lines if line and not line.isspace())]
    keyed = [
        (user, int(time_ms))
        for user, time_ms, has_time in zip(
            people(found), found.time_ms, found.has_time, strict=True
        )
        if user is not None and has_time
    ]
    read = list(read_events(str(path), COLUMNS, now_ms=NOW_MS, limits=Limits()))
    events = [
        (user, int(time_ms))
        for good in read
        for user, time_ms in zip(good.users.to_pylist(), good.time_ms, strict=True)
    ]
    assert [each for each in events if each not in keyed] == []


@given(st.lists(st.tuples(TEXT, TEXT, TEXT), max_size=8))
def test_rows_of_csv_are_objects_that_say_the_same(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, str]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([("time", "user", "note"), *rows])
    told = list(read_raw_records(str(path), Columns("time", "user", "user")))
    values = [json.loads(value) for part in told for value in part.values]
    assert values == [dict(zip(("time", "user", "note"), row, strict=True)) for row in rows]
    assert [user for part in told for user in people(part)] == [user or None for _, user, _ in rows]


def test_a_header_without_the_user_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("time,usr\n1,2\n")
    pq.write_table(pa.table({"time": [1], "usr": ["Ann"]}), tmp_path / "a.parquet")
    for name in ("a.csv", "a.parquet"):
        with pytest.raises(ColumnError, match="No column 'user'"):
            list(read_raw_records(str(tmp_path / name), Columns("time", "user", "user")))


def test_a_file_of_nothing_has_no_records(tmp_path: Path) -> None:
    for name in ("a.json", "a.csv"):
        (tmp_path / name).touch()
        assert list(read_raw_records(str(tmp_path / name), COLUMNS)) == []


def test_a_simulation_s_records_are_its_events() -> None:
    simulation = simulate(event_count=30_000, users=40)
    parts = list(simulated_records(simulation))
    events = simulation.events()
    assert len(parts) > 1
    assert [user for part in parts for user in people(part)] == events["user"].to_pylist()
    times = [int(each) for part in parts for each in part.time_ms]
    assert times == events["time"].cast(pa.int64()).to_pylist()
    assert json.loads(parts[1].values[-1])["user"] == parts[1].users[-1].decode()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("column", "told"),
    [
        (pa.array([1, None], pa.int8()), [1, None]),
        (pa.array([2**63], pa.uint64()), [2**63]),
        (pa.array([1.5, float("inf"), float("nan"), None]), [1.5, None, None, None]),
        (pa.array([True, None]), [True, None]),
        (pa.array([Decimal("1.10")]), [1.1]),
        (pa.array(['"\\\n\x00', "", None, "é"]), ['"\\\n\x00', "", None, "é"]),
        (pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
        (pa.array(["a"], pa.large_string()), ["a"]),
        (pa.array(["a"], pa.string_view()), ["a"]),
        (pa.array([b"a\xff", b"b"]), [base64.b64encode(b"a\xff").decode(), "b"]),
        (pa.array([b"Zo\xeb", b"Zo"]).view(pa.string()), [None, "Zo"]),
        (pa.array([date(2026, 3, 1)]), ["2026-03-01"]),
        (pa.array([datetime(2026, 3, 1, 5, tzinfo=UTC)]), ["2026-03-01T05:00:00.000000Z"]),
        (pa.array([0], pa.timestamp("s")), ["1970-01-01T00:00:00"]),
        (pa.array([0], pa.timestamp("ms", "America/New_York")), ["1970-01-01T00:00:00.000Z"]),
        (pa.array([[1, None], []]), [[1, None], []]),
        (pa.array([{"a": {"b": float("nan")}}]), [{"a": {"b": None}}]),
        (pa.nulls(2), [None, None]),
        (pa.array([], pa.string()), []),
    ],
)
def test_a_value_of_any_type_is_json(column: pa.Array, told: list[Any]) -> None:
    rows = pa.RecordBatch.from_arrays([column, column], names=["0", "1"])
    found = [json.loads(each) for each in json_objects(rows, ['a "name"', "é"])]
    assert found == [{'a "name"': each, "é": each} for each in told]
