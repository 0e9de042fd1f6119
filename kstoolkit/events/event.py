"""Which records are events, and what becomes of the others: columns in, a verdict a row out.

What can't be counted is a dead letter: kept with its raw text and why, never lost, never fatal.

Users and actions are read as text, whatever their type. Texts come out as an Arrow dictionary: what
is asked of a text is asked once for each distinct one, and counting needs the dictionary anyway.

When an event was, :mod:`kstoolkit.events.times` reads from whatever its record has.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.errors import ColumnError, check_known
from kstoolkit.events.times import UNITS, TimeUnit, only_utf8, to_epoch_ms, zone_of
from kstoolkit.formats.actions import joined, parts_of
from kstoolkit.records import Viewed, rows_html
from kstoolkit.units import Duration, check_whole, format_count, parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray

Raw = Callable[["NDArray[np.intp]"], list[str]]
"""From row numbers to the raw texts of these records."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns (or SQL expressions) are the event time, the user and the action.

    An action of several parts has several, each an expression with its name if it is no plain
    column: see :mod:`kstoolkit.formats.actions`. ``items`` are columns beside, of what is touched.

    Examples
    --------
    >>> columns = Columns("time", "user", ("region", "lower(op) AS operation"))
    >>> list(columns), columns.parts, Columns("time", "user", "action").parts
    (['time', 'user', 'region', 'lower(op)'], ('region', 'operation'), None)
    """

    event_time: str
    user: str
    action: str | tuple[str, ...]
    items: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, event_time: str, user: str, action: str | Sequence[str], items: Sequence[str] = ()
    ) -> Columns:
        """Return the columns, or raise if the parts of an action can't be such."""
        several = parts_of(action)
        one = action if isinstance(action, str) else action[0]
        return cls(event_time, user, tuple(action) if several else one, tuple(items))

    def told(self) -> dict[str, Any]:
        """Return what is counted as JSON has it."""
        action = self.action if isinstance(self.action, str) else list(self.action)
        return {"event_time": self.event_time, "user": self.user, "action": action}

    @property
    def parts(self) -> tuple[str, ...] | None:
        """What the parts of an action are called; ``None`` if it is one column."""
        return tuple(part.name for part in parts_of(self.action)) or None

    def __iter__(self) -> Iterator[str]:
        several = tuple(part.expression for part in parts_of(self.action))
        actions = several or ((self.action,) if isinstance(self.action, str) else self.action)
        return iter((self.event_time, self.user, *actions, *self.items))


Actions: TypeAlias = "pa.Array | tuple[pa.Array, ...]"
"""What was done, one a record: a column, or one for each part of an action, and items behind it."""


def in_columns(columns: Iterable[pa.Array]) -> tuple[pa.Array, pa.Array, Actions]:
    """Return times, users and actions of the columns that :class:`Columns` names."""
    times, users, *actions = columns
    return times, users, actions[0] if len(actions) == 1 else tuple(actions)


_PLAIN = re.compile(r"[^\W\d]\w*")


def is_plain(columns: Columns) -> bool:
    """Whether all columns are plain names, and none an SQL expression."""
    return all(_PLAIN.fullmatch(name) for name in columns)


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Some records of a file, and beside them (raw text, why) of those that are in no row."""

    times: pa.Array
    users: pa.Array
    actions: Actions
    raw: Raw
    unparseable: list[tuple[str, str]] = field(default_factory=list)


def require(columns: Columns, names: Sequence[str], where: str) -> None:
    """Check that each column is among the names, once; else it is a ColumnError.

    >>> require(Columns("time", "user", "user"), ["time", "user", "page"], "a.csv")
    """
    for name in columns:
        if name not in names:
            raise ColumnError.missing(name, names, where)
        if names.count(name) > 1:
            message = f"{where} has {names.count(name)} columns {name!r}."
            raise ColumnError(message, hint="Give each column a name of its own.")


Mask = Union["NDArray[np.bool_]", np.bool_]  # one truth a row, or one for all rows


def as_text(values: pa.Array) -> pa.DictionaryArray:
    """Return values as text: numbers and booleans as they are written, the rest as it is.

    What is no text (a list, a struct, bytes that are not UTF-8) becomes null, so a dead letter.

    >>> as_text(pa.array([7, None, 7])).to_pylist()
    ['7', None, '7']
    """
    if isinstance(values, pa.ExtensionArray):
        return as_text(values.storage)
    given = pa.types.is_dictionary(values.type)
    try:
        encoded = values if given else values.dictionary_encode()
        texts = _plain(encoded.dictionary)
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError):  # of a type that has no text
        return pa.nulls(len(values), pa.string()).dictionary_encode()
    places = encoded.indices.cast(pa.int32())
    if texts.null_count or (given and len(pc.unique(texts)) < len(texts)):
        distinct = texts.dictionary_encode()  # Arrow lets a dictionary name a text twice, or none
        places, texts = distinct.indices.take(places), distinct.dictionary
    return pa.DictionaryArray.from_arrays(places, texts, safe=False)


def _plain(values: pa.Array) -> pa.Array:
    kind = values.type
    if pa.types.is_nested(kind) or pa.types.is_null(kind):
        return pa.nulls(len(values), pa.string())
    if pa.types.is_fixed_size_binary(kind):
        return _plain(values.cast(pa.binary()))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return only_utf8(pc.cast(values, pa.string(), safe=False))
    return only_utf8(values.cast(pa.string()))


def _is_missing(texts: pa.DictionaryArray) -> Mask:
    return _rows(texts, _lengths(texts) == 0, if_null=True)


def _is_longer(texts: pa.DictionaryArray, limit_bytes: int) -> Mask:
    return _rows(texts, _lengths(texts) > limit_bytes, if_null=False)


def _lengths(texts: pa.DictionaryArray) -> NDArray[np.int64]:
    lengths = pc.binary_length(texts.dictionary).to_numpy(zero_copy_only=False)
    return np.asarray(lengths, dtype=np.int64)


def _rows(texts: pa.DictionaryArray, entries: NDArray[np.bool_], *, if_null: bool) -> Mask:
    """Return the rows of the chosen entries of the dictionary; a single ``False`` if none are."""
    if not entries.any() and not (if_null and texts.null_count):
        return np.bool_(False)  # noqa: FBT003 - the value itself
    codes = pc.fill_null(texts.indices, len(entries))
    places: NDArray[np.int32] = codes.to_numpy(zero_copy_only=False)
    return np.append(entries, if_null)[places]


_DAY_MS = 86_400_000
_CODES = ("no_user", "no_action", "no_time", "bad_time", "future_time", "long_user", "long_action")

LIVE_FUTURE_MS = 300_000
"""How far clocks of what is live may be ahead of ours, unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What an event may look like, as :func:`~kstoolkit.files` takes it.

    By default a time may be a day ahead of now, in a live run :data:`LIVE_FUTURE_MS`.
    """

    future_ms: int | None = None
    text_bytes: int = 1024
    time_unit: TimeUnit | None = None
    input_timezone: str | None = None


def limits_of(
    max_future: Duration | None,
    max_text_bytes: int,
    time_unit: TimeUnit | None,
    input_timezone: str | None,
) -> Limits:
    """Return what an event may look like, or raise if one of them makes no sense."""
    check_whole("max_text_bytes", max_text_bytes, least=1, hint="By default it is 1024.")
    if time_unit is not None:
        check_known("unit of time", time_unit, UNITS)
    if input_timezone is not None:
        zone_of(input_timezone)
    future_ms = None if max_future is None else parse_duration(max_future, allow_zero=True)
    return Limits(future_ms, max_text_bytes, time_unit, input_timezone)


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """The events among some records, and where the other records are.

    Columns are of events alone. ``bad``: the other records' places and their reasons' codes.
    """

    time_ms: NDArray[np.int64]
    users: pa.Array
    actions: pa.Array
    bad: NDArray[np.intp]
    reasons: list[str]
    items: tuple[pa.Array, ...] = ()


def judge(
    times: pa.Array,
    users: pa.Array,
    actions: Actions,
    *,
    now_ms: int,
    limits: Limits,
    items: int = 0,
) -> Judged:
    """Separate events from records that lack something or have it wrong.

    The first reason in the order of the checks is the one that is told. Of an action of several
    parts none has to be there, and each may be as long as a text may be. The last columns of the
    actions are that many ``items``: whatever is in them, an event is one.

    >>> times, users = pa.array(["1970-01-01", "never", None]), pa.array(["a", "b", "c"])
    >>> found = judge(times, users, pa.array(["x"] * 3), now_ms=0, limits=Limits())
    >>> found.users.to_pylist(), found.bad.tolist(), found.reasons
    (['a'], [1, 2], ['bad_time', 'no_time'])
    """
    future_ms = _DAY_MS if limits.future_ms is None else limits.future_ms
    touched: tuple[pa.Array, ...] = ()
    if items and isinstance(actions, tuple):
        touched = tuple(map(as_text, actions[-items:]))
        actions = actions[:-items] if len(actions) > items + 1 else actions[0]
    users, (actions, no_action, long_action) = as_text(users), _judged(actions, limits)
    zone = None if limits.input_timezone is None else zone_of(limits.input_timezone)
    time_ms, readable = to_epoch_ms(times, limits.time_unit, zone)
    checks: tuple[Mask, ...] = (
        _is_missing(users),
        no_action,
        np.array(times.is_null()) if times.null_count else np.bool_(False),  # noqa: FBT003 - a mask
        ~readable,
        time_ms > now_ms + future_ms,
        _is_longer(users, limits.text_bytes),
        long_action,
    )
    good = ~reduce(np.logical_or, checks)
    if good.all():
        return Judged(time_ms, users, actions, np.zeros(0, dtype=np.intp), [], touched)
    bad = np.flatnonzero(~good)
    first = np.argmax([np.broadcast_to(check, good.shape)[bad] for check in checks], axis=0)
    reasons, chosen = [_CODES[place] for place in first], pa.array(good)
    users, actions, *kept = (each.filter(chosen) for each in (users, actions, *touched))
    return Judged(time_ms[good], users, actions, bad, reasons, tuple(kept))


def _judged(actions: Actions, limits: Limits) -> tuple[pa.DictionaryArray, Mask, Mask]:
    """Return actions as texts, where there is none, and where one is too long."""
    if not isinstance(actions, tuple):
        texts = as_text(actions)
        return texts, _is_missing(texts), _is_longer(texts, limits.text_bytes)
    parts = [as_text(part) for part in actions]
    is_long = [_is_longer(part, limits.text_bytes) for part in parts]
    return joined(parts), np.bool_(False), reduce(np.logical_or, is_long)  # noqa: FBT003 - a mask


_LONGEST_RAW = 64 * 1024  # raw text beyond this many characters is cut, visibly
REASONS = {
    "unparseable": "the record could not be parsed",
    "no_user": "it has no user",
    "no_action": "it has no action",
    "no_time": "it has no time",
    "bad_time": "its time could not be read",
    "future_time": "its time lies further in the future than the clock allows",
    "long_user": "its user is longer than the limit",
    "long_action": "its action is longer than the limit",
    "marked_broken": "whoever made the row marked it as broken, for the reason in its detail",
    "poison": "counting it ended the process that did, time and again",
    "broken_file": "the file is damaged; nothing of it was counted",
    "missing_file": "the file was gone before it was read; nothing of it was counted",
    "set_aside": "the run was told to go on without the file; nothing of it was counted",
}
"""Every reason code, and what it means."""

OF_FILES = ("broken_file", "missing_file", "set_aside")
"""The reasons that are of a whole file: a dead letter for each time that it was taken in."""

SCHEMA = pa.schema(dict.fromkeys(("reason", "raw", "file", "detail"), pa.string()))


def letters(
    reasons: Sequence[str],
    raws: Sequence[str],
    *,
    file: Sequence[str | None] | str | None = None,
    details: Sequence[str | None] | str | None = None,
) -> pa.RecordBatch:
    """Return dead letters as columns of :data:`SCHEMA`, one a raw text.

    >>> letters(["no_user"], ['{"time": 0}'], file="a.json").to_pylist()
    [{'reason': 'no_user', 'raw': '{"time": 0}', 'file': 'a.json', 'detail': None}]
    """
    number = len(raws)
    files = [None if name is None else storable(name) for name in _for_each(file, number)]
    columns = [list(reasons), list(map(_cut, raws)), files, _for_each(details, number)]
    return pa.record_batch(columns, schema=SCHEMA)


def _for_each(value: Sequence[str | None] | str | None, number: int) -> list[str | None]:
    """Return one value a letter, given one for all or one each."""
    return [value] * number if value is None or isinstance(value, str) else list(value)


def _cut(raw: str) -> str:
    raw = storable(raw)
    if len(raw) <= _LONGEST_RAW:
        return raw
    return f"{raw[:_LONGEST_RAW]}… (cut; {len(raw):,} characters in all)"


def is_cut(raw: str) -> bool:
    """Whether a dead letter has just the beginning of its text."""
    return len(raw) > _LONGEST_RAW


def storable(text: str) -> str:
    """Return text that has UTF-8: lone surrogates have none."""
    return text.encode("utf-8", "replace").decode()


@dataclass(frozen=True, slots=True)
class DeadLetters(Viewed):
    """The dead letters of a run.

    Parameters
    ----------
    table
        Columns of :data:`SCHEMA`, and the ``batch`` that met them: of very many, the first.
    counted
        How many of each reason, also those not in ``table``; by default what is in ``table``.
    """

    table: pa.Table
    counted: Mapping[str, int] | None = None

    def __len__(self) -> int:
        """Return how many there are, those that ``table`` leaves out included."""
        return sum(self.by_reason.values())

    @property
    def by_reason(self) -> dict[str, int]:
        """How many of each reason, the most frequent first."""
        counted = count_reasons(self.table) if self.counted is None else self.counted
        return dict(sorted(counted.items(), key=lambda each: (-each[1], each[0])))

    def to_pandas(self) -> pd.DataFrame:
        """Return a pandas DataFrame, one dead letter a row."""
        return self.table.to_pandas()  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        told = ", ".join(f"{number:,} {reason}" for reason, number in self.by_reason.items())
        held = self.table.num_rows
        some = f"; the first {held:,} are held" if held < len(self) else ""
        return f"DeadLetters({len(self):,}{': ' if told else ''}{told}{some})"

    def _repr_html_(self) -> str:
        told = (
            (name, format_count(n), REASONS.get(name, "")) for name, n in self.by_reason.items()
        )
        return rows_html(repr(self), ("reason", "records", "meaning"), told)


def count_reasons(table: pa.Table) -> dict[str, int]:
    """Return how many dead letters there are of each reason code."""
    counts = table.column("reason").combine_chunks().value_counts().to_pylist()
    return {each["values"]: each["counts"] for each in counts}
