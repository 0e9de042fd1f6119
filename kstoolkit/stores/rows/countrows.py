"""kstoolkit's own counts as a store's rows: one row for each user and window.

The key is the user in UTF-8. The value is either all counts by action, as JSON, or one number as
Kafka's ``LongSerializer`` writes it: what a windowed count store of Kafka Streams holds of the same
events.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.errors import ConfigurationError
from kstoolkit.formats.columns import ByteColumn, RowColumns

if TYPE_CHECKING:
    from numpy.typing import NDArray


_LONG_BYTES = 8


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """Counts of some users and windows.

    Parameters
    ----------
    user
        Who, one for each user and window, as Arrow text.
    start_ms
        When the window begins, epoch ms UTC.
    size
        How many actions are counted for each.
    action, count
        The actions and how often, those of one user and window beside each other.
    updated_at_ms
        When a count last changed, epoch ms UTC; None if it isn't told.
    """

    user: pa.Array
    start_ms: NDArray[np.int64]
    size: NDArray[np.int64]
    action: pa.Array
    count: NDArray[np.uint64]
    updated_at_ms: NDArray[np.int64] | None = None


@dataclass(frozen=True, slots=True)
class CountRows:
    """Which counts become rows, and how.

    Parameters
    ----------
    window_ms
        How long the windows are.
    action
        Count this action alone; who did not do it has no row.
    total
        Count all actions together.

    Raises
    ------
    ConfigurationError
        If both are asked for.

    Examples
    --------
    >>> told = Told(
    ...     pa.array(["anna"]),
    ...     np.array([0]),
    ...     np.array([2]),
    ...     pa.array(["read", "edit"]),
    ...     np.array([3, 1], np.uint64),
    ... )
    >>> CountRows(60_000).of(told).value.to_list()
    [b'{"edit": 1, "read": 3}']
    >>> CountRows(60_000, total=True).of(told).value.integers(8).tolist()
    [4]
    """

    window_ms: int
    action: str | None = None
    total: bool = False

    def __post_init__(self) -> None:
        if self.total and self.action is not None:
            message = f"Both the total and the count of {self.action!r} are asked for."
            raise ConfigurationError(message, hint="Give action= or total=True.")

    @property
    def value_serde(self) -> str:
        """The name of the serde that reads the values."""
        return "long" if self.total or self.action is not None else "json"

    def of(self, told: Told) -> RowColumns:
        """Return counts as rows."""
        if self.action is not None:
            return self._rows(*_of_action(told, self.action))
        if self.total:
            return self._rows(told, _longs(_sums(told.count, told.size)))
        return self._rows(told, ByteColumn.from_arrow(_as_json(told)))

    def _rows(self, told: Told, value: ByteColumn) -> RowColumns:
        updated = told.updated_at_ms
        return RowColumns(
            np.arange(len(told.start_ms)),
            ByteColumn.from_arrow(told.user),
            value,
            window_start_ms=pa.array(told.start_ms),
            window_end_ms=pa.array(told.start_ms + self.window_ms),
            timestamp_ms=None if updated is None else pa.array(updated),
        )


def _of_action(told: Told, action: str) -> tuple[Told, ByteColumn]:
    chosen = np.flatnonzero(pc.equal(told.action, action))
    row = np.repeat(np.arange(len(told.size)), told.size)[chosen]
    updated = told.updated_at_ms
    fewer = Told(
        told.user.take(pa.array(row)),
        told.start_ms[row],
        np.ones(len(row), np.int64),
        told.action.take(pa.array(chosen)),
        told.count[chosen],
        None if updated is None else updated[row],
    )
    return fewer, _longs(fewer.count)


def _sums(count: NDArray[np.uint64], size: NDArray[np.int64]) -> NDArray[np.uint64]:
    ends = np.cumsum(size)
    total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(count, dtype=np.uint64)])
    sums: NDArray[np.uint64] = total[ends] - total[ends - size]
    return sums


def _longs(numbers: NDArray[np.uint64]) -> ByteColumn:
    starts = np.arange(len(numbers), dtype=np.int64) * _LONG_BYTES
    data = numbers.astype(">u8").view(np.uint8)
    return ByteColumn(data, starts, starts + _LONG_BYTES, np.zeros(len(numbers), dtype=bool))


def _as_json(told: Told) -> pa.Array:
    """Return the counts of each user and window as an object, its actions in order."""
    coded = told.action.dictionary_encode()
    names = coded.dictionary.to_pylist()
    place = np.argsort(np.argsort(np.array(names, object))) if names else np.zeros(0, np.int64)
    row = np.repeat(np.arange(len(told.size)), told.size)
    order = np.lexsort((place[np.asarray(coded.indices)], row))
    quoted = pa.array([f"{json.dumps(name)}: " for name in names], pa.large_string())
    counts = pa.array(told.count[order]).cast(pa.large_string())
    comma, begin, end, nothing = (
        pa.scalar(each, pa.large_string()) for each in (", ", "{", "}", "")
    )
    pairs = pc.binary_join_element_wise(quoted.take(coded.indices.take(order)), counts, nothing)
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(told.size)])
    joined = pc.binary_join(pa.LargeListArray.from_arrays(pa.array(ends), pairs), comma)
    return pc.binary_join_element_wise(begin, joined, end, nothing)
