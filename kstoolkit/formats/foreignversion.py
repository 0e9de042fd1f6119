"""What an engine wrote in a version of its own that is not known here."""

from __future__ import annotations

from kstoolkit.errors import FormatError


def foreign_version(what: str, found: int, known: int, engine: str) -> FormatError:
    """Return the error of a version of an engine's that this kstoolkit does not know.

    Examples
    --------
    >>> print(foreign_version("commit log", 9, 2, "Spark"))
    A commit log of version 9: this kstoolkit reads up to version 2.
    Hint: A newer Spark wrote it, or it is damaged; a newer kstoolkit may read it.
    """
    found_error = FormatError.version(what, found, known)
    hint = f"A newer {engine} wrote it, or it is damaged; a newer kstoolkit may read it."
    return FormatError(found_error.message, hint=hint)
