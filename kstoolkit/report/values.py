"""Single values as a table prints them: short, in units, and never as markup."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from kstoolkit.records import Figure, Record, Records, Source, counted
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable


NOTHING = "none"
_LISTED = 8
_WHOLE_FROM = 1_000


def printed(value: object, name: str = "") -> str:
    r"""Return a value for people; its name tells the unit, as in ``size_bytes``.

    Examples
    --------
    >>> printed(3 << 20, "size_bytes"), printed(1234.5), printed(None), printed(b"a\x00")
    ('3.0 MiB', '1,234', 'none', '6100')
    >>> printed(("a", 2)), printed({"x": 1.5})
    ('a, 2', 'x: 1.5')
    """
    if isinstance(value, Record | Records):
        return repr(value)
    if isinstance(value, Mapping):
        return _listed(f"{key}: {printed(each)}" for key, each in value.items())
    if isinstance(value, list | tuple | set | frozenset | np.ndarray):
        return _listed(map(printed, value))
    return _single(value, name)


def is_number(value: object) -> bool:
    """Return whether a value is a number, which columns set to the right."""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _listed(texts: Iterable[str]) -> str:
    found = list(texts)
    if not found:
        return NOTHING
    return ", ".join(found) if len(found) <= _LISTED else counted(len(found), "entries")


def _single(value: Any, name: str) -> str:
    if value is None or (pd.api.types.is_scalar(value) and pd.isna(value)):
        return NOTHING
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return Figure(name, int(value), Source.GIVEN).text
    if isinstance(value, float | np.floating):
        number = float(value)
        return format_count(number) if abs(number) >= _WHOLE_FROM else f"{number:.4g}"
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    return _moment(value) if isinstance(value, date) else str(value)


def _moment(value: date) -> str:
    if not isinstance(value, datetime):
        return value.isoformat()
    zone = "" if value.tzinfo is None else " UTC"
    time = value if value.tzinfo is None else value.astimezone(UTC)
    precision = "milliseconds" if time.microsecond else "seconds"
    return time.replace(tzinfo=None).isoformat(" ", precision) + zone
