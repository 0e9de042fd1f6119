"""What a replica says of itself, in ``replica.json``: how far it is, and which segments it has.

It is written after the data that it speaks of is on disk, and replaced in one step. So whatever it
says is there, and what is there beyond that is told again by the changelog. It carries a checksum:
a digit that changed on the disk could otherwise pass over a part of the changelog.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kstoolkit.changelog.changelog import sync
from kstoolkit.changelog.news import Position
from kstoolkit.errors import FormatError, InputError
from kstoolkit.stores.segment import Mark

if TYPE_CHECKING:
    from pathlib import Path


FILE = "replica.json"
VERSION = 1
_NAME = "replica"
_HOUR_MS = 3_600_000


def segment_length_ms(window_ms: int) -> int:
    """Return how long a segment is: whole windows, an hour or more.

    Examples
    --------
    >>> segment_length_ms(60_000), segment_length_ms(7 * 60_000), segment_length_ms(86_400_000)
    (3600000, 3780000, 86400000)
    """
    return -(-_HOUR_MS // window_ms) * window_ms


@dataclass(frozen=True, slots=True)
class LevelState:
    """How far one level is.

    Parameters
    ----------
    window_ms
        The length of its windows.
    position
        Everything up to here is held; ``None``: nothing yet.
    toward, pieces, pieces_done
        A pass that is under way: up to where, in how many pieces (by the user's bucket), and how
        many of these are done. Without one, ``toward`` is ``None``.
    segments
        What is in each segment, by its start, epoch ms UTC.
    changed_ms
        The clock of the batch at ``position``; ``None`` if it is not known.
    expired_before_ms
        Segments that begin earlier have expired, and are not filled again.
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

    def segment_of(self, start_ms: int) -> int:
        """Return the start of the segment that holds a window."""
        return start_ms - start_ms % segment_length_ms(self.window_ms)

    def with_segments(self, written: dict[int, Mark]) -> LevelState:
        """Return the level with segments that were written to."""
        return replace(self, segments=dict(sorted((self.segments | written).items())))

    def without_segments(self, starts: set[int]) -> LevelState:
        """Return the level without some segments."""
        left = {start: at for start, at in self.segments.items() if start not in starts}
        return replace(self, segments=left)


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """What a replica's file says.

    Parameters
    ----------
    levels
        The levels on disk, by window length.
    retention_ms
        How long windows are kept after their end, by window length; others are kept for ever.
    """

    levels: dict[int, LevelState] = field(default_factory=dict)
    retention_ms: dict[int, int] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path) -> ReplicaState:
        """Read the file.

        Raises
        ------
        InputError
            If there is none: the folder is no replica.
        FormatError
            If it is damaged, or of a newer version.
        """
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
        if told["version"] > VERSION:
            raise FormatError.version(_NAME, told["version"], VERSION)
        if told.pop("checksum", None) != _checksum(told):
            raise _damaged(folder, "its checksum is not that of what it says")
        try:
            levels = [LevelState.of(level) for level in told["levels"]]
            retention_ms = {int(key): ms for key, ms in told["retention_ms"].items()}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _damaged(folder, repr(error)) from error
        return cls({level.window_ms: level for level in levels}, retention_ms)

    def save(self, folder: Path) -> None:
        """Write the file, in one step; it is on disk afterwards."""
        told = {
            "version": VERSION,
            "retention_ms": self.retention_ms,
            "levels": [asdict(level) for level in self.levels.values()],
        }
        hidden = folder / f".{FILE}"
        hidden.write_text(json.dumps(told | {"checksum": _checksum(told)}), encoding="utf-8")
        sync(hidden)
        hidden.replace(folder / FILE)
        sync(folder)

    def with_level(self, level: LevelState) -> ReplicaState:
        """Return the same with another state of one level."""
        levels = self.levels | {level.window_ms: level}
        return replace(self, levels=dict(sorted(levels.items())))


def _checksum(told: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(told).encode())


def _damaged(folder: Path, why: str) -> FormatError:
    message = f"{str(folder / FILE)!r} is damaged: {why}."
    return FormatError(message, hint="Restore the replica into another folder.")
