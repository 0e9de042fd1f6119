"""A file of a checkpoint, read whole and taken apart; what is wrong with it is told by its path."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from kstoolkit.errors import FormatError
from kstoolkit.rocksdb.faults import MissingFileError, translated

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


_Read = TypeVar("_Read")


def read_with(path: Path, read: Callable[[bytes], _Read]) -> _Read:
    r"""Return what ``read`` makes of a file's bytes.

    Raises
    ------
    MissingFileError
        If there is no such file.
    StorePermissionError
        If this user may not read it.
    FormatError
        If it is not what it should be; the message begins with its path.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "metadata")
    >>> _ = path.write_bytes(b"v1\n")
    >>> read_with(path, len)
    3
    """
    try:
        with translated(path):
            return read(path.read_bytes())
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        message = f"The checkpoint lacks the file {path}."
        raise MissingFileError(message, hint="Was it removed, or not copied with the rest?") from (
            error
        )
    except FormatError as error:
        message = f"{path}: {error.message}"
        raise type(error)(message, hint=error.hint) from error
