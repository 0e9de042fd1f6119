"""The column families of an open store: which there are, and whether it is still open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.rocksdb.faults import ColumnFamilyError, StoreClosedError

if TYPE_CHECKING:
    from pathlib import Path

    from rocksdict import Rdict


class Families:
    """The column families of one store, until it is closed.

    Parameters
    ----------
    path
        The store as the user knows it.
    handles
        The column families by name; the first one is the database itself.
    """

    def __init__(self, path: Path, handles: dict[str, Rdict]) -> None:
        self._path = path
        self._handles = handles

    @property
    def names(self) -> tuple[str, ...]:
        """Their names; none once the store is closed."""
        return tuple(self._handles)

    def chosen(self, name: str | None = None) -> dict[str, Rdict]:
        """Return all column families, or the one of a name.

        Raises
        ------
        ColumnFamilyError
            If there is no such column family.
        StoreClosedError
            If the store is closed.
        """
        self.check_open()
        if name is None:
            return self._handles
        if name not in self._handles:
            message = f"No column family {name!r} in {self._path}."
            raise ColumnFamilyError(message, hint=f"It has: {', '.join(self._handles)}.")
        return {name: self._handles[name]}

    def check_open(self) -> None:
        """Check that the store is open.

        Raises
        ------
        StoreClosedError
            If it is not.
        """
        if not self._handles:
            message = f"The store {self._path} is closed."
            raise StoreClosedError(message, hint="Open it again.")

    def close(self) -> None:
        """Close them all, the database last: rocksdict keeps it open for the others."""
        handles, self._handles = self._handles, {}
        for handle in reversed(handles.values()):
            handle.close()
