"""A file of results: there whole or not at all, and never among a store's own files."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kstoolkit.errors import OutputError
from kstoolkit.rocksdb.faults import StoreResourceError
from kstoolkit.stores.spark.checkpoint import checkpoint_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kstoolkit.stores.rows.readable import HasRows


_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


@contextmanager
def appearing(target: Path, *, overwrite: bool) -> Iterator[Path]:
    """Yield a hidden path that becomes the target's at the end, or goes.

    Parameters
    ----------
    target
        The file that is to be there, whole or not at all.
    overwrite
        Whether one that is there is to be replaced.

    Raises
    ------
    OutputError
        If there is one, or it can't be written.
    StoreResourceError
        If there is no room for it.

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp(), "rows.csv")
    >>> with appearing(target, overwrite=False) as beside:
    ...     _ = beside.write_text("key")
    ...     print(target.exists())
    False
    >>> target.read_text()
    'key'
    """
    _check_free(target, overwrite=overwrite)
    beside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield beside
        _check_free(target, overwrite=overwrite)
        beside.replace(target)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        message = f"Rows can't be written to {str(target)!r}: {why}."
        if error.errno in _NO_ROOM:
            raise StoreResourceError(message, hint="Make room there, or name another.") from error
        hint = "Name a file in a folder that exists, and that you may write to."
        raise OutputError(message, hint=hint) from error
    finally:
        beside.unlink(missing_ok=True)


def _check_free(target: Path, *, overwrite: bool) -> None:
    if not overwrite and os.path.lexists(target):
        message = f"There is a file {str(target)!r} already."
        raise OutputError(message, hint="Name another, or say overwrite=True.")


def check_is_elsewhere(target: Path, store: HasRows) -> None:
    """Refuse a file among the store's own, where its engine would come upon it.

    Raises
    ------
    OutputError
        If it is such a one.
    """
    path = getattr(store, "path", None)
    if path is None:
        return
    folder = Path(path).resolve()
    checkpoint = checkpoint_of(folder)
    whole = folder if checkpoint is None else checkpoint.path
    if whole in target.resolve().parents:
        message = f"{str(target)!r} lies in the store's own folder, {str(whole)!r}."
        raise OutputError(message, hint="Name a file elsewhere: that folder is its engine's.")
