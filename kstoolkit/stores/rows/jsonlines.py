"""Rows as lines of JSON: whatever a serde returns comes out, and every line is valid JSON."""

from __future__ import annotations

import json
import math
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from kstoolkit.formats.columns import Undecoded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kstoolkit.stores.rows.storerow import StoreRow


_DEEPEST = 100


def json_lines(rows: Iterable[StoreRow], store: str, *, details: bool = True) -> Iterator[str]:
    r"""Yield one JSON object a row, without its line end; with its ``details``, or without.

    Numbers that JSON has no word for become text: ``"NaN"``, ``"Infinity"``. Bytes become
    ``{"hex": "…"}``, and those that a serde could not read ``{"hex": "…", "problem": "…"}``.

    Examples
    --------
    >>> from kstoolkit.stores.rows.storerow import StoreRow
    >>> row = StoreRow(b"\x00", float("nan"), None, None, None, None, b"\x00", b"?")
    >>> found = json.loads(next(json_lines([row], "counts")))
    >>> found["key"], found["value"]
    ({'hex': '00'}, 'NaN')
    """
    for row in rows:
        told = row.to_dict(store)
        if not details:
            told.pop("details", None)
        yield json_text(told)


def json_text(value: Any) -> str:
    r"""Return a value as JSON, whatever it is, in ASCII alone, so that no locale can spoil it.

    Examples
    --------
    >>> print(json_text({1: float("inf"), "ü": {2}}))
    {"1": "Infinity", "\u00fc": [2]}
    """
    try:
        return _ENCODE(value)
    except (TypeError, ValueError, RecursionError):
        return _ENCODE(_plainer(value, 0))


def _plain_json(value: Any) -> Any:
    """Return what JSON can say of a value of a type that it doesn't know.

    Examples
    --------
    >>> _plain_json(Undecoded(b"ab", "no UTF-8 at byte 0"))
    {'hex': '6162', 'problem': 'no UTF-8 at byte 0'}
    """
    match value:
        case Undecoded():
            return {"hex": value.raw.hex(), "problem": value.why}
        case bytes() | bytearray() | memoryview():
            return {"hex": bytes(value).hex()}
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case set() | frozenset() | tuple():
            return list(value)
    return str(value)


def _plainer(value: Any, depth: int) -> Any:
    """Return a value without what JSON refuses: NaN, keys that are no text, endless nesting."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    if depth > _DEEPEST:
        return "… nested too deep"
    if isinstance(value, dict):
        return {str(name): _plainer(each, depth + 1) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plainer(each, depth + 1) for each in value]
    return value


_ENCODE = json.JSONEncoder(allow_nan=False, default=_plain_json).encode
