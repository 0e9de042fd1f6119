"""Every user with a score over the whole period, most abnormal first, and why.

    n       events of the user
    P_a     = (Σ over users of (x_ua / n_u) + 0.5) / (N + 0.5 A)     the mix of peers, one vote each
    KL_u    = Σ over a of (x_ua / n_u) ln((x_ua / n_u) / P_a)        surprise of the user's mix
    alike   the 99 others whose number of events is nearest to v
    burst   = -log10(share of these and the user whose busiest window has as many or more)
    mix     = -log10(share of them whose KL is as large or larger)
    found   = -log10(chance of the least probable finding), 9 at most, 0 without one
    score   = highest of ln(1 + v) + burst + mix for volumes v up to n, + found / 2

Burst and mix are judged among users of similar volume, so that they add to volume instead of
repeating it. Volume keeps its size: p-values of ranks saturate where many are abnormal at once.
As a user may be compared with who does less (v goes by eighths of an octave), one more event never
lowers the volume's and the burst's part, nor who else there is: the user is none of the alike. What
a user's mix is like, one more event may make more usual.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.findings.finding import chance
from kstoolkit.findings.incidents import OPEN, RESOLVED
from kstoolkit.findings.peers import codes_in, encoded, in_one, kinds_of, never_null
from kstoolkit.formats.actions import in_words, parts_in, split
from kstoolkit.records import counted
from kstoolkit.units import Duration, format_count
from kstoolkit.windows import as_window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kstoolkit.findings.peers import Flags, Floats, Integers
    from kstoolkit.windows import Window

_ALIKE = 99
"""With so many others of similar volume a user is compared, if there are so many at all."""

_RANKING_SCHEMA = pa.schema(
    [
        *never_null(pa.int64(), "place"),
        *never_null(pa.string(), "user"),
        *never_null(pa.float64(), "score"),
        *never_null(pa.string(), "reason"),
        *never_null(pa.int64(), "events", "busiest"),
        *never_null(pa.string(), "main_action"),
        *never_null(pa.float64(), "main_share"),
        *never_null(pa.int64(), "alike_users"),
        *never_null(pa.float64(), "busiest_share", "mix_share"),
        pa.field("log10_probability", pa.float64()),
        pa.field("incidents", pa.int64()),
    ]
)
"""``place`` is 0 for the most abnormal. ``alike_users`` are those compared with, the user among
them; of these ``busiest_share`` have as busy a window, and ``mix_share`` as surprising a mix, or
more so. ``log10_probability`` is that of the least probable finding, null where there is none;
``incidents``, how many there are, null if that was not told."""

_STEPS_AN_OCTAVE, _MOST_GAINED = 8, 4.0
FOUND_COUNTS, MOST_FOUND = 0.5, 9.0
_PRIOR_VOTE = 0.5
_NEARLY_ALL = 0.995
_USUAL = 0.5
_ORDER = [("score", "descending"), ("events", "descending"), ("user", "ascending")]


def rank_users(
    totals: pa.Table,
    peaks: pa.Table,
    findings: pa.Table | None = None,
    *,
    incidents: pa.Table | None = None,
    window: Duration | Window = "1 minute",
    group: str | None = None,
    most: int | None = None,
    also: Iterable[str] = (),
) -> pa.Table:
    """Return users with place, score and reason, most abnormal first; ties by name.

    ``totals`` have ``user``, ``action``, ``count`` over the whole period, each (user, action) once;
    ``peaks``, ``user`` and ``count``: the busiest shortest window of each user over all actions
    together, which the reason calls a ``window``. Findings of limits count for nothing; of
    ``incidents`` (``user``, ``state``) the reason tells how many. The ``group`` is a regular
    expression (RE2), else a ConfigurationError: users in whose names it matches the same text are
    of one kind, compared with each other alone; so are those whose names it does not match. All
    are returned, or so many at the ``most``, and of the others those that are ``also`` named.

    >>> totals = pa.table({"user": ["a", "a", "b"], "action": ["x", "y", "x"], "count": [9, 1, 2]})
    >>> peaks = pa.table({"user": ["a", "b"], "count": [4, 1]})
    >>> print(rank_users(totals, peaks)["reason"][0])
    10 events; 4 in the busiest minute (as is usual); 90 % of them “x” (a usual mix).
    """
    some = [totals.slice(0, 0), totals]
    if group is not None:
        kinds = kinds_of(totals["user"].cast(pa.string()), group)
        some[1:] = [totals.filter(pc.equal(kinds, kind)) for kind in pc.unique(kinds)]
    ranked = pa.concat_tables(_scored(each, peaks, findings, incidents) for each in some)
    ranked = ranked.sort_by(_ORDER).append_column("place", pa.array(np.arange(len(ranked))))
    if most is not None:  # sentences take what all else does together: of those alone that are told
        named = pc.is_in(ranked["user"], value_set=pa.array([*also], pa.string()))
        ranked = ranked.filter(pc.or_(pc.less(ranked["place"], most), named))
    columns = {name: in_one(ranked[name]) for name in ranked.column_names}
    main, parts = columns["main_action"], parts_in(totals.schema)
    if parts is not None:
        columns["main_action"] = in_words(main, len(parts))
    columns["reason"] = _reasons(columns, as_window(window).label)
    ranked = pa.table([columns[name] for name in _RANKING_SCHEMA.names], schema=_RANKING_SCHEMA)
    if parts is None:
        return ranked
    at = ranked.schema.get_field_index("main_action")
    ranked = ranked.remove_column(at)
    for name, text in reversed([*zip(parts, split(main, len(parts)), strict=True)]):
        ranked = ranked.add_column(at, f"main_{name}", text)
    return ranked


def _scored(
    totals: pa.Table, peaks: pa.Table, findings: pa.Table | None, incidents: pa.Table | None
) -> pa.Table:
    """Return figures and score of users of one kind, in no order; ``open`` are their incidents."""
    users, user = encoded(totals["user"])
    actions, action = encoded(totals["action"])
    count = np.asarray(totals["count"].to_numpy(), np.float64)
    n = np.asarray(np.bincount(user, count, minlength=len(users)), np.float64)
    share = count / n[user]
    busiest = _highest(np.asarray(peaks["count"].to_numpy(), np.float64), peaks["user"], users)
    mixed = _surprise(user, action, share, len(users), len(actions))
    base, alike, burst, mix = _among_alike(n, (busiest, mixed), users)
    main_action, main_share = _main(user, action, share, len(users), actions)
    found = _found(findings, users)
    is_open = None if incidents is None else incidents.filter(pc.equal(incidents["state"], OPEN))
    columns: dict[str, Any] = {
        "user": users.cast(pa.string()),
        "score": base + FOUND_COUNTS * np.minimum(found, MOST_FOUND),
        "events": n.astype(np.int64),
        "busiest": busiest.astype(np.int64),
        "main_action": actions.take(pa.array(main_action)).cast(pa.string()),
        "main_share": main_share,
        "alike_users": alike,
        "busiest_share": burst,
        "mix_share": mix,
        "log10_probability": pa.array(-found, mask=found == 0),
        "incidents": _numbers(incidents, users),
        "open": _numbers(is_open, users),
    }
    return pa.table(columns)


def _highest(values: Floats, of: pa.ChunkedArray, users: pa.Array) -> Floats:
    code, highest = codes_in(of, users), np.zeros(len(users))
    known = code >= 0
    np.maximum.at(highest, code[known], values[known])
    return highest


def _surprise(user: Integers, action: Integers, share: Floats, users: int, actions: int) -> Floats:
    """Return how far each user's mix of actions is from that of all: Kullback-Leibler, in nats."""
    votes = np.bincount(action, share, minlength=actions)
    peers = (votes + _PRIOR_VOTE) / (users + _PRIOR_VOTE * actions)
    surprise = np.bincount(user, share * np.log(share / peers[action]), minlength=users)
    # Equal mixes must tie, in whatever order their actions were summed.
    return np.round(surprise, 9)


def _main(
    user: Integers, action: Integers, share: Floats, users: int, actions: pa.Array
) -> tuple[Integers, Floats]:
    """Return each user's most frequent action, of several the first by name, and its share."""
    place = np.empty(len(actions), np.int64)  # by name: codes are as rows came in
    place[pc.sort_indices(actions).to_numpy()] = np.arange(len(actions))
    order = np.lexsort((place[action], -share, user))
    first = order[np.searchsorted(user[order], np.arange(users))]
    return action[first], share[first]


def _found(findings: pa.Table | None, users: pa.Array) -> Floats:
    """Return how surprising each user's least probable finding is; 0 where there is none."""
    if findings is None:
        return np.zeros(len(users))
    surprise = pc.fill_null(pc.negate(findings["log10_probability"]), 0.0).to_numpy()
    return _highest(surprise, findings["user"], users)


def _numbers(incidents: pa.Table | None, users: pa.Array) -> pa.Array:
    if incidents is None:
        return pa.nulls(len(users), pa.int64())
    code = codes_in(incidents["user"], users)
    return pa.array(np.bincount(code[code >= 0], minlength=len(users)))


def _among_alike(
    n: Floats, values: tuple[Floats, Floats], users: pa.Array
) -> tuple[Floats, Integers, Floats, Floats]:
    """Return the score without findings, how many are alike, and the shares that reach the values.

    Of several volumes up to a user's own that is taken which gives the highest score.
    """
    place = np.empty(len(users), np.int64)
    place[pc.sort_indices(users).to_numpy()] = np.random.default_rng(0).permutation(len(users))
    order = np.lexsort((place, n))  # whoever has as many events, in no order of names
    ascending = n[order]
    best, alike = np.full(len(n), -np.inf), np.zeros(len(n), np.int64)
    shares, is_alike = np.ones((2, len(n))), np.zeros(len(n), bool)
    for volume in _volumes(ascending):
        near = _nearest(ascending, order, volume)
        rows = order[slice(*np.searchsorted(ascending, [volume, volume * np.exp(_MOST_GAINED)]))]
        is_alike[near] = True
        told = np.stack([_share_at_least(each, near, rows, is_alike[rows]) for each in values])
        is_alike[near] = False
        score = np.log1p(volume) - np.log10(told).sum(axis=0)
        better = score > best[rows]
        rows, score, told = rows[better], score[better], told[:, better]
        best[rows], alike[rows], shares[:, rows] = score, len(near), told
    return best, alike, shares[0], shares[1]


def _volumes(ascending: Floats) -> Floats:
    """Return the numbers of events around which users are compared."""
    highest = float(ascending[-1]) if len(ascending) else 0.0
    last = math.ceil(_STEPS_AN_OCTAVE * math.log2(highest or 1))
    steps = np.arange(float(last + 1))
    volumes: Floats = np.unique(np.floor(np.power(2.0, steps / _STEPS_AN_OCTAVE)))
    return volumes[volumes <= highest]


def _nearest(ascending: Floats, order: Integers, volume: float) -> Integers:
    """Return the users nearest to a volume, the nearest first: the others, and one more."""
    low = int(np.searchsorted(ascending, volume))
    high = int(np.searchsorted(ascending, volume, "right"))
    some = np.arange(max(low - _ALIKE - 1, 0), min(max(high, low + _ALIKE + 1), len(order)))
    if high - low > _ALIKE:
        some = np.arange(low, high)
    far = np.abs(np.log(ascending[some] / volume))
    nearest: Integers = order[some[np.argsort(far, kind="stable")][: _ALIKE + 1]]
    return nearest


def _share_at_least(value: Floats, near: Integers, rows: Integers, is_near: Flags) -> Floats:
    """Return of each row the share with as high a value among itself and the nearest others."""
    number = len(near) - np.searchsorted(np.sort(value[near]), value[rows])
    if len(near) <= _ALIKE:  # all that there are
        return np.asarray(number / len(near))
    stands_in = value[near[-1]] >= value[rows]  # for who is not near, the farthest makes place
    return np.asarray(np.where(is_near, number, number - stands_in + 1) / len(near))


def _reasons(columns: Mapping[str, pa.Array], window: str) -> pa.Array:
    """Return a sentence a user, what lifts it most first, and at last what is usual.

    Whole columns are joined, and only distinct numbers formatted.
    """
    events = _texts(columns["events"], lambda n: f"{n:,} event" + ("" if n == 1 else "s"))
    main = _texts(columns["main_share"], _most)
    busiest = _texts(columns["busiest"], format_count)
    number, unit = window.split(" ", 1)
    during = f" in the busiest {unit if number == '1' else window} "
    mix = _compared(columns["mix_share"], "a usual mix", "have as unusual a mix")
    burst = _compared(columns["busiest_share"], "as is usual", "reach that")
    surprise = pc.fill_null(pc.negate(columns["log10_probability"]), 0.0)
    found = _texts(surprise, lambda z: f"a finding of chance {chance(-z)}" if z else "")
    clauses = [
        events,
        pc.binary_join_element_wise(main, columns["main_action"], "” ", mix, ""),
        pc.binary_join_element_wise(busiest, during, burst, ""),
        _incidents_in_words(columns["incidents"], columns["open"], found),
    ]
    lifts = [columns["events"], *(columns[name] for name in ("mix_share", "busiest_share"))]
    volume, mixed, bursts = (each.to_numpy().astype(np.float64) for each in lifts)
    lift = [
        np.log1p(volume),
        -np.log10(mixed),
        -np.log10(bursts),
        FOUND_COUNTS * np.minimum(surprise.to_numpy(), MOST_FOUND),
    ]
    order = np.argsort(-np.stack(lift), axis=0, kind="stable")
    every = pa.concat_arrays([pc.cast(each, pa.string()) for each in map(in_one, clauses)])
    rows = np.arange(len(volume))
    told = [every.take(pa.array(place * len(rows) + rows)) for place in order]
    told = [pc.if_else(pc.equal(each, ""), None, each) for each in told]
    whole = pc.binary_join_element_wise(*told, "; ", null_handling="skip")
    return pc.binary_join_element_wise(whole, ".", "")


def _incidents_in_words(number: pa.Array, is_open: pa.Array, found: pa.Array) -> pa.Array:
    """Return how many incidents there are, and behind it the finding that tells most of them."""

    def several(of: pa.Array, state: str) -> pa.Array:
        return _texts(of, lambda n: counted(int(n), f"{state} incidents") if n else "")

    number, is_open = (pc.fill_null(each, 0) for each in (number, is_open))
    over = pc.subtract(number, is_open)
    both = pc.greater(pc.multiply(is_open, over), 0)
    of_state = (several(is_open, OPEN), pc.if_else(both, " and ", ""), several(over, RESOLVED))
    told = pc.binary_join_element_wise(*of_state, "")
    both = pc.binary_join_element_wise(told, " (", found, ")", "")
    return pc.if_else(pc.equal(told, ""), found, pc.if_else(pc.equal(found, ""), told, both))


def _texts(column: pa.Array, text: Callable[[float], str]) -> pa.Array:
    distinct = column.dictionary_encode()
    texts = [text(value) for value in distinct.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(distinct.indices)


def _most(share: float) -> str:
    some = _percent(share) if share < _NEARLY_ALL else "nearly all"
    return f"{'all' if share == 1 else some} of them “"


def _compared(shares: pa.Array, usual: str, unusual: str) -> pa.Array:
    def text(share: float) -> str:
        few = f"{_percent(share)} of comparably active users {unusual}"
        return f"({usual if share >= _USUAL else few})"

    return _texts(shares, text)


def _percent(share: float) -> str:
    """Return a share by two digits, never as a power of ten.

    >>> _percent(0.0345), _percent(0.0000005)
    ('3.5 %', '0.00005 %')
    """
    return f"{np.format_float_positional(share * 100, 2, fractional=False, trim='-')} %"
