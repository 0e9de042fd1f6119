"""Look-ups of columns of keys, of any type, in a service that is slow, fails, hangs, goes down."""

from __future__ import annotations

import asyncio
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kstoolkit as kst
from kstoolkit.errors import ConfigurationError
from kstoolkit.operations.lookup import _answer_column
from kstoolkit.operations.lookupcalls import Answer, _LookupCalls, _LookupFigures
from tests.operations.lookupserver import LookupServer, country_of, lookup_server

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence


QUICK: dict[str, Any] = {"backoff": "5 ms", "max_backoff": "20 ms"}


@pytest.fixture
def server() -> Iterator[LookupServer]:
    with lookup_server() as server:
        yield server


def users(number: int) -> pa.Array:
    return pa.array([f"user {n}" for n in range(number)])


def failures(lookup: kst.Lookup, *keys: str) -> list[str | None]:
    told: list[str | None] = lookup.answers(pa.array(keys)).field("failure").to_pylist()
    return told


def test_a_slow_service_that_fails_on_each_fifth_call_answers_every_row_in_few_calls() -> None:
    with lookup_server(seconds=0.02, fail_each=5) as server:
        lookup = kst.Lookup(server.client(), pool=4, batch_size=50, **QUICK)
        chosen = random.Random(1)
        keys = [f"user {chosen.randrange(1_000)}" for _ in range(50_000)]
        begin = time.perf_counter()
        for start in range(0, len(keys), 10_000):
            batch = keys[start : start + 10_000]
            assert lookup.values(pa.array(batch)).to_pylist() == [country_of(key) for key in batch]
        seconds = time.perf_counter() - begin
    told = lookup.statistics()
    assert 20 <= told.calls == len(server.requests) <= 30
    assert told.failures == told.retries == told.calls // 5 > 0
    assert (told.rows, told.rows_failed, told.timeouts) == (50_000, 0, 0)
    assert told.cache_hits == told.keys_wanted - 1_000
    assert told.max_in_flight == server.most == 4
    # A call takes 20 ms and more: one a row, four at a time, would reach 200 rows a second.
    assert told.rows / seconds > 2_000
    assert told.keys_per_second is not None
    assert told.keys_per_second > 500


def test_calls_in_flight_fill_the_pool_and_never_exceed_it() -> None:
    with lookup_server(seconds=0.01) as server:
        lookup = kst.Lookup(server.client(), pool=3, batch_size=1)
        with ThreadPoolExecutor(4) as threads:
            found = list(
                threads.map(lambda n: lookup.values(users(40).slice(n * 10, 10)), range(4))
            )
    assert [value for each in found for value in each.to_pylist()] == [
        country_of(user) for user in users(40).to_pylist()
    ]
    assert len(server.requests) == 40
    assert server.most == lookup.statistics().max_in_flight == 3


def test_a_key_that_two_ask_for_at_once_is_asked_for_once() -> None:
    with lookup_server(seconds=0.2) as server:
        lookup = kst.Lookup(server.client())
        with ThreadPoolExecutor(8) as threads:
            found = list(threads.map(lambda _: lookup.values(users(5)).to_pylist(), range(8)))
    assert found == [[country_of(user) for user in users(5).to_pylist()]] * 8
    assert len(server.requests) == 1
    told = lookup.statistics()
    assert told.keys_joined + told.cache_hits == 35
    assert told.keys_joined > 0


def test_answers_are_asked_for_again_when_their_time_is_over(server: LookupServer) -> None:
    lookup = kst.Lookup(server.client(), cache="1 second", cache_unknown="1 ms")
    for _ in range(2):
        assert lookup.values(pa.array(["ann", "eve"])).to_pylist() == ["of ann", None]
        time.sleep(0.01)
    assert server.requests == [["ann", "eve"], ["eve"]]
    time.sleep(1.05)
    lookup.values(pa.array(["ann"]))
    assert server.requests[2:] == [["ann"]]


def test_a_call_that_hangs_is_given_up_and_the_others_go_on(server: LookupServer) -> None:
    lookup = kst.Lookup(server.client(), batch_size=1, pool=3, timeout="1 second", retries=0)
    assert failures(lookup, "ann", "hang", "bob") == [None, "no answer within 1 second", None]
    assert lookup.values(users(9)).to_pylist() == [country_of(u) for u in users(9).to_pylist()]
    told = lookup.statistics()
    assert (told.timeouts, told.failures, told.rows_failed) == (1, 1, 1)


def test_calls_that_hang_fill_the_pool_until_they_end(server: LookupServer) -> None:
    lookup = kst.Lookup(server.client(), batch_size=1, pool=2, timeout="100 ms", retries=0)
    failures(lookup, "hang 1", "hang 2")
    assert failures(lookup, "ann") == [
        "not asked: all calls that may be in flight at once, 2, hang"
    ]
    assert server.most == 2
    server.go_on.set()
    deadline = time.monotonic() + 10
    while failures(lookup, "ann") != [None]:
        assert time.monotonic() < deadline
    assert server.most == 2


def test_one_key_that_the_service_cannot_bear_costs_the_others_nothing(
    server: LookupServer,
) -> None:
    keys = [f"user {n}" for n in range(100)]
    keys[37] = "poison"
    lookup = kst.Lookup(server.client(), retries=1, **QUICK)
    told = lookup.answers(pa.array(keys))
    expected = [country_of(key) for key in keys]
    expected[37] = None
    assert told.field("value").to_pylist() == expected
    reasons = [reason for reason in told.field("failure").to_pylist() if reason]
    assert reasons == ["HTTPError: HTTP Error 500: Internal Server Error"]
    assert len(server.requests) <= 18
    lookup.values(pa.array(["poison"]))
    assert server.requests[-1] == ["poison"], "a failure is not kept"


def test_a_service_that_is_down_is_left_alone_for_a_while_and_asked_again() -> None:
    with lookup_server(down=True) as server:
        lookup = kst.Lookup(
            server.client(), batch_size=1, pool=1, retries=0, pause_after=3, pause="1 second"
        )
        reasons = failures(lookup, *(f"user {n}" for n in range(20)))
        assert [str(reason)[:9] for reason in reasons] == ["HTTPError"] * 3 + ["not asked"] * 17
        assert len(server.requests) == 3
        server.down = False
        time.sleep(1.05)
        assert failures(lookup, "user 0", "user 19") == [None, None]
    assert lookup.statistics().pauses == 1


def test_a_service_that_is_not_there_is_a_reason_not_an_error() -> None:
    with lookup_server() as server:
        client = server.client()
    lookup = kst.Lookup(client, retries=1, on_error="default", default="?", **QUICK)
    assert lookup.values(pa.array(["ann", None, "bob"])).to_pylist() == ["?", "?", "?"]
    assert lookup.statistics().rows_failed == 2
    assert all("refused" in str(reason) for reason in failures(lookup, "ann", "bob"))


@pytest.mark.parametrize(
    "key",
    ["", " ", "a,b", "a&b=c", "%00", "\x00", "\r\nX: y", "名前", "😀", "../..", "x" * 100_000],
)
def test_whatever_a_key_is_made_of_it_is_asked_for_as_it_is(server: LookupServer, key: str) -> None:
    assert kst.Lookup(server.client()).values(pa.array([key])).to_pylist() == [country_of(key)]
    assert server.requests == [[key]]


class Speechless(Exception):  # noqa: N818 - as others may call theirs
    """One that can't be told."""

    def __str__(self) -> str:
        raise RuntimeError


class Unaskable(dict[str, str]):
    """A mapping that answers nobody."""

    def get(self, *_: Any) -> str:
        raise Speechless


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        ValueError("half a character: \ud800"),
        StopIteration(),
        SystemExit(3),
        KeyboardInterrupt(),
        RuntimeError(),
        Speechless(),
    ],
)
@pytest.mark.parametrize("is_async", [False, True])
def test_whatever_the_function_raises_is_a_reason(error: BaseException, *, is_async: bool) -> None:
    def ask(_: list[str]) -> dict[str, str]:
        raise error

    async def ask_async(_: list[str]) -> dict[str, str]:
        raise error

    lookup = kst.Lookup(ask_async if is_async else ask, retries=1, **QUICK)
    (reason,) = failures(lookup, "ann")
    assert str(reason).startswith(("RuntimeError", type(error).__name__))
    assert kst.Lookup(lambda keys: dict.fromkeys(keys, "x")).values(pa.array(["a"]))[0].as_py()


def test_an_exception_in_place_of_a_value_fails_that_key_which_alone_is_tried_again() -> None:
    asked: list[list[str]] = []

    def ask(keys: list[str]) -> Mapping[str, Any]:
        asked.append(keys)
        return {key: LookupError("not here") if key == "bad" else key.upper() for key in keys}

    lookup = kst.Lookup(ask, retries=2, **QUICK)
    told = lookup.answers(pa.array(["a", "bad", "b"]))
    assert told.field("value").to_pylist() == ["A", None, "B"]
    assert told.field("failure").to_pylist() == [None, "LookupError: not here", None]
    assert asked == [["a", "bad", "b"], ["bad"], ["bad"]]


def test_a_mapping_that_raises_fails_its_keys() -> None:
    assert failures(kst.Lookup(lambda _: Unaskable(), retries=0), "a", "b") == ["Speechless"] * 2


def test_async_functions_share_one_loop_and_are_cancelled_when_they_take_too_long() -> None:
    cancelled: list[bool] = []

    async def ask(keys: list[str]) -> dict[str, str]:
        try:
            await asyncio.sleep(30 if "slow" in keys else 0.01)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        return {key: key.upper() for key in keys}

    lookup = kst.Lookup(ask, batch_size=1, pool=2, timeout="500 ms", retries=0)
    told = lookup.answers(pa.array(["a", "slow", "b", "c"]))
    assert told.field("value").to_pylist() == ["A", None, "B", "C"]
    assert cancelled == [True]
    assert lookup.statistics().max_in_flight == 2


def test_each_wait_before_another_try_is_longer_up_to_the_longest() -> None:
    moments: list[float] = []

    def ask(_: list[str]) -> dict[str, str]:
        moments.append(time.monotonic())
        raise OSError

    failures(kst.Lookup(ask, retries=4, backoff="40 ms", max_backoff="100 ms"), "ann")
    waits = [later - earlier for earlier, later in pairwise(moments)]
    assert len(waits) == 4
    assert all(wait >= least for wait, least in zip(waits, (0.02, 0.04, 0.05, 0.05), strict=True))


def test_waits_differ_and_none_is_longer_than_the_longest() -> None:
    options = kst.Lookup(country_of_all, backoff="40 ms", max_backoff="100 ms").options
    calls = _LookupCalls(options, _LookupFigures())
    for attempt, most in ((1, 0.04), (2, 0.08), (3, 0.1), (30, 0.1)):
        drawn = {calls._backoff_seconds(attempt) for _ in range(50)}
        assert most / 2 <= min(drawn) < max(drawn) <= most


def test_what_is_no_mapping_ends_the_look_up_with_a_sentence() -> None:
    wrong: Any = list
    with pytest.raises(ConfigurationError, match="returned a list, not a mapping"):
        kst.Lookup(wrong, batch_size=1).values(users(3))


def test_copies_share_pool_cache_and_counts_and_other_look_ups_do_not(server: LookupServer) -> None:
    first, other = (kst.Lookup(country_of_all, batch_size=2) for _ in range(2))
    copies: list[kst.Lookup] = [pickle.loads(pickle.dumps(first)) for _ in range(3)]  # noqa: S301
    for copy in copies:
        copy.values(users(4))
    assert first.statistics().calls == 2
    assert first.statistics().cache_hits == 8
    assert other.statistics().calls == 0
    assert not server.requests


def country_of_all(keys: list[str]) -> dict[str, str | None]:
    return {key: country_of(key) for key in keys}


BY_VALUE = """
    import sys, pyarrow as pa
    from pyspark import cloudpickle
    path, writes = sys.argv[1], sys.argv[2] == "write"
    if writes:
        import kstoolkit as kst
        from kstoolkit.pipeline.datasources import ship_by_value
        ship_by_value()
        lookup = kst.Lookup(lambda keys: dict.fromkeys(keys, "x"))
        lookup.values(pa.array(["a"]))
        with open(path, "wb") as file:
            file.write(cloudpickle.dumps(lookup))
    else:
        data = open(path, "rb").read()
        copies = [cloudpickle.loads(data) for _ in range(3)]
        for copy in copies:
            assert copy.values(pa.array(["a", "b"])).to_pylist() == ["x", "x"]
        print(copies[0].statistics().calls, [name for name in sys.modules if "kstoolkit." in name])
"""


def test_copies_that_brought_their_code_along_share_too(tmp_path: Any) -> None:
    for verb in ("write", "read"):
        command = [sys.executable, "-c", dedent(BY_VALUE), str(tmp_path / "pickled"), verb]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
    assert done.stdout == "1 []\n"


HUNG = """
    import time, pyarrow as pa, kstoolkit as kst
    lookup = kst.Lookup(lambda keys: time.sleep(60), timeout="50 ms", retries=0)
    print(lookup.answers(pa.array(["a"])).field("failure").to_pylist())
"""


def test_a_call_that_hangs_does_not_keep_its_process_from_ending() -> None:
    begin = time.monotonic()
    command = [sys.executable, "-c", dedent(HUNG)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=50)
    assert time.monotonic() - begin < 40
    assert done.stdout == "['no answer within 50 milliseconds']\n"
    assert not done.stderr


def test_a_fork_has_a_pool_and_a_cache_of_its_own() -> None:
    lookup = kst.Lookup(lambda keys: dict.fromkeys(keys, os.getpid()))
    assert lookup.values(pa.array(["a"])).to_pylist() == [os.getpid()]
    read_end, write_end = os.pipe()
    child = os.fork()
    if not child:  # nothing of pytest's may run here
        found = lookup.values(pa.array(["a"])).to_pylist()
        os.write(write_end, str(found == [os.getpid()]).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read_end, 10) == b"True"
    os.close(read_end)
    os.close(write_end)


def test_whoever_is_interrupted_leaves_the_call_to_others(server: LookupServer) -> None:
    lookup, main = kst.Lookup(server.client(), timeout="1 minute"), threading.main_thread().ident
    keys = pa.array(["hang", "ann"])
    assert main is not None

    def interrupt() -> None:
        while not server.now or lookup.statistics().keys_wanted < 4:
            time.sleep(0.02)
        signal.pthread_kill(main, signal.SIGINT)

    def look_up_until_interrupted() -> None:
        threads.submit(interrupt)
        lookup.values(keys)

    # Whoever is started in the background by a plain shell ignores Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with ThreadPoolExecutor(2) as threads, ExitStack() as at_the_end:
        at_the_end.callback(signal.signal, signal.SIGINT, before)
        other = threads.submit(lookup.values, keys)
        with pytest.raises(KeyboardInterrupt):
            look_up_until_interrupted()
        assert not other.done()
        server.go_on.set()
        assert other.result().to_pylist() == ["of hang", "of ann"]
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pool": 0}, "pool=0 is no whole number from 1 up"),
        ({"batch_size": 1.5}, "batch_size=1.5"),
        ({"retries": -1}, "retries=-1 is no whole number from 0 up"),
        ({"timeout": 0}, "is not positive"),
        ({"cache": "long"}, "'long' is not a duration"),
        ({"on_error": "ignore"}, "on_error='ignore' is unknown"),
        ({"on_error": "default"}, "don't go together"),
        ({"default": "?"}, "don't go together"),
    ],
)
def test_options_that_make_no_sense_are_sentences(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        kst.Lookup(country_of_all, **options)


def test_what_cannot_be_called_is_a_sentence() -> None:
    wrong: Any = {"ann": "SE"}
    with pytest.raises(ConfigurationError, match="needs something to call"):
        kst.Lookup(wrong)


def test_a_look_up_and_its_statistics_say_what_they_are() -> None:
    lookup = kst.Lookup(country_of_all, cache="1 hour", on_error="skip")
    assert repr(lookup) == (
        "Lookup(country_of_all, batch_size=100, pool=8, timeout='5 seconds', cache='1 hour', "
        "on_error='skip')"
    )
    told = lookup.statistics()
    assert told.unknown == {"keys_per_second": "nothing has been asked yet"}
    lookup.values(users(3))
    told = lookup.statistics()
    assert repr(told) == "LookupStatistics(3 rows, 0 failed; 1 call, at most 1 at once)"
    assert "max_in_flight" in told._repr_html_()
    assert told.to_dict()["num_processes"] == 1


KEYS: dict[pa.DataType, list[Any]] = {
    pa.string(): ["", "ann", "a\nb", "\x00", "名前", "😀", "' OR 1=1 --", "x" * 5_000, "ann "],
    pa.large_string(): ["ann", "bob"],
    pa.int64(): [0, -1, 2**63 - 1],
    pa.bool_(): [True, False],
    pa.float64(): [0.5, float("inf")],
    pa.binary(): [b"", b"\xff\x00"],
    pa.date32(): [date(2026, 1, 1), date(1969, 1, 1)],
    pa.timestamp("us", tz="UTC"): [datetime(2026, 1, 1, tzinfo=UTC)],
    pa.decimal128(10, 2): [Decimal("1.50"), Decimal("-2.00")],
}


def by_repr(keys: Sequence[Hashable]) -> Mapping[Any, Answer]:
    assert len(set(keys)) == len(keys)
    assert None not in keys
    return {key: Answer(repr(key)) for key in keys}


def answered(value: Any) -> Any:
    return lambda keys: dict.fromkeys(keys, Answer(value))


@pytest.mark.parametrize("kind", KEYS, ids=str)
def test_keys_of_any_flat_type_are_looked_up(kind: pa.DataType) -> None:
    keys = pa.array([*KEYS[kind], None, *reversed(KEYS[kind])], kind)
    column = _answer_column(keys, by_repr, kind=pa.string())
    expected = [None if key is None else repr(key) for key in keys.to_pylist()]
    assert column.field("value").to_pylist() == expected


@given(st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=3)))
def test_each_row_gets_the_answer_of_its_own_key(keys: list[str | None]) -> None:
    column = pa.array(keys, pa.string())
    expected = [None if key is None else repr(key) for key in keys]
    for given_keys in (column, column.dictionary_encode(), pa.concat_arrays([column, column])):
        found = _answer_column(given_keys, by_repr, kind=pa.string()).field("value").to_pylist()
        assert found == expected * (len(given_keys) // max(1, len(keys)))


def test_a_slice_of_a_column_is_looked_up_as_what_it_shows() -> None:
    keys = pa.array(["a", "b", "c", "b"]).slice(1, 2)
    asked: list[Hashable] = []

    def ask(keys: Sequence[Hashable]) -> Mapping[Any, Answer]:
        asked.extend(keys)
        return by_repr(keys)

    assert _answer_column(keys, ask, kind=None).field("value").to_pylist() == ["'b'", "'c'"]
    assert asked == ["b", "c"]


def test_nan_is_nobodys_key() -> None:
    keys = pa.array([float("nan"), 1.0, None])
    found = _answer_column(keys, by_repr, kind=pa.string()).field("value")
    assert found.to_pylist() == [None, "1.0", None]


def test_a_column_in_several_pieces_is_looked_up_as_one() -> None:
    several: list[list[list[str]]] = [[["a", "b"], ["b"], []], [[]]]
    for chunks in several:
        keys = pa.chunked_array(chunks, pa.string())
        found = _answer_column(keys, by_repr, kind=pa.string()).field("value")
        assert found.to_pylist() == [repr(key) for chunk in chunks for key in chunk]


@pytest.mark.parametrize("keys", [pa.nulls(3), pa.array([], pa.string()), pa.nulls(2, pa.int32())])
def test_a_column_without_keys_has_no_values(keys: pa.Array) -> None:
    found = _answer_column(keys, by_repr, kind=pa.string())
    assert found.field("value").to_pylist() == [None] * len(keys)
    assert found.field("failure").null_count == len(keys)


def test_a_key_that_is_no_utf8_fails_alone_and_is_not_asked_for() -> None:
    raw = pa.array([b"ann", b"\xff\xfe", b"bob", b"\xc3"], pa.binary())
    keys = pa.StringArray.from_buffers(4, *raw.buffers()[1:])
    found = _answer_column(keys, by_repr, kind=pa.string())
    assert found.field("value").to_pylist() == ["'ann'", None, "'bob'", None]
    assert found.field("failure").to_pylist() == [
        None,
        "the key is not valid UTF-8",
        None,
        "the key is not valid UTF-8",
    ]


def test_a_value_of_another_type_fails_alone() -> None:
    def ask(keys: Sequence[Hashable]) -> Mapping[Any, Answer]:
        return {key: Answer("many" if key == "b" else 7) for key in keys}

    found = _answer_column(pa.array(["a", "b", "c"]), ask, kind=pa.int64())
    assert found.field("value").to_pylist() == [7, None, 7]
    assert found.field("failure").to_pylist() == [None, "the answer 'many' is no int64", None]


def test_values_of_several_fields_are_structs() -> None:
    kind = pa.struct([("city", pa.string()), ("people", pa.int64())])
    city = {"city": "Uppsala", "people": 7}
    found = _answer_column(pa.array(["a", None]), answered(city), kind=kind)
    assert found.field("value").to_pylist() == [city, None]


def test_without_a_type_it_is_told_from_the_values() -> None:
    assert _answer_column(pa.array(["a"]), answered(1.5), kind=None).field("value").type == "double"
    mixed = {"a": Answer(1), "b": Answer("x")}
    with pytest.raises(ConfigurationError, match="no type in common"):
        _answer_column(pa.array(["a", "b"]), lambda _: mixed, kind=None)


def test_the_default_fills_rows_without_a_value_and_the_reason_stays() -> None:
    told = {"a": Answer("x"), "b": Answer(), "c": Answer(failure="refused")}
    keys = pa.array(["a", "b", "c", None])
    found = _answer_column(keys, lambda _: told, kind=pa.string(), default="?")
    assert found.field("value").to_pylist() == ["x", "?", "?", "?"]
    assert found.field("failure").to_pylist() == [None, None, "refused", None]


def test_a_default_of_another_type_and_nested_keys_are_sentences() -> None:
    with pytest.raises(ConfigurationError, match="The default is '\\?', which is no int64"):
        _answer_column(pa.array(["a"]), by_repr, kind=pa.int64(), default="?")
    with pytest.raises(ConfigurationError, match="can't be looked up"):
        _answer_column(pa.array([["a"]]), by_repr, kind=pa.string())
