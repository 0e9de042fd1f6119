"""Whether a changelog is the one that a replica was made from.

A replica knows of its changelog the number of the newest batch that it holds, that batch's clock,
and the lengths of the windows. Another run's changelog has batches of the same numbers; to go on
with those would mix the counts of two runs, without a sign.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.changelog.changelog import FOLD, BatchFolders
from kstoolkit.changelog.news import News
from kstoolkit.errors import InputError
from kstoolkit.stores.moments import moment_of
from kstoolkit.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from kstoolkit.changelog.changelog import Changelog
    from kstoolkit.stores.replicafile import LevelState


_HINT = "It is of another changelog: restore into another folder."


def check_same_changelog(
    folder: Path, levels: Collection[LevelState], changelog: Changelog
) -> None:
    """Check that a changelog has what a replica holds of it.

    Parameters
    ----------
    folder
        The replica.
    levels
        How far it is.
    changelog
        The changelog.

    Raises
    ------
    InputError
        If it is of another one.
    """
    check_not_behind(folder, levels, changelog)
    for level in levels:
        _check_clock(folder, level, changelog)
    lengths_ms = {level.window_ms for level in levels if level.segments}
    missing = News(changelog).lacks(lengths_ms) if lengths_ms else set()
    if missing and changelog.batches:
        windows = ", ".join(format_duration(length) for length in sorted(missing))
        message = (
            f"The replica {str(folder)!r} holds windows of {windows}, of which "
            f"{str(changelog.path)!r} tells nothing."
        )
        raise InputError(message, hint=_HINT)


def check_not_behind(folder: Path, levels: Collection[LevelState], changelog: Changelog) -> None:
    """Check that a replica is no further than its changelog.

    Raises
    ------
    InputError
        If it is: it is of another one.
    """
    known = [level.position for level in levels if level.position is not None]
    newest = News(changelog).newest()
    if not known or (newest is not None and newest >= max(known)):
        return
    epoch, number = max(known)
    if (changelog.path / f"epoch={epoch}" / f"batch={number}").exists():
        return  # Spark is writing its last batch once more
    message = (
        f"The replica {str(folder)!r} holds everything up to batch {number} of epoch "
        f"{epoch}, which {str(changelog.path)!r} does not have."
    )
    raise InputError(message, hint=_HINT)


def _check_clock(folder: Path, level: LevelState, changelog: Changelog) -> None:
    if level.position is None or level.changed_ms is None:
        return
    if (BatchFolders(changelog.path).folder(*level.position) / FOLD).exists():
        return  # it has the latest clock of all that is folded, whose may have been ahead
    clock_ms = News.of_one(changelog, level.position).newest_change_ms()
    if clock_ms in {None, level.changed_ms}:  # None: in a later fold, or being written once more
        return
    epoch, number = level.position
    message = (
        f"The replica {str(folder)!r} holds batch {number} of epoch {epoch} as of "
        f"{moment_of(level.changed_ms).isoformat()}; that of {str(changelog.path)!r} is of "
        f"{moment_of(clock_ms or 0).isoformat()}."
    )
    raise InputError(message, hint=_HINT)
