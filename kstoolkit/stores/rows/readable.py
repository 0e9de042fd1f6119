"""A store whose rows can be asked for: by key, window, time, and by what to read them as."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import ConfigurationError
from kstoolkit.formats.bytecolumn import ByteColumn
from kstoolkit.formats.guessing import guess_serde
from kstoolkit.formats.serdes import Serde, serde_of
from kstoolkit.stores.moments import moment_ms
from kstoolkit.stores.rows.asking import Asked
from kstoolkit.stores.rows.rowview import Rows

if TYPE_CHECKING:
    from kstoolkit.formats.guessing import Guess
    from kstoolkit.stores.moments import Moment
    from kstoolkit.stores.rows.rowview import RowSource

__all__ = ["HasRows", "ReadAs", "Readable", "SerdeLike"]

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
        prefix: str | bytes | None = None,
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
            Rows of this key: a value that the key's serde can write, or the bytes themselves.
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
            If a moment is none, the limit is below 0, there is no such serde, or ``key`` is nothing
            that it can write.

        """
        reads_key = self.key_serde if key_serde is None else serde_of(key_serde)
        reads_value = self.value_serde if value_serde is None else serde_of(value_serde)
        moments = [None if each is None else moment_ms(each) for each in (window, since, until)]
        asked = Asked(
            key=None if key is None else _key_bytes(key, reads_key),
            prefix=prefix.encode(errors="surrogateescape") if isinstance(prefix, str) else prefix,
            window_start_ms=moments[0],
            since_ms=moments[1],
            until_ms=moments[2],
        )
        return Rows(self.source, asked, reads_key, reads_value, limit=limit)

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
    if isinstance(key, bytes):
        return key
    if serde.encode is None:
        message = (
            f"The serde {serde.name!r} can read keys, but nobody told it how to write {key!r}."
        )
        raise ConfigurationError(message, hint="Give the key's bytes instead.")
    return serde.encode(key)
