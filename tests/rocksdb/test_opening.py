from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from rocksdict import Options, PlainTableFactoryOptions, Rdict, SliceTransform

from kstoolkit.errors import FormatError, InputError, UserError
from kstoolkit.rocksdb import opening
from kstoolkit.rocksdb.faults import (
    ColumnFamilyError,
    DamagedStoreError,
    EncryptedStoreError,
    MissingFileError,
    NewerFormatError,
    NoStoreError,
    StoreClosedError,
    StorePermissionError,
    StoreResourceError,
)
from kstoolkit.rocksdb.log.lines import log_files
from kstoolkit.rocksdb.opening import open_store
from tests.rocksdb.madestores import (
    LIVE,
    appearance,
    key_of,
    largest_sst,
    make_store,
    small_options,
    value_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - another disk than the one for temporary files


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that no test may change."""
    return make_store(tmp_path_factory.mktemp("made") / "store")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store to spoil."""
    return make_store(tmp_path / "store")


def manifest_of(folder: Path) -> Path:
    return folder / (folder / "CURRENT").read_text().strip()


def test_a_store_is_read_and_nothing_in_its_folder_changes(made: Path, tmp_path: Path) -> None:
    before = appearance(made)
    with open_store(made, scratch=tmp_path) as opened:
        assert appearance(made) == before
        assert dict(opened.iter_rows()) == LIVE
        assert dict(opened.iter_rows(cf="other")) == {b"a": b"1", b"b": b"2"}
        assert opened.column_families == ("default", "other")
        opened.summary(), opened.levels(), opened.options(), opened.key_stats()
    assert appearance(made) == before
    assert not list(tmp_path.iterdir())
    assert {each.stat().st_nlink for each in made.iterdir()} == {1}


def test_a_point_query_finds_what_is_there_and_nothing_else(made: Path) -> None:
    with open_store(made) as opened:
        assert opened.get(key_of(1)) == value_of(1)
        assert opened.get(key_of(0)) is None
        assert opened.get(b"a", cf="other") == b"1"


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that other users may look into; pytest's own are closed to them."""
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_a_store_that_nobody_may_write_to_is_read_by_another_user(public: Path) -> None:
    """Tests often run as root, whom no permission stops: so the reader is somebody else."""
    made = make_store(public / "store")
    made.chmod(0o555)
    for each in made.iterdir():
        each.chmod(0o444)
    scratch = public / "scratch"
    scratch.mkdir()
    scratch.chmod(0o777)
    before = appearance(made)
    told = _run(
        f"""
        with open_store({str(made)!r}, scratch={str(scratch)!r}) as opened:
            print(sum(1 for _ in opened.iter_rows()))
        """,
        NOBODY,
    )
    made.chmod(0o755)
    assert told == f"{len(LIVE)}\n"
    before["."] = appearance(made)["."]
    assert appearance(made) == before
    assert not list(scratch.iterdir())


def test_too_few_permissions_are_said_and_not_taken_for_damage(public: Path) -> None:
    made = make_store(public / "store")
    largest_sst(made).chmod(0)
    program = """
        try:
            open_store({path!r})
        except Exception as error:
            print(type(error).__name__, error.hint)
        """
    told = _run(program.format(path=str(made)), NOBODY)
    assert told.startswith(f"{StorePermissionError.__name__} Read permission")
    made.chmod(0)
    told = _run(program.format(path=str(made)), NOBODY)
    made.chmod(0o755)
    assert told.startswith(f"{StorePermissionError.__name__} Read permission")


NOBODY = "if os.getuid() == 0: os.setgroups([]); os.setgid(65534); os.setuid(65534)"


def _run(program: str, become: str = "") -> str:
    """Run a program in a process of its own; all it needs is imported before it becomes another."""
    head = f"import os\nfrom kstoolkit.rocksdb.opening import open_store\n{become}\n"
    done = subprocess.run(
        [sys.executable, "-c", head + textwrap.dedent(program)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_store_of_more_files_than_may_be_open_opens_all_the_same(tmp_path: Path) -> None:
    """Looking one key up opens a file at a time; reading level 0 in order takes all at once."""
    writer = Rdict(str(tmp_path / "store"), small_options())
    for number in range(100):
        writer[key_of(number)] = b""
        writer.flush()
    writer.close()
    told = _run(
        f"""
        import resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        with open_store({str(tmp_path / "store")!r}, scratch={str(tmp_path)!r}) as opened:
            print(len(opened.ssts()), opened.get({key_of(7)!r}))
            try:
                list(opened.iter_rows())
            except Exception as error:
                print(type(error).__name__)
        """
    )
    assert told == f"100 b''\n{StoreResourceError.__name__}\n"


def test_a_store_on_another_disk_is_read_where_it_lies(made: Path) -> None:
    if not SHARED_MEMORY.is_dir() or SHARED_MEMORY.stat().st_dev == made.stat().st_dev:
        pytest.skip("no disk of one's own: no second one to read from")
    before = appearance(made)
    with open_store(made, scratch=SHARED_MEMORY) as opened:
        assert dict(opened.iter_rows()) == LIVE
        assert opened.summary().copied_bytes < largest_sst(made).stat().st_size
    assert appearance(made) == before


def test_links_that_are_relative_lead_where_the_files_lie(made: Path, tmp_path: Path) -> None:
    """As volumes are put together of parts: a folder, its SST files and its MANIFEST are links."""
    store, elsewhere = tmp_path / "a" / "store", tmp_path / "elsewhere"
    shutil.copytree(made, store)
    elsewhere.mkdir()
    for each in (*store.glob("*.sst"), *store.glob("MANIFEST-*")):
        each.rename(elsewhere / each.name)
        each.symlink_to(Path("..", "..", "elsewhere", each.name))
    (tmp_path / "link").symlink_to(Path("a", "store"))
    before = appearance(tmp_path)
    for path in (store, tmp_path / "link"):
        with open_store(path, partly=True) as opened:
            assert opened.damage is None
            assert dict(opened.iter_rows()) == LIVE
    assert appearance(tmp_path) == before


def test_a_scratch_folder_that_is_not_there_is_said(made: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreResourceError, match="scratch="):
        open_store(made, scratch=tmp_path / "nowhere")


def test_a_scratch_folder_whose_name_rocksdict_can_not_take_is_said(
    made: Path, tmp_path: Path
) -> None:
    odd = tmp_path / os.fsdecode(b"\xff")
    odd.mkdir()
    with pytest.raises(StoreResourceError, match="no UTF-8"):
        open_store(made, scratch=odd)
    assert not list(odd.iterdir())


def test_a_store_that_is_removed_while_it_is_open_is_still_read(
    store: Path, tmp_path: Path
) -> None:
    with open_store(store, scratch=tmp_path) as opened:
        shutil.rmtree(store)
        assert dict(opened.iter_rows()) == LIVE
        assert opened.summary().num_files == len(opened.ssts()) == 4
        assert opened.options()
        with pytest.raises(InputError, match="no log at"):
            opened.log()


@pytest.mark.parametrize("moment", ["footprint_of", "Shadow", "_state_of", "other_folders_of"])
def test_a_store_that_is_removed_while_it_is_being_opened_is_gone(
    moment: str, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real step runs, only that the folder goes right before it."""
    step = getattr(opening, moment)

    def removed_before(*arguments: Any, **options: Any) -> Any:
        shutil.rmtree(store, ignore_errors=True)
        return step(*arguments, **options)

    monkeypatch.setattr(opening, moment, removed_before)
    with pytest.raises(NoStoreError, match="There is no"):
        open_store(store)


def test_a_missing_path_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(NoStoreError, match="There is no") as caught:
        open_store(tmp_path / "a" / "b")
    assert isinstance(caught.value, UserError)
    assert str(tmp_path) in str(caught.value.hint)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_no_store_says_where_stores_lie(made: Path, tmp_path: Path) -> None:
    with pytest.raises(NoStoreError) as caught:
        open_store(made.parent)
    assert str(caught.value.hint) == f"There is one in {made}."
    with pytest.raises(NoStoreError, match=r"state\.dir"):
        open_store(tmp_path)


def test_a_file_is_no_store(made: Path) -> None:
    with pytest.raises(NoStoreError, match="is a file"):
        open_store(largest_sst(made))


def cut(file: Callable[[Path], Path], size: Callable[[int], int]) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        os.truncate(file(folder), size(file(folder).stat().st_size))

    return spoil


def flip(file: Callable[[Path], Path], at: int, value: int | None = None) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        path = file(folder)
        content = bytearray(path.read_bytes())
        content[at] = content[at] ^ 0xFF if value is None else value
        path.write_bytes(content)

    return spoil


def remove(file: Callable[[Path], Path]) -> Callable[[Path], None]:
    return lambda folder: file(folder).unlink()


def write_current(content: bytes) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        (folder / "CURRENT").write_bytes(content)

    return spoil


def encrypt(folder: Path) -> None:
    for sst in folder.glob("*.sst"):
        sst.write_bytes(bytes(each ^ 0xA5 for each in sst.read_bytes()))


SPOILT = {
    "an empty MANIFEST": (cut(manifest_of, lambda _: 0), DamagedStoreError, "MANIFEST"),
    "half a MANIFEST": (cut(manifest_of, lambda n: n // 2), DamagedStoreError, "MANIFEST"),
    "a MANIFEST short of a byte": (cut(manifest_of, lambda n: n - 1), DamagedStoreError, "middle"),
    "no MANIFEST": (remove(manifest_of), DamagedStoreError, "missing"),
    "a damaged MANIFEST": (flip(manifest_of, 20), DamagedStoreError, "MANIFEST"),
    "a missing SST": (remove(largest_sst), MissingFileError, r"\.sst, which it needs, is missing"),
    "a short SST": (cut(largest_sst, lambda _: 100), DamagedStoreError, "size mismatch"),
    "a bad end of an SST": (flip(largest_sst, -1), DamagedStoreError, "magic"),
    "a newer format": (flip(largest_sst, -12, 7), NewerFormatError, "format_version 7.*up to 6"),
    "no CURRENT": (remove(lambda f: f / "CURRENT"), DamagedStoreError, "CURRENT, .* is missing"),
    "a CURRENT of something": (write_current(b"junk\n"), DamagedStoreError, "names no MANIFEST"),
    "an empty CURRENT": (write_current(b""), DamagedStoreError, "names no MANIFEST"),
    "an encrypted CURRENT": (write_current(b"\x93\x01\xff"), EncryptedStoreError, "encrypted"),
    "encrypted SSTs": (encrypt, EncryptedStoreError, "encrypted, or damaged"),
}


@pytest.mark.parametrize("what", SPOILT)
def test_what_is_wrong_is_said_and_nothing_changes(what: str, store: Path, tmp_path: Path) -> None:
    spoil, kind, words = SPOILT[what]
    spoil(store)
    before = appearance(store)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with pytest.raises(kind, match=words) as caught:
        open_store(store, scratch=scratch)
    assert type(caught.value) is kind
    assert caught.value.hint
    assert str(store) in caught.value.message
    assert str(scratch) not in str(caught.value)
    assert appearance(store) == before
    assert not list(scratch.iterdir())


def test_tables_that_are_not_block_based_are_said_to_be_so(tmp_path: Path) -> None:
    options = Options(raw_mode=True)
    options.set_prefix_extractor(SliceTransform.create_fixed_prefix(1))
    options.set_plain_table_factory(PlainTableFactoryOptions())
    writer = Rdict(str(tmp_path / "store"), options)
    writer[b"a"] = b"b"
    writer.close()
    with pytest.raises(FormatError, match="not block-based"):
        open_store(tmp_path / "store")


def test_a_newer_format_names_who_wrote_it(store: Path) -> None:
    flip(largest_sst, -12, 9)(store)
    with pytest.raises(NewerFormatError, match=r"RocksDB 9\.8\.4; rocksdict \d") as caught:
        open_store(store)
    assert isinstance(caught.value, FormatError)


def test_a_flipped_byte_ends_no_iteration_early(store: Path) -> None:
    flip(largest_sst, 100)(store)
    before = appearance(store)
    with open_store(store) as opened:
        with pytest.raises(DamagedStoreError, match="checksum") as caught:
            sum(1 for _ in opened.iter_rows())
        assert largest_sst(store).name in caught.value.message
        with pytest.raises(DamagedStoreError, match="checksum"):
            [opened.get(key) for key in LIVE]
        with pytest.raises(DamagedStoreError):
            opened.key_stats()
    assert appearance(store) == before


def test_a_closed_store_says_so(made: Path) -> None:
    opened = open_store(made)
    rows = opened.iter_rows()
    next(rows)
    opened.close()
    opened.close()
    for ask in (opened.summary, opened.levels, opened.options, lambda: next(rows)):
        with pytest.raises(StoreClosedError):
            ask()
    assert "closed" in repr(opened)


def test_an_unknown_column_family_names_those_there_are(made: Path) -> None:
    with open_store(made) as opened, pytest.raises(ColumnFamilyError) as caught:
        opened.summary("zz")
    assert caught.value.hint == "It has: default, other."


def test_a_key_that_is_no_bytes_is_a_mistake_and_not_a_missing_key(made: Path) -> None:
    with open_store(made) as opened, pytest.raises(UserError, match="bytes"):
        opened.get("text")  # type: ignore[arg-type] # what a newcomer types


def test_logs_come_oldest_first(tmp_path: Path, made: Path) -> None:
    with open_store(made) as opened:
        assert [each.name for each in log_files(opened.path)] == ["LOG"]
    store = make_store(tmp_path / "store")
    for name in ("LOG.old.9", "LOG.old.10", "LOG.old.x"):
        (store / name).write_text("")
    with open_store(store) as opened:
        assert [each.name for each in log_files(opened.path)] == ["LOG.old.9", "LOG.old.10", "LOG"]


def test_the_log_is_the_writer_s_and_not_that_of_looking_in(made: Path) -> None:
    before = appearance(made)
    with open_store(made) as opened:
        log = opened.log()
        assert (log.num_files, log.rocksdb_version) == (1, "9.8.4")
        assert log.size_bytes == (made / "LOG").stat().st_size
        assert len(log.flushes()) == 4
        assert len(opened.compactions()) == len(opened.stalls()) == 0
    assert appearance(made) == before


def test_a_store_without_options_opens_and_says_so(store: Path) -> None:
    for each in store.glob("OPTIONS-*"):
        each.unlink()
    with open_store(store) as opened:
        summary = opened.summary()
        assert summary.rocksdb_version is None
        assert "OPTIONS" in summary.unknown["rocksdb_version"]
        assert dict(opened.iter_rows()) == LIVE
        with pytest.raises(NoStoreError, match="no OPTIONS file"):
            opened.options()
