from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.errors import FormatError, InputError
from kstoolkit.events.ledger import Ledger, list_files


def made(folder: Path, *names: str) -> list[str]:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}\n")
    return [str(folder / name) for name in names]


def listed(pattern: Path | str, base: Path, file_format: str | None = None) -> list[str]:
    return [os.path.relpath(path, base) for path in list_files(str(pattern), file_format)]


def test_a_folder_is_searched_to_the_bottom_in_order(tmp_path: Path) -> None:
    made(tmp_path, "b.json", "a/z.csv", "a/b/c.parquet", "a.json.gz")
    assert listed(tmp_path, tmp_path) == ["a.json.gz", "a/b/c.parquet", "a/z.csv", "b.json"]


def test_hidden_and_unfinished_files_are_passed_over(tmp_path: Path) -> None:
    made(
        tmp_path, ".a.json", "_b.json", "_temporary/0/c.json", ".git/d.json", "e.json.tmp", "f.log"
    )
    made(tmp_path, "g.json", "h.json.crc")
    assert listed(tmp_path, tmp_path) == ["g.json"]
    assert listed(tmp_path / "*", tmp_path) == ["g.json"]
    assert listed(tmp_path / "**", tmp_path) == ["g.json"]
    assert listed(tmp_path / "**" / "*.json", tmp_path) == ["g.json"]


def test_a_hidden_file_that_is_spelt_out_is_meant(tmp_path: Path) -> None:
    made(tmp_path, "_b.json", "_in/c.json", "_in/_d.json")
    assert listed(tmp_path / "_b.json", tmp_path) == ["_b.json"]
    assert listed(tmp_path / "_*.json", tmp_path) == ["_b.json"]
    assert listed(tmp_path / "_in", tmp_path) == ["_in/c.json"]
    assert listed(tmp_path / "_in" / "*.json", tmp_path) == ["_in/c.json"]


def test_with_a_format_given_every_name_will_do(tmp_path: Path) -> None:
    made(tmp_path, "a.log", "b", "_c.log")
    assert listed(tmp_path, tmp_path, "json") == ["a.log", "b"]


def test_a_glob_takes_files_and_whole_folders_once_each(tmp_path: Path) -> None:
    made(tmp_path, "day=1/a.json", "day=1/b.json", "day=2/a.json", "other/a.json")
    assert listed(tmp_path / "day=*", tmp_path) == ["day=1/a.json", "day=1/b.json", "day=2/a.json"]
    assert listed(tmp_path / "day=*" / "a.json", tmp_path) == ["day=1/a.json", "day=2/a.json"]
    assert listed(tmp_path / "day=[2-9]*", tmp_path) == ["day=2/a.json"]
    assert listed(tmp_path / "none*", tmp_path) == []


def test_a_path_that_looks_like_a_glob_is_a_path_if_it_exists(tmp_path: Path) -> None:
    made(tmp_path, "a[1].json", "a1.json")
    assert listed(tmp_path / "a[1].json", tmp_path) == ["a[1].json"]


def test_a_relative_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path, "in/a.json")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    expected = [str(tmp_path / "in" / "a.json")]
    assert list_files("../in") == list_files("../in/a.json") == list_files("../in/*") == expected


@pytest.mark.parametrize("name", ["événements.json", "😀 ser.json", "tab\there.json", "a\nb.json"])
def test_names_of_any_letters_are_kept(tmp_path: Path, name: str) -> None:
    (path,) = made(tmp_path, name)
    ledger = Ledger(tmp_path / "run" / "files.jsonl")
    ledger.admit(list_files(str(tmp_path)))
    again = Ledger(tmp_path / "run" / "files.jsonl")
    assert [entry.path for entry in again.entries(0, 9)] == [path]


def test_links_count_under_their_own_names_and_broken_ones_not_at_all(tmp_path: Path) -> None:
    made(tmp_path, "real/a.json")
    data = tmp_path / "data"
    data.mkdir()
    (data / "link.json").symlink_to(tmp_path / "real" / "a.json")
    (data / "broken.json").symlink_to(tmp_path / "nowhere.json")
    (data / "folder").symlink_to(tmp_path / "real")
    (data / "circle").symlink_to(data)
    ledger = Ledger(tmp_path / "files.jsonl")
    assert ledger.admit(list_files(str(data))) == 1
    assert ledger.entries(0, 1)[0].path == str(data / "link.json")
    assert listed(data / "folder", data) == ["folder/a.json"]


def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    assert Ledger(tmp_path / "files.jsonl").admit([str(tmp_path / "pipe.json")]) == 0


def test_a_path_that_does_not_exist_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"No such file or folder: .*none\.json"):
        list_files(str(tmp_path / "none.json"))


def test_a_single_file_of_no_known_format_is_told(tmp_path: Path) -> None:
    (path,) = made(tmp_path, "a.log")
    with pytest.raises(InputError, match=r"'a\.log' does not say which format"):
        list_files(path)
    assert list_files(path, "json") == [path]


def test_an_empty_folder_has_no_files(tmp_path: Path) -> None:
    assert list_files(str(tmp_path)) == []


def test_a_file_is_admitted_once_with_its_size_and_the_clock(tmp_path: Path) -> None:
    paths = made(tmp_path, "a.json", "b.json")
    before_ms = time.time_ns() // 1_000_000
    ledger = Ledger(tmp_path / "run" / "files.jsonl")
    assert ledger.admit([paths[0], paths[0]]) == 1
    assert ledger.admit(paths) == 1
    assert ledger.admit(paths) == 0
    entries = ledger.entries(0, len(ledger))
    assert [(entry.path, entry.size_bytes) for entry in entries] == [(path, 3) for path in paths]
    after_ms = time.time_ns() // 1_000_000
    assert all(before_ms <= entry.admitted_ms <= after_ms for entry in entries)


def test_a_file_that_vanished_before_it_was_admitted_is_passed_over(tmp_path: Path) -> None:
    paths = made(tmp_path, "a.json", "b.json")
    Path(paths[0]).unlink()
    ledger = Ledger(tmp_path / "files.jsonl")
    assert ledger.admit(paths) == 1
    made(tmp_path, "a.json")
    assert ledger.admit(paths) == 1
    assert [entry.path for entry in ledger.entries(0, 2)] == [paths[1], paths[0]]


def test_a_file_that_changed_or_went_after_it_was_admitted_stays_admitted(tmp_path: Path) -> None:
    (path,) = made(tmp_path, "a.json")
    ledger = Ledger(tmp_path / "files.jsonl")
    ledger.admit([path])
    Path(path).write_text("more than before\n")
    assert ledger.admit([path]) == 0
    Path(path).unlink()
    assert len(Ledger(tmp_path / "files.jsonl")) == 1


def test_nothing_is_written_before_a_file_is_admitted(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "run" / "files.jsonl")
    assert (ledger.admit([]), len(ledger)) == (0, 0)
    assert not (tmp_path / "run").exists()


def test_another_reader_finds_the_same_positions(tmp_path: Path) -> None:
    paths = made(tmp_path, *(f"{number}.json" for number in range(9)))
    ledger = Ledger(tmp_path / "files.jsonl")
    for path in reversed(paths):
        ledger.admit([path])
    again = Ledger(tmp_path / "files.jsonl")
    assert again.entries(0, 9) == ledger.entries(0, 9)
    assert [entry.path for entry in again.entries(2, 5)] == paths[6:3:-1]


@given(st.integers(0, 10**6))
def test_a_torn_last_line_is_forgotten_and_the_file_can_be_admitted_again(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    folder = tmp_path_factory.mktemp("torn")
    paths = made(folder, "a.json", "é.json", "c.json")
    log = folder / "files.jsonl"
    Ledger(log).admit(paths)
    whole = log.read_bytes()
    kept = whole[: cut % (len(whole) + 1)]
    log.write_bytes(kept)
    ledger = Ledger(log)
    assert len(ledger) == kept.count(b"\n")
    assert ledger.admit(paths) == 3 - kept.count(b"\n")
    again = Ledger(log)
    assert [entry.path for entry in again.entries(0, 9)] == paths
    assert log.read_bytes().count(b"\n") == 3


def test_a_ledger_that_is_damaged_inside_is_told(tmp_path: Path) -> None:
    log = tmp_path / "files.jsonl"
    entry = {"path": "a.json", "size_bytes": 1, "admitted_ms": 2}
    for line in ("oops", "[]", '{"path": "a"}'):
        log.write_text(f"{line}\n{json.dumps(entry)}\n")
        with pytest.raises(FormatError, match=r"files\.jsonl is damaged.*\n.*Restore"):
            Ledger(log)


def test_a_runs_own_output_is_no_input_unless_it_is_meant(tmp_path: Path) -> None:
    out = tmp_path / "in" / "out"
    (out / "simulated").mkdir(parents=True)
    for path in (tmp_path / "in" / "a.json", out / "run.json", out / "simulated" / "b.json"):
        path.touch()
    inside = str(tmp_path / "in")
    assert list_files(inside, without=str(out)) == [str(tmp_path / "in" / "a.json")]
    assert list_files(f"{inside}/**", without=str(out)) == [str(tmp_path / "in" / "a.json")]
    meant = str(out / "simulated")
    assert list_files(meant, without=str(out)) == [str(out / "simulated" / "b.json")]


def test_the_output_of_earlier_runs_is_no_input(tmp_path: Path) -> None:
    earlier = tmp_path / "earlier"
    (earlier / "checkpoint").mkdir(parents=True)
    for path in (tmp_path / "a.json", earlier / "run.json", earlier / "files.jsonl"):
        path.touch()
    assert list_files(str(tmp_path)) == [str(tmp_path / "a.json")]
    assert list_files(str(earlier)) == [str(earlier / "files.jsonl"), str(earlier / "run.json")]


def test_an_empty_text_is_no_folder() -> None:
    with pytest.raises(InputError, match="empty text"):
        list_files("")


def test_a_reader_leaves_a_line_that_another_process_is_writing(tmp_path: Path) -> None:
    path = tmp_path / "files.jsonl"
    writer = Ledger(path)
    writer.admit(made(tmp_path, "a.json"))
    written = path.read_bytes() + b'{"path": "/b'
    path.write_bytes(written)
    assert len(Ledger(path)) == 1
    assert path.read_bytes() == written
