from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstoolkit.changelog import changelog as documented
from kstoolkit.changelog.changelog import DONE, FOLD, BatchFolders, Changelog, Fold, latest
from kstoolkit.changelog.countsfile import _SCHEMA, CountsFile
from kstoolkit.counters.counters import buckets_of
from kstoolkit.errors import FormatError, InputError
from tests.changelog.changelogs import (
    BUCKETS,
    HOUR,
    MINUTE,
    Rows,
    counters,
    levels,
    newest,
    read,
    rows_of,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Callable


PEOPLE = ["Anna", "Bo", "Čeněk", "d", "e e", "名前", "g", "h"]
TOLD: dict[int, Rows] = {
    MINUTE: {(MINUTE * n, user, "read"): n + 1 for n in range(3) for user in PEOPLE},
    HOUR: {(0, user, action): 70 for user in PEOPLE for action in ("read", "write")},
}
LATER: dict[int, Rows] = {
    MINUTE: {(MINUTE * 2, "Bo", "read"): 9, (MINUTE * 3, "Bo", "read"): 1},
    HOUR: {(0, "Bo", "read"): 76},
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A changelog of two batches."""
    path = tmp_path / "out" / "changelog"
    write(path, 9, TOLD)
    write(path, 10, LATER)
    return path


def bucket(user: str) -> int:
    return int(buckets_of(pa.array([user]), BUCKETS)[0])


@settings(max_examples=40)
@given(batches=st.lists(levels, max_size=5), first_of_next_epoch=st.integers(0, 5))
def test_what_is_read_is_the_newest_value_of_every_key(
    batches: list[dict[int, Rows]], first_of_next_epoch: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for number, told in enumerate(batches):
            epoch = int(number >= first_of_next_epoch)
            write(Path(folder), 9 + number - epoch * first_of_next_epoch, told, epoch=epoch)
        assert read(Path(folder)) == newest(*batches)


@given(parts=st.lists(levels, max_size=12))
def test_folding_keeps_the_newest_of_any_number_of_parts(parts: list[dict[int, Rows]]) -> None:
    hours = [part.get(HOUR, {}) for part in parts]
    told = newest(*({HOUR: rows} for rows in hours)).get(HOUR, {})
    assert rows_of(latest(counters(rows) for rows in hours)) == told


def test_a_batch_without_its_marker_is_not_read(root: Path) -> None:
    write(root, 11, {HOUR: {(0, "Bo", "read"): 99}}, marked=False)
    assert read(root) == newest(TOLD, LATER)


def test_hidden_files_are_not_read(root: Path) -> None:
    (root / "epoch=0" / "batch=10" / ".7-00003.parquet").write_bytes(b"half")
    assert read(root) == newest(TOLD, LATER)


def test_the_window_lengths_are_those_that_have_counts(root: Path) -> None:
    assert Changelog(root).window_lengths_ms() == [MINUTE, HOUR]
    write(root, 11, {1_000: {(0, "a", "x"): 1}, 2_000: {}})
    assert Changelog(root).window_lengths_ms() == [1_000, MINUTE, HOUR]


def test_a_length_that_was_not_counted_has_no_counts(root: Path) -> None:
    assert len(Changelog(root).counters(7)) == 0


def test_some_users_are_read_apart(root: Path) -> None:
    found = rows_of(Changelog(root).counters(HOUR, users={"Bo", "d", "nobody"}))
    assert found == {k: n for k, n in newest(TOLD, LATER)[HOUR].items() if k[1] in {"Bo", "d"}}
    assert len(Changelog(root).counters(HOUR, users=set())) == 0


def test_buckets_part_the_users(root: Path) -> None:
    changelog = Changelog(root)
    assert changelog.buckets() == BUCKETS
    parts = [rows_of(changelog.counters(HOUR, bucket=number)) for number in range(BUCKETS)]
    for number, part in enumerate(parts):
        assert {bucket(user) for _, user, _ in part} <= {number}
    assert {key: n for part in parts for key, n in part.items()} == read(root)[HOUR]


@pytest.mark.parametrize(("at_once", "pieces"), [(1 << 20, 1), (22, 2), (1, BUCKETS)])
def test_all_counts_are_read_in_pieces_of_other_users_each(
    root: Path, monkeypatch: pytest.MonkeyPatch, at_once: int, pieces: int
) -> None:
    monkeypatch.setattr(documented, "_AT_ONCE", at_once)
    told = [list(map(rows_of, each)) for each in Changelog(root).in_pieces(HOUR, MINUTE)]
    assert len(told) == pieces
    for number, size in enumerate((HOUR, MINUTE)):
        users = [{user for _, user, _ in each[number]} for each in told]
        assert sum(map(len, users)) == len(set().union(*users)) == len(PEOPLE)
        whole = {key: count for each in told for key, count in each[number].items()}
        assert whole == newest(TOLD, LATER)[size]


def test_of_one_user_the_row_groups_of_other_buckets_and_levels_are_left_alone(
    tmp_path: Path,
) -> None:
    folder = write(tmp_path, 0, TOLD)
    for path in folder.glob("*.parquet"):
        spoil_all_but(path, bucket("Bo"), HOUR)
    changelog = Changelog(tmp_path)
    assert set(rows_of(changelog.counters(HOUR, users={"Bo"}))) <= set(TOLD[HOUR])
    assert len(changelog.counters(HOUR, bucket=bucket("Bo"))) > 0
    with pytest.raises(FormatError, match="is damaged"):
        changelog.counters(MINUTE, users={"Bo"})
    with pytest.raises(FormatError, match="is damaged"):
        changelog.counters(HOUR)


def spoil_all_but(path: Path, held: int, window_ms: int) -> None:
    """Overwrite the pages of all row groups but those of one level of one bucket."""
    content = bytearray(path.read_bytes())
    with pq.ParquetFile(path) as file:
        groups = CountsFile.open(path).groups
        for number in range(file.num_row_groups):
            if groups[number] == (held, window_ms):
                continue
            for column in range(len(_SCHEMA)):
                chunk = file.metadata.row_group(number).column(column)
                begin = chunk.dictionary_page_offset or chunk.data_page_offset
                content[begin : begin + chunk.total_compressed_size] = (
                    b"\xff" * chunk.total_compressed_size
                )
    path.write_bytes(content)


def test_the_span_of_a_level_goes_from_its_first_start_to_its_last(root: Path) -> None:
    changelog = Changelog(root)
    assert changelog.span_ms(MINUTE) == (0, 3 * MINUTE)
    assert changelog.span_ms(HOUR) == (0, 0)
    assert changelog.span_ms(7) is None


def by_pandas(path: Path) -> None:
    pd.read_parquet(path).to_parquet(path)


def by_duckdb(path: Path) -> None:
    duckdb.sql(f"COPY (FROM '{path}') TO '{path}.new' (FORMAT parquet)")
    Path(f"{path}.new").replace(path)


def by_arrow(path: Path) -> None:
    """As pyarrow does by itself: into one row group, with the old file's metadata."""
    table = pq.read_table(path)
    assert b"kstoolkit.row_groups" in table.schema.metadata
    pq.write_table(table, path)


def by_a_tool_with_wide_types(path: Path) -> None:
    table = pq.ParquetFile(path).read()
    types = {
        pa.string(): pa.large_string(),
        pa.timestamp("ms", tz="UTC"): pa.timestamp("us", "UTC"),
    }
    wide = pa.schema([pa.field(f.name, types.get(f.type, f.type)) for f in table.schema])
    pq.write_table(table.select(_SCHEMA.names[::-1]).cast(pa.schema(list(wide)[::-1])), path)


@pytest.mark.parametrize(
    "rewrite", [by_pandas, by_duckdb, by_arrow, by_a_tool_with_wide_types], ids=lambda f: f.__name__
)
def test_files_that_another_tool_wrote_anew_are_read_alike(
    root: Path, rewrite: Callable[[Path], None]
) -> None:
    before = read(root)
    for path in (root / "epoch=0" / "batch=9").glob("part-*"):
        rewrite(path)
    changelog = Changelog(root)
    assert read(root) == before
    assert rows_of(changelog.counters(HOUR, users={"Bo"})).keys() == {
        (0, "Bo", "read"),
        (0, "Bo", "write"),
    }
    parts = [rows_of(changelog.counters(HOUR, bucket=number)) for number in range(BUCKETS)]
    assert (changelog.buckets(), sum(map(len, parts))) == (BUCKETS, len(before[HOUR]))
    assert changelog.span_ms(MINUTE) == (0, 3 * MINUTE)


def test_a_changelog_that_never_says_has_one_bucket(root: Path) -> None:
    for path in root.rglob("part-*"):
        by_pandas(path)
    changelog = Changelog(root)
    assert changelog.buckets() == 1
    assert rows_of(changelog.counters(HOUR, bucket=0)) == newest(TOLD, LATER)[HOUR]


def test_a_file_that_lacks_a_column_is_named(root: Path) -> None:
    path = root / "epoch=0" / "batch=9" / "part-00001.parquet"
    for missing in _SCHEMA.names:
        pq.write_table(_SCHEMA.empty_table().drop_columns(missing), path)
        with pytest.raises(FormatError, match=rf"part-00001.*has no column '{missing}'"):
            Changelog(root).counters(HOUR)


def test_a_damaged_file_is_named(root: Path) -> None:
    path = root / "epoch=0" / "batch=9" / "part-00001.parquet"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(FormatError, match=r"batch=9/part-00001\.parquet is damaged"):
        Changelog(root).counters(HOUR)


def test_a_file_that_is_gone_for_good_is_not_passed_over(root: Path) -> None:
    path = root / "epoch=0" / "batch=9" / "part-00001.parquet"
    path.unlink()
    path.symlink_to("nowhere")
    with pytest.raises(FileNotFoundError):
        Changelog(root).counters(HOUR)


def test_a_changelog_is_found_in_its_run_folder(root: Path) -> None:
    assert Changelog.open(root) == Changelog.open(str(root.parent)) == Changelog(root)


def test_no_changelog_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No changelog in"):
        Changelog.open(tmp_path)


def as_rows(found: list[tuple[Any, ...]]) -> Rows:
    return {(round(start.timestamp() * 1000), *names): count for start, *names, count in found}


def test_the_documented_query_gives_the_latest_counts_in_duckdb(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, 11, {HOUR: {(0, "Bo", "read"): 99}}, marked=False)
    (root / "epoch=0" / "batch=10" / ".7-00003.parquet").write_bytes(b"half")
    query = re.search(r"::\n\n(    SELECT.+?)(?:\n\n|\Z)", str(documented.__doc__), re.DOTALL)
    assert query is not None
    monkeypatch.chdir(root.parents[1])
    with duckdb.connect() as database:
        found = database.execute(dedent(query[1])).fetchall()
    assert as_rows(found) == newest(TOLD, LATER)[HOUR]


def test_pandas_reads_the_folder_as_it_is(root: Path) -> None:
    (root / "epoch=0" / "batch=10" / ".7-00003.parquet").write_bytes(b"half")
    frame = pd.read_parquet(root).astype({"batch": int})
    assert [str(kind) for kind in frame.dtypes.iloc[:6]] == [
        *("int64", "datetime64[ms, UTC]", "object", "object", "int64", "datetime64[ms, UTC]")
    ]
    names = ["window_start", "user", "action"]
    hours = frame[frame["window_ms"] == HOUR].sort_values("batch")
    last = hours.drop_duplicates(names, keep="last")[[*names, "count"]]
    assert as_rows(list(last.itertuples(index=False, name=None))) == newest(TOLD, LATER)[HOUR]


def test_texts_are_plain_strings_to_every_reader(root: Path) -> None:
    for path in root.rglob("part-*.parquet"):
        assert pq.read_schema(path).remove_metadata() == _SCHEMA


def test_an_empty_changelog_has_nothing(tmp_path: Path) -> None:
    changelog = Changelog(tmp_path / "changelog")
    assert (changelog.window_lengths_ms(), changelog.span_ms(HOUR)) == ([], None)
    assert (len(changelog.counters(HOUR)), changelog.buckets()) == (0, 1)
    shutil.rmtree(tmp_path)
    assert changelog.batches == []


@pytest.fixture
def folders(tmp_path: Path) -> BatchFolders:
    return BatchFolders(tmp_path / "kind")


def names(paths: list[Path]) -> list[str]:
    return [path.name for path in paths]


def put(folder: Path, *files: str) -> None:
    for name in files:
        (folder / name).write_text(name)


def test_a_kind_without_any_batch_has_none(folders: BatchFolders) -> None:
    assert folders.marked() == []


def test_a_batch_counts_once_it_is_marked(folders: BatchFolders) -> None:
    put(folders.begin(0, 1), "part-00000.parquet")
    assert folders.marked() == []
    folders.mark(0, 1)
    assert [(batch.epoch, batch.number) for batch in folders.marked()] == [(0, 1)]


def test_batches_come_by_epoch_and_number_not_by_name(folders: BatchFolders) -> None:
    for epoch, number in [(10, 0), (9, 2), (9, 10), (0, 1)]:
        put(folders.begin(epoch, number), "part-00000.parquet")
        folders.mark(epoch, number)
    found = [(batch.epoch, batch.number) for batch in folders.marked()]
    assert found == [(0, 1), (9, 2), (9, 10), (10, 0)]


def test_a_batch_that_begins_again_is_empty_and_does_not_count(folders: BatchFolders) -> None:
    put(folders.begin(0, 1), "part-00000.parquet", ".7-00001.parquet")
    folders.mark(0, 1)
    folder = folders.begin(0, 1)
    assert (list(folder.iterdir()), folders.marked()) == ([], [])


def test_nothing_is_left_of_a_batch_that_wrote_nothing(folders: BatchFolders) -> None:
    folder = folders.begin(0, 1)
    folders.mark(0, 1)
    assert (folder.exists(), folders.marked()) == (False, [])


def test_folders_of_other_names_are_passed_over(folders: BatchFolders) -> None:
    put(folders.begin(0, 1), "part-00000.parquet")
    folders.mark(0, 1)
    for name in ("epoch=0/batch=x", "epoch=0/batch=2.old", "epoch=", "batch=3", "epoch=0/epoch=1"):
        (folders.root / name).mkdir(parents=True)
        put(folders.root / name, DONE)
    assert [batch.number for batch in folders.marked()] == [1]


def test_files_are_the_parts_of_a_kind_in_the_order_of_their_names(folders: BatchFolders) -> None:
    folder = folders.begin(0, 1)
    put(folder, "part-00001.parquet", "part-00000.parquet", "part-00000.json")
    put(folder, ".9-00002.parquet", "other.parquet", "fold-00000.parquet")
    folders.mark(0, 1)
    (batch,) = folders.marked()
    assert names(batch.files(".parquet")) == ["part-00000.parquet", "part-00001.parquet"]
    assert names(batch.files(".json")) == ["part-00000.json"]


def test_of_a_folded_batch_the_fold_alone_is_read(folders: BatchFolders) -> None:
    put(folders.begin(0, 1), "part-00000.parquet", "fold-00000.parquet", "fold-00001.parquet")
    Fold("fold-00001.parquet", 2, (range(2),)).save(folders.folder(0, 1))
    folders.mark(0, 1)
    (batch,) = folders.marked()
    assert names(batch.files(".parquet")) == ["fold-00001.parquet"]


def test_a_marker_that_lists_each_number_is_read_as_before(folders: BatchFolders) -> None:
    for number in (0, 1, 2, 5, 6):
        put(folders.begin(0, number), "part-00000.parquet")
        folders.mark(0, number)
    (folders.folder(0, 5) / FOLD).write_text('{"covers": [0, 1, 2, 5]}')
    found = {batch.number: batch.fold for batch in folders.marked()}
    assert found == {5: Fold("fold-00000.parquet", 4, (range(3), range(5, 6))), 6: None}


def test_what_a_fold_stands_for_does_not_count_beside_it(folders: BatchFolders) -> None:
    for number in range(5):
        put(folders.begin(0, number), "part-00000.parquet", "fold-00000.parquet")
        folders.mark(0, number)
    Fold("fold-00000.parquet", 2, (range(2, 4),)).save(folders.folder(0, 3))
    assert [batch.number for batch in folders.marked()] == [0, 1, 3, 4]


FOLDED_WHILE_LISTED = """
import shutil, sys
from pathlib import Path
from kstoolkit.changelog.changelog import DONE, BatchFolders, Fold

folders, left = BatchFolders(Path(sys.argv[1])), [True]

def fold(event, args):
    if left and event == "os.listdir" and str(args[0]).endswith("batch=0"):
        left.clear()
        last = folders.begin(0, 9)
        (last / "fold-00000.parquet").touch()
        Fold("fold-00000.parquet", 2, (range(10),)).save(last)
        (last / DONE).touch()
        for number in (0, 1):
            (folders.folder(0, number) / DONE).unlink()
            shutil.rmtree(folders.folder(0, number))

sys.addaudithook(fold)
for batch in folders.marked():
    print(batch.number, *(path.name for path in batch.files(".parquet")))
"""


def test_what_is_folded_while_it_is_listed_is_neither_missed_nor_told_twice(
    folders: BatchFolders,
) -> None:
    for number in (0, 1):
        put(folders.begin(0, number), "part-00000.parquet")
        folders.mark(0, number)
    program = [sys.executable, "-c", FOLDED_WHILE_LISTED, str(folders.root)]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["9 fold-00000.parquet"]
