"""Every user with a score over the whole period, most abnormal first, and why.

    n       events of the user
    P_a     = (Σ over users of (x_ua / n_u) + 0.5) / (N + 0.5 A)     the mix of peers, one vote each
    KL_u    = Σ over a of (x_ua / n_u) ln((x_ua / n_u) / P_a)        surprise of the user's mix
    bucket  = floor(log2 n), merged from the top downward until it has 100 users
    burst   = -log10(share of the bucket whose busiest window has as many or more)
    mix     = -log10(share of the bucket whose KL is as large or larger)
    score   = ln(1 + n) + burst + mix

Burst and mix are judged among users of similar volume, so that they add to volume instead of
repeating it. Volume keeps its size: p-values of ranks saturate where many are abnormal at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.findings.peers import codes_in, encoded, integers, never_null
from kstoolkit.formats.actions import in_words, parts_in, split
from kstoolkit.units import Duration, format_count
from kstoolkit.windows import as_window

if TYPE_CHECKING:
    from collections.abc import Callable

    from kstoolkit.findings.peers import Floats, Integers
    from kstoolkit.windows import Window


_FEWEST_ALIKE = 100
"""A bucket of users of similar volume has at least so many, if there are so many at all."""

_RANKING_SCHEMA = pa.schema(
    [
        *never_null(pa.string(), "user"),
        *never_null(pa.float64(), "score"),
        *never_null(pa.string(), "reason"),
        *never_null(pa.int64(), "events", "busiest"),
        *never_null(pa.string(), "main_action"),
        *never_null(pa.float64(), "main_share"),
        *never_null(pa.int64(), "alike_users"),
        *never_null(pa.float64(), "busiest_share", "mix_share"),
    ]
)
"""``alike_users`` are in the user's bucket; of them ``busiest_share`` have as busy a window, and
``mix_share`` as surprising a mix, or more so."""

_PRIOR_VOTE = 0.5
_KL_DECIMALS = 9
_NEARLY_ALL = 0.995
_USUAL = 0.5


def rank_users(
    totals: pa.Table, peaks: pa.Table, *, window: Duration | Window = "1 minute"
) -> pa.Table:
    """Return every user with score and reason, most abnormal first; ties by name.

    Parameters
    ----------
    totals
        ``user``, ``action``, ``count`` over the whole period, each (user, action) once.
    peaks
        ``user``, ``count``: the busiest shortest window of each user over all actions together;
        a user who is not there counts with none.
    window
        Which kind of window the peaks are of: for the reason only.

    Returns
    -------
    pyarrow.Table
        Of :data:`_RANKING_SCHEMA`.

    Examples
    --------
    >>> totals = pa.table({"user": ["a", "a", "b"], "action": ["x", "y", "x"], "count": [9, 1, 2]})
    >>> peaks = pa.table({"user": ["a", "b"], "count": [4, 1]})
    >>> print(rank_users(totals, peaks)["reason"][0])
    10 events, 90 % of them “x” (a usual mix); 4 in the busiest minute (as is usual).
    """
    users, user = encoded(totals["user"])
    actions, action = encoded(totals["action"])
    count = np.asarray(totals["count"].to_numpy(), np.float64)
    n = np.asarray(np.bincount(user, count, minlength=len(users)), np.float64)
    share = count / n[user]
    busiest = _busiest(peaks, users)
    bucket, alike = _buckets(n)
    burst = _share_at_least(bucket, alike, busiest.astype(np.float64))
    mix = _share_at_least(bucket, alike, _surprise(user, action, share, len(users), len(actions)))
    main_action, main_share = _main(user, action, share, len(users), actions)
    columns: dict[str, pa.Array] = {
        "user": users,
        "score": pa.array(np.log1p(n) - np.log10(burst) - np.log10(mix)),
        "events": pa.array(n.astype(np.int64)),
        "busiest": pa.array(busiest),
        "main_action": actions.take(pa.array(main_action)).cast(pa.string()),
        "main_share": pa.array(main_share),
        "alike_users": pa.array(alike[bucket]),
        "busiest_share": pa.array(burst),
        "mix_share": pa.array(mix),
    }
    parts = parts_in(totals.schema)
    main = {"main_action": columns["main_action"]}
    if parts is not None:
        texts = split(columns["main_action"], len(parts))
        main = {f"main_{name}": text for name, text in zip(parts, texts, strict=True)}
        columns["main_action"] = in_words(columns["main_action"], len(parts))
    columns["reason"] = _reasons(columns, as_window(window).label)
    ranked = pa.table([columns[name] for name in _RANKING_SCHEMA.names], schema=_RANKING_SCHEMA)
    at = ranked.schema.get_field_index("main_action")
    if parts is not None:
        ranked = ranked.remove_column(at)
        for name in reversed(main):
            ranked = ranked.add_column(at, name, main[name])
    return ranked.sort_by([("score", "descending"), ("user", "ascending")])


def _busiest(peaks: pa.Table, users: pa.Array) -> Integers:
    code = codes_in(peaks["user"], users)
    busiest = np.zeros(len(users), np.int64)
    known = code >= 0
    np.maximum.at(busiest, code[known], integers(peaks, "count")[known])
    return busiest


def _surprise(user: Integers, action: Integers, share: Floats, users: int, actions: int) -> Floats:
    """Return how far each user's mix of actions is from that of all: Kullback-Leibler, in nats."""
    votes = np.bincount(action, share, minlength=actions)
    peers = (votes + _PRIOR_VOTE) / (users + _PRIOR_VOTE * actions)
    surprise = np.bincount(user, share * np.log(share / peers[action]), minlength=users)
    # Equal mixes must tie, in whatever order their actions were summed.
    return np.round(surprise, _KL_DECIMALS)


def _main(
    user: Integers, action: Integers, share: Floats, users: int, actions: pa.Array
) -> tuple[Integers, Floats]:
    """Return each user's most frequent action, of several the first by name, and its share."""
    place = np.empty(len(actions), np.int64)  # by name: codes are as rows came in
    place[pc.sort_indices(actions).to_numpy()] = np.arange(len(actions))
    order = np.lexsort((place[action], -share, user))
    first = order[np.searchsorted(user[order], np.arange(users))]
    return action[first], share[first]


def _buckets(n: Floats) -> tuple[Integers, Integers]:
    """Return each user's bucket of similar volume, and how many users each bucket has."""
    octave = np.floor(np.log2(np.maximum(n, 1))).astype(np.int64)
    sizes = np.bincount(octave)
    bucket_of, sums = np.zeros(len(sizes), np.int64), [0]
    for level in range(len(sizes) - 1, -1, -1):
        if sums[-1] >= _FEWEST_ALIKE:
            sums.append(0)
        sums[-1] += int(sizes[level])
        bucket_of[level] = len(sums) - 1
    if len(sums) > 1 and sums[-1] < _FEWEST_ALIKE:  # what is left at the bottom joins its neighbour
        rest = sums.pop()
        sums[-1] += rest
        bucket_of = np.minimum(bucket_of, len(sums) - 1)
    return bucket_of[octave], np.asarray(sums)


def _share_at_least(bucket: Integers, alike: Integers, value: Floats) -> Floats:
    """Return for each user the share of its bucket that has as high a value, itself included."""
    order = np.lexsort((value, bucket))
    ends = np.cumsum(alike)
    ranked_bucket, ranked = bucket[order], value[order]
    new = np.ones(len(order), bool)
    new[1:] = (np.diff(ranked_bucket) != 0) | (np.diff(ranked) != 0)
    first_equal = np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
    share = np.empty(len(order))
    share[order] = (ends[ranked_bucket] - first_equal) / alike[ranked_bucket]
    return share


def _reasons(columns: dict[str, pa.Array], window: str) -> pa.Array:
    """Return a sentence a user; whole columns are joined, and only distinct numbers formatted."""
    events = _texts(columns["events"], lambda n: f"{n:,} event" + ("" if n == 1 else "s"))
    main = _texts(columns["main_share"], _most)
    busiest = _texts(columns["busiest"], format_count)
    number, unit = window.split(" ", 1)
    during = f" in the busiest {unit if number == '1' else window} "
    mix = _compared(columns["mix_share"], "a usual mix", "have as unusual a mix")
    burst = _compared(columns["busiest_share"], "as is usual", "reach that")
    parts = (events, main, columns["main_action"], "” ", mix, "; ", busiest, during, burst, ".")
    return pc.binary_join_element_wise(*parts, "")


def _texts(column: pa.Array, text: Callable[[float], str]) -> pa.Array:
    distinct = column.dictionary_encode()
    texts = [text(value) for value in distinct.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(distinct.indices)


def _most(share: float) -> str:
    some = _percent(share) if share < _NEARLY_ALL else "nearly all"
    return f", {'all' if share == 1 else some} of them “"


def _compared(shares: pa.Array, usual: str, unusual: str) -> pa.Array:
    def text(share: float) -> str:
        few = f"{_percent(share)} of comparably active users {unusual}"
        return f"({usual if share >= _USUAL else few})"

    return _texts(shares, text)


def _percent(share: float) -> str:
    digits = 2 - int(np.floor(np.log10(share * 100))) - 1 if share > 0 else 0
    text = f"{share * 100:.{max(digits, 0)}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) + " %"
