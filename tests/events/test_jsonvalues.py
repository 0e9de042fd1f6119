"""Values of a topic's records: a JSON object each, of one line or of several."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.events.jsonvalues import read_json_values, unreadable_values
from kstoolkit.events.pieces import Columns

COLUMNS = Columns("t", "u", "a")
GOOD = b'{"t": 1, "u": "good", "a": "x"}'
TEXTS = st.text(st.sampled_from('ab"\\\n\r {}:,'), max_size=12)


def users(values: list[bytes]) -> dict[int, str]:
    """Return the users by the places of their values, of those that could be read."""
    found: dict[int, str] = {}
    for part in read_json_values(
        pa.array(values, pa.binary()), COLUMNS, dict.fromkeys(COLUMNS, pa.string())
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
    around = [GOOD] * 100
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
    assert users([value] + [GOOD] * 100).get(0) == there.get(0)
    assert [at for at, _ in unreadable_values(pa.array([value, GOOD]))] == [0] * (not there)
