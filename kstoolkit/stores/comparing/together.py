"""Several stores as one: the partitions of a store, to compare with what is not partitioned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstoolkit.errors import ConfigurationError
from kstoolkit.stores.rows.asking import Asked
from kstoolkit.stores.rows.readable import Readable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kstoolkit.formats.columns import RowColumns
    from kstoolkit.stores.rows.readable import HasRows
    from kstoolkit.stores.rows.rowview import RowSource


def together(stores: Sequence[HasRows]) -> Readable:
    """Return the rows of several stores of one kind as those of one store.

    Parameters
    ----------
    stores
        The stores, open until the rows are read; the serdes of the first that has some read all.

    Raises
    ------
    ConfigurationError
        If there are none.

    Examples
    --------
    >>> from kstoolkit.stores.comparing.listedrows import listed
    >>> parts = [listed("counts", [(key, b"1")], value_serde="json") for key in (b"anna", b"bo")]
    >>> print(*together(parts).rows(), sep="; ")
    'anna': 1; 'bo': 1
    """
    if not stores:
        message = "There is no store among those to take together."
        raise ConfigurationError(message, hint="Give one or more, such as a store's partitions.")
    sources = [each.source for each in stores]
    first = next((each for each in stores if _has_rows(each)), stores[0])
    names = dict.fromkeys(source.name for source in sources)
    source = Together(", ".join(names), sources)
    return Readable(source, key_serde=first.key_serde, value_serde=first.value_serde)


def _has_rows(store: HasRows) -> bool:
    return any(len(rows) for rows in store.source.read(Asked()))


@dataclass(frozen=True, slots=True)
class Together:
    """Where the rows of several stores lie.

    Parameters
    ----------
    name
        Their names.
    sources
        Where the rows of each lie.
    """

    name: str
    sources: Sequence[RowSource]

    def read(self, asked: Asked) -> Iterator[RowColumns]:
        """Yield the rows of one after the other."""
        for source in self.sources:
            yield from source.read(asked)
