"""What kind a store is, from its column families, its folder, a sample of its rows, and its name.

The column families tell most. Where several kinds share them, each is tried: the one whose rows all
come apart, with times that lie in the folder's segment, is it. A name that Kafka Streams gives is
what is left to go by where there are no rows, or damaged ones; else the rows go before it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from kstoolkit.formats.streams.evidence import Sample, fits_as
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
from kstoolkit.formats.streams.names import Hint, hint_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kstoolkit.formats.bytecolumn import ByteColumn


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
    """What kind a store seems to be.

    Parameters
    ----------
    kind
        The most likely kind.
    confidence
        From 0, a guess, to 1, certain.
    reasons
        What speaks for it.
    """

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

    Parameters
    ----------
    column_families
        The names of all its column families.
    keys, values
        Some rows of the one that :func:`~kstoolkit.formats.streams.kinds.live_family` names, as
        they lie on disk; a thousand are enough, and more are not looked at.
    place
        Where the folder lies.
    segment_start_ms, segment_interval_ms
        Of a segment: where it begins, and how long it is, as far as that is known.
    store
        The store's name: see :func:`~kstoolkit.formats.streams.names.hint_of`.
    told
        What the user says that it is: a kind is believed; of a group, such as ``window``, the
        rest is looked for.

    Raises
    ------
    ConfigurationError
        If there is no kind as the user says.

    Examples
    --------
    >>> from kstoolkit.formats.bytecolumn import ByteColumn
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
        candidates = _of_group(named, candidates, family)
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


def _of_group(named: tuple[Kind, ...], likely: tuple[Kind, ...], family: str) -> tuple[Kind, ...]:
    """Return the kinds of a group that fit the column family, or if none does, all of them."""
    both = tuple(kind for kind in likely if kind in named)
    return both or tuple(kind for kind in named if kind.live_family == family) or named


def _best(
    candidates: tuple[Kind, ...], sample: Sample, reasons: tuple[str, ...], *, told: bool
) -> Recognised:
    fits = [(kind, fits_as(kind, sample)) for kind in candidates]
    fitting = [(kind, fit) for kind, fit in fits if fit.share >= _ENOUGH]
    kind, fit = (fitting or fits[-1:])[0]
    if not told and sample.family == DEFAULT and _has_no_form(kind, sample):
        return Recognised(Kind.KEY_VALUE, _BY_NOTHING, (*reasons, _NO_KIND))
    by = _trust(kind, alone=len(candidates) == 1) if fitting else _AGAINST_BYTES
    return Recognised(kind, round(by * fit.share, 3), (*reasons, fit.why))


def _hint(store: str | None, candidates: tuple[Kind, ...]) -> Hint | None:
    """Return what the name says of the kinds that it can be; None if it says nothing of them."""
    hint = None if store is None else hint_of(store)
    kinds = () if hint is None else tuple(kind for kind in hint.kinds if kind in candidates)
    return hint._replace(kinds=kinds) if hint is not None and kinds else None


def _unseen(
    candidates: tuple[Kind, ...], family: str, reasons: tuple[str, ...], hint: Hint | None
) -> Recognised:
    """Return what a store without rows is: what its name says, or else the plainest kind."""
    confidence = _BY_NOTHING if family == DEFAULT else _BY_FAMILY
    if hint is None:
        return Recognised(candidates[-1], confidence, reasons)
    by_name = _BY_NAME if hint.is_generated else _BY_ENDING
    if len(hint.kinds) > 1:  # it leaves open which of them
        by_name = _HALF
    return Recognised(hint.kinds[0], max(by_name, confidence), (*reasons, hint.why))


def _weighed(found: Recognised, hint: Hint, sample: Sample) -> Recognised:
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


def _has_no_form(kind: Kind, sample: Sample) -> bool:
    return fits_as(kind, sample.at_any_time()).share < _HALF


def _trust(kind: Kind, *, alone: bool) -> float:
    if kind is Kind.KEY_VALUE:
        return _NO_FORM
    return _ALONE if alone else _AMONG_OTHERS
