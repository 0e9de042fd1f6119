"""What the bytes of a key or a value stand for: Kafka's own serdes by name, and the user's.

Those of Kafka Streams for windowed keys are named with the serde of the key inside:
``time-windowed(string)``, ``session-windowed(long)``.

A cell that a serde can't read is no error: it comes out as :class:`Undecoded`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import ConfigurationError
from kstoolkit.formats.decoded import Decoded, each_cell
from kstoolkit.formats.kafkaserdes import DECODERS, ENCODERS
from kstoolkit.formats.streams.windowedserdes import session_windowed, time_windowed

if TYPE_CHECKING:
    from collections.abc import Callable

    from kstoolkit.formats.bytecolumn import ByteColumn


SERDE_NAMES = tuple(DECODERS)
"""The names that :func:`serde_of` knows; each may be that of the key inside a windowed one."""

_WINDOWED = {"time": time_windowed, "session": session_windowed}
_WINDOWED_NAME = re.compile(r"(time|session)[-_ ]windowed\s*\(([^()]*)\)")


@dataclass(frozen=True, slots=True)
class Serde:
    """A way to read bytes, by its name.

    Parameters
    ----------
    name
        What it is called.
    decode
        Returns the values of a column.
    encode
        Returns the bytes of a value, which are what a store is asked for; None where one value may
        be written in several ways, as in JSON, or where nobody has said how.

    Examples
    --------
    >>> from kstoolkit.formats.bytecolumn import ByteColumn
    >>> column = ByteColumn.of([(42).to_bytes(8, "big"), b"?", None])
    >>> serde_of("long").decode(column).to_list(column)
    [42, Undecoded(3f: 1 byte, not 8), None]
    """

    name: str
    decode: Callable[[ByteColumn], Decoded]
    encode: Callable[[Any], bytes] | None = None

    def __repr__(self) -> str:
        return f"Serde({self.name})"


def serde_of(serde: str | Serde | Callable[[bytes], Any]) -> Serde:
    """Return the serde of a name, or one that asks a callable of the user's about each cell.

    Raises
    ------
    ConfigurationError
        If there is none of that name.

    Examples
    --------
    >>> serde_of("Long").name, serde_of("time-windowed(String)").name
    ('long', 'time-windowed(string)')
    >>> from kstoolkit.formats.bytecolumn import ByteColumn
    >>> serde_of(bytes.hex).decode(ByteColumn.of([b"ab"])).values
    ['6162']
    """
    if isinstance(serde, Serde):
        return serde
    if callable(serde):
        name = getattr(serde, "__name__", type(serde).__name__)
        return Serde(name, lambda column: each_cell(column, serde))
    name = serde.strip().lower()
    if windowed := _WINDOWED_NAME.fullmatch(name):
        return _windowed(windowed[1], serde_of(windowed[2]))
    decode = DECODERS.get(name)
    if decode is None:
        message = f"There is no serde {serde!r}."
        hint = f"Give one of {', '.join(SERDE_NAMES)}, or time-windowed(string) and the like."
        raise ConfigurationError(message, hint=hint)
    return Serde(name, decode, ENCODERS.get(name))


def _windowed(kind: str, inner: Serde) -> Serde:
    read = _WINDOWED[kind]
    return Serde(f"{kind}-windowed({inner.name})", lambda column: read(column, inner.decode))
