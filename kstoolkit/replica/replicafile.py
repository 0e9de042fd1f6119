"""What a replica says of itself, where its segments lie, and who may write it.

``replica.json`` says how far it is, and which segments it has. It is written after the data that it
speaks of is on disk, and replaced in one step. So whatever it says is there, and what is there
beyond that is told again by the changelog. It carries a checksum: a digit that changed on the disk
could otherwise pass over a part of the changelog.

One writer at a time: the kernel lets go of the lock when its process ends, however it ends.

A replica knows of its changelog the number of the newest batch that it holds, that batch's clock,
and the lengths of the windows. Another run's changelog has batches of the same numbers; to go on
with those would mix the counts of two runs, without a sign.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import zlib
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kstoolkit.changelog.changelog import FOLD, MIRROR, BatchFolders, locked, replace_text, sync
from kstoolkit.changelog.reader import ChangelogReader, Position
from kstoolkit.errors import ConfigurationError, FormatError, InputError, OutputError, local_folder
from kstoolkit.moments import moment_of
from kstoolkit.replica.records import Mark
from kstoolkit.rocksdb.profiles.named import profile_named
from kstoolkit.rocksdb.profiles.profile import Profile
from kstoolkit.rocksdb.profiles.rocksdict import rocksdict_options, shared_memory
from kstoolkit.units import parse_duration
from kstoolkit.windows import as_window, length_label

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from rocksdict import Options

    from kstoolkit.changelog.changelog import Changelog
    from kstoolkit.replica.segments import MemorySegment
    from kstoolkit.units import Duration
    from kstoolkit.windows import Window

FILE = "replica.json"
_VERSION, _VERSION_OF_PARTS = 1, 2
_NAME = "replica"
_HOUR_MS = 3_600_000


def segment_length_ms(window_ms: int) -> int:
    """Return how long a segment is: whole windows, an hour or more; of sessions, a day.

    >>> segment_length_ms(60_000), segment_length_ms(7 * 60_000), segment_length_ms(86_400_000)
    (3600000, 3780000, 86400000)
    """
    return -(-_HOUR_MS // window_ms) * window_ms if window_ms > 0 else 24 * _HOUR_MS


@dataclass(frozen=True, slots=True)
class LevelState:
    """How far one level is: everything up to ``position`` is held; ``None``: nothing yet.

    A pass that is under way goes ``toward`` a position, in so many pieces (by the user's bucket),
    of which some are done; without one, ``toward`` is ``None``. ``segments`` says what is in each,
    by its start. ``changed_ms`` is the clock of the batch at ``position``, ``None`` if it is not
    known. Segments from before ``expired_before_ms`` are not filled again. Times are epoch ms UTC.
    """

    window_ms: int
    position: Position | None = None
    toward: Position | None = None
    pieces: int = 1
    pieces_done: int = 0
    segments: dict[int, Mark] = field(default_factory=dict)
    changed_ms: int | None = None
    expired_before_ms: int | None = None

    @classmethod
    def of(cls, told: dict[str, Any]) -> LevelState:
        """Return the level that the file tells of."""
        segments = {int(start): Mark(*place) for start, place in told["segments"].items()}
        places = {name: told[name] and Position(*told[name]) for name in ("position", "toward")}
        return cls(**(told | places | {"segments": segments}))

    def with_segments(self, written: dict[int, Mark]) -> LevelState:
        """Return the level with segments that were written to."""
        return replace(self, segments=dict(sorted((self.segments | written).items())))


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """What a replica's file says: the levels on disk, by window length, and how long each is kept.

    Windows that ``retention_ms`` does not name are kept for ever. Where an action has several
    ``parts``, they are called so; the file then is of version 2.
    """

    levels: dict[int, LevelState] = field(default_factory=dict)
    retention_ms: dict[int, int] = field(default_factory=dict)
    parts: tuple[str, ...] | None = None

    @classmethod
    def load(cls, folder: Path) -> ReplicaState:
        """Read the file; without one it is an InputError, damaged or newer a FormatError."""
        try:
            told = json.loads((folder / FILE).read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError) as error:
            message = f"{str(folder)!r} is no replica: it has no {FILE}."
            hint = "Make one with WindowStore.restore(changelog, path=...), or kstoolkit restore."
            raise InputError(message, hint=hint) from error
        except OSError as error:
            message = f"The replica {str(folder)!r} can't be read: {error.strerror}."
            hint = "Read permission on its folders and files is enough; ask its owner."
            raise InputError(message, hint=hint) from error
        except ValueError as error:
            raise _damaged(folder, str(error)) from error
        if not isinstance(told, dict) or not isinstance(told.get("version"), int):
            raise _damaged(folder, "it names no version")
        if told["version"] > _VERSION_OF_PARTS:
            raise FormatError.version(_NAME, told["version"], _VERSION_OF_PARTS)
        if told.pop("checksum", None) != _checksum(told):
            raise _damaged(folder, "its checksum is not that of what it says")
        try:
            levels = [LevelState.of(level) for level in told["levels"]]
            retention_ms = {int(key): ms for key, ms in told["retention_ms"].items()}
            parts = tuple(map(str, told["parts"])) if "parts" in told else None
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _damaged(folder, repr(error)) from error
        return cls({level.window_ms: level for level in levels}, retention_ms, parts)

    def save(self, folder: Path) -> None:
        """Write the file, in one step; it is on disk afterwards."""
        told: dict[str, Any] = {
            "version": _VERSION if self.parts is None else _VERSION_OF_PARTS,
            "retention_ms": self.retention_ms,
            "levels": [asdict(level) for level in self.levels.values()],
        }
        if self.parts is not None:
            told["parts"] = list(self.parts)
        replace_text(folder / FILE, json.dumps(told | {"checksum": _checksum(told)}))

    def with_level(self, level: LevelState) -> ReplicaState:
        """Return the same with another state of one level."""
        levels = self.levels | {level.window_ms: level}
        return replace(self, levels=dict(sorted(levels.items())))


def _checksum(told: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(told).encode())


def _damaged(folder: Path, why: str) -> FormatError:
    message = f"{str(folder / FILE)!r} is damaged: {why}."
    return FormatError(message, hint="Restore the replica into another folder.")


_SEGMENT = re.compile(r"(-?\d+)\.(-?\d+)(\.building)?")


@dataclass(slots=True)
class MemoryLevel:
    """A level that is kept in memory: how far it is, and its segments by their start."""

    state: LevelState
    segments: dict[int, MemorySegment] = field(default_factory=dict)

    @property
    def has_begun(self) -> bool:
        """Whether any of its windows was ever told of."""
        return bool(self.segments) or self.state.expired_before_ms is not None


def segment_folder(replica: Path, window_ms: int, start_ms: int) -> Path:
    """Return where a segment lies: ``<level>/<level>.<segment start ms>``.

    >>> segment_folder(Path("out"), 60_000, 3_600_000).as_posix()
    'out/60000/60000.3600000'
    """
    return replica / str(window_ms) / f"{window_ms}.{start_ms}"


def segment_span_ms(window_ms: int, start_ms: int) -> range:
    """Return the span in which a segment's windows begin, epoch ms UTC."""
    return range(start_ms, start_ms + segment_length_ms(window_ms))


def set_aside(folder: Path) -> None:
    """Rename a damaged segment, so that somebody may look into it."""
    names = (f"{folder.name}.damaged-{number}" for number in count(1))
    folder.rename(next(each for each in map(folder.with_name, names) if not each.exists()))
    sync(folder.parent)


def remove_leftovers(replica: Path, state: ReplicaState) -> None:
    """Remove segments, expired or left by a restore that ended, that the replica doesn't name."""
    for folder in replica.glob("*/*"):
        match = _SEGMENT.fullmatch(folder.name)
        if match is None or folder.parent.name != match[1]:
            continue
        level = state.levels.get(int(match[1]))
        if match[3] or level is None or int(match[2]) not in level.segments:
            shutil.rmtree(folder)


LOCK = ".lock"
_OF_WRITING = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG}


@contextmanager
def writing_alone(folder: Path) -> Iterator[None]:
    """Hold a replica against other writers; readers take no heed of it."""
    with writing_errors(folder):
        message = f"The replica {str(folder)!r} is being restored or followed by somebody else."
        hint = "Wait for it to end, or read the replica: WindowStore.open needs no lock."
        with locked(folder / LOCK, message, hint):
            yield


@contextmanager
def writing_errors(folder: Path) -> Iterator[None]:
    """Raise what the system has against writing a replica as an error of ours."""
    try:
        yield
    except OSError as error:
        name = error.filename
        is_within = isinstance(name, str | Path) and Path(name).is_relative_to(folder)
        if error.errno not in _OF_WRITING and not is_within:
            raise
        message = f"The replica {str(folder)!r} can't be written: {error.strerror}."
        hint = "Mend that, and restore again: it goes on from where it is."
        raise OutputError(message, hint=hint) from error


def replica_place(path: str | os.PathLike[str]) -> Path:
    """Return the folder of a replica, which need not be there."""
    given: object = path  # from Python it may be anything
    text = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(text, str) or "\0" in text:
        message = f"{path!r} is no path of a replica."
        hint = "Give the path of its folder, as text, without a character 0."
        raise ConfigurationError(message, hint=hint)
    return local_folder(text)


def prepare(folder: Path, *, in_memory: Collection[int], kept_ms: dict[int, int] | None) -> None:
    """Make a replica's file, or bring it in line with what is asked.

    What is on disk of windows that are kept in memory from now on goes, as nobody would keep it up
    to date. Without ``kept_ms``, segments are kept for as long as was said before.
    """
    state = _known(folder)
    levels = {length: level for length, level in state.levels.items() if length not in in_memory}
    retention = state.retention_ms if kept_ms is None else kept_ms
    changed = replace(state, levels=levels, retention_ms=retention)
    if changed != state or not (folder / FILE).exists():
        changed.save(folder)
    for length in state.levels.keys() - levels.keys():
        shutil.rmtree(folder / str(length), ignore_errors=True)


def _known(folder: Path) -> ReplicaState:
    if (folder / FILE).exists():
        return ReplicaState.load(folder)
    ours = {LOCK, f".{FILE}", MIRROR}
    others = sorted(path.name for path in folder.iterdir() if path.name not in ours)
    if others:
        message = f"{str(folder)!r} is not empty, and no replica: it holds {others[0]!r}."
        raise OutputError(message, hint="Give an empty folder, or a new one.")
    return ReplicaState()


def retention_ms(retention: Mapping[Duration | Window, Duration]) -> dict[int, int]:
    """Return how long windows are kept, by their length; of windows and durations as people write.

    >>> retention_ms({"1 minute": "2 hours", "5 minutes every 1 minute": 0})
    {60000: 7200000, 300000: 0}
    """
    return {
        as_window(window).size_ms: parse_duration(kept, allow_zero=True)
        for window, kept in retention.items()
    }


_HINT = "It is of another changelog: restore into another folder."


def check_same_changelog(
    folder: Path, levels: Collection[LevelState], changelog: Changelog
) -> None:
    """Check that a changelog has what a replica holds of it."""
    check_not_behind(folder, levels, changelog)
    for level in levels:
        _check_clock(folder, level, changelog)
    lengths_ms = {level.window_ms for level in levels if level.segments}
    missing = ChangelogReader(changelog).lacks(lengths_ms) if lengths_ms else set()
    if missing and changelog.batches:
        windows = ", ".join(length_label(length) for length in sorted(missing))
        held = f"The replica {str(folder)!r} holds windows of {windows}"
        message = f"{held}, of which {str(changelog.path)!r} tells nothing."
        raise InputError(message, hint=_HINT)


def check_not_behind(folder: Path, levels: Collection[LevelState], changelog: Changelog) -> None:
    """Check that a replica is no further than its changelog, which would be another one."""
    known = [level.position for level in levels if level.position is not None]
    newest = ChangelogReader(changelog).newest()
    if not known or (newest is not None and newest >= max(known)):
        return
    epoch, number = max(known)
    if (changelog.path / f"epoch={epoch}" / f"batch={number}").exists():
        return  # Spark is writing its last batch once more
    held = f"The replica {str(folder)!r} holds everything up to batch {number} of epoch {epoch}"
    message = f"{held}, which {str(changelog.path)!r} does not have."
    raise InputError(message, hint=_HINT)


def _check_clock(folder: Path, level: LevelState, changelog: Changelog) -> None:
    if level.position is None or level.changed_ms is None:
        return
    if (BatchFolders(changelog.path).folder(*level.position) / FOLD).exists():
        return  # it has the latest clock of all that is folded, whose may have been ahead
    clock_ms = ChangelogReader.of_one(changelog, level.position).newest_change_ms()
    if clock_ms in {None, level.changed_ms}:  # None: in a later fold, or being written once more
        return
    epoch, number = level.position
    mine, other = (moment_of(each or 0).isoformat() for each in (level.changed_ms, clock_ms))
    held = f"The replica {str(folder)!r} holds batch {number} of epoch {epoch} as of {mine}"
    message = f"{held}; that of {str(changelog.path)!r} is of {other}."
    raise InputError(message, hint=_HINT)


_REPLICA = Profile(
    name="replica",
    purpose="For replicas that nobody gave a profile: point queries from many small segments.",
    block_cache_bytes=64 << 20,
    block_cache_shared=True,
    bloom_bits_per_key=10.0,
    compression="lz4",
    disable_wal=True,
)
"""What a replica is opened with unless told otherwise."""


def as_profile(profile: Profile | str | None) -> Profile:
    """Return a profile: the one of a name, if there is one, or the replica's own.

    >>> as_profile(None).name, as_profile("spark").name
    ('replica', 'spark')
    """
    if profile is None:
        return _REPLICA
    return profile_named(profile) if isinstance(profile, str) else profile


def segment_options(profile: Profile) -> Options:
    """Return options of which any number of segments may be opened with one block cache.

    Whatever the profile says of the WAL, there is none: a segment's writes count once flushed.
    """
    return rocksdict_options(profile, shared_memory(profile))
