"""Which records are events, and what becomes of the others: columns in, a verdict a row out.

What can't be counted is a dead letter: kept with its raw text and why, never lost, never fatal.

Users and actions are read as text, whatever type a file or DataFrame has them in. Texts come out as
an Arrow dictionary: what is asked of a text is asked once for each distinct one, and counting needs
the dictionary anyway.

Times are read as epoch milliseconds UTC: timestamps and dates, ISO-8601 text with or without a zone
(without: UTC), and epoch numbers, as numbers or as text, in seconds, milliseconds, microseconds or
nanoseconds. The unit of an epoch number is told from its size: up to 10¹¹ it is seconds (year
5138), up to 10¹⁴ milliseconds, up to 10¹⁷ microseconds, beyond that nanoseconds. So milliseconds
before March 1973 would be misread: give these as text, or say the unit.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import reduce
from html import escape
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.errors import ColumnError, ConfigurationError
from kstoolkit.moments import EPOCH
from kstoolkit.records import Viewed
from kstoolkit.units import Duration, format_count, parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray


Raw = Callable[["NDArray[np.intp]"], list[str]]
"""From row numbers to the raw texts of these records."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns (or SQL expressions) are the event time, the user and the action."""

    event_time: str
    user: str
    action: str

    def __iter__(self) -> Iterator[str]:
        return iter((self.event_time, self.user, self.action))


_PLAIN = re.compile(r"[^\W\d]\w*")


def is_plain(columns: Columns) -> bool:
    """Whether all columns are plain names, and none an SQL expression.

    Examples
    --------
    >>> is_plain(Columns("time", "user", "action")), is_plain(Columns("time", "lower(u)", "a"))
    (True, False)
    """
    return all(_PLAIN.fullmatch(name) for name in columns)


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Some records of a file, as it has them, of so many bytes uncompressed.

    ``unparseable`` are (raw text, what the parser said) of records that are in no row.
    """

    times: pa.Array
    users: pa.Array
    actions: pa.Array
    raw: Raw
    unparseable: list[tuple[str, str]] = field(default_factory=list)
    size_bytes: int = 0


def require(columns: Columns, names: Sequence[str], where: str) -> None:
    """Check that each column is among the names, once.

    Raises
    ------
    ColumnError
        If one is missing, or there twice.

    Examples
    --------
    >>> require(Columns("time", "user", "user"), ["time", "user", "page"], "a.csv")
    """
    for name in columns:
        if name not in names:
            raise ColumnError.missing(name, names, where)
        if names.count(name) > 1:
            message = f"{where} has {names.count(name)} columns {name!r}."
            raise ColumnError(message, hint="Give each column a name of its own.")


Mask = Union["NDArray[np.bool_]", np.bool_]
"""One truth a row, or one for all rows."""


def as_text(values: pa.Array) -> pa.DictionaryArray:
    """Return values as text: numbers and booleans as they are written, the rest as it is.

    What is no text at all (a list, a struct, bytes that are not UTF-8) becomes null, and so a
    dead letter.

    Examples
    --------
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


def only_utf8(texts: pa.Array) -> pa.Array:
    r"""Return texts with null in place of those that are not UTF-8, which Arrow lets pass.

    Examples
    --------
    >>> texts = pa.array([b"Zo\xc3\xab", b"Zo\xeb"]).view(pa.string())
    >>> only_utf8(texts).to_pylist()
    ['Zoë', None]
    """
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([_decoded(each) for each in texts.cast(pa.binary())], pa.string())
    return texts


def _decoded(value: pa.Scalar) -> str | None:
    try:
        return None if value.as_py() is None else value.as_py().decode()
    except UnicodeDecodeError:
        return None


def _is_missing(texts: pa.DictionaryArray) -> Mask:
    """Return where there is no text, or an empty one."""
    return _rows(texts, _lengths(texts) == 0, if_null=True)


def _is_longer(texts: pa.DictionaryArray, limit_bytes: int) -> Mask:
    """Return where a text has more bytes of UTF-8 than allowed."""
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


TimeUnit = Literal["s", "ms", "us", "ns"]
_Number = TypeVar("_Number", np.int64, np.float64)

_PER_MS: dict[TimeUnit, float] = {"s": 1e-3, "ms": 1.0, "us": 1e3, "ns": 1e6}
_LARGEST = (1e11, 1e14, 1e17)
UNITS: tuple[TimeUnit, ...] = ("s", "ms", "us", "ns")
_FARTHEST = 10**15
"""No calendar holds so many seconds, and a thousand times as many still fit 64 bits."""

_ZONED = r"[Tt ].*(?:[Zz]|[+-]\d{2}(?::?\d{2})?)\s*$"
_WHOLE = r"^-?(?:\d{1,18}|[1-8]\d{18})$"
_NUMBER = r"^[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?$"
_FEW = 64
_YEAR_9999_MS = 253_402_300_799_999
_YEAR_1_MS = -62_135_596_800_000

Read = tuple["NDArray[np.int64]", "NDArray[np.bool_]"]
"""Epoch milliseconds, and which of them could be read."""


def to_epoch_ms(times: pa.Array, unit: TimeUnit | None = None) -> Read:
    """Return the times in epoch milliseconds, rounded down, and which of them could be read.

    Times are timestamps, dates, text or numbers, also as a dictionary. What can't be read is 0.

    Examples
    --------
    >>> texts = ["1970-01-01T00:00:01Z", "1970-01-01 01:00:02+01:00", "1970-01-01", "noon", "1.5"]
    >>> milliseconds, readable = to_epoch_ms(pa.array(texts))
    >>> milliseconds.tolist(), readable.tolist()
    ([1000, 2000, 0, 0, 1500], [True, True, True, False, True])
    >>> to_epoch_ms(pa.array([1442018818, 1442018818771]))[0].tolist()
    [1442018818000, 1442018818771]
    """
    kind = times.type
    if pa.types.is_dictionary(kind):
        return _looked_up(times, *to_epoch_ms(times.dictionary, unit))
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _of_timestamps(times)
    if pa.types.is_decimal(kind):
        return _of_numbers(times.cast(pa.float64()), unit)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _of_numbers(times, unit)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _of_texts(times.cast(pa.string()), unit)
    return _of_texts(times, unit) if pa.types.is_string(kind) else _unread(len(times))


def _unread(number: int) -> Read:
    return np.zeros(number, dtype=np.int64), np.zeros(number, dtype=bool)


def _looked_up(
    times: pa.DictionaryArray, milliseconds: NDArray[np.int64], readable: NDArray[np.bool_]
) -> Read:
    codes = pc.fill_null(times.indices.cast(pa.int64()), len(milliseconds))
    places = codes.to_numpy(zero_copy_only=False)
    return np.append(milliseconds, 0)[places], np.append(readable, values=False)[places]


def _of_timestamps(times: pa.Array) -> Read:
    # Without a zone the clock is taken for UTC; with one, Arrow holds UTC already.
    if not pa.types.is_timestamp(times.type):
        times = times.cast(pa.timestamp("ms"))
    ticks = _filled(times.cast(pa.int64())).to_numpy(zero_copy_only=False)
    return _bounded(_whole_ms(ticks, times.type.unit), np.array(times.is_valid()))


def _of_numbers(times: pa.Array, unit: TimeUnit | None) -> Read:
    readable = np.array(times.is_valid())
    numbers = _filled(times).to_numpy(zero_copy_only=False)
    if numbers.dtype.kind == "f":
        return _bounded(_scaled(numbers.astype(np.float64), unit, _fraction_ms), readable)
    if numbers.dtype == np.uint64:
        readable &= numbers <= np.uint64(np.iinfo(np.int64).max)
    return _bounded(_scaled(numbers.astype(np.int64), unit, _whole_ms), readable)


def _filled(numbers: pa.Array) -> pa.Array:
    """Return numbers with 0 for null; Arrow would copy them all even where there is none."""
    return pc.fill_null(numbers, 0) if numbers.null_count else numbers


def _scaled(
    numbers: NDArray[_Number],
    unit: TimeUnit | None,
    in_ms: Callable[[NDArray[_Number], TimeUnit], NDArray[_Number]],
) -> NDArray[_Number]:
    """Return numbers as milliseconds, by the given unit or each by the one that its size tells."""
    if unit is not None:
        return in_ms(numbers, unit)
    chosen = np.searchsorted(_LARGEST, np.abs(numbers.astype(np.float64)), side="right")
    milliseconds = np.zeros_like(numbers)
    for place, each in enumerate(UNITS):
        here = chosen == place
        milliseconds[here] = in_ms(numbers[here], each)
    return milliseconds


def _whole_ms(numbers: NDArray[np.int64], unit: TimeUnit) -> NDArray[np.int64]:
    if unit == "s":
        return np.clip(numbers, -_FARTHEST, _FARTHEST) * 1_000
    return numbers // int(_PER_MS[unit])


def _fraction_ms(numbers: NDArray[np.float64], unit: TimeUnit) -> NDArray[np.float64]:
    with np.errstate(over="ignore"):
        return np.round(numbers / _PER_MS[unit], 3)  # a float's own error is not a fraction of 1 ms


def _bounded(milliseconds: NDArray[Any], readable: NDArray[np.bool_]) -> Read:
    """Refuse what no calendar holds, and round down."""
    readable = readable & (milliseconds >= _YEAR_1_MS) & (milliseconds <= _YEAR_9999_MS)
    kept = milliseconds if readable.all() else np.where(readable, milliseconds, 0)
    return np.floor(kept).astype(np.int64) if kept.dtype.kind == "f" else kept, readable


def _of_texts(times: pa.StringArray, unit: TimeUnit | None) -> Read:
    read = _of_like_texts(times)
    if read is not None:
        return read
    trimmed = pc.ascii_trim_whitespace(only_utf8(times))
    whole, number, zoned = (
        np.array(pc.fill_null(pc.match_substring_regex(trimmed, each), fill_value=False))
        for each in (_WHOLE, _NUMBER, _ZONED)
    )
    kinds = np.select([whole, number, zoned], [0, 1, 2], default=3)
    if (kinds == 0).all():
        return _of_numbers(trimmed.cast(pa.int64()), unit)
    if (kinds == 1).all():
        return _of_numbers(trimmed.cast(pa.float64()), unit)
    if (kinds == kinds[0]).all():  # all alike, but some of them are wrong: narrow these down
        kinds = np.arange(len(times)) >= len(times) // 2
        if len(times) <= _FEW:
            return _one_by_one(trimmed)
    milliseconds, readable = _unread(len(times))
    for kind in np.unique(kinds):
        here = np.flatnonzero(kinds == kind)
        milliseconds[here], readable[here] = _of_texts(trimmed.take(pa.array(here)), unit)
    return milliseconds, readable


def _of_like_texts(times: pa.StringArray) -> Read | None:
    """Read texts that all have a zone, or all none; ``None`` if any of them can't be read so."""
    for zone in ("UTC", None):
        kind = pa.timestamp("ns", tz=zone)
        try:
            times[:1].cast(kind)  # each text that does not fit costs Arrow ten that do
            return _of_timestamps(times.cast(kind))
        except pa.ArrowInvalid:
            continue
    return None


def _one_by_one(times: pa.StringArray) -> Read:
    milliseconds, readable = _unread(len(times))
    for place, text in enumerate(times.to_pylist()):
        one = _one_iso(text or "")
        if one is not None:
            milliseconds[place], readable[place] = one, True
    return _bounded(milliseconds, readable)


def _one_iso(text: str) -> int | None:
    """Read one time the slow way: only texts that Arrow refused, and neighbours, come here."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - EPOCH) // timedelta(milliseconds=1)


_DAY_MS = 86_400_000
_CODES = ("no_user", "no_action", "no_time", "bad_time", "future_time", "long_user", "long_action")


@dataclass(frozen=True, slots=True)
class Limits:
    """What an event may look like.

    Parameters
    ----------
    future_ms
        How far beyond the wall clock a time may lie. Without a limit, one record of the year
        2099 would make all others late.
    text_bytes
        How long a user or an action may be, in UTF-8.
    time_unit
        The unit of epoch numbers; told from their size if ``None``.
    """

    future_ms: int = _DAY_MS
    text_bytes: int = 1024
    time_unit: TimeUnit | None = None


def limits_of(max_future: Duration, max_text_bytes: int, time_unit: TimeUnit | None) -> Limits:
    """Return what an event may look like, or raise if one of them makes no sense."""
    if max_text_bytes < 1:
        message = f"max_text_bytes is {max_text_bytes}: no user would be short enough."
        raise ConfigurationError(message, hint="Give 1 or more; the default is 1024.")
    if time_unit not in {None, *UNITS}:
        message = f"The unit of time {time_unit!r} is unknown."
        raise ConfigurationError(message, hint=f"Known units: {', '.join(UNITS)}.")
    return Limits(parse_duration(max_future, allow_zero=True), max_text_bytes, time_unit)


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """The events among some records, and where the other records are.

    Parameters
    ----------
    time_ms, users, actions
        Columns of the events alone.
    bad
        Row numbers of the records that are no events.
    reasons
        Their reason codes.
    """

    time_ms: NDArray[np.int64]
    users: pa.Array
    actions: pa.Array
    bad: NDArray[np.intp]
    reasons: list[str]


def judge(
    times: pa.Array, users: pa.Array, actions: pa.Array, *, now_ms: int, limits: Limits
) -> Judged:
    """Separate events from records that lack something or have it wrong.

    The first reason in the order of the checks is the one that is told.

    Examples
    --------
    >>> times, users = pa.array(["1970-01-01", "never", None]), pa.array(["a", "b", "c"])
    >>> found = judge(times, users, pa.array(["x"] * 3), now_ms=0, limits=Limits())
    >>> found.users.to_pylist(), found.bad.tolist(), found.reasons
    (['a'], [1, 2], ['bad_time', 'no_time'])
    """
    users, actions = as_text(users), as_text(actions)
    time_ms, readable = to_epoch_ms(times, limits.time_unit)
    checks: tuple[Mask, ...] = (
        _is_missing(users),
        _is_missing(actions),
        np.array(times.is_null()) if times.null_count else np.bool_(False),  # noqa: FBT003 - a mask
        ~readable,
        time_ms > now_ms + limits.future_ms,
        _is_longer(users, limits.text_bytes),
        _is_longer(actions, limits.text_bytes),
    )
    good = ~reduce(np.logical_or, checks)
    if good.all():
        return Judged(time_ms, users, actions, np.zeros(0, dtype=np.intp), [])
    bad = np.flatnonzero(~good)
    first = np.argmax([np.broadcast_to(check, good.shape)[bad] for check in checks], axis=0)
    chosen = pa.array(good)
    return Judged(
        time_ms[good],
        users.filter(chosen),
        actions.filter(chosen),
        bad,
        [_CODES[place] for place in first],
    )


_LONGEST_RAW = 64 * 1024
"""Raw text beyond this many characters is cut, visibly."""

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

    Examples
    --------
    >>> letters(["no_user"], ['{"time": 0}'], file="a.json").to_pylist()
    [{'reason': 'no_user', 'raw': '{"time": 0}', 'file': 'a.json', 'detail': None}]
    """
    number = len(raws)
    columns = [
        list(reasons),
        [_cut(raw) for raw in raws],
        [None if name is None else storable(name) for name in _for_each(file, number)],
        _for_each(details, number),
    ]
    return pa.record_batch(
        [pa.array(c, kind.type) for c, kind in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


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
        How many there are of each reason, those that ``table`` leaves out included; by default
        just what is in ``table``.
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
        rows = "".join(
            f"<tr><td>{escape(reason)}</td><td>{format_count(number)}</td>"
            f"<td style='text-align:left'>{escape(REASONS.get(reason, ''))}</td></tr>"
            for reason, number in self.by_reason.items()
        )
        head = "".join(f"<th scope='col'>{name}</th>" for name in ("reason", "records", "meaning"))
        return (
            f"<table><caption>{escape(repr(self))}</caption>"
            f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        )


def count_reasons(table: pa.Table) -> dict[str, int]:
    """Return how many dead letters there are of each reason code.

    Examples
    --------
    >>> count_reasons(pa.table({"reason": ["no_user", "no_time", "no_user"]}))
    {'no_user': 2, 'no_time': 1}
    """
    counts = table.column("reason").combine_chunks().value_counts().to_pylist()
    return {each["values"]: each["counts"] for each in counts}
