"""Which files are taken in, once each, by a ledger that a crash, a move or another may meet."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from subprocess import run
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.errors import FormatError, UnreadableFile
from kstoolkit.events import ledger as ledger_module
from kstoolkit.events.contents import Contents
from kstoolkit.events.files import Listing
from kstoolkit.events.ledger import JsonLines, Ledger, names_file

if TYPE_CHECKING:
    from collections.abc import Iterator


def made(folder: Path, *names: str) -> list[str]:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}\n")
    return [str(folder / name) for name in names]


def test_of_what_is_set_aside_the_system_is_asked_nothing(tmp_path: Path) -> None:
    loop = tmp_path / "a[1].json"
    loop.symlink_to(loop)
    ledger = Ledger(tmp_path / "files.jsonl")
    with pytest.raises(
        UnreadableFile, match=r"'.*a\[1\]\.json' can't be read: Too many levels"
    ) as no:
        ledger.admit([str(loop)])
    assert ledger.admit([str(loop)], set_aside=no.value.alone) == 1
    assert names_file(no.value.alone, str(loop))
    assert not names_file(no.value.alone, str(tmp_path / "a1.json"))


@pytest.mark.parametrize("name", ["événements.json", "😀 ser.json", "tab\there.json", "a\nb.json"])
def test_names_of_any_letters_are_kept(tmp_path: Path, name: str) -> None:
    (path,) = made(tmp_path, name)
    ledger = Ledger(tmp_path / "run" / "files.jsonl")
    ledger.admit(Listing(str(tmp_path)))
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
    assert ledger.admit(Listing(str(data))) == 1
    assert ledger.entries(0, 1)[0].path == str(data / "link.json")
    assert [*Listing(str(data / "folder"))] == [str(data / "folder" / "a.json")]


def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    assert Ledger(tmp_path / "files.jsonl").admit([str(tmp_path / "pipe.json")]) == 0


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
    paths = made(folder, "a.json", "c.json", "é.json")
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


def test_a_reader_leaves_a_line_that_another_process_is_writing(tmp_path: Path) -> None:
    path = tmp_path / "files.jsonl"
    writer = Ledger(path)
    writer.admit(made(tmp_path, "a.json"))
    written = path.read_bytes() + b'{"path": "/b'
    path.write_bytes(written)
    assert len(Ledger(path)) == 1
    assert path.read_bytes() == written


def test_a_line_that_is_ended_while_it_is_read_is_left_for_the_next_look(tmp_path: Path) -> None:
    path = tmp_path / "files.jsonl"
    Ledger(path).admit(made(tmp_path, "a.json"))
    line = path.read_bytes()
    with path.open("ab", buffering=0) as file:
        file.write(line[:20])
        reading = JsonLines(path, "ledger").read(lambda told: told)
        assert next(reading)["size_bytes"] == 3
        file.write(line[20:])
        assert list(reading) == []
    assert len(Ledger(path)) == 2


def resident_bytes(files: int) -> int:
    """Return what a process holds once it looked at so many files twice; none is opened."""
    told = run(
        [sys.executable, "-c", _LOOKING, str(files)], capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr
    return int(told.stdout)


_LOOKING = """
import sys, tempfile
from pathlib import Path
from kstoolkit.events.ledger import Ledger

def paths():
    return (f"/in/{number:060}.json" for number in range(int(sys.argv[1])))

with tempfile.TemporaryDirectory() as folder:
    for number in (int(sys.argv[1]), 0):
        ledger = Ledger(Path(folder) / "files.jsonl")
        assert ledger.admit(paths(), set_aside="/in") == number
    print([line.split()[1] for line in open("/proc/self/status") if "VmHWM" in line][0] + "000")
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux tells it so")
def test_no_memory_grows_with_files() -> None:
    few, many = resident_bytes(60_000), resident_bytes(180_000)
    assert many - few < 4_000_000  # where it held them, 55 million


def test_as_many_as_are_looked_up_together_and_one_more_are_told_apart(tmp_path: Path) -> None:
    paths = made(tmp_path, *(f"{number:05}.json" for number in range(1_001)))
    ledger = Ledger(tmp_path / "out" / "files.jsonl")
    assert [ledger.admit(paths[:some]) for some in (500, 501, 1_001)] == [500, 1, 500]
    assert [entry.path for entry in ledger] == paths
    assert [*ledger.unknown([*paths, "/new"])] == ["/new"]
    assert ledger.has_all(paths)
    assert (ledger.size_bytes(), ledger.size_bytes(999, 1_005)) == (3_003, 6)


def test_a_name_that_is_no_utf8_is_one_file(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.json")
    Path(path).write_text("{}")
    log = tmp_path / "out" / "files.jsonl"
    assert [Ledger(log).admit([path]) for _ in range(2)] == [1, 0]
    assert [entry.path for entry in Ledger(log)] == [path]


def test_where_there_is_no_room_to_look_files_up_that_is_said(tmp_path: Path) -> None:
    log = tmp_path / "files.jsonl"
    Ledger(log).admit(made(tmp_path, "a.json"), set_aside=str(tmp_path))
    line = log.read_text()
    log.write_text(line * 200_000)  # more than SQLite keeps in memory
    asked = [sys.executable, "-c", f"from kstoolkit.events.ledger import *; Ledger({str(log)!r})"]
    limited = ["bash", "-c", 'ulimit -f 1000; trap "" XFSZ; exec "$@"', "-", *asked]
    told = run(limited, capture_output=True, text=True, check=False)
    assert "EnvironmentFault: Which files were taken in can't be looked up, for" in told.stderr
    assert "name another folder with TMPDIR" in told.stderr
    assert "sqlite3" not in told.stderr


def test_where_there_is_no_more_room_later_that_is_said(tmp_path: Path) -> None:
    log = tmp_path / "files.jsonl"
    names = (f"/in/name-of-a-file-of-many-{at * 7_919 % 120_000:08}.json" for at in range(120_000))
    lines = (json.dumps({"path": name, "size_bytes": 1, "admitted_ms": 1}) for name in names)
    log.write_text("\n".join([*lines, ""]))  # in no order: all over the index is written
    told = run([sys.executable, "-c", _FULL, str(log)], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    assert told.stdout.split() == ["EnvironmentFault"] * 4


_FULL = """
import resource, signal, sys
from kstoolkit.events.ledger import Ledger
ledger, name = Ledger(sys.argv[1]), "/in/name-of-a-file-of-many-{:08}.json"
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20,) * 2)
for ask in (ledger.size_bytes, lambda: ledger.entries(0, 200_000),
            lambda: [*ledger], lambda: [*ledger.unknown(map(name.format, range(120_000)))]):
    try:
        ask()
        print("told")
    except Exception as error:
        print(type(error).__name__)
"""


def test_a_time_that_no_64_bits_hold_is_one_like_others(tmp_path: Path) -> None:
    (path,) = made(tmp_path, "a.json")
    os.utime(path, ns=(10**19,) * 2)
    ledger = Ledger(tmp_path / "out" / "files.jsonl")
    assert ledger.admit([path]) == 1
    ledger.contents.write(0, Contents.begun(path).ended(path, is_damaged=False))
    again = Ledger(tmp_path / "out" / "files.jsonl")
    assert again.admit([path]) == 0
    assert again.has_all([path])
    Path(path).write_text("{'other'}")
    os.utime(path, ns=(10**19 + 7,) * 2)
    assert again.admit([path]) == 1


def test_of_files_alike_just_those_are_moved_that_hold_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_module, "_MANY", 4)
    names, lying = [f"{number:02}.json" for number in range(40)], tmp_path / "in"
    lying.mkdir()
    for name in names:
        (lying / name).write_text(f"[{name[:2]}]")  # of one size and time
        os.utime(lying / name, ns=(7, 7))
    ledger = Ledger(tmp_path / "out" / "files.jsonl")
    ledger.admit(Listing(str(lying)))
    for place, entry in enumerate(ledger.entries(0, 99)):
        held = Contents.begun(entry.path).ended(entry.path, is_damaged=False)
        ledger.contents.write(place, held)
    is_gone, asked = Ledger._is_gone, list[int]()

    def told_of(ledger: Ledger, place: int) -> bool:
        asked.append(place)
        return is_gone(ledger, place)

    monkeypatch.setattr(Ledger, "_is_gone", told_of)
    for name in names[:20]:
        (lying / name).rename(lying / f"moved-{name}")
    for name in names[20:]:
        (lying / f"other-{name}").write_text(f"[x{name[1]}]")
        os.utime(lying / f"other-{name}", ns=(7, 7))
    assert ledger.admit(Listing(str(lying))) == 20
    assert {entry.path for entry in ledger.entries(40, 99)} == {
        str(lying / f"other-{name}") for name in names[20:]
    }
    assert sorted(asked) == [*range(40)]  # each once, however many are new


def test_what_was_given_up_is_read_once_a_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = made(tmp_path, *(f"{number}.json" for number in range(50)))
    ledger = Ledger(tmp_path / "out" / "files.jsonl")
    ledger.admit(paths)
    ledger.give_up(dict.fromkeys(range(25), "missing_file"))
    for path in paths:
        Path(path).write_text("{'more'}")
    read, told = JsonLines.read, list[str]()

    def told_of(lines: JsonLines, made: Any) -> Iterator[Any]:
        told.append(lines.what)
        return read(lines, made)

    monkeypatch.setattr(JsonLines, "read", told_of)
    assert ledger.admit(paths) == 25
    assert told.count("list of files given up") == 1
    assert ledger.admit(paths) == 0
    ledger.give_up({30: "missing_file"})
    assert ledger.admit(paths) == 1
