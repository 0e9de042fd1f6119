"""Some rows of a store, decoded: as records, and as an Arrow table."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import starmap
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kstoolkit.formats.columns import HEADERS, Decoded
from kstoolkit.formats.serdes import serde_of
from kstoolkit.stores.rows.details import TIME, details_of, typed
from kstoolkit.stores.rows.storerow import StoreRow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from kstoolkit.formats.columns import ByteColumn, RowColumns
    from kstoolkit.formats.serdes import Serde
    from kstoolkit.stores.rows.details import Detail


_BYTES = serde_of("bytes")


@dataclass(frozen=True, slots=True)
class FamilyRow(StoreRow):
    """A row of a store with column families, and the name of its own.

    Examples
    --------
    >>> row = FamilyRow({"user": "a"}, {"n": 7}, None, None, None, None, b"a", b"7", family="seen")
    >>> print(row)
    seen {"user": "a"}: {"n": 7}
    >>> row.to_dict("default")["family"]
    'seen'
    """

    family: str | None = None

    def __str__(self) -> str:
        # Not by super(): it does not work in a class that slots have made anew.
        row = StoreRow.__str__(self)
        return row if self.family is None else f"{self.family} {row}"

    def to_dict(self, store: str) -> dict[str, Any]:
        """Return the fields that ``kstoolkit rows --json`` prints; ``store`` is its name."""
        return StoreRow.to_dict(self, store) | {"family": self.family}


@dataclass(frozen=True, slots=True, eq=False)
class DecodedRows:
    """Rows of one store, column by column.

    Parameters
    ----------
    raw
        The rows, taken apart.
    key, value
        What the serdes made of the application's bytes, one a row.
    details
        What the rows tell beside that, by name: one a row, too.
    """

    raw: RowColumns
    key: Decoded
    value: Decoded
    details: dict[str, Detail] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.raw)

    def __iter__(self) -> Iterator[StoreRow]:
        raw = self.raw
        columns = zip(
            self.key.to_list(raw.record_key),
            self.value.to_list(raw.record_value),
            _listed(raw.window_start_ms, len(self)),
            _listed(raw.window_end_ms, len(self)),
            _listed(raw.timestamp_ms, len(self)),
            map(_pairs, _listed(raw.headers, len(self))),
            raw.key.to_list(),
            raw.value.to_list(),
            (raw.problems.get(position) for position in range(len(self))),
            strict=True,
        )
        if self.details:
            return map(self._detailed, columns, self._told())
        family = raw.details.get("family")
        if family is None:
            return starmap(StoreRow, columns)
        named = zip(columns, family.to_pylist(), strict=True)
        return starmap(FamilyRow, ((*cells, name) for cells, name in named))

    @property
    def num_undecoded(self) -> int:
        """In how many rows something could not be read."""
        return len(self.key.problems.keys() | self.value.problems.keys())

    def take(self, chosen: NDArray[np.bool_]) -> DecodedRows:
        """Return the rows that a mask chooses."""
        details = {name: each.take(chosen) for name, each in self.details.items()}
        key, value = self.key.take(chosen), self.value.take(chosen)
        return DecodedRows(self.raw.take(chosen), key, value, details)

    def to_arrow(self) -> pa.Table:
        """Return the rows as a table.

        Keys and values have the type of their serde; where that has none of its own, as with JSON
        and a user's callable, they are JSON text. Where one could not be read it is null, and
        ``problem`` says why. Rows of column families tell their ``family``, and each detail has a
        column of its name; times have it without ``_ms``.
        """
        raw = self.raw
        times = (raw.window_start_ms, raw.window_end_ms, raw.timestamp_ms)
        start, end, time = (_times(column, len(self)) for column in times)
        columns = {
            "key": typed(self.key),
            "window_start": start,
            "window_end": end,
            "timestamp": time,
            "value": typed(self.value),
            "headers": pa.nulls(len(self), HEADERS) if raw.headers is None else raw.headers,
            "key_bytes": raw.key.to_arrow(),
            "value_bytes": raw.value.to_arrow(),
            "problem": self._problems(),
        }
        if "family" in raw.details:
            columns["family"] = raw.details["family"]
        told = {name.removesuffix("_ms"): each.to_arrow() for name, each in self.details.items()}
        return pa.table(columns | told)

    def _told(self) -> Iterator[dict[str, Any]]:
        """Yield the details of each row; a torn one has none."""
        cells = zip(*(each.to_list() for each in self.details.values()), strict=True)
        for position, told in enumerate(cells):
            yield (
                {} if position in self.raw.problems else dict(zip(self.details, told, strict=True))
            )

    @staticmethod
    def _detailed(cells: tuple[Any, ...], details: dict[str, Any]) -> StoreRow:
        return StoreRow(*cells, details=details)

    def _problems(self) -> pa.Array:
        why: list[str | None] = [None] * len(self)
        for part, decoded in (("value", self.value), ("key", self.key)):
            for position, reason in decoded.problems.items():
                why[position] = f"{part}: {reason}"
        for position, reason in self.raw.problems.items():
            why[position] = reason
        return pa.array(why, pa.string())


def decoded_rows(
    raw: RowColumns, key: Serde, value: Serde, *, foreign_key: Serde = _BYTES
) -> DecodedRows:
    """Return rows with their keys and values read; what could not be taken apart stays bytes.

    Parameters
    ----------
    raw
        The rows, taken apart.
    key, value
        How to read keys and values.
    foreign_key
        How to read the foreign keys of subscriptions.
    """
    keys, values = _read(raw, raw.record_key, key), _read(raw, raw.record_value, value)
    return DecodedRows(raw, keys, values, details_of(raw, value, foreign_key))


def _read(raw: RowColumns, column: ByteColumn, serde: Serde) -> Decoded:
    if not raw.problems:
        return serde.decode(column)
    torn = np.zeros(len(raw), dtype=bool)
    torn[list(raw.problems)] = True
    # A serde may make something of torn bytes, as of a number's first half: it is not asked.
    bare = type(column)(column.data, column.starts, column.ends, column.is_null | torn)
    decoded = serde.decode(bare)
    return Decoded(decoded.values, decoded.problems | raw.problems)


def _times(column: pa.Array | None, length: int) -> pa.Array:
    return pa.nulls(length, TIME) if column is None else column.cast(TIME)


def _listed(column: pa.Array | None, length: int) -> list[Any]:
    values: list[Any] = [None] * length if column is None else column.to_pylist()
    return values


def _pairs(headers: list[dict[str, Any]] | None) -> tuple[tuple[str, bytes | None], ...] | None:
    return None if headers is None else tuple((each["name"], each["value"]) for each in headers)
