"""Reads the rows of an open store: all of them, or as many as its damage leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.rocksdb.faults import translated
from kstoolkit.rocksdb.files.rows import rows_of
from kstoolkit.rocksdb.files.skipping import pass_over, readable_rows, value_of
from kstoolkit.rocksdb.files.views import View

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kstoolkit.errors import FormatError
    from kstoolkit.rocksdb.files.families import Families
    from kstoolkit.rocksdb.files.losses import Losses


class Reader:
    """Reads values and rows of a store's column families, until it is closed.

    Parameters
    ----------
    path
        The store as the user knows it.
    families
        Its column families; whether they are open is asked at each row.
    scratch
        The scratch folder that they were opened from.
    losses
        What was lost of the store so far, and where to put more; None: what can't be read is
        raised.
    """

    def __init__(
        self, path: Path, families: Families, scratch: Path, losses: Losses | None
    ) -> None:
        self._path, self._families, self._losses = path, families, losses
        self._view = View(families.chosen(), scratch, path)

    @property
    def damage(self) -> str | None:
        """What is lost, in one line; None: nothing that is known."""
        return None if self._losses is None else self._losses.text

    def value(self, family: str, key: bytes) -> bytes | None:
        """Return the value of a key, or None if it has none.

        Raises
        ------
        DamagedStoreError
            If it lies where the store can't be read.
        """
        handle = self._families.chosen(family)[family]
        with translated(self._path):
            return value_of(handle, key, self._losses)

    def rows(
        self, family: str, *, prefix: bytes, start: bytes | None, reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        """Return rows as :meth:`kstoolkit.rocksdb.store.Store.iter_rows` does."""
        handle = self._families.chosen(family)[family]
        if self._losses is None or reverse:
            return self._checked(rows_of(handle, prefix=prefix, start=start, reverse=reverse))
        found = readable_rows(self._view, family, self._losses, prefix=prefix, start=start)
        return self._checked(found)

    def pass_over(self, error: FormatError) -> None:
        """Count what could not be read among what is lost."""
        if self._losses is not None and pass_over(error, self._losses) is None:
            self._losses.beside.append(f"not all could be read: {error.message.rstrip('.')}")

    def close(self) -> None:
        """Close what was opened to read beside damage; the column families are another's."""
        self._view.close()

    def _checked(self, rows: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        with translated(self._path):
            for row in rows:
                yield row
                self._families.check_open()
