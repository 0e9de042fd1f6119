"""One writer at a time: the kernel lets go of the lock when its process ends, however it ends."""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kstoolkit.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterator


LOCK = ".lock"
_OF_WRITING = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG}


@contextmanager
def writing_alone(folder: Path) -> Iterator[None]:
    """Hold a replica against other writers; readers take no heed of it.

    Raises
    ------
    OutputError
        If somebody else is writing it, or it can't be written.
    """
    with refusals_told(folder):
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _lock(descriptor, folder)
            yield
        finally:
            os.close(descriptor)


@contextmanager
def refusals_told(folder: Path) -> Iterator[None]:
    """Raise what the system has against writing a replica as an error of ours.

    Raises
    ------
    OutputError
        With the folder and the system's reason: no room, no permission, no folder.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _OF_WRITING and not _is_within(error.filename, folder):
            raise
        message = f"The replica {str(folder)!r} can't be written: {error.strerror}."
        hint = "Mend that, and restore again: it goes on from where it is."
        raise OutputError(message, hint=hint) from error


def _lock(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        message = f"The replica {str(folder)!r} is being restored or followed by somebody else."
        hint = "Wait for it to end, or read the replica: WindowStore.open needs no lock."
        raise OutputError(message, hint=hint) from error


def _is_within(name: object, folder: Path) -> bool:
    return isinstance(name, (str, Path)) and Path(name).is_relative_to(folder)
