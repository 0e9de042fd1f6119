"""Serdes of rows of several column families, each of which has columns of its own.

A row's bytes do not tell whose they are. So the bytes that the serdes are given begin with the
family's number, in 2 bytes, as keys on disk do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.errors import ConfigurationError
from kstoolkit.formats.columns import ByteColumn, Decoded
from kstoolkit.formats.serdes import Serde, serde_of
from kstoolkit.formats.spark.keys import FAMILY_BYTES, family_ids, written_key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kstoolkit.formats.spark.rows import Family
    from kstoolkit.stores.rows.readable import SerdeLike


_SERDES = {"key_serde", "value_serde"}
_UNKNOWN = "a row of a column family that the store does not name"


@dataclass(frozen=True, slots=True)
class FamilySerdes:
    """What reads keys and values of some families: plain serdes if there is only one.

    Parameters
    ----------
    families
        The families whose rows are read.
    """

    families: Sequence[Family]

    @property
    def are_marked(self) -> bool:
        """Whether the bytes they read begin with the number of the family."""
        return len(self.families) != 1

    @property
    def key(self) -> Serde:
        """What reads keys: a struct each; of one family, also what writes them."""
        serde = self._of({_number(each): each.key_serde for each in self.families})
        if self.are_marked:
            return serde
        [family] = self.families
        return replace(serde, encode=partial(written_key, family.key, family.encoder))

    @property
    def value(self) -> Serde:
        """What reads values: a struct each."""
        return self._of({_number(each): each.value_serde for each in self.families})

    def told(self, serde: SerdeLike) -> Serde:
        """Return what reads the rows as somebody says: it is not given the family's number."""
        plain = serde_of(serde)
        if not self.are_marked:
            return plain
        return Serde(plain.name, lambda cells: plain.decode(cells.part(FAMILY_BYTES)))

    def asked(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Return what rows are asked for by, with the serdes that read them.

        Raises
        ------
        ConfigurationError
            If keys of several families are asked for, a prefix is text, or there is no such serde.
        """
        told = {name: value for name, value in asked.items() if value is not None}
        if self.are_marked and told.keys() & {"key", "prefix"}:
            names = ", ".join(each.name for each in self.families)
            message = "Keys of several column families are asked for, and each has its own columns."
            raise ConfigurationError(message, hint=f"Choose one by column_family=...: {names}.")
        if isinstance(told.get("prefix"), str) and "key_serde" not in told:
            raise self._no_prefix(told["prefix"])
        serdes = {name: self.told(told[name]) for name in told.keys() & _SERDES}
        return told | serdes

    def _no_prefix(self, prefix: str) -> ConfigurationError:
        names = ", ".join(name for each in self.families for name in each.key.names)
        message = (
            f"No key begins with the text {prefix!r}: keys of Spark's state are binary rows of the "
            f"columns {names or 'none'}."
        )
        hint = "Give key=... with the values of all columns or of some, or the prefix in bytes."
        return ConfigurationError(message, hint=hint)

    def _of(self, serdes: Mapping[int, Serde]) -> Serde:
        if len(serdes) == 1:
            return next(iter(serdes.values()))
        return Serde("spark row", lambda cells: _by_family(cells, serdes))


def family_mark(family: Family) -> bytes:
    """Return what the keys of a family begin with; nothing in a store without families."""
    if family.number is None:
        return b""
    return family.number.to_bytes(FAMILY_BYTES, "little", signed=True)


def marked(cells: ByteColumn, family: Family) -> ByteColumn:
    r"""Return cells that begin with their family's number.

    Examples
    --------
    >>> from kstoolkit.formats.spark.keys import KeyEncoder
    >>> from kstoolkit.formats.spark.rows import Family
    >>> from kstoolkit.formats.spark.types import Struct
    >>> family = Family("seen", Struct((), 0), Struct((), 0), KeyEncoder(), number=2)
    >>> marked(ByteColumn.of([b"a", None]), family).to_list()
    [b'\x02\x00a', None]
    """
    mark, nothing = (pa.scalar(each, pa.large_binary()) for each in (family_mark(family), b""))
    return ByteColumn.from_arrow(pc.binary_join_element_wise(mark, cells.to_arrow(), nothing))


def _number(family: Family) -> int:
    return -1 if family.number is None else family.number


def _by_family(cells: ByteColumn, serdes: Mapping[int, Serde]) -> Decoded:
    values: list[Any] = [None] * len(cells)
    problems: dict[int, str] = {}
    numbers = np.where(cells.is_null, -1, family_ids(cells))
    for number in np.unique(numbers[~cells.is_null]).tolist():
        rows = np.flatnonzero((numbers == number) & ~cells.is_null)
        if number not in serdes:
            problems |= dict.fromkeys(rows.tolist(), _UNKNOWN)
            continue
        decoded = serdes[number].decode(cells.take(rows).part(FAMILY_BYTES))
        told = decoded.values
        found = told if isinstance(told, list) else told.to_pylist()
        for row, value in zip(rows.tolist(), found, strict=True):
            values[row] = value
        problems |= {int(rows[at]): why for at, why in decoded.problems.items()}
    return Decoded(values, problems)
