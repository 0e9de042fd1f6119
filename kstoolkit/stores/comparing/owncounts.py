"""What kstoolkit itself counted, by its folder: one side of a comparison."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kstoolkit.changelog.changelog import Changelog
from kstoolkit.errors import ConfigurationError, InputError
from kstoolkit.replica.windowstore import WindowReader
from kstoolkit.stores.discovery.replicalevels import is_replica_level
from kstoolkit.stores.rows.counts import changelog_counts, replica_counts
from kstoolkit.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kstoolkit.stores.rows.readable import Readable
    from kstoolkit.units import Duration


@contextmanager
def own_counts(
    path: str,
    *,
    window_size: Duration | None = None,
    action: str | None = None,
    total: bool = False,
) -> Iterator[Readable | None]:
    """Yield the counts of a changelog, of a run, or of a level of a replica; None of other paths.

    Parameters
    ----------
    path
        The folder.
    window_size
        How long the windows are, of a changelog or a run; a level of a replica has windows of one
        length.
    action, total
        Count one action, or all of them together, as a long; neither: each action's, as JSON.

    Raises
    ------
    ConfigurationError
        If both are asked for, there are no such windows, or it is not said which.
    KstoolkitError
        If the counts can't be read.

    Examples
    --------
    >>> import tempfile
    >>> with own_counts(tempfile.mkdtemp()) as found:
    ...     print(found)
    None
    """
    folder = Path(path).absolute()
    if is_replica_level(folder):
        with WindowReader.open(folder.parent) as replica:
            length = format_duration(int(folder.name))
            yield replica_counts(replica, window=length, action=action, total=total)
        return
    changelog = _changelog(folder)
    if changelog is None:
        yield None
        return
    if window_size is None:
        known = ", ".join(format_duration(each) for each in changelog.window_lengths_ms())
        message = f"The changelog {changelog.path} has counts of windows of {known}."
        raise ConfigurationError(message, hint="Say of which, by window_size=.")
    yield changelog_counts(changelog, window=window_size, action=action, total=total)


def is_own_counts(path: str) -> bool:
    """Return whether a folder is one that :func:`own_counts` reads.

    Examples
    --------
    >>> import tempfile
    >>> is_own_counts(tempfile.mkdtemp())
    False
    """
    folder = Path(path).absolute()
    return is_replica_level(folder) or _changelog(folder) is not None


def _changelog(folder: Path) -> Changelog | None:
    try:
        return Changelog.open(folder)
    except InputError:
        return None
