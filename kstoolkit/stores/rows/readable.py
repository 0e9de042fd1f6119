"""How rows of a store are asked for, by key, window and time, and read only when looked at.

Each look at them reads the store anew, and all of them are never held at once. What of a store
could not be read is said once, as a warning, and kept to be asked for.
"""

from __future__ import annotations

import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from itertools import chain
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload, runtime_checkable

import numpy as np
import pyarrow as pa

from kstoolkit.errors import ConfigurationError, LimitedResultWarning, Sentence, naming
from kstoolkit.formats.columns import ByteColumn, RowColumns
from kstoolkit.formats.serdes import Serde, guess_serde, serde_of
from kstoolkit.moments import moment_ms
from kstoolkit.records import Record, Source, Viewed, of_source
from kstoolkit.stores.rows.asking import Asked
from kstoolkit.stores.rows.rows import (
    BYTES,
    DecodedRows,
    StoreRow,
    bounded,
    decoded_rows,
    json_lines,
)
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import pandas as pd

    from kstoolkit.formats.serdes import Guess
    from kstoolkit.moments import Moment

Buffer = bytes | bytearray | memoryview

_NO_ESTIMATE = "nothing but its rows tells: count(exact=True) reads them"

SerdeLike = str | Serde | Callable[[bytes], Any]
"""A serde, its name, or a callable that returns the value of some bytes."""


@dataclass(frozen=True, slots=True)
class ReadAs:
    """How to read a store; what is None is found out, or guessed.

    ``kind`` may be a group of kinds: ``"window"``. Kafka Streams doesn't tell the window size.
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
            Rows whose key begins so; text as UTF-8, what a shell passed on as bytes as those.
        window
            Rows of the window or session that starts at this moment.
        since, until
            Rows from, and before, a moment: of the window's start, or without windows of the row.
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
        name = serde.name
        message = f"The serde {name!r} can read keys, but nobody told it how to write {key!r}."
        how = Sentence("instead", "in hex, as --key 0x00ff")
        raise ConfigurationError(message, hint=naming("Give the key's bytes {how}.", how=how))
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
    """A part of a store that is not shown, such as one of its segments, and why.

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
    what, is_ = ("One part", "is") if len(parts) == 1 else (f"{len(parts)} parts", "are")
    named = [f"{_below(path, each.path)}: {each.why.rstrip('.')}." for each in parts[:_NAMED]]
    more = f" And {len(parts) - _NAMED} more." if len(parts) > _NAMED else ""
    message = f"{what} of the store {path} {is_} left out. {' '.join(named)}{more}"
    warnings.warn(message, LeftOutWarning, stacklevel=3)


def _below(path: Path, part: Path) -> str:
    return str(part.relative_to(path)) if path in part.parents else part.name


def say_damage(path: Path, damage: str | None, said: str = "") -> str:
    """Warn that a store is read as far as it goes, unless it was said; return what is said by now.

    What is opened once more tells again what is missing, and not yet what can't be read.
    """
    if damage is None or damage in said:
        return said
    message = f"The store {path} is read as far as it goes: {damage.removeprefix(f'{said}; ')}."
    warnings.warn(message, LeftOutWarning, stacklevel=3)
    return damage


def limited(tables: Iterable[pa.Table], limit: int | None, what: str) -> pa.Table:
    """Return the first rows of tables; whoever asked for them is warned if there are more."""
    held: list[pa.Table] = []
    for table in tables:
        held.append(table)
        if limit is not None and sum(map(len, held)) > limit:
            break
    whole = pa.concat_tables(held, promote_options="permissive")
    if limit is None or len(whole) <= limit:
        return whole
    shown = format_count(limit)
    message = f"{shown} {what} are shown, and there are more; limit=None gives all."
    warnings.warn(message, LimitedResultWarning, stacklevel=3)
    return whole.slice(0, limit)


SHOWN_ROWS = 100_000
_LISTED_ROWS = 10
_LONGEST_LINE = 300  # of a representation: values may have megabytes


class RowSource(Protocol):
    """What rows can be read from: a store of one engine, open."""

    @property
    def name(self) -> str:
        """The store's name, for people."""

    def read(self, asked: Asked) -> Iterator[RowColumns]:
        """Yield rows in parts of some thousands: at least those that are asked for."""


@dataclass(frozen=True, slots=True)
class NamedRows:
    """A source by its name, for people, and what reads it."""

    name: str
    read: Callable[[Asked], Iterator[RowColumns]]


@runtime_checkable
class Estimating(Protocol):
    """A source that can say about how many rows it has, without reading them."""

    def estimated_rows(self) -> int | None:
        """Return about how many there are; None if nothing tells."""


class Rows(Viewed):
    """Rows of a store; each look at them reads the store anew.

    Parameters
    ----------
    source, asked
        Where they lie, and which of them.
    key, value
        How to read the application's bytes.
    limit
        At most so many; None: all. No whole number, or one below 0, is a ConfigurationError.
    """

    def __init__(
        self, source: RowSource, asked: Asked, key: Serde, value: Serde, *, limit: int | None = None
    ) -> None:
        _check_limit(limit)
        self.source, self.asked, self.limit = source, asked, limit
        self.key_serde, self.value_serde = key, value
        # Nobody is asked for it: it is guessed.
        self._foreign_key_serde: Serde | None = None

    def batches(self) -> Iterator[DecodedRows]:
        """Yield the rows in parts of some thousands."""
        return self._decoded()

    def __iter__(self) -> Iterator[StoreRow]:
        for rows in self.batches():
            yield from rows

    def count(self, *, exact: bool = True) -> int:
        """Return how many rows there are.

        Parameters
        ----------
        exact
            Whether to read each of them. If not, and all rows are asked for, it is RocksDB's
            estimate, where the store has one: about how many there are on disk, where one may hold
            several versions, or the elements of a list.
        """
        if not exact and self.asked.is_all and isinstance(self.source, Estimating):
            estimate = self.source.estimated_rows()
            if estimate is not None:
                return estimate if self.limit is None else min(estimate, self.limit)
        return sum(len(rows) for rows in _first(self._wanted(), self.limit))

    def json_lines(self) -> Iterator[str]:
        """Yield one JSON object a row: see :func:`kstoolkit.stores.rows.rows.json_lines`."""
        for rows in self.batches():
            yield from json_lines(rows, self.source.name)

    def to_arrow(self, limit: int | None = SHOWN_ROWS) -> pa.Table:
        """Return the rows as an Arrow table.

        Parameters
        ----------
        limit
            At most so many rows, announced if there are more; ``None`` for all.

        Returns
        -------
        pyarrow.Table
            ``key``, ``window_start``, ``window_end``, ``timestamp`` (UTC), ``value``, ``headers``,
            ``key_bytes``, ``value_bytes``, ``problem``, and a column for each of the kind's
            :func:`details <kstoolkit.stores.rows.rows._details_of>`; ``valid_to`` is a moment.
        """
        return limited(self._tables(limit), limit, "rows")

    def to_pandas(self, limit: int | None = SHOWN_ROWS) -> pd.DataFrame:
        """Return the rows as a DataFrame, with columns and limit as in :meth:`to_arrow`."""
        frame: pd.DataFrame = limited(self._tables(limit), limit, "rows").to_pandas()
        return frame

    def __repr__(self) -> str:
        rows = list(chain.from_iterable(self._decoded(_LISTED_ROWS + 1)))
        lines = [f"Rows of {self.source.name!r}{'' if rows else ': none'}"]
        lines += [f"  {_shortened(str(row))}" for row in rows[:_LISTED_ROWS]]
        return "\n".join(lines + ["  ... and more"] * (len(rows) > _LISTED_ROWS))

    def _repr_html_(self) -> str:
        parts = (rows.to_arrow() for rows in self._decoded(_LISTED_ROWS + 1))
        first = pa.concat_tables(parts, promote_options="permissive")
        table = first.slice(0, _LISTED_ROWS).drop_columns(["key_bytes", "value_bytes"])
        more = "<p>… and more</p>" if len(first) > _LISTED_ROWS else ""
        head = f"<p>Rows of {escape(repr(self.source.name))}</p>"
        return f"{head}{table.to_pandas().to_html(escape=True, index=False)}{more}"

    def _tables(self, limit: int | None) -> Iterator[pa.Table]:
        _check_limit(limit)
        # One row more than is shown tells whether there are more.
        parts = self._decoded(None if limit is None else limit + 1)
        return (rows.to_arrow() for rows in parts)

    def _decoded(self, limit: int | None = None) -> Iterator[DecodedRows]:
        rest = RowColumns.whole(ByteColumn.of([]), ByteColumn.of([]))
        is_empty = True
        least = min((each for each in (self.limit, limit) if each is not None), default=None)
        for rows in _first(self._wanted(), least):
            if len(rows):
                yield self._read(rows)
                is_empty = False
            else:
                rest = rows
        if is_empty:  # which has columns and types, too
            yield self._read(rest)

    def _read(self, rows: RowColumns) -> DecodedRows:
        foreign_key = self._foreign_key_serde or BYTES
        return decoded_rows(rows, self.key_serde, self.value_serde, foreign_key=foreign_key)

    def _wanted(self) -> Iterator[RowColumns]:
        for rows in self.source.read(self.asked):
            foreign_keys = rows.details.get("foreign_key")
            if foreign_keys is not None and self._foreign_key_serde is None:
                # Of all rows at hand: those that are asked for may be few.
                guess = guess_serde(ByteColumn.from_arrow(foreign_keys))
                self._foreign_key_serde = serde_of(guess.serde)
            wanted = self.asked.chosen(rows)
            yield from bounded(rows if wanted.all() else rows.take(wanted))


def _check_limit(limit: object) -> None:
    if limit is None:
        return
    if isinstance(limit, bool) or not isinstance(limit, Integral):
        message = f"limit is {limit!r}, which is no whole number."
    elif int(limit) < 0:
        message = f"limit is {limit}: there are no fewer rows than none."
    else:
        return
    raise ConfigurationError(message, hint="Give 0 or more; None is all.")


def _shortened(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 2]} …"


def _first(parts: Iterator[RowColumns], limit: int | None) -> Iterator[RowColumns]:
    left = sys.maxsize if limit is None else limit
    for rows in parts:
        if len(rows) >= left:
            yield rows.take(np.arange(len(rows)) < left)
            return
        left -= len(rows)
        yield rows


@dataclass(frozen=True, slots=True, repr=False)
class RowEstimate(Record):
    """About how many rows there are on disk, where one may hold several versions or elements.

    >>> RowEstimate(1_234)
    RowEstimate(about 1,234 rows: store on disk)
    >>> RowEstimate(None, {"num_rows": "nothing tells"})
    RowEstimate(unknown (nothing tells))
    """

    num_rows: int | None = of_source(Source.STORE)
    unknown: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        [figure] = self.figures()
        if figure.value is None:
            return f"RowEstimate({figure.text})"
        return f"RowEstimate(about {format_count(figure.value)} rows: {figure.source})"
