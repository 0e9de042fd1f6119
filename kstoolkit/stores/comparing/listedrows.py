"""Rows that lie in memory, to compare a store with: what a topic held, or what is expected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstoolkit.formats.columns import ByteColumn, RowColumns
from kstoolkit.stores.rows.readable import Readable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kstoolkit.stores.rows.asking import Asked
    from kstoolkit.stores.rows.readable import SerdeLike


@dataclass(frozen=True, slots=True)
class ListedRows:
    """A source of rows that are there already.

    Parameters
    ----------
    name
        What to call them.
    parts
        The rows.
    """

    name: str
    parts: Sequence[RowColumns]

    def read(self, asked: Asked) -> Iterator[RowColumns]:
        """Yield the rows, all of them."""
        del asked
        yield from self.parts


def listed(
    name: str,
    rows: Iterable[tuple[bytes, bytes | None]],
    *,
    key_serde: SerdeLike | None = None,
    value_serde: SerdeLike | None = None,
) -> Readable:
    """Return pairs of keys and values as a store's rows.

    Parameters
    ----------
    name
        What to call them.
    rows
        The application's own bytes; a value may be None.
    key_serde, value_serde
        How to read them; None guesses.

    Examples
    --------
    >>> print(*listed("latest", [(b"anna", b"3")], value_serde="json").rows())
    'anna': 3
    """
    keys: list[bytes] = []
    values: list[bytes | None] = []
    for key, value in rows:
        keys.append(key)
        values.append(value)
    part = RowColumns.whole(ByteColumn.of(keys), ByteColumn.of(values))
    return Readable(ListedRows(name, [part]), key_serde=key_serde, value_serde=value_serde)
