from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.errors import ColumnError
from kstoolkit.formats import actions

TEXTS = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
HOSTILE = st.none() | st.text(st.sampled_from("\x1b\x1f012a"), max_size=6)
NAMES = tuple("abcdefgh")
TUPLES = st.integers(1, 8).flatmap(
    lambda width: st.lists(st.tuples(*[TEXTS | HOSTILE] * width), min_size=1, max_size=30)
)
Tuples = list[tuple[str | None, ...]]


def joined(rows: Tuples) -> pa.DictionaryArray:
    columns = zip(*rows, strict=True)
    return actions.joined([pa.array(each, pa.string()).dictionary_encode() for each in columns])


@given(TUPLES)
def test_parts_come_back_from_their_one_text(rows: Tuples) -> None:
    texts = joined(rows).cast(pa.string())
    parts = actions.split(texts, len(rows[0]))
    assert list(zip(*(part.to_pylist() for part in parts), strict=True)) == rows
    assert list(map(actions.values_of, texts.to_pylist())) == rows


@given(TUPLES)
def test_two_tuples_have_one_text_only_if_they_are_the_same(rows: Tuples) -> None:
    whole = joined(rows)
    assert len(whole.dictionary) == len(set(rows)) == len(set(whole.dictionary.to_pylist()))


@given(TUPLES, st.data())
def test_chosen_parts_and_values_are_those_of_plain_python(
    rows: Tuples, data: st.DataObject
) -> None:
    width = len(rows[0])
    names, texts = NAMES[:width], joined(rows).cast(pa.string())
    by = [name for name in names if data.draw(st.booleans())]
    chosen = actions.chosen(texts, names, by).to_pylist()
    keys = [tuple(row[names.index(name)] for name in by) for row in rows]
    assert chosen == (joined(keys).to_pylist() if by else [""] * len(rows))
    where = dict(zip(names, data.draw(st.sampled_from(rows)), strict=True))
    told = actions.matching(texts, names, {name: where[name] for name in by}).tolist()
    assert told == [key == tuple(where[name] for name in by) for key in keys]


def test_a_text_of_other_parts_is_told() -> None:
    with pytest.raises(ColumnError, match="has not 3 parts"):
        actions.split(pa.array(["a\x1fb"]), 3)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("region", ("region", "region")),
        ("lower(op) AS operation", ("lower(op)", "operation")),
        ("concat(a, ' as b') as `both`", ("concat(a, ' as b')", "both")),
        ("  cast(n AS string)  AS  number ", ("cast(n AS string)", "number")),
    ],
)
def test_a_part_is_a_column_or_an_expression_with_a_name(text: str, part: tuple[str, str]) -> None:
    assert actions.Part.of(text) == part
