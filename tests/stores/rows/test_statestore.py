from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kstoolkit.errors import ConfigurationError
from kstoolkit.formats.serdes import serde_of
from kstoolkit.formats.streams.kinds import Kind
from kstoolkit.rocksdb.opening import open_store
from kstoolkit.stores.rows.asking import Asked
from kstoolkit.stores.rows.readable import Readable
from kstoolkit.stores.rows.statestore import StreamSource
from tests.stores.streamsstores import (
    HOUR_MS,
    MINUTE_MS,
    START_MS,
    int64,
    open_part,
    window_key,
    write_minutes,
    write_store,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

USERS = ["", "a", "an", "ann", "anna", "a\x00b", "zoë", "名前"]


@pytest.fixture(scope="module")
def minutes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StreamSource]:
    """Return a window store of three segments in which each user has each tenth minute."""
    folder = tmp_path_factory.mktemp("minutes")
    with ExitStack() as opened:
        parts = []
        for path in sorted(write_minutes(folder / "minutes", USERS).iterdir()):
            start_ms = int(path.name.partition(".")[2])
            span = range(start_ms, start_ms + HOUR_MS)
            parts.append(open_part(opened.enter_context(open_store(path)), span))
        yield StreamSource("minutes", Kind.WINDOW, parts, window_size_ms=MINUTE_MS)


def told(source: StreamSource, asked: Asked) -> list[tuple[bytes, int]]:
    found = []
    for rows in source.read(asked):
        wanted = rows.take(asked.chosen(rows))
        assert wanted.window_start_ms is not None
        keys = [each or b"" for each in wanted.key.to_list()]
        found += list(zip(keys, wanted.window_start_ms.to_pylist(), strict=True))
    return sorted(found)


def num_read(source: StreamSource, asked: Asked) -> int:
    return sum(len(rows) for rows in source.read(asked))


EVERY = sorted(
    (user.encode(), at)
    for user in USERS
    for at in range(START_MS, START_MS + 3 * HOUR_MS, 10 * MINUTE_MS)
)

moments = st.none() | st.integers(START_MS - HOUR_MS, START_MS + 4 * HOUR_MS)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    key=st.none() | st.sampled_from(USERS),
    prefix=st.none() | st.sampled_from(["", "a", "an", "z", "x"]),
    since=moments,
    until=moments,
)
def test_seeking_finds_what_a_scan_would(
    minutes: StreamSource, key: str | None, prefix: str | None, since: int | None, until: int | None
) -> None:
    asked = Asked(
        key=None if key is None else key.encode(),
        prefix=None if prefix is None else prefix.encode(),
        since_ms=since,
        until_ms=until,
    )
    expected = [
        (user, at)
        for user, at in EVERY
        if (asked.key is None or user == asked.key)
        and (asked.prefix is None or user.startswith(asked.prefix))
        and (since is None or at >= since)
        and (until is None or at < until)
    ]
    assert told(minutes, asked) == expected


def test_one_key_is_sought_and_not_scanned_for(minutes: StreamSource) -> None:
    """Longer keys stand among the key's own rows, but their bytes are no such time."""
    assert num_read(minutes, Asked(key=b"zo\xc3\xab")) == 18
    assert num_read(minutes, Asked(key=b"a")) == 18
    assert num_read(minutes, Asked(key=b"a", since_ms=START_MS + HOUR_MS)) == 12
    assert num_read(minutes, Asked(key=b"a", window_start_ms=START_MS + HOUR_MS)) == 1
    assert num_read(minutes, Asked(key=b"a", until_ms=START_MS + 20 * MINUTE_MS)) == 2


def test_a_key_that_goes_on_like_a_time_does_not_hide_rows(tmp_path: Path) -> None:
    keys = [b"a", b"a" + int64(START_MS), b"a" + int64(START_MS)[:7], b"a\x00", b"a\xff"]
    rows = {window_key(key, START_MS): int64(1) for key in keys}
    with open_store(write_store(tmp_path / "w", default=rows)) as store:
        for span in (None, range(START_MS, START_MS + 1)):
            source = StreamSource("w", Kind.WINDOW, [open_part(store, span)])
            for key in keys:
                assert told(source, Asked(key=key)) == [(key, START_MS)]
                assert told(source, Asked(key=key, since_ms=0)) == [(key, START_MS)]


def test_windows_before_1970_are_found_by_their_key(tmp_path: Path) -> None:
    rows = {window_key(b"a", at): int64(1) for at in (-60_000, 0, 60_000)}
    with open_store(write_store(tmp_path / "w", default=rows)) as store:
        source = StreamSource("w", Kind.WINDOW, [open_part(store)])
        assert told(source, Asked(key=b"a")) == [(b"a", -60_000), (b"a", 0), (b"a", 60_000)]
        assert told(source, Asked(key=b"a", since_ms=-60_000, until_ms=0)) == [(b"a", -60_000)]
        assert told(source, Asked(key=b"a", window_start_ms=-60_000)) == [(b"a", -60_000)]


def test_one_key_of_a_key_value_store_is_got(tmp_path: Path) -> None:
    rows = {b"user-%d" % number: int64(number) for number in range(2000)} | {b"": int64(7)}
    with open_store(write_store(tmp_path / "kv", default=rows)) as store:
        source = StreamSource("kv", Kind.KEY_VALUE, [open_part(store)])
        assert num_read(source, Asked(key=b"user-1")) == 1
        assert num_read(source, Asked(key=b"")) == 1
        assert num_read(source, Asked(key=b"user-")) == 0
        assert num_read(source, Asked(prefix=b"user-1")) == 1111


def test_segments_outside_the_time_are_not_read(minutes: StreamSource) -> None:
    window = Asked(window_start_ms=START_MS + HOUR_MS + 10 * MINUTE_MS)
    assert sum(len(rows) for rows in minutes.read(window)) == 6 * len(USERS)
    assert told(minutes, window) == sorted(
        (user.encode(), window.window_start_ms) for user in USERS
    )


def test_sessions_are_found_by_their_start_wherever_they_end(tmp_path: Path) -> None:
    long = (START_MS + 50 * MINUTE_MS, START_MS + 70 * MINUTE_MS)
    short = (START_MS + 80 * MINUTE_MS, START_MS + 81 * MINUTE_MS)
    rows = {b"a" + int64(end) + int64(start): int64(1) for start, end in (long, short)}
    span = range(START_MS + HOUR_MS, START_MS + 2 * HOUR_MS)
    with open_store(write_store(tmp_path / "s", default=rows)) as store:
        source = StreamSource("s", Kind.SESSION, [open_part(store, span)])
        assert told(source, Asked(until_ms=START_MS + HOUR_MS)) == [(b"a", long[0])]
        assert told(source, Asked(window_start_ms=long[0])) == [(b"a", long[0])]
        assert told(source, Asked(since_ms=START_MS + 2 * HOUR_MS)) == []


def test_a_versioned_key_is_sought_in_each_segment(tmp_path: Path) -> None:
    rows = {int64(-1) + user.encode(): int64(500) + user.encode() for user in USERS}
    for segment in (1, 2, 7):
        for user in USERS:
            at = int64(segment * 10)
            rows[int64(segment) + user.encode()] = (
                int64(segment * 10 + 5) + at + at + (1).to_bytes(4, "big") + b"v"
            )
    with open_store(write_store(tmp_path / "v", default=rows)) as store:
        source = StreamSource("v", Kind.VERSIONED, [open_part(store)])
        found = Readable(source, key_serde="string", value_serde="string").rows(key="ann")
        assert sorted((row.timestamp_ms, row.value) for row in found) == [
            (10, "v"),
            (20, "v"),
            (70, "v"),
            (500, "ann"),
        ]
        assert num_read(source, Asked(key=b"ann")) == 4
        longer = [user for user in USERS if user.startswith("ann")]
        assert num_read(source, Asked(prefix=b"ann")) == 4 * len(longer)


def test_after_an_upgrade_the_newer_column_family_wins(tmp_path: Path) -> None:
    old = {b"a": int64(1), b"b": int64(2)}
    new = {b"b": int64(START_MS) + int64(20), b"c": int64(START_MS) + int64(30)}
    path = write_store(
        tmp_path / "kv", default=old, keyValueWithTimestamp=new, offsets={b"status": b""}
    )
    with open_store(path) as store:
        source = StreamSource("kv", Kind.TIMESTAMPED_KEY_VALUE, [open_part(store)])
        rows = list(Readable(source, key_serde="string", value_serde="long").rows())
    assert sorted((row.key, row.value) for row in rows) == [("a", 1), ("b", 20), ("c", 30)]


def test_of_two_upgrades_the_newest_form_of_a_row_wins(tmp_path: Path) -> None:
    stamp = int64(START_MS)
    path = write_store(
        tmp_path / "kv",
        default={key: int64(1) for key in (b"a", b"b", b"c")},
        keyValueWithTimestamp={key: stamp + int64(2) for key in (b"b", b"c")},
        keyValueWithTimestampAndHeaders={b"c": b"\x00" + stamp + int64(3)},
    )
    with open_store(path) as store:
        source = StreamSource("kv", Kind.HEADERS_KEY_VALUE, [open_part(store)])
        rows = list(Readable(source, key_serde="string", value_serde="long").rows())
        assert source.estimated_rows() == 6
    assert sorted((row.key, row.value) for row in rows) == [("a", 1), ("b", 2), ("c", 3)]


def test_rows_that_an_upgrade_left_are_read_as_many_at_once(tmp_path: Path) -> None:
    old = {b"%05d" % number: int64(number) for number in range(10_000)}
    path = write_store(tmp_path / "kv", default=old, keyValueWithTimestamp={})
    with open_store(path) as store:
        source = StreamSource("kv", Kind.TIMESTAMPED_KEY_VALUE, [open_part(store)])
        assert [len(rows) for rows in source.read(Asked())] == [8192, 1808]


def test_serdes_are_guessed_if_nobody_tells_them(minutes: StreamSource) -> None:
    store = Readable(minutes)
    assert (store.key_serde.name, store.value_serde.name) == ("string", "long")
    first = next(iter(store.rows(key="名前", limit=1)))
    assert (first.key, first.value) == ("名前", START_MS // MINUTE_MS)
    assert store.guesses[1].reasons
    told = Readable(minutes, key_serde="bytes", value_serde=bytes.hex)
    assert next(iter(told.rows(limit=1))).value == int64(START_MS // MINUTE_MS).hex()
    again = next(iter(told.rows(limit=1, key_serde="string", value_serde=serde_of("long"))))
    assert isinstance(again.key, str)


def test_moments_may_be_text(minutes: StreamSource) -> None:
    rows = Readable(minutes).rows(since="2023-11-14T23:00Z", until="2023-11-15T00:00Z", key="a")
    assert rows.count() == 6


def test_a_key_that_a_serde_cannot_write_is_given_as_bytes(minutes: StreamSource) -> None:
    store = Readable(minutes, key_serde=bytes.decode)
    with pytest.raises(ConfigurationError, match="nobody told it how to write 'a'"):
        store.rows(key="a")
    assert store.rows(key=b"a").count() == 18


def test_a_store_without_rows_has_none(tmp_path: Path) -> None:
    with open_store(write_store(tmp_path / "kv", default={})) as store:
        empty = Readable(StreamSource("kv", Kind.KEY_VALUE, [open_part(store)]))
        assert list(empty.rows()) == []
        assert empty.guesses[0].reasons == ("no rows",)
