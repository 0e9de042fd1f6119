"""What the writer of an open store left in its log."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from kstoolkit.errors import InputError
from kstoolkit.rocksdb.log.files import log_files
from kstoolkit.rocksdb.log.storelog import read_log

if TYPE_CHECKING:
    from datetime import tzinfo
    from pathlib import Path

    from kstoolkit.rocksdb.files.families import Families
    from kstoolkit.rocksdb.log.compactions import Compaction
    from kstoolkit.rocksdb.log.rows import LogRows
    from kstoolkit.rocksdb.log.stalls import Stall
    from kstoolkit.rocksdb.log.storelog import StoreLog


class LoggedStore:
    """A store whose writer's log can be read; :class:`~kstoolkit.rocksdb.store.Store` is one.

    Parameters
    ----------
    path
        The store's folder, as the user knows it; an attribute too.
    families
        Its column families, as long as it is open.
    """

    def __init__(self, path: Path, families: Families) -> None:
        self.path = path
        self._families = families

    def log_paths(self) -> list[Path]:
        """Return the store's own LOG files, oldest first; empty if there is none."""
        with suppress(InputError):
            return log_files(self.path)
        return []

    def log(self, *, zone: tzinfo | None = None) -> StoreLog:
        """Return the log that the writer left; without ``zone`` its events tell the time zone.

        Raises
        ------
        StoreClosedError
            If the store is closed.
        InputError
            If there is no log, or it can't be read.
        """
        self._families.check_open()
        return read_log(self.path, zone=zone)

    def compactions(self) -> LogRows[Compaction]:
        """Return the compactions of which the writer's log tells."""
        return self.log().compactions()

    def stalls(self) -> LogRows[Stall]:
        """Return the write stalls of which the writer's log tells; or why it can't."""
        return self.log().stalls()
