"""What kind a store is, by its column families, folder, a sample of its rows, and its name.

The column families tell most. Where several kinds share them, each is tried: the one whose rows all
come apart, with times that lie in the folder's segment, is it. A name that Kafka Streams gives is
what is left to go by where there are no rows, or damaged ones; else the rows go before it.

Kafka Streams names what its users leave without a name, and of some stores it makes the end of the
name, behind what the user called the operator. A user may call a store of another kind so: a name
is a hint, and the bytes are believed before it. (``KGroupedStreamImpl``, ``KStreamImplJoin``,
``KStreamImpl`` and ``KTableImpl`` of ``org.apache.kafka.streams.kstream.internals``.)
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.formats.columns import except_at
from kstoolkit.formats.streams.kinds import (
    DEFAULT,
    LIST_HEADERS,
    SESSION_HEADERS,
    TIMESTAMPED,
    TIMESTAMPED_HEADERS,
    WINDOW_HEADERS,
    Kind,
    kinds_named,
    live_family,
)
from kstoolkit.formats.streams.rows import split

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from kstoolkit.formats.columns import ByteColumn, RowColumns


class _Hint(NamedTuple):
    """What a name says: the kinds that it goes with, the likeliest first, and why.

    ``is_generated`` tells whether the whole name is made by Kafka Streams.
    """

    kinds: tuple[Kind, ...]
    why: str
    is_generated: bool


_JOIN_WINDOWS = (Kind.WINDOW, Kind.HEADERS_WINDOW)
_TABLES = (Kind.TIMESTAMPED_KEY_VALUE, Kind.HEADERS_KEY_VALUE, Kind.KEY_VALUE)
_AGGREGATIONS = (
    *_TABLES,
    Kind.TIMESTAMPED_WINDOW,
    Kind.HEADERS_WINDOW,
    # In the column family of sessions: since 2.3 the windows of aggregations have one of their own.
    Kind.SESSION,
    Kind.HEADERS_SESSION,
    Kind.TIME_ORDERED_SESSION,
    Kind.HEADERS_TIME_ORDERED_SESSION,
    Kind.TIME_ORDERED_WINDOW,
    Kind.HEADERS_TIME_ORDERED_WINDOW,
    Kind.WINDOW,
)
_GENERATED = (
    (
        r"KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-\d{10}",
        "the subscriptions of foreign-key joins",
        (Kind.FOREIGN_KEY_SUBSCRIPTION,),
    ),
    (r"KSTREAM-OUTERSHARED-\d{10}-store", "what waits in left and outer joins", (Kind.LIST_VALUE,)),
    (
        r"KSTREAM-(JOIN|OUTER)(THIS|OTHER)-\d{10}-store",
        "the windows of stream-stream joins",
        _JOIN_WINDOWS,
    ),
    (
        r"KSTREAM-(LEFT)?JOIN-\d{10}-Buffer",
        "the grace buffers of stream-table joins",
        (Kind.GRACE_BUFFER,),
    ),
    (
        r"(COGROUPKSTREAM|KSTREAM|KTABLE)-(AGGREGATE|REDUCE)-STATE-STORE-\d{10}",
        "aggregations",
        _AGGREGATIONS,
    ),
    # suppress() has a name of this form too, and no store on disk.
    (r"(?!KTABLE-SUPPRESS-).+-STATE-STORE-\d{10}", "tables", _TABLES),
)
_ENDINGS = (
    ("-subscription-store", "subscriptions of foreign-key joins", (Kind.FOREIGN_KEY_SUBSCRIPTION,)),
    ("-left-shared-join-store", "what waits in left joins", (Kind.LIST_VALUE,)),
    ("-outer-shared-join-store", "what waits in outer joins", (Kind.LIST_VALUE,)),
    ("-this-join-store", "the windows of stream-stream joins", _JOIN_WINDOWS),
    ("-other-join-store", "the windows of stream-stream joins", _JOIN_WINDOWS),
    ("-Buffer", "the grace buffers of stream-table joins", (Kind.GRACE_BUFFER,)),
)


def _hint_of(store: str) -> _Hint | None:
    """Return what the name of a store says of its kind; None if it says nothing."""
    for pattern, what, kinds in _GENERATED:
        if re.fullmatch(pattern, store, re.DOTALL):
            why = f"the name {store!r}, by Kafka Streams for {what}"
            return _Hint(kinds, why, is_generated=True)
    for ending, what, kinds in _ENDINGS:
        if store.endswith(ending):
            why = f"a name that ends in {ending!r}, as those of {what} do"
            return _Hint(kinds, why, is_generated=False)
    return None


MOST_ROWS = 1000  # how many rows of a sample are looked at
_LATEST_MS = 2**63 - 1
_YEAR_MS = 366 * 86_400_000
_FROM_MS = 10 * _YEAR_MS
_TO_MS = 150 * _YEAR_MS  # between about 1980 and 2120 a time is believed to be one


class Fit(NamedTuple):
    """What share of the rows fits, and in what way."""

    share: float
    why: str


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Some rows of a column family, and the times that they should lie in."""

    keys: ByteColumn
    values: ByteColumn
    family: str
    from_ms: int
    to_ms: int

    @classmethod
    def of(
        cls,
        keys: ByteColumn,
        values: ByteColumn,
        *,
        family: str,
        start_ms: int | None = None,
        interval_ms: int | None = None,
    ) -> Sample:
        """Return a sample, at most :data:`MOST_ROWS` rows of it, spread over them all."""
        count = min(len(keys), len(values))
        chosen = np.unique(np.linspace(0, max(count - 1, 0), min(count, MOST_ROWS)).astype(np.intp))
        from_ms, to_ms = _FROM_MS, _TO_MS
        # One segment from 0 that is alone has no end: it tells nothing of times.
        if start_ms is not None and (start_ms or interval_ms):
            length_ms = min(interval_ms or _YEAR_MS, _YEAR_MS)
            from_ms, to_ms = start_ms, min(start_ms + length_ms, _LATEST_MS)
        return cls(keys.take(chosen), values.take(chosen), family, from_ms, to_ms)


def fits_as(kind: Kind, sample: Sample) -> Fit:
    """Return what share of the rows is as this kind of store has them.

    >>> from kstoolkit.formats.columns import ByteColumn
    >>> key = ByteColumn.of([bytes.fromhex("410000018bcfe5680000000000")])
    >>> sample = Sample.of(key, key, family="default", start_ms=1700000000000, interval_ms=60_000)
    >>> fits_as(Kind.WINDOW, sample)
    Fit(share=1.0, why='every window begins in the segment')
    >>> fits_as(Kind.SESSION, sample).share
    0.0
    """
    rows = split(kind, sample.keys, sample.values, family=sample.family)
    if not len(rows):
        return Fit(0.0, "no rows but those of an index")
    good = except_at(rows.problems, len(rows)) & _plausible(kind, rows, sample)
    share = float(good.mean())
    return Fit(share, _WHY[kind] if share == 1 else f"{share:.1%} of the rows are so: {_WHY[kind]}")


def _plausible(kind: Kind, rows: RowColumns, sample: Sample) -> NDArray[np.bool_]:
    """Return which rows say what such rows can say, beside coming apart."""
    if rows.window_start_ms is not None:
        return _in_segment(rows, sample)
    if kind is Kind.FOREIGN_KEY_SUBSCRIPTION:
        # Key and value hold the primary key both; no other store's would by chance.
        own = rows.record_key.to_arrow()
        return _true(pc.equal(own, rows.details["subscriber_key"]))
    if kind is Kind.VERSIONED:
        # Its latest rows are a number, a key, a number and a value: so are many others'.
        return _between(rows.timestamp_ms, _FROM_MS, _TO_MS)
    return np.ones(len(rows), dtype=np.bool_)


def _in_segment(rows: RowColumns, sample: Sample) -> NDArray[np.bool_]:
    """Return which windows begin, and which sessions end, in the segment; and end after they begin.

    A session of more than a year is none: those are bytes of something else.
    """
    starts, ends = rows.window_start_ms, rows.window_end_ms
    if "sequence" in rows.details:
        sequences = rows.details["sequence"]
        return _between(starts, sample.from_ms, sample.to_ms) & _between(sequences, 0, 2**31)
    is_short = pc.and_(pc.less_equal(starts, ends), pc.greater(starts, pc.subtract(ends, _YEAR_MS)))
    return _between(ends, sample.from_ms, sample.to_ms) & _true(is_short)


def _between(numbers: pa.Array | None, first: int, after: int) -> NDArray[np.bool_]:
    return _true(pc.and_(pc.greater_equal(numbers, first), pc.less(numbers, after)))


def _true(mask: pa.Array) -> NDArray[np.bool_]:
    return np.asarray(pc.fill_null(mask, fill_value=False).to_numpy(zero_copy_only=False))


_WINDOWS = "every window begins in the segment"
_SESSIONS = "every session ends in the segment, after it begins"
_ORDERED = "the keys begin with their time"
_WHY = {
    Kind.KEY_VALUE: "keys and values of no special form",
    Kind.TIMESTAMPED_KEY_VALUE: "every value begins with a timestamp",
    Kind.HEADERS_KEY_VALUE: "every value begins with headers and a timestamp",
    Kind.WINDOW: _WINDOWS,
    Kind.TIMESTAMPED_WINDOW: _WINDOWS,
    Kind.HEADERS_WINDOW: _WINDOWS,
    Kind.TIME_ORDERED_WINDOW: f"{_WINDOWS}, and {_ORDERED}",
    Kind.HEADERS_TIME_ORDERED_WINDOW: f"{_WINDOWS}, and {_ORDERED}",
    Kind.SESSION: _SESSIONS,
    Kind.HEADERS_SESSION: _SESSIONS,
    Kind.TIME_ORDERED_SESSION: f"{_SESSIONS}, and {_ORDERED}",
    Kind.HEADERS_TIME_ORDERED_SESSION: f"{_SESSIONS}, and {_ORDERED}",
    Kind.VERSIONED: "every key begins with a segment, every value with times of versions",
    Kind.LIST_VALUE: "every key begins with a time and a side, every value is a list",
    Kind.FOREIGN_KEY_SUBSCRIPTION: "key and value hold the same primary key",
    Kind.GRACE_BUFFER: "every value is a record with its topic and offset",
}

Place = Literal["store", "segment"]
"""Where a folder lies: ``rocksdb/<store>``, or ``<store>/<store>.<ms>``, one of its segments."""
_CANDIDATES: dict[tuple[Place, str], tuple[Kind, ...]] = {
    ("store", DEFAULT): (Kind.LIST_VALUE, Kind.VERSIONED, Kind.KEY_VALUE),
    ("store", TIMESTAMPED): (Kind.FOREIGN_KEY_SUBSCRIPTION, Kind.TIMESTAMPED_KEY_VALUE),
    ("store", TIMESTAMPED_HEADERS): (Kind.FOREIGN_KEY_SUBSCRIPTION, Kind.HEADERS_KEY_VALUE),
    ("store", LIST_HEADERS): (Kind.LIST_VALUE,),
    ("segment", DEFAULT): (
        Kind.GRACE_BUFFER,
        Kind.TIME_ORDERED_SESSION,
        Kind.TIME_ORDERED_WINDOW,
        Kind.SESSION,
        Kind.WINDOW,
    ),
    ("segment", TIMESTAMPED): (Kind.TIMESTAMPED_WINDOW,),
    ("segment", TIMESTAMPED_HEADERS): (Kind.HEADERS_WINDOW,),
    ("segment", WINDOW_HEADERS): (Kind.HEADERS_TIME_ORDERED_WINDOW,),
    ("segment", SESSION_HEADERS): (Kind.HEADERS_TIME_ORDERED_SESSION, Kind.HEADERS_SESSION),
}
"""The kinds that each column family can hold, what is most special first and plainest last."""
_ENOUGH = 0.95  # of the rows: some may be damaged
_ALONE = 0.99  # no other kind has such rows in this column family
_AMONG_OTHERS = 0.95  # others do, but not with these bytes
_BY_FAMILY = 0.9  # no bytes, in a column family of its own
_BY_NAME = 0.95  # no bytes, but a name that Kafka Streams made
_BY_ENDING = 0.8  # no bytes, but a name that ends as Kafka Streams' do
_NO_FORM = 0.8  # rows that are nothing else: serdes of the user's may look like anything
_AGAINST_BYTES = 0.5
_HALF = 0.5
_NO_KIND = "its rows are of no kind with a form: they are shown as they lie there"
_BY_NOTHING = 0.3


@dataclass(frozen=True, slots=True)
class Recognised:
    """What kind a store seems to be, how sure that is (0: a guess, 1: certain), and why."""

    kind: Kind
    confidence: float
    reasons: tuple[str, ...]


def recognise(
    column_families: Iterable[str],
    keys: ByteColumn,
    values: ByteColumn,
    *,
    place: Place,
    segment_start_ms: int | None = None,
    segment_interval_ms: int | None = None,
    store: str | None = None,
    told: str | None = None,
) -> Recognised:
    """Return what kind a store is, how sure that is, and why.

    It takes the names of all column families, and some rows, as they lie on disk, of the one that
    :func:`~kstoolkit.formats.streams.kinds.live_family` names: a thousand at most are looked at.
    What the user ``told`` is believed if it is a kind; of a group, such as ``window``, the rest is
    looked for; another word is a ConfigurationError.

    >>> from kstoolkit.formats.columns import ByteColumn
    >>> key = ByteColumn.of([bytes.fromhex("410000018bcfe5680000000000")])
    >>> recognise(
    ...     ["default"], key, key, place="segment", segment_start_ms=1700000000000
    ... ).kind
    <Kind.WINDOW: 'window'>
    """
    family = live_family(column_families)
    candidates = _CANDIDATES.get((place, family), (Kind.KEY_VALUE,))
    reasons: tuple[str, ...] = (f"the column family {family}", _PLACES[place])
    if told is not None:
        named = kinds_named(told)
        if len(named) == 1:
            return Recognised(named[0], 1.0, ("it was told so",))
        # Those that fit the column family, or if none does, all of them.
        both = tuple(kind for kind in candidates if kind in named)
        candidates = both or tuple(kind for kind in named if kind.live_family == family) or named
        reasons += (f"it was told to be one of {told}",)
    sample = Sample.of(
        keys, values, family=family, start_ms=segment_start_ms, interval_ms=segment_interval_ms
    )
    hint = _hint(store, candidates)
    if not len(sample.keys):
        return _unseen(candidates, family, (*reasons, "no rows to look at"), hint)
    found = _best(candidates, sample, reasons, told=told is not None)
    return found if hint is None else _weighed(found, hint, sample)


_PLACES: dict[Place, str] = {
    "store": "a folder that holds the whole store",
    "segment": "a folder that holds a segment",
}


def _best(
    candidates: tuple[Kind, ...], sample: Sample, reasons: tuple[str, ...], *, told: bool
) -> Recognised:
    fits = [(kind, fits_as(kind, sample)) for kind in candidates]
    fitting = [(kind, fit) for kind, fit in fits if fit.share >= _ENOUGH]
    kind, fit = (fitting or fits[-1:])[0]
    at_any_time = replace(sample, from_ms=_FROM_MS, to_ms=_TO_MS)
    if not told and sample.family == DEFAULT and fits_as(kind, at_any_time).share < _HALF:
        return Recognised(Kind.KEY_VALUE, _BY_NOTHING, (*reasons, _NO_KIND))
    by = _trust(kind, alone=len(candidates) == 1) if fitting else _AGAINST_BYTES
    return Recognised(kind, round(by * fit.share, 3), (*reasons, fit.why))


def _hint(store: str | None, candidates: tuple[Kind, ...]) -> _Hint | None:
    """Return what the name says of the kinds that it can be; None if it says nothing of them."""
    hint = None if store is None else _hint_of(store)
    kinds = () if hint is None else tuple(kind for kind in hint.kinds if kind in candidates)
    return hint._replace(kinds=kinds) if hint is not None and kinds else None


def _unseen(
    candidates: tuple[Kind, ...], family: str, reasons: tuple[str, ...], hint: _Hint | None
) -> Recognised:
    """Return what a store without rows is: what its name says, or else the plainest kind."""
    confidence = _BY_NOTHING if family == DEFAULT else _BY_FAMILY
    if hint is None:
        return Recognised(candidates[-1], confidence, reasons)
    by_name = _BY_NAME if hint.is_generated else _BY_ENDING
    if len(hint.kinds) > 1:  # it leaves open which of them
        by_name = _HALF
    return Recognised(hint.kinds[0], max(by_name, confidence), (*reasons, hint.why))


def _weighed(found: Recognised, hint: _Hint, sample: Sample) -> Recognised:
    """Return what the rows say, and how sure that is with what the name says.

    If they are of no form but most of them of that of the name's kind, they are damaged ones of it.
    """
    fits = [(kind, fits_as(kind, sample)) for kind in hint.kinds]
    if found.kind in hint.kinds:
        surer = round(_ALONE * dict(fits)[found.kind].share, 3)
        reasons = (*found.reasons, hint.why)
        return replace(found, confidence=max(found.confidence, surer), reasons=reasons)
    named, fit = max(fits, key=lambda each: each[1].share)
    if fit.share >= _HALF and found.confidence <= _NO_FORM:
        reasons = (*found.reasons[:-1], fit.why, hint.why)
        return Recognised(named, round(_BY_ENDING * fit.share, 3), reasons)
    doubted = round(found.confidence * _BY_ENDING, 3)
    return Recognised(found.kind, doubted, (*found.reasons, f"against {hint.why}"))


def _trust(kind: Kind, *, alone: bool) -> float:
    if kind is Kind.KEY_VALUE:
        return _NO_FORM
    return _ALONE if alone else _AMONG_OTHERS
