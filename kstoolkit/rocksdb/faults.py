"""What can go wrong with a store: rocksdict's words turned into errors that say what to try.

rocksdict raises nearly everything as a bare ``Exception`` with RocksDB's own text: a kind, a colon,
the rest. The kind alone tells what happened; no other module looks at such a text.
"""

from __future__ import annotations

import errno
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kstoolkit.errors import (
    ConfigurationError,
    FormatError,
    InputError,
    KstoolkitError,
    OutputError,
    UserError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike


class NoStoreError(InputError):
    """A path at which there is no RocksDB store."""


class StorePermissionError(InputError):
    """A store that this user may not read."""


class NewerFormatError(FormatError):
    """A store in a format that is newer than what the RocksDB in here reads."""


class EncryptedStoreError(FormatError):
    """A store whose files begin and end as no RocksDB's do: encrypted, or something else."""


class DamagedStoreError(FormatError):
    """A store of which some bytes are not what RocksDB wrote."""


class MissingFileError(DamagedStoreError):
    """A store of which a file that it needs is not there."""


class StoreLockedError(OutputError):
    """A store that another process has open for writing."""


class StoreClosedError(UserError):
    """A store that was closed before it was asked."""


class ReadOnlyStoreError(UserError):
    """A change asked of a store that is open for reading alone."""


class ColumnFamilyError(InputError):
    """A column family that the store does not have."""


class MissingKeyError(InputError, KeyError):
    """A key that the store does not have."""

    __str__ = Exception.__str__  # KeyError's shows the message in quotes


class StoreResourceError(KstoolkitError):
    """No room on the disk, or too many open files: the machine's, not the store's, fault."""


class StoreFault(KstoolkitError):  # noqa: N818 - like RunFailed, what is left when nothing fits
    """Anything else that RocksDB refuses, in its own words."""


_REBUILD = (
    "Restore the folder from a backup, or rebuild the store from its changelog; "
    "kstoolkit changes nothing in it."
)
_NEWER = (
    "A newer rocksdict may read it: pip install -U rocksdict. Else the store's application, "
    "with its format_version set lower, can write it anew."
)
_LOCK = re.compile(r"lock file|lock hold|LOCK: ")
_FILE = re.compile(r"(?:\S*/)?(?P<name>[^\s/]+\.(?:sst|blob|log)|MANIFEST-\d+)")


@contextmanager
def translated(path: str | PathLike[str]) -> Iterator[None]:
    """Raise what rocksdict raises inside as an error of this module, which names ``path``.

    Errors of kstoolkit, and whatever is not rocksdict's, pass as they are. ``path`` is the store as
    the user knows it, never the scratch folder it is read through.

    >>> with translated("counts"):
    ...     raise Exception("Corruption: block checksum mismatch in /s/000012.sst offset 0")
    Traceback (most recent call last):
        ...
    kstoolkit.rocksdb.faults.DamagedStoreError: The store counts is damaged in 000012.sst: block ...
    Hint: Restore the folder from a backup, ...
    """
    try:
        yield
    except KstoolkitError:
        raise
    except Exception as error:
        known = fault_of(error, str(path))
        if known is None:
            raise
        raise known from error


def fault_of(error: Exception, path: str) -> KstoolkitError | None:
    """Return our error for one of rocksdict's, or None if it is not rocksdict's."""
    from rocksdict import DbClosedError  # noqa: PLC0415 - whoever reads files alone needs none

    text = str(error)
    match error:
        case DbClosedError():
            return StoreClosedError(f"The store {path} is closed.", hint="Open it again.")
        case PermissionError():
            return _no_permission(text, path)
        case OSError(errno=errno.ENOSPC | errno.EDQUOT | errno.EMFILE | errno.ENFILE):
            return _exhausted(text, path)
        case KeyError():
            return _key_fault(error, path)
    return _by_kind(text, path) if type(error) is Exception else None


def _key_fault(error: KeyError, path: str) -> KstoolkitError:
    text = str(error.args[0]) if error.args else ""
    if "raw mode" in text:
        message = f"The keys and values of the store {path} are bytes, and so must yours be."
        return ConfigurationError(message, hint="Encode a text first: 'anna'.encode().")
    return MissingKeyError(f"The store {path} has no such key: {text}.")


def _by_kind(text: str, path: str) -> KstoolkitError:
    kind, _, rest = text.partition(": ")
    match kind:
        case "Corruption":
            return _corruption(rest, path)
        case "IO error":
            return _io_error(rest, path)
        case "Not implemented":
            message = f"The store {path} is open for reading alone, or lacks this: {_why(rest)}."
            return ReadOnlyStoreError(message, hint="Make a copy, and change the copy.")
    return _by_words(text, path)


def _by_words(text: str, path: str) -> KstoolkitError:
    if text.startswith("column name"):
        return ColumnFamilyError(f"No such column family in {path}: {_first_line(text)}.")
    if "comparator" in text:
        message = f"The store {path} keeps its keys in an order of its own: {_why(text)}."
        return StoreFault(message, hint="Only stores in the order of bytes can be read here.")
    if "merge" in text.lower():
        return _unmerged(text, path)
    return StoreFault(f"RocksDB refuses the store {path}: {_why(text)}.")


def _corruption(rest: str, path: str) -> KstoolkitError:
    if "format_version" in rest:
        message = f"The store {path} has a format that this RocksDB can't read: {_why(rest)}."
        return NewerFormatError(message, hint=_NEWER)
    if "No such file" in rest:
        return _missing_file(rest, path)
    if "merge" in rest.lower():
        return _unmerged(rest, path)
    damaged = _FILE.search(rest)
    where = f" in {damaged['name']}" if damaged else ""
    return DamagedStoreError(f"The store {path} is damaged{where}: {_why(rest)}.", hint=_REBUILD)


def _io_error(rest: str, path: str) -> KstoolkitError:
    if _LOCK.search(rest):
        message = f"Another process has the store {path} open: {_why(rest)}."
        hint = "End it, or look at the store with kstoolkit.open_store, which needs no lock."
        return StoreLockedError(message, hint=hint)
    if "No such file" in rest:
        return _missing_file(rest, path)
    if "ermission denied" in rest or "not permitted" in rest:
        return _no_permission(rest, path)
    if "Too many open files" in rest or "No space left" in rest:
        return _exhausted(rest, path)
    return StoreFault(f"The store {path} can't be read: {_why(rest)}.")


def _exhausted(text: str, path: str) -> StoreResourceError:
    hint = "Raise the limit (ulimit -n), close other stores, or make room."
    return StoreResourceError(f"The machine gave out at {path}: {_why(text)}.", hint=hint)


def _missing_file(rest: str, path: str) -> MissingFileError:
    what = missing["name"] if (missing := _FILE.search(rest)) else "a file"
    message = f"The store {path} is damaged: {what}, which it needs, is missing."
    return MissingFileError(message, hint=_REBUILD)


def _no_permission(rest: str, path: str) -> StorePermissionError:
    message = f"The store {path} may not be read by this user: {_why(rest)}."
    hint = "Read permission on the folder and its files is enough; ask the owner for it."
    return StorePermissionError(message, hint=hint)


def _unmerged(rest: str, path: str) -> StoreFault:
    message = f"Only its merge operator puts rows of the store {path} together: {_why(rest)}."
    hint = "Its engine's own reader knows that operator; rows without it can be read."
    return StoreFault(message, hint=hint)


def _why(rest: str) -> str:
    """Return what happened, without the scratch folder that it was seen in and its repetition."""
    told = _first_line(rest).partition("  The file ")[0].removeprefix("Corruption: ")
    return _FILE.sub(r"\g<name>", told).strip().rstrip(".")


def _first_line(text: str) -> str:
    return (text.splitlines() or ["no reason given"])[0]
