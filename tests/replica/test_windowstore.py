"""Readers change nothing, need read permission alone, and see what a writer has made whole."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kstoolkit.changelog import reader
from kstoolkit.changelog.compaction import compact
from kstoolkit.errors import ConfigurationError, FormatError, InputError, OutputError, UserError
from kstoolkit.formats.keys import encode_replica_key
from kstoolkit.replica import catchup
from kstoolkit.replica.records import UserCounts
from kstoolkit.replica.replicafile import _REPLICA, ReplicaState, segment_options
from kstoolkit.replica.segments import DiskSegment
from kstoolkit.replica.windowstore import WindowStore, _together
from kstoolkit.rocksdb.faults import DamagedStoreError, StoreClosedError, StoreResourceError
from kstoolkit.rocksdb.profiles.named import profile_names
from tests.changelog.changelogs import HOUR, MINUTE, newest, write
from tests.replica.replicas import Told, flip_a_byte, held, restored, segment

if TYPE_CHECKING:
    from collections.abc import Iterator


ANNA: Told = {
    MINUTE: {(0, "Anna", "read"): 3, (HOUR, "Anna", "write"): 1, (HOUR, "Bo", "read"): 2**33},
    HOUR: {(0, "Anna", "read"): 3, (HOUR, "Anna", "write"): 1},
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path / "changelog", 3, ANNA)
    return tmp_path / "changelog"


@pytest.fixture
def store(root: Path, tmp_path: Path) -> WindowStore:
    return restored(root, tmp_path / "replica")


def test_a_users_counts_are_told_with_their_window_and_when_they_changed(
    store: WindowStore,
) -> None:
    answer = store.get("Anna", window="1 hour", at="1970-01-01T01:59Z")
    assert answer.counts == {"write": 1}
    assert answer.total == 1
    assert answer.window_start == datetime(1970, 1, 1, 1, tzinfo=UTC)
    assert answer.window_end == datetime(1970, 1, 1, 2, tzinfo=UTC)
    assert answer.updated_at == datetime(1970, 1, 1, 0, 0, 3, tzinfo=UTC)
    assert repr(answer) == "UserCounts('Anna', 1 hour from 1970-01-01T01:00:00+00:00: write 1)"


@pytest.mark.parametrize("at", ["1970-01-01T00:00:59.999Z", 0, datetime(1970, 1, 1, tzinfo=UTC)])
def test_a_moment_may_be_text_milliseconds_or_a_datetime(
    store: WindowStore, at: str | int | datetime
) -> None:
    assert store.get("Anna", window="1 minute", at=at).counts == {"read": 3}


@pytest.mark.parametrize(("user", "at"), [("Zoë", 0), ("Anna", 5 * HOUR), ("Anna", -1)])
def test_who_did_nothing_has_no_counts_and_why_is_said(
    store: WindowStore, user: str, at: int
) -> None:
    answer = store.get(user, window="1 hour", at=at)
    assert answer.counts == {}
    assert answer.updated_at is None
    assert "no counts of this user" in answer.figures()[1].text


def test_many_users_are_answered_in_their_order(store: WindowStore) -> None:
    answers = store.get_many(["Zoë", "Bo", "Anna", "Bo"], window="1 minute", at=HOUR)
    assert [one.user for one in answers] == ["Zoë", "Bo", "Anna", "Bo"]
    assert [one.counts for one in answers] == [{}, {"read": 2**33}, {"write": 1}, {"read": 2**33}]
    assert not any(one.counts for one in store.get_many(["Anna"], window="1 minute", at=9 * HOUR))


def test_a_scan_comes_in_pages(root: Path, tmp_path: Path) -> None:
    write(root, 4, {HOUR: {(0, f"user {n}", "read"): n + 1 for n in range(10)}})
    with restored(root, tmp_path / "r") as store:
        pages = list(store.scan(window="1 hour", at=0, page=4))
        assert [len(page) for page in pages] == [4, 4, 3]
        assert {one.user for page in pages for one in page} == {
            "Anna",
            *(f"user {n}" for n in range(10)),
        }
        assert list(store.scan(window="1 hour", at=77 * HOUR)) == []
        with pytest.raises(ConfigurationError, match="page of 0"):
            store.scan(window="1 hour", at=0, page=0)


def test_a_history_goes_on_from_where_it_is_asked(store: WindowStore) -> None:
    whole = store.history("Anna", window="1 minute")
    assert [(one.window_start_ms, one.counts) for one in whole] == [
        (0, {"read": 3}),
        (HOUR, {"write": 1}),
    ]
    later = store.history("Anna", window="1 minute", since=MINUTE)
    assert [one.window_start_ms for one in later] == [HOUR]
    assert len(store.history("Anna", window="1 minute", since=HOUR + MINUTE)) == 0
    assert len(store.history("nobody", window="1 minute")) == 0


def test_hopping_windows_are_answered_by_their_label(root: Path, tmp_path: Path) -> None:
    hop = "5 minutes every 1 minute"
    starts = [0, MINUTE, 64 * MINUTE]
    write(root, 4, {5 * MINUTE: {(start, "Anna", "read"): 5 for start in starts}})
    with restored(root, tmp_path / "r") as store:
        assert store.get("Anna", window=hop, at=MINUTE + 5).counts == {"read": 5}
        assert store.get("Anna", window=hop, at=2 * MINUTE).counts == {}
        assert [one.window_start_ms for one in store.history("Anna", window=hop)] == starts


def test_segments_say_where_they_are_and_what_they_hold(store: WindowStore) -> None:
    states = store.segments()
    assert [(each.window, each.start_ms, each.end_ms) for each in states] == [
        (window, start, start + HOUR) for window in ("1 minute", "1 hour") for start in (0, HOUR)
    ]
    assert all(each.path and Path(each.path).is_dir() for each in states)
    for each in states:
        files = list(Path(each.path or "").iterdir())
        assert each.disk_bytes == sum(file.stat().st_blocks * 512 for file in files)
        assert each.sst_bytes == sum(file.stat().st_size for file in files if file.suffix == ".sst")
    assert {(each.epoch, each.batch) for each in states} == {(0, 3)}
    assert list(states.to_pandas()["window"]) == ["1 minute"] * 2 + ["1 hour"] * 2


def test_segments_in_memory_have_no_size_on_disk_and_why_is_said(
    root: Path, tmp_path: Path
) -> None:
    with restored(root, tmp_path / "r", memory_windows=["1 minute"]) as store:
        first = store.segments()[0]
    assert (first.path, first.bundles, first.sst_bytes, first.disk_bytes) == (None, 1, None, None)
    assert first.unknown == dict.fromkeys(("sst_bytes", "disk_bytes"), "it is in memory")


def test_expiry_drops_whole_segments_and_they_do_not_come_back(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "r"
    keep = {"1 minute": "1 hour"}
    with restored(root, path, retention=keep) as store:
        assert store.expire(2 * HOUR - 1) == 0
        assert store.expire(2 * HOUR) == 1
        assert store.get("Anna", window="1 minute", at=0).counts == {}
        assert store.get("Anna", window="1 hour", at=0).counts == {"read": 3}
    assert not segment(path, MINUTE, 0).exists()
    write(root, 9, {MINUTE: {(0, "Anna", "read"): 4, (HOUR, "Anna", "read"): 1}})
    compact(root)
    left = {(start, u, a): n for (start, u, a), n in ANNA[MINUTE].items() if start}
    with restored(root, path) as store:
        assert held(store)[MINUTE] == left | {(HOUR, "Anna", "read"): 1}


def test_expiry_in_memory_is_the_same(root: Path, tmp_path: Path) -> None:
    options = {"retention": {"1 minute": 0}, "memory_windows": ["1 minute"]}
    with restored(root, tmp_path / "r", **options) as store:
        assert store.expire("1970-01-01T01:00Z") == 1
        assert [each.start_ms for each in store.segments() if each.window == "1 minute"] == [HOUR]


def test_a_standby_keeps_up_and_says_how_far_it_is_behind(store: WindowStore, root: Path) -> None:
    with store.follow(root) as standby:
        assert (standby.lag.records, standby.lag.seconds) == (0, 0.0)
        later: Told = {MINUTE: {(0, "Anna", "write"): 8}, HOUR: {(7 * HOUR, "Bo", "read"): 1}}
        write(root, 10, later)
        assert (standby.lag.records, standby.lag.seconds) == (2, 7.0)
        assert standby.step() == 2
        assert (standby.lag.records, standby.step()) == (0, 0)
        assert store.get("Anna", window="1 minute", at=0).counts == {"read": 3, "write": 8}
        assert held(store) == newest(ANNA, later)
    assert repr(standby) == "Standby(2 records followed)"


def test_a_standby_of_nothing_does_not_know_its_seconds(tmp_path: Path, root: Path) -> None:
    path = tmp_path / "r"
    restored(root, path).close()
    ReplicaState().save(path)
    with WindowStore.open(path) as store, store.follow(root) as standby:
        assert standby.lag.records == 5
        assert standby.lag.seconds is None
        assert "nothing is held" in standby.lag.unknown["seconds"]


def test_a_standby_follows_across_a_compaction_and_a_new_epoch(
    store: WindowStore, root: Path
) -> None:
    batches = [{HOUR: {(n % 3 * HOUR, "Anna", "read"): n + 9}} for n in range(6)]
    with store.follow(root) as standby:
        for number, batch in enumerate(batches):
            write(root, number, batch, epoch=1)
            if number % 2:
                compact(root)
                standby.step()
        assert held(store) == newest(ANNA, *batches)


def test_memory_follows_too(root: Path, tmp_path: Path) -> None:
    with (
        restored(root, tmp_path / "r", memory_windows=["1 minute"]) as store,
        store.follow(root) as standby,
    ):
        write(root, 4, {MINUTE: {(0, "Anna", "write"): 8}})
        standby.step()
        assert store.get("Anna", window="1 minute", at=0).counts == {"read": 3, "write": 8}
        store.close()


def test_a_segment_that_is_damaged_while_followed_is_rebuilt(
    store: WindowStore, root: Path
) -> None:
    flip_a_byte(next(segment(store.path, HOUR).glob("*.sst")))
    with store.follow(root) as standby:
        write(root, 4, {HOUR: {(0, "Anna", "write"): 8}})
        standby.step()
        assert store.get("Anna", window="1 hour", at=0).counts == {"read": 3, "write": 8}


def test_readers_see_what_one_process_follows(store: WindowStore, root: Path) -> None:
    program = (
        "import sys, time\n"
        "from kstoolkit.replica.windowstore import WindowStore\n"
        "with WindowStore.open(sys.argv[1]) as store:\n"
        "    seen = []\n"
        "    print('open', flush=True)\n"
        "    until = time.monotonic() + 30\n"
        "    while time.monotonic() < until:\n"
        "        count = store.get('Anna', window='1 hour', at=0).counts['read']\n"
        "        seen.append(count)\n"
        "        if count == 20: break\n"
        "assert seen == sorted(seen), seen\n"
        "print(seen[-1])\n"
    )
    readers = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(store.path)],
            cwd=Path(__file__).parents[2],
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    with store.follow(root, every="10 ms") as standby:
        standby.start()
        for reader in readers:
            assert reader.stdout is not None
            assert reader.stdout.readline() == "open\n"
        for count in range(4, 21):
            write(root, count, {HOUR: {(0, "Anna", "read"): count}})
            time.sleep(0.02)
        answers = [reader.communicate(timeout=60)[0] for reader in readers]
    assert answers == ["20\n", "20\n"]


def test_a_store_is_asked_while_it_is_followed_in_the_background(
    store: WindowStore, root: Path
) -> None:
    wrong: list[BaseException] = []
    stop = threading.Event()

    def ask() -> None:
        try:
            while not stop.is_set():
                assert store.get("Anna", window="1 hour", at=0).counts["read"] >= 3
                assert len(store.history("Anna", window="1 minute")) >= 2
        except BaseException as error:  # noqa: BLE001 - told by the test
            wrong.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    with store.follow(root, every="5 ms").start() as standby:
        for count in range(4, 30):
            write(root, count, {HOUR: {(0, "Anna", "read"): count}})
        until = time.monotonic() + 30
        while standby.lag.records and time.monotonic() < until:
            time.sleep(0.01)
    stop.set()
    asking.join()
    assert wrong == []
    assert store.get("Anna", window="1 hour", at=0).counts == {"read": 29}


def test_why_a_standby_stopped_is_told_to_whoever_asks(store: WindowStore, root: Path) -> None:
    standby = store.follow(root, every="5 ms").start()
    folder = write(root, 4, {HOUR: {(0, "Anna", "read"): 9}}, marked=False)
    for part in folder.glob("part-*"):
        part.write_bytes(b"no Parquet")
    (folder / "_done").touch()
    assert standby._thread is not None
    standby._thread.join(timeout=30)
    with pytest.raises(FormatError, match="damaged"):
        standby.close()
    restored_by_another = store.follow(root)  # the lock is free again
    restored_by_another.close()


def test_a_second_follower_is_refused_and_expiry_goes_through_the_first(
    root: Path, tmp_path: Path
) -> None:
    store = restored(root, tmp_path / "r", retention={"1 hour": 0})
    with store.follow(root) as standby:
        with pytest.raises(OutputError, match="somebody else"):
            store.follow(root)
        with pytest.raises(OutputError, match="somebody else"):
            store.expire(HOUR)
        assert standby.expire(HOUR) == 1
        assert standby.step() == 0
        assert store.get("Anna", window="1 hour", at=0).counts == {}


def test_expiry_by_the_time_that_the_data_has_come_to(root: Path, tmp_path: Path) -> None:
    keep = {"1 minute": "1 hour", "1 hour": "3 hours"}
    with restored(root, tmp_path / "r", retention=keep) as store, store.follow(root) as standby:
        assert standby.expire() == 0
        write(root, 4, {MINUTE: {(2 * HOUR, "Anna", "read"): 1}})
        standby.step()
        assert standby.expire() == 1
        assert store.get("Anna", window="1 minute", at=0).counts == {}
        assert store.get("Anna", window="1 hour", at=0).counts == {"read": 3}
    write(root, 5, {HOUR: {(4 * HOUR, "Anna", "read"): 1}})
    with restored(root, tmp_path / "r") as store:
        assert store.expire() == 3
        assert [(each.window, each.start_ms) for each in store.segments()] == [
            ("1 hour", HOUR),
            ("1 hour", 4 * HOUR),
        ]
    with restored(root, tmp_path / "other") as store:
        assert store.expire() == 0


def test_who_reads_a_segment_while_it_expires_has_its_counts_or_none(
    root: Path, tmp_path: Path
) -> None:
    for hour in range(2, 30):
        write(root, hour + 10, {HOUR: {(hour * HOUR, "Anna", "read"): 5}})
    wrong: list[object] = []
    stop = threading.Event()

    def ask(path: Path) -> None:
        try:
            with WindowStore.open(path) as store:
                while not stop.is_set():
                    for hour in range(2, 30):
                        counts = store.get("Anna", window="1 hour", at=hour * HOUR).counts
                        wrong.extend([counts] * (counts not in ({"read": 5}, {})))
                    store.history("Anna", window="1 hour")
        except BaseException as error:  # noqa: BLE001 - told by the test
            wrong.append(error)

    with restored(root, tmp_path / "r", retention={"1 hour": 0}) as store:
        asking = [threading.Thread(target=ask, args=(store.path,)) for _ in range(2)]
        for each in asking:
            each.start()
        with store.follow(root) as standby:
            for hour in range(3, 31):
                standby.expire(hour * HOUR)
                time.sleep(0.01)
        stop.set()
        for each in asking:
            each.join()
        assert wrong == []
        assert not store.history("Anna", window="1 hour")


def test_a_closed_replica_says_so(store: WindowStore) -> None:
    store.close()
    with pytest.raises(StoreClosedError, match="is closed"):
        store.get("Anna", window="1 hour", at=0)


def test_a_window_that_is_not_there_is_told_with_those_that_are(store: WindowStore) -> None:
    with pytest.raises(ConfigurationError, match="no window '1 day'") as told:
        store.get("Anna", window="1 day", at=0)
    assert told.value.hint == "It has: 1 minute, 1 hour."


@pytest.mark.parametrize("at", ["yesterday", datetime(2015, 9, 12)])  # noqa: DTZ001 - is refused
def test_what_is_no_moment_is_told(store: WindowStore, at: str | datetime) -> None:
    with pytest.raises(ConfigurationError, match=r"not a time|no time zone"):
        store.get("Anna", window="1 hour", at=at)


@pytest.mark.parametrize("at", [5.5, None, True, b"2015"])
def test_what_is_neither_text_nor_milliseconds_nor_a_datetime_is_no_time(
    store: WindowStore, at: Any
) -> None:
    with pytest.raises(ConfigurationError, match="is no time"):
        store.get("Anna", window="1 hour", at=at)
    if at is not None:
        with pytest.raises(ConfigurationError, match="is no time"):
            store.history("Anna", window="1 hour", since=at)


def test_whole_numbers_of_numpy_are_milliseconds_too(store: WindowStore) -> None:
    (at,) = np.array([MINUTE])
    told = store.get("Anna", window="1 hour", at=at)
    assert told == store.get("Anna", window="1 hour", at=MINUTE)
    assert type(told.window_start_ms) is int


def test_a_datetime_without_a_zone_is_refused_with_how_text_is_taken(store: WindowStore) -> None:
    with pytest.raises(ConfigurationError, match="has no time zone") as told:
        store.get("Anna", window="1 hour", at=datetime(1970, 1, 1))  # noqa: DTZ001 - on purpose
    assert "text: that is in UTC if it names no zone" in str(told.value.hint)


@pytest.mark.parametrize("user", [None, 7, b"Anna"])
def test_a_user_that_is_no_text_is_refused(store: WindowStore, user: Any) -> None:
    with pytest.raises(ConfigurationError, match="is no text"):
        store.get(user, window="1 hour", at=0)
    with pytest.raises(ConfigurationError, match="is no text"):
        store.get_many([user], window="1 hour", at=0)
    with pytest.raises(ConfigurationError, match="is no text"):
        store.history(user, window="1 hour")


@pytest.mark.parametrize("users", ["Anna", b"Anna"])
def test_one_text_is_not_taken_for_many_users(store: WindowStore, users: Any) -> None:
    with pytest.raises(ConfigurationError, match="which is one text"):
        store.get_many(users, window="1 hour", at=0)


@pytest.mark.parametrize("window", [None, 1.5, ["1 hour"]])
def test_what_is_no_window_is_refused(store: WindowStore, window: Any) -> None:
    with pytest.raises(ConfigurationError, match="is no window"):
        store.get("Anna", window=window, at=0)


def test_windows_in_memory_that_the_changelog_lacks_are_told_and_not_answered(
    root: Path, tmp_path: Path
) -> None:
    with pytest.warns(UserWarning, match="no windows of 7 hours so far"):
        store = restored(root, tmp_path / "r", memory_windows=["7 hours", "1 minute"])
    with store:
        assert store.windows == ("1 minute", "1 hour")
        with pytest.raises(ConfigurationError, match="no window '7 hours'"):
            store.get("Anna", window="7 hours", at=0)
        write(root, 4, {7 * HOUR: {(0, "Anna", "read"): 5}})
        with store.follow(root) as standby:
            standby.step()
        assert store.get("Anna", window="7 hours", at=0).counts == {"read": 5}


@pytest.mark.parametrize("path", ["x" * 300, "a\0b", 7, None], ids=["long", "null", "7", "none"])
def test_a_path_that_no_system_takes_is_refused(path: Any, root: Path) -> None:
    with pytest.raises(UserError) as opened:
        WindowStore.open(path)
    with pytest.raises(UserError) as made:
        restored(root, path)
    assert "damaged" not in str(opened.value) + str(made.value)


def test_one_segment_is_told_as_one(tmp_path: Path) -> None:
    write(tmp_path / "log", 0, {HOUR: {(0, "Anna", "read"): 5}})
    with restored(tmp_path / "log", tmp_path / "r") as store:
        assert repr(store).endswith(": 1 hour; 1 segment)")


def test_a_folder_without_a_replica_is_told_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "empty", tmp_path / "nowhere"):
        with pytest.raises(InputError, match="no replica"):
            WindowStore.open(path)
    assert [each.name for each in tmp_path.rglob("*")] == ["empty"]


@pytest.mark.parametrize(
    "text", ["", "{}", '{"version": 1}', '{"version": 1, "levels": [1], "retention_ms": {}}']
)
def test_a_damaged_replica_file_is_told(store: WindowStore, text: str) -> None:
    (store.path / "replica.json").write_text(text)
    with pytest.raises(FormatError, match=r"replica\.json"):
        WindowStore.open(store.path)


def test_a_newer_replica_is_told_with_both_versions(store: WindowStore) -> None:
    (store.path / "replica.json").write_text('{"version": 9}')
    with pytest.raises(FormatError, match="version 9"):
        WindowStore.open(store.path)


def test_a_damaged_segment_is_told_to_readers(store: WindowStore) -> None:
    store.close()
    flip_a_byte(next(segment(store.path, HOUR).glob("*.sst")))
    with WindowStore.open(store.path) as again:
        with pytest.raises(FormatError, match="damaged"):
            again.get("Anna", window="1 hour", at=0)
        with pytest.raises(FormatError, match="damaged"):
            list(again.scan(window="1 hour", at=0))


@pytest.mark.parametrize("name", profile_names())
def test_every_named_profile_holds_the_same(root: Path, tmp_path: Path, name: str) -> None:
    write(root, 4, {HOUR: {(0, f"user {n}", "read"): n + 1 for n in range(300)}})
    with restored(root, tmp_path / "r", profile=name) as store:
        write(root, 5, {HOUR: {(0, "user 7", "write"): 1}})
        with store.follow(root) as standby:
            standby.step()
        assert held(store)[HOUR][0, "user 299", "read"] == 300
        assert store.get("user 7", window="1 hour", at=0).counts == {"read": 8, "write": 1}
        assert store.get("nobody", window="1 hour", at=0).counts == {}


def test_an_empty_text_and_any_letters_are_users_and_actions(root: Path, tmp_path: Path) -> None:
    long = "x" * 1_024
    users = (
        "",
        "\0",
        "a\0b",
        "\u202eanna\u202c",
        "👩\u200d🚀",
        "e\u0301",
        "é",
        "名前",
        long,
        f"{long}y",
    )
    rows = {(0, user, action): 1 for user in users for action in ("", "\0", "é", long)}
    write(root, 4, {HOUR: rows})
    with restored(root, tmp_path / "r") as store:
        assert held(store) == newest(ANNA, {HOUR: rows})
        for user in users:
            told = {"": 1, "\0": 1, "é": 1, long: 1}
            assert store.get(user, window="1 hour", at=0).counts == told
            assert [one.counts for one in store.history(user, window="1 hour")] == [told]


def test_filters_are_asked_by_a_replica_that_is_opened_again(root: Path, tmp_path: Path) -> None:
    options = segment_options(replace(_REPLICA, statistics=True))
    restored(root, tmp_path / "r").close()
    hour = DiskSegment(segment(tmp_path / "r", HOUR), options)
    assert hour.get_many([encode_replica_key(f"nobody {n}", 0) for n in range(100)]) == [None] * 100
    told = [line for line in str(options.get_statistics()).splitlines() if "filter.useful" in line]
    hour.close()
    assert int(told[0].split()[-1]) > 90, told


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
    head = f"import os\nfrom kstoolkit.replica.windowstore import WindowStore\n{become}\n"
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
    monkeypatch.setattr(reader, "_AT_ONCE", 1)
    monkeypatch.setattr(catchup, "_BETWEEN_CHECKPOINTS", 1)
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
            readers[0]._opened.refresh(now=True)
            seen.append(sum(len(page) for page in readers[0].scan(window="1 hour", at=0)))

        def on_end(self, what: str, *, records: int) -> None:
            """The last piece has been seen."""

        def on_failure(self, what: str, *, error: Exception) -> None:  # noqa: ARG002 - the same
            raise error

    with restored(tmp_path / "c", tmp_path / "r", listener=Reader()):
        readers[0]._opened.refresh(now=True)
        assert held(readers[0]) == {HOUR: TOLD[HOUR]}
    readers[0].close()
    assert len(set(seen)) == len(seen) > 1
    assert seen == sorted(seen)


def test_a_replica_that_is_gone_is_said_to_be_none(tmp_path: Path) -> None:
    write(tmp_path / "c", 0, TOLD)
    store = restored(tmp_path / "c", tmp_path / "r")
    (tmp_path / "r" / "replica.json").unlink()
    store._opened._looked = 0
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
from kstoolkit.replica.windowstore import WindowStore
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
        left = list(scratch.iterdir())
        assert len(left) == 2
        assert all(each.name.startswith("kstoolkit-replica-") for each in left)
        asked(public / "replica", scratch, EVERYTHING)
        assert all((each / "CURRENT").is_file() for each in left), "their owner lives"
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
    print(len(list(__import__("pathlib").Path(os.environ["TMPDIR"]).glob("*/CURRENT"))))
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


def test_what_a_session_that_was_parted_has_counted_is_added_up() -> None:
    parts = [UserCounts("a", 0, 90, {"x": 2}, 5), UserCounts("a", 30, 200, {"x": 7, "y": 1}, 9)]
    together = _together("a", 60, parts)
    assert together == UserCounts("a", 0, 200, {"x": 9, "y": 1}, 9)
    assert _together("a", 60, []).updated_at_ms is None
