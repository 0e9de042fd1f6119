"""What can go wrong, as one tree. Messages say what happened, with which value, and what to do.

``UserError`` and what derives from it are the user's mistakes: the command line ends with code 2
and prints the message alone. Every other ``KstoolkitError`` is a fault: code 1.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class KstoolkitError(Exception):
    """Anything that kstoolkit itself raises on purpose.

    Parameters
    ----------
    message
        What happened, with the value at fault.
    hint
        What to do about it; printed on a line of its own.

    Examples
    --------
    >>> print(KstoolkitError("No events in 'a.json': the file is empty.", hint="Give another."))
    No events in 'a.json': the file is empty.
    Hint: Give another.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = message
        self.hint = hint
        super().__init__(message if hint is None else f"{message}\nHint: {hint}")


class UserError(KstoolkitError):
    """A mistake in what the user gave: exit code 2 on the command line."""


class ConfigurationError(UserError, ValueError):
    """An argument, option or rule that makes no sense."""


class InputError(UserError):
    """Input that is missing, empty or not what was said of it."""


class ColumnError(InputError):
    """A column that the input does not have."""

    @classmethod
    def missing(cls, column: str, available: Iterable[str], where: str) -> ColumnError:
        """Build the error for ``column``, proposing the nearest of the ``available`` ones.

        Examples
        --------
        >>> print(ColumnError.missing("usr", ["time", "user"], "data/a.json"))
        No column 'usr' in data/a.json.
        Hint: Did you mean 'user'? It has: time, user.
        """
        names = sorted(available)
        near = get_close_matches(column, names, n=1)
        guess = f"Did you mean {near[0]!r}? " if near else ""
        return cls(
            f"No column {column!r} in {where}.",
            hint=f"{guess}It has: {', '.join(names) or 'none'}.",
        )


class OutputError(UserError):
    """An output folder that can't be used: in use by another run, not a run, not shared."""


class CheckpointError(UserError):
    """A checkpoint that belongs to another configuration."""


class EnvironmentFault(UserError):
    """Something missing on this machine: Java, Spark, a package."""


class FormatError(KstoolkitError):
    """Bytes that are not what they should be."""

    @classmethod
    def version(cls, what: str, found: int, known: int) -> FormatError:
        """Build the error of a version byte that this kstoolkit does not know.

        Examples
        --------
        >>> print(FormatError.version("CountBlock", 9, 1))
        A CountBlock of version 9: this kstoolkit reads up to version 1.
        Hint: It was written by a newer kstoolkit: upgrade with pip install -U kstoolkit.
        """
        return cls(
            f"A {what} of version {found}: this kstoolkit reads up to version {known}.",
            hint="It was written by a newer kstoolkit: upgrade with pip install -U kstoolkit.",
        )


class KafkaError(KstoolkitError):
    """A Kafka cluster that does not answer, or does not do what it was asked."""


class RunFailed(KstoolkitError):
    """A run that Spark ended with an error; the cause is chained."""


class RestartsSpent(RunFailed):
    """A run that died more often than it may be started again."""


class LimitedResultWarning(UserWarning):
    """Fewer rows came back than there are."""


class LargeReportWarning(UserWarning):
    """A report takes more room than whoever gets it by mail may like."""
