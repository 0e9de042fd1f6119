"""The folders of a windowed store's segments: what their names say of the time they cover.

======================  ===============================  ==============================
written by              folder                           the start is
======================  ===============================  ==============================
0.10.0                  ``yyyyMMddHHmm``                 a minute, UTC
0.10.1 to 0.11.0        ``<store>-yyyyMMddHHmm``         a minute, UTC
1.0.0                   ``<store>:<ms>``                 epoch ms
1.0.1 and newer         ``<store>.<ms>``                 epoch ms
======================  ===============================  ==============================

(``AbstractSegments`` of ``org.apache.kafka.streams.state.internals``.)
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from math import gcd
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


_MS = re.compile(r"-?[0-9]{1,19}")
_MINUTE = re.compile(r"[0-9]{12}")
_LARGEST_INT64 = 2**63 - 1


def segment_start_ms(store: str, folder: str) -> int | None:
    """Return where a segment begins, epoch ms UTC; None if the folder is no segment of the store.

    Examples
    --------
    >>> segment_start_ms("counts", "counts.1700002800000")
    1700002800000
    >>> segment_start_ms("counts", "counts-202311142300")
    1700002800000
    >>> segment_start_ms("counts", "counts.old") is None
    True
    """
    if _MINUTE.fullmatch(folder):
        return _minute(folder)
    mark, rest = folder[len(store) : len(store) + 1], folder[len(store) + 1 :]
    if not folder.startswith(store):
        return None
    if mark == "-" and _MINUTE.fullmatch(rest):
        return _minute(rest)
    if mark not in {".", ":"} or not _MS.fullmatch(rest):
        return None
    start_ms = int(rest)
    return start_ms if abs(start_ms) <= _LARGEST_INT64 else None


def segment_interval_ms(starts_ms: Iterable[int]) -> int | None:
    """Return how long a store's segments are, as far as their starts tell: in ms.

    It is the greatest number that divides all of them: of few segments it may be a multiple of the
    true one. None if there is no segment, or only the one from 0, which has no end.

    Examples
    --------
    >>> segment_interval_ms([1700002800000, 1700006400000, 1700004600000])
    1800000
    """
    return gcd(*starts_ms) or None


def _minute(text: str) -> int | None:
    try:
        moment = datetime.strptime(text, "%Y%m%d%H%M").replace(tzinfo=UTC)
    except ValueError:
        return None
    return int(moment.timestamp() * 1000)
