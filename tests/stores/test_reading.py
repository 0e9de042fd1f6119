"""Readers change nothing, need read permission alone, and see what a writer has made whole."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from kstoolkit.changelog import news as batches
from kstoolkit.errors import ConfigurationError, InputError
from kstoolkit.rocksdb.faults import DamagedStoreError, StoreResourceError
from kstoolkit.stores import catchup
from kstoolkit.stores.windowstore import WindowStore
from tests.changelog.changelogs import HOUR, MINUTE, write
from tests.stores.replicas import Told, held, restored, segment

if TYPE_CHECKING:
    from collections.abc import Iterator

TOLD: Told = {
    MINUTE: {(start, f"user {n}", "edit"): n + 1 for n in range(20) for start in (0, HOUR)},
    HOUR: {(0, f"user {n}", "edit"): n + 1 for n in range(20)},
}
NOBODY = "if os.getuid() == 0: os.setgroups([]); os.setgid(65534); os.setuid(65534)"


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that other users may look into; pytest's own are closed to them."""
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def appearance(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return when everything in a folder was changed, and to what."""
    return {
        str(path.relative_to(folder)): (
            path.stat().st_mtime_ns,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in [folder, *folder.rglob("*")]
    }


def asked(path: Path, scratch: Path, program: str, become: str = "") -> str:
    """Ask a replica in a process of its own, which may become another user before."""
    head = f"import os\nfrom kstoolkit.stores.windowstore import WindowStore\n{become}\n"
    head += f"path = {str(path)!r}\n"
    done = subprocess.run(
        [sys.executable, "-c", head + dedent(program)],
        cwd=Path(__file__).parents[2],
        env={"TMPDIR": str(scratch), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


EVERYTHING = """
    with WindowStore.open(path) as store:
        print(store.get("user 7", window="1 hour", at=0).counts)
        print(len(store.get_many(["user 1", "Zoë"], window="1 minute", at=0)))
        print(sum(len(page) for page in store.scan(window="1 minute", at=0)))
        print(len(store.history("user 7", window="1 minute")), len(store.segments()))
"""


def test_whoever_may_only_read_a_replica_can_ask_it_everything(public: Path) -> None:
    """Tests often run as root, whom no permission stops: so the reader is somebody else."""
    write(public / "c", 0, TOLD)
    restored(public / "c", public / "r").close()
    scratch = public / "scratch"
    scratch.mkdir()
    scratch.chmod(0o777)
    for path in (public / "r").rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    (public / "r").chmod(0o555)
    before = appearance(public / "r")
    told = asked(public / "r", scratch, EVERYTHING, NOBODY)
    assert told == "{'edit': 8}\n2\n20\n2 3\n"
    assert appearance(public / "r") == before
    assert not list(scratch.iterdir())
    for path in (public / "r").rglob("*"):
        path.chmod(0o755)


def test_a_reader_changes_nothing_in_the_folder_of_a_replica_that_is_its_own(
    tmp_path: Path,
) -> None:
    write(tmp_path / "c", 0, TOLD)
    restored(tmp_path / "c", tmp_path / "r").close()
    before = appearance(tmp_path / "r")
    with WindowStore.open(tmp_path / "r") as store:
        assert held(store) == TOLD
    assert appearance(tmp_path / "r") == before


def test_missing_permission_is_said_and_not_taken_for_damage(public: Path) -> None:
    write(public / "c", 0, TOLD)
    restored(public / "c", public / "r").close()
    scratch = public / "scratch"
    scratch.mkdir()
    scratch.chmod(0o777)
    program = """
        try:
            WindowStore.open(path).get("user 7", window="1 hour", at=0)
        except Exception as error:
            print(type(error).__name__, error)
    """
    places = {
        segment(public / "r", HOUR) / "CURRENT": "StorePermissionError The segment",
        next(segment(public / "r", HOUR).glob("*.sst")): "StorePermissionError The store",
        segment(public / "r", HOUR): "StorePermissionError The segment",
        public / "r" / "replica.json": "InputError The replica",
    }
    for place, words in places.items():
        mode = place.stat().st_mode
        place.chmod(0)
        told = asked(public / "r", scratch, program, NOBODY)
        place.chmod(mode)
        assert told.startswith(words)
        assert "ermission" in told
    assert not list(scratch.iterdir())


def test_without_a_place_for_links_it_is_said_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "c", 0, TOLD)
    restored(tmp_path / "c", tmp_path / "r").close()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with (
        WindowStore.open(tmp_path / "r") as store,
        pytest.raises(StoreResourceError, match="No scratch folder") as told,
    ):
        store.get("user 7", window="1 hour", at=0)
    assert "TMPDIR" in str(told.value.hint)


@pytest.mark.parametrize("name", ["../../replica.json\n", "MANIFEST-000005", "MANIFEST-000099\n"])
def test_what_current_names_is_opened_only_if_it_is_a_manifest_that_is_there(
    tmp_path: Path, name: str
) -> None:
    write(tmp_path / "c", 0, TOLD)
    restored(tmp_path / "c", tmp_path / "r").close()
    (segment(tmp_path / "r", HOUR) / "CURRENT").write_text(name)
    with (
        WindowStore.open(tmp_path / "r") as store,
        pytest.raises(DamagedStoreError, match=r"does not name a MANIFEST|no MANIFEST-000099"),
    ):
        store.get("user 7", window="1 hour", at=0)


def test_a_reader_sees_each_piece_of_a_long_pass_once_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each piece is written as of the same batch: that alone would not tell of the later ones."""
    monkeypatch.setattr(batches, "AT_ONCE", 1)
    monkeypatch.setattr(catchup, "BETWEEN_CHECKPOINTS", 1)
    write(tmp_path / "c", 0, {HOUR: TOLD[HOUR]})
    seen: list[int] = []
    readers: list[WindowStore] = []

    class Reader:
        def on_start(self, what: str, *, total: int) -> None:
            """Nothing is there yet."""

        def on_batch(self, what: str, *, records: int) -> None:  # noqa: ARG002 - has these names
            if not readers:
                readers.append(WindowStore.open(tmp_path / "r"))
                return
            readers[0]._reading.refresh(now=True)
            seen.append(sum(len(page) for page in readers[0].scan(window="1 hour", at=0)))

        def on_end(self, what: str, *, records: int) -> None:
            """The last piece has been seen."""

        def on_failure(self, what: str, *, error: Exception) -> None:  # noqa: ARG002 - the same
            raise error

    with restored(tmp_path / "c", tmp_path / "r", listener=Reader()):
        readers[0]._reading.refresh(now=True)
        assert held(readers[0]) == {HOUR: TOLD[HOUR]}
    readers[0].close()
    assert len(set(seen)) == len(seen) > 1
    assert seen == sorted(seen)


def test_a_replica_that_is_gone_is_said_to_be_none(tmp_path: Path) -> None:
    write(tmp_path / "c", 0, TOLD)
    store = restored(tmp_path / "c", tmp_path / "r")
    (tmp_path / "r" / "replica.json").unlink()
    store._reading._looked = 0
    with pytest.raises(InputError, match="is no replica"):
        store.get("user 7", window="1 hour", at=0)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is no replica"):
        WindowStore.open(tmp_path / "file")


def test_half_of_a_surrogate_pair_is_no_user(tmp_path: Path) -> None:
    write(tmp_path / "c", 0, TOLD)
    with restored(tmp_path / "c", tmp_path / "r") as store:
        for ask in (
            lambda: store.get("\ud800", window="1 hour", at=0),
            lambda: store.get_many(["\ud800"], window="1 hour", at=0),
            lambda: store.history("\ud800", window="1 hour"),
        ):
            with pytest.raises(ConfigurationError, match="is no text"):
                ask()


@pytest.mark.parametrize("at", [10**30, -(10**18)])
def test_a_number_that_is_no_time_is_told(tmp_path: Path, at: int) -> None:
    write(tmp_path / "c", 0, TOLD)
    with (
        restored(tmp_path / "c", tmp_path / "r") as store,
        pytest.raises(ConfigurationError, match="no time in epoch ms"),
    ):
        store.get("user 7", window="1 hour", at=at)


WAITING = """
import sys, time
from kstoolkit.stores.windowstore import WindowStore
store = WindowStore.open(sys.argv[1])
for window in ("1 minute", "1 hour"):
    store.get("user 7", window=window, at=0)
print("open", flush=True)
time.sleep(600)
"""


@pytest.mark.kill
def test_what_a_killed_reader_left_goes_when_the_next_one_comes(public: Path) -> None:
    write(public / "log", 0, TOLD)
    restored(public / "log", public / "replica").close()
    scratch = public / "scratch"
    scratch.mkdir()
    reader = subprocess.Popen(
        [sys.executable, "-c", WAITING, str(public / "replica")],
        cwd=Path(__file__).parents[2],
        env={"TMPDIR": str(scratch), "PATH": ""},
        stdout=subprocess.PIPE,
        text=True,
    )
    with reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "open\n"
        (left,) = scratch.iterdir()
        assert left.name.startswith("kstoolkit-replica-")
        assert len(list(left.glob("*/CURRENT"))) == 2, "one folder holds all that a process reads"
        asked(public / "replica", scratch, EVERYTHING)
        assert left.is_dir(), "its owner lives"
        reader.kill()
    asked(public / "replica", scratch, EVERYTHING)
    assert not list(scratch.iterdir())


def test_a_forked_child_that_ends_leaves_its_parents_view(public: Path) -> None:
    write(public / "log", 0, TOLD)
    restored(public / "log", public / "replica").close()
    scratch = public / "scratch"
    scratch.mkdir()
    told = asked(
        public / "replica",
        scratch,
        """
    import sys
    store = WindowStore.open(path)
    store.get("user 7", window="1 hour", at=0)
    if os.fork() == 0:
        sys.exit()
    os.wait()
    print(len(list(__import__("pathlib").Path(os.environ["TMPDIR"]).glob("*/*/CURRENT"))))
    store.close()
    """,
    )
    assert told == "1\n"
    assert not list(scratch.iterdir())


def test_a_scratch_folder_that_somebody_took_away_is_made_again(
    public: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(public / "log", 0, TOLD)
    restored(public / "log", public / "replica").close()
    scratch = public / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    with WindowStore.open(public / "replica") as store:
        before = store.get("user 7", window="1 minute", at=0)
        (place,) = scratch.iterdir()
        shutil.rmtree(place)
        assert store.get("user 7", window="1 hour", at=0).counts == {"edit": 8}
        assert store.get("user 7", window="1 minute", at=0) == before
    assert not list(scratch.iterdir())
