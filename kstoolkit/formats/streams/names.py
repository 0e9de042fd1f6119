"""What a store's name says of its kind: Kafka Streams names what its users leave without a name.

Of some stores it also makes the end of the name, behind what the user called the operator. A user
may call a store of another kind so: a name is a hint, and the bytes are believed before it.

(``KGroupedStreamImpl``, ``KStreamImplJoin``, ``KStreamImpl`` and ``KTableImpl`` of
``org.apache.kafka.streams.kstream.internals``.)
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kstoolkit.formats.streams.kinds import Kind


class Hint(NamedTuple):
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
    (
        r"KSTREAM-OUTERSHARED-\d{10}-store",
        "what waits in left and outer joins",
        (Kind.LIST_VALUE,),
    ),
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


def hint_of(store: str) -> Hint | None:
    """Return what the name of a store says of its kind; None if it says nothing.

    Examples
    --------
    >>> hint = hint_of("KSTREAM-OUTERSHARED-0000000005-store")
    >>> hint.kinds, hint.is_generated
    ((<Kind.LIST_VALUE: 'list-value'>,), True)
    >>> hint_of("orders-subscription-store").why
    "a name that ends in '-subscription-store', as those of subscriptions of foreign-key joins do"
    >>> hint_of("counts") is None
    True
    """
    for pattern, what, kinds in _GENERATED:
        if re.fullmatch(pattern, store, re.DOTALL):
            return Hint(
                kinds, f"the name {store!r}, by Kafka Streams for {what}", is_generated=True
            )
    for ending, what, kinds in _ENDINGS:
        if store.endswith(ending):
            why = f"a name that ends in {ending!r}, as those of {what} do"
            return Hint(kinds, why, is_generated=False)
    return None
