"""Rows of a store, read only when they are looked at, and never all at once."""

from __future__ import annotations

import sys
import warnings
from html import escape
from itertools import chain
from numbers import Integral
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from kstoolkit.errors import ConfigurationError, LimitedResultWarning
from kstoolkit.formats.columns import ByteColumn, RowColumns
from kstoolkit.formats.serdes import guess_serde, serde_of
from kstoolkit.records import Viewed
from kstoolkit.stores.rows.batching import bounded
from kstoolkit.stores.rows.decodedrows import decoded_rows
from kstoolkit.stores.rows.jsonlines import json_lines
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from kstoolkit.formats.serdes import Serde
    from kstoolkit.stores.rows.asking import Asked
    from kstoolkit.stores.rows.decodedrows import DecodedRows
    from kstoolkit.stores.rows.storerow import StoreRow


_SHOWN_ROWS = 100_000
_LISTED_ROWS = 10
_LONGEST_LINE = 300  # of a representation: values may have megabytes


class RowSource(Protocol):
    """What rows can be read from: a store of one engine, open."""

    @property
    def name(self) -> str:
        """The store's name, for people."""
        ...

    def read(self, asked: Asked) -> Iterator[RowColumns]:
        """Yield rows in parts of some thousands: at least those that are asked for."""
        ...


@runtime_checkable
class Estimating(Protocol):
    """A source that can say about how many rows it has, without reading them."""

    def estimated_rows(self) -> int | None:
        """Return about how many there are; None if nothing tells."""
        ...


class Rows(Viewed):
    """Rows of a store; each look at them reads the store anew.

    Parameters
    ----------
    source
        Where they lie.
    asked
        Which of them.
    key, value
        How to read the application's bytes.
    limit
        At most so many; None: all.

    Raises
    ------
    ConfigurationError
        If the limit is no whole number, or below 0.
    """

    def __init__(
        self, source: RowSource, asked: Asked, key: Serde, value: Serde, *, limit: int | None = None
    ) -> None:
        _check_limit(limit)
        self.source, self.asked, self.limit = source, asked, limit
        self.key_serde, self.value_serde = key, value
        self._foreign_key_serde: Serde | None = None

    def batches(self) -> Iterator[DecodedRows]:
        """Yield the rows in parts of some thousands."""
        return self._decoded(self.limit)

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
        """Yield one JSON object a row: see :func:`kstoolkit.stores.rows.jsonlines.json_lines`."""
        for rows in self.batches():
            yield from json_lines(rows, self.source.name)

    def to_arrow(self, limit: int | None = _SHOWN_ROWS) -> pa.Table:
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
            :func:`details <kstoolkit.stores.rows.details.details_of>`; ``valid_to`` is a moment.

        Raises
        ------
        ConfigurationError
            If the limit is no whole number, or below 0.
        """
        return self._table(limit)

    def to_pandas(self, limit: int | None = _SHOWN_ROWS) -> pd.DataFrame:
        """Return the rows as a DataFrame, with columns and limit as in :meth:`to_arrow`."""
        frame: pd.DataFrame = self._table(limit).to_pandas()
        return frame

    def __repr__(self) -> str:
        rows = list(chain.from_iterable(self._decoded(_LISTED_ROWS + 1)))
        lines = [f"Rows of {self.source.name!r}{'' if rows else ': none'}"]
        lines += [f"  {_shortened(str(row))}" for row in rows[:_LISTED_ROWS]]
        return "\n".join(lines + ["  ... and more"] * (len(rows) > _LISTED_ROWS))

    def _repr_html_(self) -> str:
        first = _joined(self._decoded(_LISTED_ROWS + 1))
        table = first.slice(0, _LISTED_ROWS).drop_columns(["key_bytes", "value_bytes"])
        more = "<p>… and more</p>" if len(first) > _LISTED_ROWS else ""
        head = f"<p>Rows of {escape(repr(self.source.name))}</p>"
        return f"{head}{table.to_pandas().to_html(escape=True, index=False)}{more}"

    def _table(self, limit: int | None) -> pa.Table:
        _check_limit(limit)
        # One row more than is shown tells whether there are more.
        table = _joined(self._decoded(_smaller(self.limit, None if limit is None else limit + 1)))
        if limit is None or len(table) <= limit:
            return table
        message = f"{format_count(limit)} rows are shown, and there are more; limit=None gives all."
        warnings.warn(message, LimitedResultWarning, stacklevel=3)
        return table.slice(0, limit)

    def _decoded(self, limit: int | None) -> Iterator[DecodedRows]:
        nothing = RowColumns.whole(ByteColumn.of([]), ByteColumn.of([]))
        is_empty = True
        for rows in _first(self._wanted(), _smaller(self.limit, limit)):
            if len(rows):
                yield self._read(rows)
                is_empty = False
            else:
                nothing = rows
        if is_empty:  # which has columns and types, too
            yield self._read(nothing)

    def _read(self, rows: RowColumns) -> DecodedRows:
        """Return rows, decoded; nobody is asked for the serde of foreign keys: it is guessed."""
        if self._foreign_key_serde is None:
            return decoded_rows(rows, self.key_serde, self.value_serde)
        foreign_key = self._foreign_key_serde
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
        raise ConfigurationError(message, hint="Give 0 or more; None is all.")
    if int(limit) < 0:
        message = f"limit is {limit}: there are no fewer rows than none."
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


def _joined(parts: Iterator[DecodedRows]) -> pa.Table:
    return pa.concat_tables([rows.to_arrow() for rows in parts], promote_options="permissive")


def _smaller(one: int | None, other: int | None) -> int | None:
    known = [each for each in (one, other) if each is not None]
    return min(known, default=None)
