"""A store whose rows can be asked for, and what of it could not be read.

Rows are asked for by key, window and time, and by what to read them as. What is left out is said
once, as a warning, and kept to be asked for.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, overload

from kstoolkit.errors import ConfigurationError, Sentence, naming
from kstoolkit.formats.columns import ByteColumn
from kstoolkit.formats.serdes import Serde, guess_serde, serde_of
from kstoolkit.moments import moment_ms
from kstoolkit.stores.rows.asking import Asked
from kstoolkit.stores.rows.rows import Estimating, RowEstimate, Rows

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.formats.serdes import Guess
    from kstoolkit.moments import Moment
    from kstoolkit.records import Record
    from kstoolkit.stores.rows.rows import RowSource


Buffer = bytes | bytearray | memoryview

_NO_ESTIMATE = "nothing but its rows tells: count(exact=True) reads them"

SerdeLike = str | Serde | Callable[[bytes], Any]
"""A serde, its name, or a callable that returns the value of some bytes."""


@dataclass(frozen=True, slots=True)
class ReadAs:
    """How to read a store; what is None is found out, or guessed.

    Parameters
    ----------
    kind
        What kind of store it is, or the group of kinds: ``"window"``.
    key_serde, value_serde
        How to read keys and values.
    window_size_ms
        How long its windows are, if the store does not tell.
    column_family
        Which column family to read.
    """

    kind: str | None = None
    key_serde: SerdeLike | None = None
    value_serde: SerdeLike | None = None
    window_size_ms: int | None = None
    column_family: str | None = None


class HasRows(ABC):
    """What has rows that an application put in."""

    read_as = ReadAs()

    @property
    @abstractmethod
    def source(self) -> RowSource:
        """Where the rows lie."""

    def rows(
        self,
        *,
        key: Any = None,
        prefix: str | Buffer | None = None,
        window: Moment | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        limit: int | None = None,
        key_serde: SerdeLike | None = None,
        value_serde: SerdeLike | None = None,
    ) -> Rows:
        """Return rows, which are read when they are looked at.

        Parameters
        ----------
        key
            Rows of this key: a value that the key's serde can write, or the bytes themselves, as
            any object that has a buffer of them.
        prefix
            Rows whose key begins so; text is taken as UTF-8, what a shell passed on as bytes as
            those.
        window
            Rows of the window or session that starts at this moment.
        since, until
            Rows from, and before, a moment: that of the window's start, or without windows the
            row's own.
        limit
            At most so many; None: all.
        key_serde, value_serde
            How to read keys and values; None: as the store was told to, or as is guessed.

        Raises
        ------
        ConfigurationError
            If a moment is none, the limit is no number or below 0, there is no such serde, ``key``
            is nothing that it can write, or ``prefix`` neither text nor bytes.

        """
        reads_key = self.key_serde if key_serde is None else serde_of(key_serde)
        reads_value = self.value_serde if value_serde is None else serde_of(value_serde)
        moments = [None if each is None else moment_ms(each) for each in (window, since, until)]
        asked = Asked(
            key=None if key is None else _key_bytes(key, reads_key),
            prefix=None if prefix is None else _prefix_bytes(prefix),
            window_start_ms=moments[0],
            since_ms=moments[1],
            until_ms=moments[2],
        )
        return Rows(self.source, asked, reads_key, reads_value, limit=limit)

    @overload
    def count(self, *, exact: Literal[True]) -> int: ...

    @overload
    def count(self, *, exact: Literal[False] = False) -> Record: ...

    def count(self, *, exact: bool = False) -> int | Record:
        """Return about how many rows there are, and who says so; or exactly, after reading them.

        Parameters
        ----------
        exact
            Whether to read all rows and count them.
        """
        if exact:
            return self.rows().count()
        source = self.source
        number = source.estimated_rows() if isinstance(source, Estimating) else None
        unknown = {} if number is not None else {"num_rows": _NO_ESTIMATE}
        return RowEstimate(number, unknown)

    @property
    def key_serde(self) -> Serde:
        """How keys are read."""
        told = self.read_as.key_serde
        return serde_of(self.guesses[0].serde if told is None else told)

    @property
    def value_serde(self) -> Serde:
        """How values are read."""
        told = self.read_as.value_serde
        return serde_of(self.guesses[1].serde if told is None else told)

    @cached_property
    def guesses(self) -> tuple[Guess, Guess]:
        """What the first rows' keys and values most likely are, and what speaks for it."""
        first = next((rows for rows in self.source.read(Asked()) if len(rows)), None)
        nothing = ByteColumn.of([])
        key, value = (nothing, nothing) if first is None else (first.record_key, first.record_value)
        return guess_serde(key), guess_serde(value)


class Readable(HasRows):
    """Rows of any source.

    Parameters
    ----------
    source
        Where they lie.
    key_serde, value_serde
        How to read keys and values; None guesses from the first rows.
    """

    def __init__(
        self,
        source: RowSource,
        *,
        key_serde: SerdeLike | None = None,
        value_serde: SerdeLike | None = None,
    ) -> None:
        self._source = source
        self.read_as = ReadAs(key_serde=key_serde, value_serde=value_serde)

    @property
    def source(self) -> RowSource:
        """Where the rows lie."""
        return self._source


def _key_bytes(key: Any, serde: Serde) -> bytes:
    if isinstance(key, Buffer):
        return bytes(key)
    if serde.encode is None:
        message = (
            f"The serde {serde.name!r} can read keys, but nobody told it how to write {key!r}."
        )
        raise ConfigurationError(
            message,
            hint=naming(
                "Give the key's bytes {how}.", how=Sentence("instead", "in hex, as --key 0x00ff")
            ),
        )
    if serde.name == "string" and not isinstance(key, str):
        # What any object is as text is hardly ever a key.
        message = f"The keys are text, and {key!r} is of type {type(key).__name__}."
        raise ConfigurationError(message, hint="Give text or bytes, or say key_serde=...")
    return serde.encode(key)


def _prefix_bytes(prefix: object) -> bytes:
    if isinstance(prefix, Buffer):
        return bytes(prefix)
    if not isinstance(prefix, str):
        message = f"The prefix {prefix!r} is neither text nor bytes."
        raise ConfigurationError(message, hint="Give the first characters, or bytes, of keys.")
    try:
        return prefix.encode(errors="surrogateescape")
    except UnicodeEncodeError as error:
        message = f"The prefix {prefix!r} has half a character, which no UTF-8 has."
        raise ConfigurationError(message, hint="Give whole characters, or bytes.") from error


_NAMED = 3


class LeftOutWarning(UserWarning):
    """A part of a store that is not in what is shown of it."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A folder among a store's segments whose rows are not shown, and why.

    Examples
    --------
    >>> from pathlib import Path
    >>> print(LeftOut(Path("counts/old"), "it is no segment of 'counts'"))
    counts/old: it is no segment of 'counts'
    """

    path: Path
    why: str

    def __str__(self) -> str:
        return f"{self.path}: {self.why}"


def say_left_out(path: Path, parts: list[LeftOut]) -> None:
    """Warn once of all that is left out of a store, if something is."""
    if not parts:
        return
    what = "One part" if len(parts) == 1 else f"{len(parts)} parts"
    is_ = "is" if len(parts) == 1 else "are"
    told = " ".join(f"{each.path.name}: {each.why.rstrip('.')}." for each in parts[:_NAMED])
    more = f" And {len(parts) - _NAMED} more." if len(parts) > _NAMED else ""
    message = f"{what} of the store {path} {is_} left out. {told}{more}"
    warnings.warn(message, LeftOutWarning, stacklevel=3)


def say_damage(path: Path, damage: str) -> None:
    """Warn that a store is read as far as it goes."""
    message = f"The store {path} is read as far as it goes: {damage}."
    warnings.warn(message, LeftOutWarning, stacklevel=3)
