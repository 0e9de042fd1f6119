"""Which records are events, and why the others are not. Columns in, a verdict a row out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kstoolkit.events.texts import Mask, as_text, is_longer, is_missing
from kstoolkit.events.times import TimeUnit, to_epoch_ms

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
    checks: tuple[Mask, ...] = (
        is_missing(users),
        is_missing(actions),
        np.array(times.is_null()) if times.null_count else np.bool_(False),  # noqa: FBT003 - a mask
        ~readable,
        time_ms > now_ms + limits.future_ms,
        is_longer(users, limits.text_bytes),
        is_longer(actions, limits.text_bytes),
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
