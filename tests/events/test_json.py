"""The JSON lines reader against Python's own parser, line by line.

Values of a topic's records: a JSON object each, of one line or of several.
"""

from __future__ import annotations

import json
import string
import tempfile
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from kstoolkit.events.event import Columns, Piece, as_text
from kstoolkit.events.json import read_json_lines, read_json_values, unreadable_values
from kstoolkit.events.opening import text_parts
from kstoolkit.events.times import to_epoch_ms

if TYPE_CHECKING:
    from collections.abc import Iterator


COLUMNS = Columns("time", "user", "action")
GOOD = b'{"time":"2015-09-12T00:00:00Z","user":"Anna","action":"read"}'
Row = tuple[int | None, str | None, str | None]
Write = Callable[[bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(data: bytes) -> Path:
        path = tmp_path / "events.json"
        path.write_bytes(data)
        return path

    return written


def read(path: Path, **options: Any) -> tuple[list[Row], list[str], list[str]]:
    """Return the rows, the raw text of each, and the raw texts of what is unparseable."""
    rows: list[Row] = []
    raws: list[str] = []
    bad: list[str] = []
    for piece in read_json_lines(path, COLUMNS, **options):
        rows += rows_of(piece)
        raws += piece.raw(np.arange(len(piece.times)))
        bad += [raw for raw, _ in piece.unparseable]
    return rows, raws, bad


def rows_of(piece: Piece) -> Iterator[Row]:
    milliseconds, readable = to_epoch_ms(piece.times)
    times = (int(ms) if known else None for ms, known in zip(milliseconds, readable, strict=True))
    return zip(
        times, as_text(piece.users).to_pylist(), as_text(piece.actions).to_pylist(), strict=True
    )


def expected(data: bytes, longest_bytes: int = 1 << 20) -> tuple[list[Row], list[str], list[str]]:
    rows: list[Row] = []
    raws: list[str] = []
    bad: list[str] = []
    for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        shown = line.removesuffix(b"\r").decode("utf-8", "replace")
        if len(line) > longest_bytes:
            bad.append(shown)
        elif line.strip():
            row = parsed(line)
            if row is None:
                bad.append(shown)
            else:
                raws.append(shown)
                rows.append(row)
    return rows, raws, bad


def parsed(line: bytes) -> Row | None:
    try:
        record = json.loads(line.decode())
        json.dumps(record, ensure_ascii=False).encode()
    except ValueError:
        return None
    if not isinstance(record, dict):
        return None
    time = record.get("time")
    known = isinstance(time, str | float) or (isinstance(time, int) and abs(time) < 2**63)
    milliseconds, readable = to_epoch_ms(pa.array([time if known else None]))
    user, action = (text(record.get(name)) for name in ("user", "action"))
    return int(milliseconds[0]) if readable[0] else None, user, action


def text(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float | str) else None


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(0, 10**12),
    st.floats(0, 2e9).map(lambda value: round(value, 3)),
    st.text(max_size=6),
    st.sampled_from(
        ["2015-09-12T00:00:00Z", "2015-09-12", "a\tb\n", "😀", "\ud800", "}\n{", "\0", "\ufeff"]
    ),
)
VALUES = SCALARS | st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=4,
)
OBJECTS = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("time", "user", "action", "page", "é"), VALUES)
)
LINES = st.one_of(
    st.just(GOOD),
    OBJECTS.map(lambda record: json.dumps(record).encode()),
    OBJECTS.map(lambda record: json.dumps(record, ensure_ascii=False).encode("utf-8", "replace")),
    OBJECTS.map(lambda record: json.dumps(record, indent=1).encode()),  # one object, many lines
    st.lists(OBJECTS, min_size=2, max_size=3).map(  # one line, many objects
        lambda records: " ".join(json.dumps(record) for record in records).encode()
    ),
    VALUES.map(lambda value: json.dumps(value).encode()),
    st.tuples(OBJECTS, st.binary(max_size=3)).map(
        lambda each: json.dumps(each[0]).encode() + each[1]
    ),
    st.text(string.printable, max_size=20).map(str.encode),
    st.binary(max_size=12),
    st.sampled_from(
        [
            b"",
            b"\r",
            b"   ",
            b"\xef\xbb\xbf{}",
            b'{"user":"a","user":"b"}',
            b'{"user":"\\ud800"}',
            b'{"user":"\\udc00x"}',
            b'{"user":"\\ud83d\\ude00"}',
            b'{"user":"a\x00b"}',
            b'{"user":"a"}\x00}',
            b'{"user":"a"}{"user":"b"}',
            b'{"user":"}',
            b'{"}',
            b'{"user":"\xff"}',
            b'{"x":NaN,"user":"a"}',
            b'{"time":1442018818771000001,"user":7}',
            b'{"time":-0.5,"user":1e400}',
            b"[1]",
            b"null",
            b"{} {}",
            b"{},",
        ]
    ),
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\n\n"])
FILES = st.lists(st.tuples(LINES, ENDS), max_size=12).map(
    lambda lines: b"".join(line + end for line, end in lines)
)


@settings(max_examples=120)
@given(
    FILES, st.sampled_from([b"", GOOD]), st.sampled_from([b"", b"\xef\xbb\xbf"]), st.integers(1, 90)
)
@example(b'{"user":"a"}{"user":"b"}\n{"user":"c"}\x00}\n{"user":"d"}\n', b"", b"", 90)
@example(b'{"time":9223372036854775808}\n', b"", b"", 1)
def test_any_file_is_read_as_its_lines_are_one_by_one(
    body: bytes, last: bytes, mark: bytes, chunk_bytes: int
) -> None:
    data = mark + body + last
    assume(not data.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd")))  # these are compressed
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.json"
        path.write_bytes(data)
        assert read(path, chunk_bytes=chunk_bytes) == expected(data)
        assert read(path) == expected(data)


@settings(max_examples=120)
@given(
    st.lists(
        st.sampled_from([GOOD, GOOD + b" ", b"x" * 30, b"y" * 300, b" " * 200, b"", b"{}"]),
        max_size=12,
    ),
    st.sampled_from([b"\n", b"\r\n"]),
    st.integers(1, 400),
    st.sampled_from([1, 30, len(GOOD), len(GOOD) + 1, 199, 299, 300]),
)
def test_a_line_that_is_too_long_is_told_once_and_costs_no_other(
    lines: list[bytes], end: bytes, chunk_bytes: int, longest_bytes: int
) -> None:
    data = end.join(lines)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.json"
        path.write_bytes(data)
        rows, raws, bad = read(path, chunk_bytes=chunk_bytes, longest_bytes=longest_bytes)
    rows_expected, raws_expected, bad_expected = expected(data, longest_bytes)
    assert (rows, raws) == (rows_expected, raws_expected)
    assert len(bad) == len(bad_expected)
    assert all(whole.startswith(told) for told, whole in zip(bad, bad_expected, strict=True))


def test_a_line_that_is_too_long_says_the_limit(write: Write) -> None:
    pieces = list(read_json_lines(write(b"x" * 5_000), COLUMNS, longest_bytes=1_024))
    assert pieces[0].unparseable == [("x" * 1_025, "a line longer than 1.0 KiB")]


def test_a_good_file_is_read_in_whole_chunks(write: Write) -> None:
    data = (GOOD + b"\n") * 20_000
    pieces = list(read_json_lines(write(data), COLUMNS, chunk_bytes=300_000))
    assert len(pieces) == -(-len(data) // 300_000)
    assert sum(len(piece.times) for piece in pieces) == 20_000


def test_one_bad_line_sends_only_its_neighbours_the_slow_way(write: Write) -> None:
    data = (GOOD + b"\n") * 10_000 + b"oops\n" + (GOOD + b"\n") * 10_000
    pieces = list(read_json_lines(write(data), COLUMNS))
    slow = [piece for piece in pieces if piece.unparseable]
    assert [piece.unparseable[0][0] for piece in slow] == ["oops"]
    assert len(slow[0].times) < 2_000
    assert sum(len(piece.times) for piece in pieces) == 20_000


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (b"1442018818771", pa.int64()),
        (b"1442018818.5", pa.float64()),
        (b'"2015-09-12"', pa.string()),
    ],
)
def test_the_type_of_times_is_learnt_from_the_first(
    write: Write, value: bytes, kind: pa.DataType
) -> None:
    data = (b'{"time":' + value + b',"user":7,"action":true}\n') * 20_000
    pieces = list(read_json_lines(write(data), COLUMNS))
    assert pieces[-1].times.type == kind
    assert pieces[-1].users.type == pa.int64()
    assert {row[1:] for piece in pieces for row in rows_of(piece)} == {("7", "true")}
    assert len({row[0] for piece in pieces for row in rows_of(piece)}) == 1


def test_numbers_as_users_lose_no_digit_beside_fractions(write: Write) -> None:
    lines = [b'{"user":0.5}'] + [b'{"user":9007199254740993}'] * 9_000
    rows, _, _ = read(write(b"\n".join(lines)))
    assert {user for _, user, _ in rows[1:]} == {"9007199254740993"}


@pytest.mark.parametrize("opened", [b"[", b'{"a":'])
@pytest.mark.parametrize("other", [b"", b"oops\n"])
def test_nesting_may_be_as_deep_as_it_likes_where_nobody_looks(
    write: Write, opened: bytes, other: bytes
) -> None:
    closed = b"]" if opened == b"[" else b"}"
    deep = opened * 50_000 + (b"" if opened == b"[" else b"1") + closed * 50_000
    line = b'{"time":1442018818,"user":"a","action":7,"x":' + deep + b"}"
    rows, _, bad = read(write(other + line + b"\n" + GOOD))
    assert rows[0] == (1_442_018_818_000, "a", "7")
    assert len(rows) == 2
    assert bad == ([] if not other else ["oops"])


@pytest.mark.parametrize(
    "line",
    [b"[" * 50_000 + b"]" * 50_000, b'{"user":' + b"[" * 50_000, b"{}" + b"[" * 50_000 + b"}"],
)
def test_deep_rubbish_is_rubbish(write: Write, line: bytes) -> None:
    rows, _, bad = read(write(line + b"\n" + GOOD))
    assert (len(rows), bad) == (1, [line.decode()])


def test_a_deep_user_is_no_user(write: Write) -> None:
    rows, _, _ = read(write(b'{"user":' + b"[" * 50_000 + b"]" * 50_000 + b',"action":"x"}'))
    assert rows == [(None, None, "x")]


def test_a_number_of_ten_thousand_digits_is_read_as_it_stands(write: Write) -> None:
    digits = b"7" * 10_000
    rows, _, bad = read(write(b'oops\n{"user":' + digits + b',"action":"x"}'))
    assert rows == [(None, digits.decode(), "x")]
    assert bad == ["oops"]


@pytest.mark.parametrize("data", [b"", b"\n", b"\r\n\r\n", b"\xef\xbb\xbf", b"  \n\t\n"])
def test_a_file_without_records_has_none(write: Write, data: bytes) -> None:
    assert read(write(data)) == ([], [], [])


def test_a_file_that_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"none\.json"):
        list(read_json_lines(tmp_path / "none.json", COLUMNS))


VALUE_COLUMNS = Columns("t", "u", "a")
GOOD_VALUE = b'{"t": 1, "u": "good", "a": "x"}'
TEXTS = st.text(st.sampled_from('ab"\\\n\r {}:,'), max_size=12)


def users(values: list[bytes]) -> dict[int, str]:
    """Return the users by the places of their values, of those that could be read."""
    found: dict[int, str] = {}
    for part in read_json_values(
        pa.array(values, pa.binary()), VALUE_COLUMNS, dict.fromkeys(VALUE_COLUMNS, pa.string())
    ):
        found |= dict(zip(part.rows.tolist(), part.users.to_pylist(), strict=True))
    return found


def is_object(value: bytes) -> bool:
    try:
        told: Any = json.loads(value)
    except ValueError:
        return False
    return isinstance(told, dict)


def test_a_line_end_is_a_space_between_names_and_a_mistake_inside_of_one() -> None:
    pretty = b'{\r\n "t": 1,\n "u": "Ann",\n "a": "x"\n}'
    inside = b'{"t": 1, "u": "A\nnn", "a": "x"}'
    escaped = b'{"t": 1, "u": "A\\nnn", "a": "x"}'
    around = [GOOD_VALUE] * 100
    assert users([*around, pretty, inside, escaped, *around]) == {
        **dict.fromkeys(range(100), "good"),
        100: "Ann",
        102: "A\nnn",
        **dict.fromkeys(range(103, 203), "good"),
    }


@given(TEXTS)
def test_a_value_is_read_as_python_reads_json_alone_and_among_others(text: str) -> None:
    value = f'{{"t": 1, "u": "{text}", "a": "x"}}'.encode()
    there = {0: json.loads(value)["u"]} if is_object(value) else {}
    assert users([value]) == there
    assert users([value] + [GOOD_VALUE] * 100).get(0) == there.get(0)
    assert [at for at, _ in unreadable_values(pa.array([value, GOOD_VALUE]))] == [0] * (not there)


LINES = st.lists(
    st.sampled_from(
        [GOOD, b"", b"\r", b" ", b"{", b"\xff", b"\xef\xbb\xbf" + GOOD, b"[1]", GOOD + b"\r", b"\0"]
    ),
    max_size=40,
)


@given(LINES, st.integers(1, 7), st.integers(0, 3))
def test_parts_of_a_file_have_the_records_of_the_whole(
    lines: list[bytes], number: int, torn: int
) -> None:
    whole = b"\n".join(lines)
    data = whole[: len(whole) - torn]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.json"
        path.write_bytes(data)
        parts = text_parts(str(path), len(data), number, quotes=False)
        assert [begin for begin, _ in parts[1:]] == [end for _, end in parts[:-1]]
        assert len(parts) <= number
        read_apart = [read(path, part=part) for part in parts]
        expected = read(path)
    found = zip(*read_apart, strict=True)
    assert tuple(list(chain(*each)) for each in found) == (expected if data else ())
