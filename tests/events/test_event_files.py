from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet
import pytest

from kstoolkit.errors import ConfigurationError, OutputError
from kstoolkit.events.event_files import replacing
from kstoolkit.events.simulator import EVENTS_SCHEMA, Simulation, simulate

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.events.event_files import Compression, FileFormat

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
                convert_options=pa.csv.ConvertOptions(column_types=EVENTS_SCHEMA),
            )
        rows = [json.loads(line) for line in stream.read().splitlines()]
    times = [datetime.fromisoformat(row["time"]) for row in rows]
    return pa.table(
        [times, [row["user"] for row in rows], [row["action"] for row in rows]],
        schema=EVENTS_SCHEMA,
    )


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("file_format", FORMATS)
def test_files_read_back_as_the_events(
    simulation: Simulation,
    tmp_path: Path,
    file_format: FileFormat,
    compression: Compression | None,
) -> None:
    *paths, _ = simulation.write(
        tmp_path / "events", format=file_format, compression=compression, files=3
    )
    assert len(paths) == 3
    assert pa.concat_tables([read(path) for path in paths]).equals(simulation.events())


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("file_format", FORMATS)
def test_files_are_the_same_bytes_each_time(
    simulation: Simulation,
    tmp_path: Path,
    file_format: FileFormat,
    compression: Compression | None,
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
