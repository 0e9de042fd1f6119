"""Stores that stay when their trials are over: each in a folder of its profile's name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from kstoolkit.errors import ConfigurationError, OutputError

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from kstoolkit.rocksdb.lab.workloads import Workload
    from kstoolkit.rocksdb.profiles.profile import Profile


_NOTE = ".trial.json"
"""The ending of the note beside a store: without it, what is there is nobody's to remove."""

_LONGEST = 200  # bytes of a folder's name, with room for the ending


def places_to_keep(
    folder: str | os.PathLike[str] | None, profiles: Sequence[Profile]
) -> dict[str, Path]:
    """Return where the store of each profile is to stay; nothing if none is.

    Raises
    ------
    ConfigurationError
        If the name of a profile can't be that of a folder.
    OutputError
        If the folder can't be made, or holds something of that name that is no trial's store.

    Examples
    --------
    >>> from kstoolkit.rocksdb.profiles.profile import Profile
    >>> places_to_keep(None, [Profile(name="mine")])
    {}
    """
    if folder is None:
        return {}
    places = {each.name: Path(folder) / _as_folder(each.name) for each in profiles}
    for place in places.values():
        _check_free(place)
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _no_room(Path(folder), error) from error
    return places


def make_room(place: Path, workload: Workload, profile: Profile) -> None:
    """Remove what an earlier trial left at a place, and note beside it what is written there now.

    Raises
    ------
    OutputError
        If that can't be done.
    """
    told = {"profile": profile.name, "options": profile.changes(), "workload": workload.to_dict()}
    try:
        if place.is_dir():
            shutil.rmtree(place)
        _note_of(place).write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise _no_room(place, error) from error


def _as_folder(name: str) -> str:
    is_plain = name.isprintable() and not any(each in name for each in "/\\")
    if not is_plain or name in {".", ".."} or name.endswith(_NOTE) or len(name.encode()) > _LONGEST:
        message = f"The store of the profile {name!r} can't be kept: no folder can be called so."
        raise ConfigurationError(message, hint="Give it another: profile.changed(name=...).")
    return name


def _check_free(place: Path) -> None:
    if place.is_symlink() or (place.exists() and not _note_of(place).is_file()):
        message = f"{str(place)!r} is there already, and is no store that a trial left."
        raise OutputError(message, hint="Name another folder with keep=, or another profile.")


def _note_of(place: Path) -> Path:
    return place.with_name(place.name + _NOTE)


def _no_room(place: Path, error: OSError) -> OutputError:
    message = f"Stores can't be kept in {str(place)!r}: {error.strerror}."
    return OutputError(message, hint="Name another folder with keep=.")
