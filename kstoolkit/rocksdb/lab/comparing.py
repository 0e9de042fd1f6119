"""The same workload under several profiles, one after the other, each in a process of its own."""

from __future__ import annotations

import shutil
import sys
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from kstoolkit.errors import ConfigurationError, InputError
from kstoolkit.records import Records
from kstoolkit.rocksdb.files.scratchfolder import new_scratch_folder
from kstoolkit.rocksdb.lab.chosenprofiles import chosen_profiles
from kstoolkit.rocksdb.lab.comparison import Comparison
from kstoolkit.rocksdb.lab.faults import TrialCancelled, TrialFailed
from kstoolkit.rocksdb.lab.keeping import make_room, places_to_keep
from kstoolkit.rocksdb.lab.levelwork import work_by_level
from kstoolkit.rocksdb.lab.listening import Listener
from kstoolkit.rocksdb.lab.recorded import moment_of, trial_of
from kstoolkit.rocksdb.lab.spool import keep_rows
from kstoolkit.rocksdb.lab.watching import Limits, Watched, trial_request, watch
from kstoolkit.rocksdb.lab.workloads import BATCH_ROWS, REPLAYED, Workload

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Sequence

    from kstoolkit.rocksdb.lab.results import LevelWork
    from kstoolkit.rocksdb.profiles.profile import Profile


_PREFIX = "kstoolkit-lab-"


def compare_profiles(
    workload: str | Workload | Iterable[tuple[bytes, bytes | None]],
    profiles: Sequence[str | Profile],
    *,
    seconds: float = 60.0,
    disk_bytes: int = 4 << 30,
    folder: str | os.PathLike[str] | None = None,
    keep: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    listener: Listener | None = None,
) -> Comparison:
    """Return what the same writes and gets cost under each profile.

    Each profile gets a new store in a process of its own, one after the other, so that none lives
    off another's memory; its store is removed afterwards, or kept. Statistics are on in all of
    them. Gets stand between writes, so that they meet the tree as it grows; they may be served by
    the kernel's page cache. Write-ahead logs are as each profile says.

    Parameters
    ----------
    workload
        A :class:`~kstoolkit.rocksdb.lab.workloads.Workload`; the kind of one, with what else it has
        by default; or keys and values to replay, in their order (a value of None deletes its key).
    profiles
        Profiles, or names of them.
    seconds
        How long a profile may write and settle. One that takes longer is stopped: its figures are
        of what it wrote until then, and ``stopped_by`` is ``"time"``.
    disk_bytes
        How much disk a store may take before it is stopped, likewise; rows to replay are kept
        on disk too, and may take as much.
    folder
        On whose disk the stores are made. By default, where temporary files are.
    keep
        Where to leave them instead, each with its log in a folder of its profile's name, to be
        looked into; made if it isn't there. What an earlier comparison kept there is replaced.
    progress
        Whether to show a bar on stderr. By default, if stderr is a terminal.
    listener
        Hears how it goes, and may cancel it.

    Raises
    ------
    ConfigurationError
        If there are no profiles, two have one name, or a limit or the workload makes no sense.
    InputError
        If there are no rows to replay, or ``folder`` is none.
    OutputError
        If a store can't be kept: something else has its place.
    TrialFailed
        If a trial comes to no end: its process fails or is killed, or no write gets through; a
        ``TrialCancelled`` if the listener cancelled it. The ``found`` of the error has the trials
        before it.

    Examples
    --------
    >>> workload = Workload("uniform", writes=2_000, keys=500)
    >>> found = compare_profiles(workload, ["kafka_streams", "spark"], progress=False)
    >>> [trial.live_rows for trial in found]
    [488, 488]
    >>> found.of("spark").content_sha256 == found.of("kafka_streams").content_sha256
    True
    """
    chosen, planned = chosen_profiles(profiles), _workload(workload)
    kept = places_to_keep(keep, chosen)
    limits, heard = _limits(seconds, disk_bytes), listener or Listener()
    found: dict[str, Watched] = {}
    levels: list[LevelWork] = []
    with _scratch(_parent(folder)) as place, _bar(progress) as bar:
        planned, rows = _kept(planned, place, disk_bytes, heard)
        heard.begin(planned, [profile.name for profile in chosen])
        bar.reset(planned.writes * len(chosen))
        for number, profile in enumerate(chosen):
            bar.set_description_str(profile.name)
            path = kept.get(profile.name, place / "store")
            if kept:
                make_room(path, planned, profile)
            show = partial(_show, bar, heard, profile.name, number * planned.writes)
            request = trial_request(planned, profile, path, rows=rows)
            try:
                found[profile.name] = watch(request, limits, show, heard.is_cancelled)
            except TrialFailed as failed:
                failed.found = _comparison(planned, found, levels)
                raise
            levels += work_by_level(profile.name, path)
            if not kept:
                shutil.rmtree(path)
    return _comparison(planned, found, levels)


def _workload(given: str | Workload | Iterable[tuple[bytes, bytes | None]]) -> Workload:
    if isinstance(given, Workload):
        return given
    return Workload(given) if isinstance(given, str) else Workload(REPLAYED, rows=given)


def _limits(seconds: float, disk_bytes: int) -> Limits:
    for name, value in (("seconds", seconds), ("disk_bytes", disk_bytes)):
        if not value > 0:
            message = f"{name} is {value!r}."
            raise ConfigurationError(message, hint="Give more than 0.")
    return Limits(seconds, disk_bytes)


def _parent(folder: str | os.PathLike[str] | None) -> Path | None:
    if folder is not None and not Path(folder).is_dir():
        message = f"There is no folder {str(folder)!r} to make stores in."
        raise InputError(message, hint="Make it first, or leave it out.")
    return None if folder is None else Path(folder)


@contextmanager
def _scratch(parent: Path | None) -> Iterator[Path]:
    """Yield a folder that goes in any case: at the latest when the next comparison begins."""
    folder = new_scratch_folder(parent, prefix=_PREFIX)
    try:
        yield folder.path
    finally:
        folder.remove()


def _bar(progress: bool | None) -> tqdm:  # noqa: FBT001 - as the caller was given it
    return tqdm(
        total=0,
        unit=" writes",
        unit_scale=True,
        disable=None if progress is None else not progress,
        file=sys.stderr,
        dynamic_ncols=True,
        leave=False,
    )


def _show(bar: tqdm, listener: Listener, profile: str, before: int, moment: dict[str, Any]) -> None:
    bar.update(before + moment["writes"] - bar.n)
    listener.hear(moment_of(profile, moment))


def _kept(
    workload: Workload, place: Path, disk_bytes: int, listener: Listener
) -> tuple[Workload, Path | None]:
    """Return the workload as it will be, and where its rows are kept, if it brought some."""
    if workload.rows is None:
        return workload, None
    path = place / "rows.arrow"
    rows = _unless_cancelled(workload.rows, listener)
    return replace(workload, writes=keep_rows(rows, path, disk_bytes=disk_bytes)), path


def _unless_cancelled(
    rows: Iterable[tuple[bytes, bytes | None]], listener: Listener
) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield the rows, and look now and then whether the listener wants no more of them.

    Raises
    ------
    TrialCancelled
        If it doesn't; there are no trials yet.
    """
    for number, row in enumerate(rows):
        if number % BATCH_ROWS == 0 and listener.is_cancelled():
            message = "The comparison was cancelled before its first trial."
            raise TrialCancelled(message)
        yield row


def _comparison(
    workload: Workload, found: dict[str, Watched], levels: list[LevelWork]
) -> Comparison:
    trials = [trial_of(name, seen) for name, seen in found.items()]
    moments = [moment_of(name, told) for name, seen in found.items() for told in seen.moments]
    return Comparison(workload, trials, Records(moments, "moments"), Records(levels, "levels"))
