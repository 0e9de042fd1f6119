"""Whatever happens to a replica's files, nobody is given wrong counts, and a restore mends it."""

from __future__ import annotations

import shutil
from random import Random
from typing import TYPE_CHECKING

import pytest

from kstoolkit.changelog import reader
from kstoolkit.errors import FormatError, InputError, KstoolkitError
from kstoolkit.replica import catchup
from kstoolkit.replica.replicafile import FILE, ReplicaState
from kstoolkit.replica.windowstore import WindowStore
from tests.changelog.changelogs import HOUR, MINUTE, newest, write
from tests.replica.replicas import Told, flip_a_byte, held, restored, segment

if TYPE_CHECKING:
    from pathlib import Path

TOLD: Told = {
    MINUTE: {(start, f"user {n}", "edit"): n + 1 for n in range(40) for start in (0, MINUTE)},
    HOUR: {(0, f"user {n}", a): n + 1 for n in range(40) for a in "ab"},
}
LATER: Told = {HOUR: {(0, "user 0", "c"): 7}}
KINDS = [
    "*.sst",
    "MANIFEST-*",
    "CURRENT",
    "IDENTITY",
    "OPTIONS-*",
    "*.log",
    "LOG",
    "LOCK",
    "*.json",
]


@pytest.fixture
def replica(tmp_path: Path) -> Path:
    write(tmp_path / "c", 0, TOLD)
    restored(tmp_path / "c", tmp_path / "r").close()
    write(tmp_path / "c", 1, LATER)
    restored(tmp_path / "c", tmp_path / "r").close()
    return tmp_path / "r"


@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_bit_in_any_file_of_a_segment_is_told_or_harmless_and_mended(
    replica: Path, kind: str
) -> None:
    random = Random(kind)
    whole = newest(TOLD, LATER)
    for _ in range(6):
        file = max(segment(replica, HOUR).glob(kind), key=lambda path: path.stat().st_size)
        data = bytearray(file.read_bytes() or b"\0")
        place = random.randrange(len(data))
        data[place] ^= 1 << random.randrange(8)
        file.write_bytes(data)
        assert found_by_a_reader(replica) in (whole, None), (file, place)
        with restored(replica.parent / "c", replica) as store:
            assert held(store) == whole, (file, place)


@pytest.mark.parametrize("share", [0, 0.3, 0.6, 0.95])
@pytest.mark.parametrize("kind", KINDS)
def test_a_cut_in_any_file_of_a_segment_is_told_or_harmless_and_mended(
    replica: Path, kind: str, share: float
) -> None:
    whole = newest(TOLD, LATER)
    for file in segment(replica, HOUR).glob(kind):
        file.write_bytes(file.read_bytes()[: int(file.stat().st_size * share)])
    assert found_by_a_reader(replica) in (whole, None)
    with restored(replica.parent / "c", replica) as store:
        assert held(store) == whole


def found_by_a_reader(replica: Path) -> Told | None:
    """Return what a reader is told, or ``None`` if it is told that there is damage."""
    with WindowStore.open(replica) as store:
        try:
            return held(store)
        except KstoolkitError:
            return None


def test_every_flipped_bit_in_the_replicas_own_file_is_told(replica: Path) -> None:
    data = (replica / FILE).read_bytes()
    told = ReplicaState.load(replica)
    for place in range(len(data)):
        flipped = bytearray(data)
        flipped[place] ^= 1 << (place % 8)
        (replica / FILE).write_bytes(flipped)
        try:
            assert ReplicaState.load(replica) == told  # as a digit of a float, or white space
        except FormatError as error:
            assert FILE in str(error) or "newer kstoolkit" in str(error)  # noqa: PT017 - either way
    (replica / FILE).write_bytes(data[:-9])
    with pytest.raises(FormatError, match="is damaged"):
        restored(replica.parent / "c", replica)


def test_a_segment_that_lost_the_last_pieces_of_a_pass_is_rebuilt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left of it names the right batch: it was written as of that from the first piece."""
    monkeypatch.setattr(reader, "_AT_ONCE", 1)
    monkeypatch.setattr(catchup, "_BETWEEN_CHECKPOINTS", 1)
    write(tmp_path / "c", 0, {HOUR: TOLD[HOUR]})
    hurt = segment(tmp_path / "r", HOUR)

    class Copier:
        def on_start(self, what: str, *, total: int) -> None:
            """Nothing is there yet."""

        def on_batch(self, what: str, *, records: int) -> None:  # noqa: ARG002 - has these names
            if (hurt / "CURRENT").exists() and not (tmp_path / "early").exists() and seen:
                shutil.copytree(hurt, tmp_path / "early")
            seen.append(records)

        def on_end(self, what: str, *, records: int) -> None:
            """It is whole now."""

        def on_failure(self, what: str, *, error: Exception) -> None:  # noqa: ARG002 - the same
            raise error

    seen: list[int] = []
    restored(tmp_path / "c", tmp_path / "r", listener=Copier()).close()
    for number, follows in enumerate((False, True), 1):
        shutil.rmtree(hurt)
        shutil.copytree(tmp_path / "early", hurt)
        assert found_by_a_reader(tmp_path / "r") is None
        if follows:  # without looking over all segments before
            write(tmp_path / "c", 1, LATER)
            with WindowStore.open(tmp_path / "r") as store, store.follow(tmp_path / "c") as standby:
                standby.step()
                assert held(store) == newest({HOUR: TOLD[HOUR]}, LATER)
        else:
            with restored(tmp_path / "c", tmp_path / "r") as store:
                assert held(store) == {HOUR: TOLD[HOUR]}
        assert hurt.with_name(f"{HOUR}.0.damaged-{number}").exists()


def test_damage_is_not_mended_while_the_newest_batch_is_written_once_more(replica: Path) -> None:
    """Rebuilt without that batch, the segment would lack it for good."""
    flip_a_byte(max(segment(replica, HOUR).glob("*.sst"), key=lambda each: each.stat().st_size))
    marker = replica.parent / "c" / "epoch=0" / "batch=1" / "_done"
    marker.unlink()
    with pytest.raises(InputError, match="newest batch is not whole"):
        restored(replica.parent / "c", replica)
    assert segment(replica, HOUR).exists()
    marker.touch()
    with restored(replica.parent / "c", replica) as store:
        assert held(store) == newest(TOLD, LATER)
