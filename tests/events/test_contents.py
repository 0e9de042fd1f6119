"""What a file held: told from what lies there now, by real files."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.events.contents import Contents, ContentsFile, Fate, checksum
from kstoolkit.events.ledger import Ledger
from kstoolkit.events.opening import fault_in_words

SIZES = (1, 4_095, 4_096, 4_097, 8_191, 8_192, 8_193, 300_000)


def read(path: Path, *, is_damaged: bool = False) -> Contents:
    return Contents.begun(str(path)).ended(str(path), is_damaged=is_damaged)


def fate(held: Contents, path: Path) -> Fate:
    os.utime(path, ns=(7, 7))  # so that nothing is told by the time alone
    return held.fate(str(path), path.stat())


def filled(path: Path, size_bytes: int) -> Path:
    path.write_bytes(os.urandom(size_bytes))
    return path


@pytest.mark.parametrize("size_bytes", SIZES)
def test_any_byte_that_differs_makes_another_file(tmp_path: Path, size_bytes: int) -> None:
    path = filled(tmp_path / "a", size_bytes)
    held, whole = read(path), path.read_bytes()
    assert fate(held, path) is Fate.SAME
    for place in {0, size_bytes // 2, size_bytes - 1}:
        other = bytearray(whole)
        other[place] ^= 1
        path.write_bytes(other)
        assert fate(held, path) is Fate.REPLACED
        path.write_bytes(bytes(other) + b"more")
        is_seen = place in range(4_096) or place in range(size_bytes - 4_096, size_bytes)
        assert fate(held, path) is (Fate.REPLACED if is_seen else Fate.GROWN)
    path.write_bytes(whole + b"more")
    assert fate(held, path) is Fate.GROWN
    path.write_bytes(whole[:-1])
    assert fate(held, path) is Fate.REPLACED


def test_what_of_nothing_was_counted_grows_to_is_new(tmp_path: Path) -> None:
    empty, damaged = filled(tmp_path / "a", 0), filled(tmp_path / "b", 100)
    of_empty, of_damaged = read(empty), read(damaged, is_damaged=True)
    for path, held in ((empty, of_empty), (damaged, of_damaged)):
        assert fate(held, path) is Fate.SAME
        with path.open("ab") as file:
            file.write(b"more")
        assert fate(held, path) is Fate.REPLACED


def test_what_was_filled_while_it_was_read_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.touch()
    begun = Contents.begun(str(path))
    path.write_text("what is read, and counted\n")
    with pytest.raises(BlockingIOError) as raised:  # whatever of it was read
        begun.ended(str(path), is_damaged=False)
    assert fault_in_words(raised.value) == "Resource temporarily unavailable"  # so read again


def test_a_file_whose_new_time_is_seen_before_its_new_size_is_not_another_one(
    tmp_path: Path,
) -> None:
    path = filled(tmp_path / "a", 9_000)
    held = read(path)
    os.utime(path)
    seen = path.stat()
    with path.open("ab") as file:
        file.write(b"more")
    assert held.fate(str(path), seen) is Fate.SAME
    assert fate(held, path) is Fate.GROWN


def test_a_file_that_changes_while_it_is_read_has_no_checksum_and_still_ends_somewhere(
    tmp_path: Path,
) -> None:
    path = filled(tmp_path / "a", 9_000)
    begun = Contents.begun(str(path))
    with path.open("ab") as file:
        file.write(b"more")
    held = begun.ended(str(path), is_damaged=False)
    assert (held.size_bytes, held.whole) == (9_000, -1)
    assert fate(held, path) is Fate.GROWN


def test_the_checksum_is_that_of_all_bytes_on_the_disk(tmp_path: Path) -> None:
    path = filled(tmp_path / "a", 1_000_003)
    assert checksum(str(path), 1_000_003) == zlib.crc32(path.read_bytes()) == read(path).whole
    assert checksum(str(path), 300_000) == zlib.crc32(path.read_bytes()[:300_000])


@given(st.dictionaries(st.integers(0, 50), st.integers(-(2**63), 2**63 - 1), max_size=9))
def test_what_tasks_note_is_found_by_position_and_by_kind(
    tmp_path_factory: pytest.TempPathFactory, edges: dict[int, int]
) -> None:
    kept = ContentsFile(tmp_path_factory.mktemp("kept") / "contents")
    noted = {place: Contents(place, place % 3, each) for place, each in edges.items()}
    for place, held in noted.items():
        kept.write(place, held)
    assert dict(kept.between(0, 99)) == noted
    assert all(kept.read(place) == noted.get(place) for place in range(60))
    of_kind = {place: held for place, held in noted.items() if held.mtime_ns == 1 and place < 40}
    assert dict(kept.alike({(place, 1) for place in range(40)})) == of_kind
    for place in noted:
        kept.write(place, None)
    assert dict(kept.alike({(0, 0), (1, 1), (2, 2)})) == {}


def test_a_disk_without_room_only_costs_what_a_move_is_told_by(tmp_path: Path) -> None:
    kept = ContentsFile(tmp_path / "no" / "folder")
    kept.write(0, Contents(1, 2, 3))
    assert kept.read(0) is None


def taken_in(ledger: Ledger, *paths: Path) -> int:
    """Take files in, and note what they hold, as tasks do."""
    start = len(ledger)
    number = ledger.admit([str(path) for path in paths])
    for place, entry in enumerate(ledger.entries(start, len(ledger)), start):
        ledger.contents.write(place, read(Path(entry.path)))
    return number


def test_what_became_of_files_is_known_to_whoever_reads_the_ledger_next(tmp_path: Path) -> None:
    log = tmp_path / "out" / "files.jsonl"
    ledger = Ledger(log)
    a, b, c, d = (tmp_path / name for name in "abcd")
    (filled(a, 5_000), filled(b, 6_000))
    assert taken_in(ledger, a, b) == 2
    a.rename(c)
    assert taken_in(ledger, b, c) == 0
    filled(a, 5_000)
    assert taken_in(ledger, a, b, c) == 1
    b.replace(c)  # over what was moved there
    assert taken_in(Ledger(log), a, c) == 0
    c.rename(d)
    assert taken_in(Ledger(log), a, d) == 0
    assert taken_in(Ledger(log), a, filled(b, 10), filled(c, 10), d) == 2
    assert Ledger(log).admit([str(path) for path in (a, b, c, d)]) == 0
    assert taken_in(Ledger(log), a, filled(b, 12)) == 1


def test_many_files_that_move_together_are_told_apart(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    paths = [filled(old / f"{n:03}", 50) for n in range(300)]
    for path in paths:
        os.utime(path, ns=(9, 9))  # as from an archive
    ledger = Ledger(tmp_path / "out" / "files.jsonl")
    taken_in(ledger, *paths)
    old.rename(new)
    filled(new / "300", 50)
    os.utime(new / "300", ns=(9, 9))
    assert taken_in(ledger, *sorted(new.iterdir())) == 1


def test_a_file_that_was_counted_may_fail_without_harm(tmp_path: Path) -> None:
    path, ledger = filled(tmp_path / "a", 50), Ledger(tmp_path / "out" / "files.jsonl")
    assert taken_in(ledger, path) == 1
    path.unlink()
    path.symlink_to(path)  # of which the system tells nothing
    assert taken_in(ledger, path) == 0
