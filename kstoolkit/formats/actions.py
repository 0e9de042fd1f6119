r"""Actions of several parts, as a region and an operation: one text inside, parts at every edge.

Whatever counts, keeps or sends counters knows one text an action. Of an action of several parts it
is the parts' texts, one behind the other, with a unit separator between them::

    eu-west U+001F delete            region "eu-west", operation "delete"
    U+001B 0 U+001F delete           no region
    a U+001B 1 b U+001B 2 c U+001F   region "a<U+001B>b<U+001F>c", operation ""

In a part the escape character is written as escape and 1, the separator as escape and 2, so that
any text may be a part; a part that is null is escape and 0. What the parts are called stands beside
the texts: in a block's schema, a bundle's store, a topic's record, a file's metadata, each of which
has a version or a name of its own for it. An action that is one column is its text as it stands.

Texts are handled as dictionaries: what is done to a text is done once for each distinct one.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.errors import ColumnError, ConfigurationError, guessed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

_PARTS, _VIEW = b"kstoolkit.parts", b"kstoolkit.view"
"""In a schema's metadata: what the parts of its actions are called, as JSON."""

ALL_TOGETHER = "all actions"  # what is done by no part at all, for people
MOST_PARTS = 8  # so many parts has an action at most
SEPARATOR, _ESCAPE = "\x1f", "\x1b"
NONE = f"{_ESCAPE}0"
_ESCAPED = {_ESCAPE: f"{_ESCAPE}1", SEPARATOR: f"{_ESCAPE}2"}
UNESCAPED = tuple((escape, char) for char, escape in reversed(_ESCAPED.items()))
"""What in a part is which character, in the order in which it is put back."""
_MOST_PLACES = 1 << 22
_NAMED = re.compile(r"(?is)(?P<expression>.+?)\s+AS\s+`?(?P<name>[^\W\d]\w*)`?")
_TAKEN = {
    *("user", "count", "window", "window_ms", "window_start", "window_end", "window_start_ms"),
    *("window_end_ms", "changed_at", "changed_ms", "epoch", "batch", "by", "rule", "kind"),
    *("ceiling", "expected_low", "expected_high", "baseline_windows", "peers", "sentence"),
    *("log10_probability", "probability", "first_seen", "first_seen_ms", "first_seen_window"),
    *("other_levels", "time", "now_ms", "raw", "file", "broken", "old", "n", "sum"),
}
"""Names that a table has beside its parts."""


class Part(NamedTuple):
    """One part of an action: the column or SQL expression that it is, and what it is called."""

    expression: str
    name: str

    @classmethod
    def of(cls, text: str) -> Part:
        """Read a column's name, or an expression and its name: ``lower(op) AS operation``.

        One without a name of its own is a ConfigurationError.

        >>> Part.of("lower(op) AS operation")
        Part(expression='lower(op)', name='operation')
        """
        named = _NAMED.fullmatch(text.strip())
        part = cls(text, text) if named is None else cls(named["expression"], named["name"])
        if not re.fullmatch(r"[^\W\d]\w*", part.name):
            message = f"The part {text!r} of an action has no name."
            hint = "Give a column's name, or an expression with one: 'lower(op) AS operation'."
            raise ConfigurationError(message, hint=hint)
        return part


def parts_of(action: str | Sequence[str]) -> tuple[Part, ...]:
    """Return the parts of an action; none if it is one column.

    Too many, or two of one name or of another column's of results, are a ConfigurationError.

    >>> [part.name for part in parts_of(["region", "lower(op) AS operation"])]
    ['region', 'operation']
    >>> parts_of("action"), parts_of(["action"])
    ((), ())
    """
    if isinstance(action, str) or len(action) == 1:
        return ()
    parts = tuple(map(Part.of, action))
    if not 1 < len(parts) <= MOST_PARTS:
        message = f"An action of {len(parts)} parts can't be counted."
        raise ConfigurationError(message, hint=f"Give 1 to {MOST_PARTS} columns.")
    lower = [part.name.lower() for part in parts]
    for name in lower:
        if lower.count(name) > 1 or name in _TAKEN:
            why = "is there twice" if lower.count(name) > 1 else "is a column of the results, too"
            message = f"A part of the action is called {name!r}, which {why}."
            raise ConfigurationError(message, hint=f"Give it another name: '{name} AS my_{name}'.")
    return parts


def parts_in(schema: pa.Schema) -> tuple[str, ...] | None:
    """Return what a schema says of its actions' parts; ``None`` if an action is one text."""
    told = (schema.metadata or {}).get(_PARTS)
    return None if told is None else tuple(json.loads(told))


def with_parts(
    schema: pa.Schema, parts: Sequence[str] | None, *, is_view: bool = False
) -> pa.Schema:
    """Return the schema with what the parts of its actions are called.

    A view has some of the parts alone, or none of them: what is counted is summed by these.

    >>> parts_in(with_parts(pa.schema({"action": pa.string()}), ["region", "op"]))
    ('region', 'op')
    """
    if parts is None:
        return schema
    told: dict[bytes, Any] = {_PARTS: json.dumps(list(parts))} | ({_VIEW: b"1"} if is_view else {})
    return schema.with_metadata({**(schema.metadata or {}), **told})


def view_in(schema: pa.Schema) -> tuple[str, ...] | None:
    """Return by which parts a view is; ``None`` if it is none."""
    return parts_in(schema) if _VIEW in (schema.metadata or {}) else None


def joined(parts: Sequence[pa.DictionaryArray]) -> pa.DictionaryArray:
    r"""Return the one text of each row's parts, each part a dictionary of distinct texts.

    >>> region = pa.array(["eu", None, "eu"]).dictionary_encode()
    >>> operation = pa.array(["get", "get", "get"]).dictionary_encode()
    >>> joined([region, operation]).to_pylist()
    ['eu\x1fget', '\x1b0\x1fget', 'eu\x1fget']
    """
    codes = [pc.fill_null(part.indices, len(part.dictionary)) for part in parts]
    sizes = [len(part.dictionary) + 1 for part in parts]
    code, distinct = _distinct([np.asarray(each, np.int64) for each in codes], sizes)
    texts = [
        _escaped(part.dictionary).take(pa.array(at))
        for part, at in zip(parts, distinct, strict=True)
    ]
    whole = pc.binary_join_element_wise(*texts, SEPARATOR)
    return pa.DictionaryArray.from_arrays(pa.array(code), whole, safe=False)


def _distinct(
    codes: Sequence[NDArray[np.int64]], sizes: Sequence[int]
) -> tuple[NDArray[np.int32], list[NDArray[np.int64]]]:
    """Return for each row which combination it is, and of each combination the codes."""
    packed, width = np.zeros(len(codes[0]), np.int64), 1
    told: list[NDArray[np.int64]] = []
    for code, size in zip(codes, sizes, strict=True):
        packed, width = packed * size + code, width * size
        used, packed = _used(packed, width)
        told = [*(each[used // size] for each in told), used % size]
        width = len(used)
    return packed.astype(np.int32), told


def _used(packed: NDArray[np.int64], width: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct numbers, and for each given one which of them it is."""
    if width > max(_MOST_PLACES, 4 * len(packed)):
        found = np.unique(packed, return_inverse=True)
        return found[0], found[1].reshape(-1)
    is_used = np.zeros(width, bool)
    is_used[packed] = True
    places = np.cumsum(is_used) - 1
    return np.flatnonzero(is_used), places[packed]


def _escaped(texts: pa.Array) -> pa.Array:
    """Return texts as they stand in a joined one, and at the end what stands for none."""
    texts = texts.cast(pa.string())
    for char, escape in _ESCAPED.items():
        texts = pc.replace_substring(texts, char, escape)
    return pa.concat_arrays([texts, pa.array([NONE])])


def split(texts: pa.Array, number: int) -> list[pa.Array]:
    r"""Return the parts of joined texts: an array of texts for each part, null where there is none.

    >>> [part.to_pylist() for part in split(pa.array(["eu\x1fget", "\x1b0\x1fput"]), 2)]
    [['eu', None], ['get', 'put']]
    """
    if not number:
        return []
    lists = pc.split_pattern(texts.cast(pa.string()), SEPARATOR)
    if len(lists) and not pc.all(pc.equal(pc.list_value_length(lists), number)).as_py():
        message = f"An action has not {number} parts, as it should have."
        raise ColumnError(message, hint="It was counted by other columns: name those.")
    flat = lists.flatten()
    rows = np.arange(len(texts)) * number
    return [_plain(flat.take(pa.array(rows + place))) for place in range(number)]


def values_of(text: str) -> tuple[str | None, ...]:
    r"""Return the parts of one joined text.

    >>> values_of("\x1b0\x1fget")
    (None, 'get')
    """
    parts = pa.array(text.split(SEPARATOR), pa.string())
    return tuple(_plain(parts).to_pylist())


def in_json(texts: pa.Array) -> pa.Array:
    r"""Return joined texts as JSON writes their parts: as they are told where a name is one text.

    >>> in_json(pa.array(["eu\x1fget"])).to_pylist()
    ['["eu", "get"]']
    """
    coded = texts.dictionary_encode()
    parts = map(values_of, coded.dictionary.to_pylist())
    told = [json.dumps(each, ensure_ascii=False) for each in parts]
    return pa.array(told, pa.string()).take(coded.indices)


def _plain(texts: pa.Array) -> pa.Array:
    none = pc.equal(texts, NONE)
    for escape, char in UNESCAPED:
        texts = pc.replace_substring(texts, escape, char)
    return pc.if_else(none, pa.scalar(None, pa.string()), texts)


def chosen(texts: pa.Array, parts: Sequence[str], by: Sequence[str]) -> pa.DictionaryArray:
    r"""Return joined texts of some parts alone, in the order in which they are asked for.

    Of no part at all, each is the empty text.

    >>> chosen(pa.array(["eu\x1fget", "us\x1fget"]), ["region", "op"], ["op"]).to_pylist()
    ['get', 'get']
    """
    if not by:
        return pa.array([""] * len(texts), pa.string()).dictionary_encode()
    columns = dict(zip(parts, split(texts, len(parts)), strict=True))
    return joined([columns[name].dictionary_encode() for name in by])


def checked(parts: Sequence[str], asked: str | Sequence[str], *, what: str) -> tuple[str, ...]:
    """Return names of parts that were asked for, in the action's order; others are a ColumnError.

    >>> checked(["region", "op"], ["op", "region"], what="by")
    ('region', 'op')
    """
    names = [asked] if isinstance(asked, str) else list(asked)
    for name in names:
        if name not in parts:
            message = f"{what} = {name!r} is no part of the action."
            hint = f"{guessed(name, list(parts))}There are: {', '.join(parts)}."
            raise ColumnError(message, hint=hint)
    return tuple(name for name in parts if name in names)


def matching(
    texts: pa.Array, parts: Sequence[str], where: Mapping[str, str | None]
) -> NDArray[np.bool_]:
    r"""Return which joined texts have these values of their parts; ``None`` is none.

    >>> matching(pa.array(["eu\x1fget", "us\x1fget"]), ["region", "op"], {"region": "eu"}).tolist()
    [True, False]
    """
    found = np.ones(len(texts), bool)
    columns = dict(zip(parts, split(texts, len(parts)), strict=True))
    for name, value in where.items():
        found &= np.asarray(pc.is_in(columns[name], pa.array([value], pa.string())))
    return found


def are_chosen(
    texts: pa.Array, parts: Sequence[str] | None, values: Mapping[str, str | None]
) -> NDArray[np.bool_]:
    """Return which actions have these values, be they one column or of several parts.

    >>> are_chosen(pa.array(["get", "put"]), None, {"action": "put"}).tolist()
    [False, True]
    """
    if parts is not None:
        return matching(texts, parts, values)
    if not values:
        return np.ones(len(texts), bool)
    return np.asarray(pc.is_in(texts, pa.array(values.values(), pa.string())))


def in_words(texts: pa.Array, number: int) -> pa.Array:
    r"""Return joined texts for people, the parts one behind the other.

    >>> in_words(pa.array(["eu-west\x1fdelete", "\x1b0\x1fdelete"]), 2).to_pylist()
    ['eu-west, delete', 'none, delete']
    """
    if not number:
        return pa.array([ALL_TOGETHER] * len(texts), pa.string())
    columns = [pc.fill_null(part, "none") for part in split(texts, number)]
    return pc.binary_join_element_wise(*columns, ", ")


def values_in_words(values: Iterable[str | None]) -> list[str]:
    """Return values of parts for people: what is null is none."""
    return ["none" if value is None else value for value in values]


def action_in_words(action: str | tuple[str | None, ...] | None) -> str:
    """Return an action for people: its parts one behind the other, if it has several.

    >>> action_in_words(("eu", None)), action_in_words("read"), action_in_words(())
    ('eu, none', 'read', 'all actions')
    """
    if action is None or isinstance(action, str):
        return "none" if action is None else action
    return ", ".join(values_in_words(action)) or ALL_TOGETHER
