"""Files as records: each line as it is, and whose and of when it is as the readers say."""

from __future__ import annotations

import base64
import csv
import gzip
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.errors import ColumnError, ConfigurationError, OutputError
from kstoolkit.events.event import Columns, Limits
from kstoolkit.events.files import read_events
from kstoolkit.events.records import (
    RawRecords,
    _json_objects,
    read_raw_records,
    records_of,
    replacing,
)
from kstoolkit.events.simulator import _EVENTS_SCHEMA, Simulation, simulate

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.events.opening import FileFormat
    from kstoolkit.events.records import Compression


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
        for good, _ in read
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
    parts = list(records_of(simulation.events()))
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
    found = [json.loads(each) for each in _json_objects(rows, ['a "name"', "é"])]
    assert found == [{'a "name"': each, "é": each} for each in told]


ODD_ACTIONS = (
    'say "hi", twice',
    "two\nlines",
    "a\rb",
    "naïve ⚙",
    "back\\slash",
    " spaced ",
    "\t",
    "😀",
)
FORMATS = ["json", "csv", "parquet"]
COMPRESSIONS = [None, "gzip", "zstd"]


@pytest.fixture(scope="module")
def simulation() -> Simulation:
    start = datetime(2026, 3, 2, tzinfo=UTC)
    return simulate(event_count=3_000, users=60, start=start, actions=ODD_ACTIONS)


def read(path: Path) -> pa.Table:
    if path.suffix == ".parquet":
        return pa.parquet.read_table(path)
    with pa.input_stream(str(path), compression="detect") as stream:
        if ".csv" in path.name:
            return pa.csv.read_csv(
                stream,
                parse_options=pa.csv.ParseOptions(newlines_in_values=True),
                convert_options=pa.csv.ConvertOptions(column_types=_EVENTS_SCHEMA),
            )
        rows = [json.loads(line) for line in stream.read().splitlines()]
    times = [datetime.fromisoformat(row["time"]) for row in rows]
    return pa.table(
        [times, [row["user"] for row in rows], [row["action"] for row in rows]],
        schema=_EVENTS_SCHEMA,
    )


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("file_format", FORMATS)
def test_files_read_back_as_the_events(
    simulation: Simulation, tmp_path: Path, file_format: FileFormat, compression: Compression | None
) -> None:
    *paths, _ = simulation.write(
        tmp_path / "events", format=file_format, compression=compression, files=3
    )
    assert len(paths) == 3
    assert pa.concat_tables([read(path) for path in paths]).equals(simulation.events())


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("file_format", FORMATS)
def test_files_are_the_same_bytes_each_time(
    simulation: Simulation, tmp_path: Path, file_format: FileFormat, compression: Compression | None
) -> None:
    def bytes_in(folder: str) -> list[bytes]:
        target = tmp_path / folder / "events"
        paths = simulation.write(target, format=file_format, compression=compression, files=2)
        return [path.read_bytes() for path in paths]

    assert bytes_in("one") == bytes_in("other")


def test_a_gzip_file_carries_no_time_and_no_name(simulation: Simulation, tmp_path: Path) -> None:
    path = simulation.write(tmp_path / "events")[0]
    assert path.read_bytes()[:10] == bytes.fromhex("1f8b08000000000002ff")


def test_gzip_files_hold_the_plain_ones(simulation: Simulation, tmp_path: Path) -> None:
    plain = simulation.write(tmp_path / "plain" / "events", compression=None)[0]
    packed = simulation.write(tmp_path / "packed" / "events")[0]
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()


def test_labels_lie_beside_the_events_not_among_them(
    simulation: Simulation, tmp_path: Path
) -> None:
    *paths, labels = simulation.write(tmp_path / "events", files=2)
    assert labels == tmp_path / "labels.json"
    assert sorted((tmp_path / "events").iterdir()) == paths
    rows = [json.loads(line) for line in labels.read_text(encoding="utf-8").splitlines()]
    table = simulation.labels()
    assert [row["user"] for row in rows] == table["user"].to_pylist()
    assert [row["action"] for row in rows] == table["action"].to_pylist()
    assert [datetime.fromisoformat(row["since"]) for row in rows] == table["since"].to_pylist()
    assert sum(row["extra_events"] for row in rows) == sum(table["extra_events"].to_pylist())


def test_spark_and_others_read_the_time_as_iso_8601(simulation: Simulation, tmp_path: Path) -> None:
    path = simulation.write(tmp_path / "events", compression=None)[0]
    first = json.loads(path.read_text(encoding="utf-8").split("}\n", 1)[0] + "}")
    assert list(first) == ["time", "user", "action"]
    assert first["time"].endswith("Z")
    assert len(first["time"]) == len("2026-03-02T09:00:00.000Z")


def test_writing_again_replaces_the_files(simulation: Simulation, tmp_path: Path) -> None:
    first = simulation.write(tmp_path / "events", files=2)
    assert simulation.write(tmp_path / "events", files=2) == first


def test_other_events_in_the_folder_are_not_mixed_with_these(
    simulation: Simulation, tmp_path: Path
) -> None:
    simulation.write(tmp_path / "events", files=3)
    with pytest.raises(OutputError, match=r"already holds events-003\.json\.gz"):
        simulation.write(tmp_path / "events", files=2)


def test_a_folder_that_is_a_file_is_said(simulation: Simulation, tmp_path: Path) -> None:
    (tmp_path / "events").write_text("in the way")
    with pytest.raises(OutputError, match="Can't write"):
        simulation.write(tmp_path / "events")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"format": "avro"}, "no format 'avro'"),
        ({"compression": "lz4"}, "no compression 'lz4'"),
        ({"files": 0}, "don't fill 0 files"),
        ({"files": 100_000}, "don't fill 100,000 files"),
    ],
)
def test_what_can_not_be_written_is_said_before_anything_is(
    simulation: Simulation, tmp_path: Path, wrong: dict[str, object], says: str
) -> None:
    with pytest.raises(ConfigurationError, match=says):
        simulation.write(tmp_path / "events", **wrong)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_fails_half_way_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("before")

    def fail() -> None:
        with replacing(path) as out:
            out.write(b"half")
            message = "No space left on device"
            raise OSError(message)

    with pytest.raises(OutputError, match="No space left on device"):
        fail()
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
