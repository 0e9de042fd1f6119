"""What kind a store is, from its column families, its folder, and a sample of its rows.

The column families tell most. Where several kinds share them, each is tried: the one whose rows all
come apart, with times that lie in the folder's segment, is it.
"""

from __future__ import annotations

from dataclasses import dataclass
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

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kstoolkit.formats.bytecolumn import ByteColumn

__all__ = ["Place", "Recognised", "recognise"]

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
    return _best(candidates, sample, reasons, told=told is not None)


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
    *special, plainest = candidates
    if not len(sample.keys):
        confidence = _BY_NOTHING if sample.family == DEFAULT else _BY_FAMILY
        return Recognised(plainest, confidence, (*reasons, "no rows to look at"))
    fits = [(kind, fits_as(kind, sample)) for kind in candidates]
    fitting = [(kind, fit) for kind, fit in fits if fit.share >= _ENOUGH]
    kind, fit = (fitting or fits[-1:])[0]
    if not told and sample.family == DEFAULT and _has_no_form(kind, sample):
        return Recognised(Kind.KEY_VALUE, _BY_NOTHING, (*reasons, _NO_KIND))
    by = _trust(kind, alone=not special) if fitting else _AGAINST_BYTES
    return Recognised(kind, round(by * fit.share, 3), (*reasons, fit.why))


def _has_no_form(kind: Kind, sample: Sample) -> bool:
    return fits_as(kind, sample.at_any_time()).share < _HALF


def _trust(kind: Kind, *, alone: bool) -> float:
    if kind is Kind.KEY_VALUE:
        return _NO_FORM
    return _ALONE if alone else _AMONG_OTHERS
