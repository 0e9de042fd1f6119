"""Which records are events, and why the others are not. Columns in, a verdict a row out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.events.times import TimeUnit, to_epoch_ms

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Judged", "Limits", "judge"]

DAY_MS = 86_400_000
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

    future_ms: int = DAY_MS
    text_bytes: int = 1024
    time_unit: TimeUnit | None = None


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
    user_bytes, action_bytes = _lengths(users), _lengths(actions)
    checks = (
        user_bytes == 0,
        action_bytes == 0,
        np.array(times.is_null()),
        ~readable,
        time_ms > now_ms + limits.future_ms,
        user_bytes > limits.text_bytes,
        action_bytes > limits.text_bytes,
    )
    good = ~np.logical_or.reduce(checks)
    if good.all():
        return Judged(time_ms, users, actions, np.zeros(0, dtype=np.intp), [])
    bad = np.flatnonzero(~good)
    first = np.argmax(np.stack([check[bad] for check in checks]), axis=0)
    chosen = pa.array(good)
    return Judged(
        time_ms[good],
        users.filter(chosen),
        actions.filter(chosen),
        bad,
        [_CODES[place] for place in first],
    )


def as_text(values: pa.Array) -> pa.Array:
    """Return users or actions as text: numbers and booleans as they are written, rest as it is.

    What is no text at all (a list, a struct) becomes null, and so a dead letter.

    Examples
    --------
    >>> as_text(pa.array([7, None])).to_pylist()
    ['7', None]
    """
    kind = values.type
    if pa.types.is_dictionary(kind):
        if pa.types.is_string(kind.value_type) and kind.index_type == pa.int32():
            return values
        return as_text(values.dictionary_decode())
    if pa.types.is_string(kind):
        return values
    if pa.types.is_nested(kind) or pa.types.is_null(kind):
        return pa.nulls(len(values), pa.string())
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _decoded(values)
    return values.cast(pa.string())


def _decoded(values: pa.Array) -> pa.Array:
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:  # not UTF-8 somewhere; only such rows become null
        return pa.array([_utf8(value) for value in values.to_pylist()], pa.string())


def _utf8(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _lengths(texts: pa.Array) -> NDArray[np.int64]:
    """Return how many bytes each text has; 0 for a missing one."""
    if pa.types.is_dictionary(texts.type):
        lengths = np.append(_lengths(texts.dictionary), 0)
        codes = pc.fill_null(texts.indices, len(texts.dictionary)).to_numpy(zero_copy_only=False)
        return lengths[codes]  # type: ignore[no-any-return]
    lengths = pc.fill_null(pc.binary_length(texts), 0)
    return lengths.to_numpy(zero_copy_only=False).astype(np.int64)  # type: ignore[no-any-return]
