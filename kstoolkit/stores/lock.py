"""One writer at a time: the kernel lets go of the lock when its process ends, however it ends."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kstoolkit.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["LOCK", "writing_alone"]

LOCK = ".lock"


@contextmanager
def writing_alone(folder: Path) -> Iterator[None]:
    """Hold a replica against other writers; readers take no heed of it.

    Raises
    ------
    OutputError
        If somebody else is writing it.
    """
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        message = f"The replica {str(folder)!r} is being restored or followed by somebody else."
        hint = "Wait for it to end, or read the replica: WindowStore.open needs no lock."
        raise OutputError(message, hint=hint) from error
    try:
        yield
    finally:
        os.close(descriptor)
