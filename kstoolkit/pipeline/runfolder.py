"""A run's folder: who may write to it, what it belongs to, and how far Spark's logs say it is.

::

    run.json       the settings: what can't change between runs, and a note of the rest
    checkpoint/    Spark's own; its offset log says which files or offsets each batch had taken
    changelog/ · findings/ · dead_letters/ · statistics/    by epoch and batch
    files.jsonl · given_up.jsonl · changed.jsonl · contents    files, and what became of them
    skip.json · restarts.jsonl · rules.jsonl · due.json · alerts.json · spark.log

While a run writes, it holds a kernel lock on ``.lock``, gone with the process, however it ended.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kstoolkit.changelog.changelog import replace_text
from kstoolkit.errors import CheckpointError, FormatError, InputError, OutputError, local_folder
from kstoolkit.formats.actions import parts_of
from kstoolkit.formats.spark.text import versioned_lines
from kstoolkit.records import Closing
from kstoolkit.windows import Cascade, as_window

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kstoolkit.units import Duration

_FORMAT, _WHAT = 1, "run folder"
_BEFORE = {".lock", ".run.json", ".staging", "spark.log", "simulated"}
"""What may lie in a folder before its first run is known."""
STATE_FILE = re.compile(r"(\d+)(?:_[\w-]+)?\.(changelog|delta|snapshot|zip)")
"""What a batch left of its state; the version is one more than its number."""

_OFFSETS = "offsets"

_FIXED = {
    "windows": "windows",
    "buckets": "buckets",
    "columns": "columns",
    "time": "kind of time",
    "feed": "kind of source",
    "changelog": "changelog",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """What a run is: the part that can't change between its runs, and a note of the rest.

    Parameters
    ----------
    windows
        Labels of the cascade's windows.
    buckets
        Among how many buckets users are spread.
    columns
        Which column is what.
    time
        ``"event"`` or ``"processing"``.
    feed
        ``"files"``, ``"lines"``, ``"frame"``, ``"staged"`` or ``"topic"``.
    partitions
        How many partitions Spark's state has.
    rules
        The rules of the latest run, as JSON.
    source
        Where the latest run's events came from, in words.
    epoch
        The number that batches are filed under.
    was_live
        Whether a live run may have left counters unflushed.
    input_schema
        The types of a file's columns, where expressions need them.
    min_count
        For each window, the smallest count that the latest run put into the changelog.
    topic_id
        Of a topic of events, what tells it from another one of its name.
    changelog
        The address of the changelog, where it is a topic.
    starting
        Of a topic of events: the offsets that the epoch begins with, if a reset said so.
    reading
        Of files: how the latest run read them, their ``limits`` and ``file_format``.
    """

    windows: tuple[str, ...]
    buckets: int
    columns: dict[str, Any]
    time: str
    feed: str
    partitions: int
    rules: str
    source: str
    epoch: int = 0
    was_live: bool = False
    input_schema: str | None = None
    min_count: tuple[int, ...] = ()
    topic_id: str | None = None
    changelog: str | None = None
    starting: dict[str, int] | None = None
    reading: dict[str, Any] | None = None
    written_by: str = field(default_factory=lambda: version("kstoolkit"))

    @property
    def parts(self) -> tuple[str, ...] | None:
        """What the parts of an action are called; ``None`` if it is one column."""
        return tuple(part.name for part in parts_of(self.columns["action"])) or None

    @property
    def named(self) -> tuple[str, ...]:
        """What the columns are called that say what was done: ``action``, or its parts."""
        return ("action",) if self.parts is None else self.parts

    @property
    def cascade(self) -> Cascade:
        """The windows as a cascade, with every option at its default."""
        return self.expiring(None)

    def expiring(self, expire: Mapping[str, Duration] | None) -> Cascade:
        """Return the windows as a cascade whose counts stay so long."""
        return Cascade(*map(as_window, self.windows), expire=expire)

    @property
    def starting_offsets(self) -> dict[int, int]:
        """The offset of each partition that the epoch begins with; empty if no reset said."""
        return {int(partition): at for partition, at in (self.starting or {}).items()}

    def continued(self, earlier: Settings) -> Settings:
        """Return these settings as those of a run that goes on where ``earlier`` ended.

        That something differs that the state depends on is a CheckpointError.
        """
        for name, told in _FIXED.items():
            mine, theirs = getattr(self, name), getattr(earlier, name)
            if mine != theirs:
                has = f"it has {_in_words(theirs)}, not {_in_words(mine)}"
                message = f"This output belongs to other {told}: {has}."
                hint = "Take another output folder, or the same settings. Rules, trigger, batch "
                hint += "size, min_count and flush may change; these may not."
                raise CheckpointError(message, hint=hint)
        kept = ("partitions", "epoch", "input_schema", "starting")
        return replace(self, **{name: getattr(earlier, name) for name in kept})


@dataclass(slots=True)
class RunLock(Closing):
    """The lock on a run's folder; the kernel lets go of it when the process ends."""

    descriptor: int | None

    def close(self) -> None:
        """Let go of the folder."""
        descriptor, self.descriptor = self.descriptor, None  # two may stop a run at once
        if descriptor is not None:
            os.close(descriptor)


def _place(name: str, what: str) -> Path:
    """Return a property: a place in a run's folder, by its name there."""

    def place(folder: RunFolder) -> Path:
        return folder.path / name

    return property(place, doc=what)  # type: ignore[return-value] # what it comes to


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A run's output folder."""

    path: Path

    checkpoint = _place("checkpoint", "Spark's checkpoint.")
    ledger = _place("files.jsonl", "The list of files taken in.")
    due = _place("due.json", "When a live run's next flush is due, from batch to batch.")
    staged = _place("staged", "Where a batch DataFrame waits, counted by pane.")
    staging = _place(".staging", "Where a batch DataFrame is being written, until it is whole.")
    log = _place("spark.log", "What Spark had to say.")
    restarts = _place("restarts.jsonl", "The list of times that a query was started again.")
    marks = _place("marks.toml", "What people say of users and incidents.")
    skipped = _place(
        "skip.json", "The list of records that are left out, as counting them ends who counts."
    )

    @classmethod
    def at(cls, given: str | os.PathLike[str]) -> RunFolder:
        """Return what is meant by ``--out``: one of another file system is an OutputError."""
        return cls(local_folder(given).absolute())

    @property
    def shown(self) -> str:
        """The folder as it would be given here: from the current one, if it lies in that."""
        here = Path.cwd()
        return str(self.path.relative_to(here) if self.path.is_relative_to(here) else self.path)

    @property
    def has_begun(self) -> bool:
        """Whether anything may have been counted: before that, no setting is bound to it."""
        if self.checkpoint.exists() or self.staged.exists():
            return True
        settings = self.settings()
        return settings is not None and settings.epoch > 0

    def settings(self) -> Settings | None:
        """Return the folder's settings; ``None`` if it holds no run. Damaged: an OutputError."""
        place = self.path / "run.json"
        try:
            read = json.loads(place.read_text(encoding="utf-8"))
            if not isinstance(read, dict):
                message = f"it holds {json.dumps(read)[:40]}, not an object with settings"
                raise TypeError(message)  # noqa: TRY301 - told as all that can be wrong with it
            found = read.pop("format")
            if found != _FORMAT:
                raise FormatError.version(_WHAT, found, _FORMAT)
            told = {name: tuple(read[name]) for name in ("windows", "min_count")}
            return Settings(**read | told)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (json.JSONDecodeError, KeyError, TypeError, UnicodeDecodeError) as error:
            message = f"{place} is damaged: {error}."
            hint = "To count, take another output folder; to read this one, restore the file."
            raise OutputError(message, hint=hint) from error

    def check(self) -> None:
        """Make sure that the run is still there: of a folder that is gone, all looks empty."""
        if not self.is_there():
            raise self.holds_no_run()

    def is_there(self) -> bool:
        """Whether it holds a run."""
        return (self.path / "run.json").is_file()

    def holds_no_run(self) -> InputError:
        """Return what to raise where there is no run, or none any more."""
        lacks = "it has no run.json" if self.path.is_dir() else "there is no such folder"
        message = f"No run in {str(self.path)!r}: {lacks}."
        hint = "Give the folder that --out named; if it was there before, it was removed."
        return InputError(message, hint=hint)

    def save(self, settings: Settings) -> None:
        """Write the settings, durably and at once; else, nothing changes: an OutputError."""
        try:
            told = json.dumps({"format": _FORMAT, **asdict(settings)}, indent=2)
            replace_text(self.path / "run.json", f"{told}\n")
        except OSError as error:
            message = f"{self.path / 'run.json'} can't be written: {error.strerror}."
            hint = "Make room there, or mend the permissions, and run again: nothing is lost."
            raise OutputError(message, hint=hint) from error

    def begin_epoch(self, settings: Settings) -> None:
        """Set the checkpoint aside, and save the settings of the next epoch, whole or not at all.

        The folder has to be held. If they can't be written, the earlier epoch goes on.
        """
        if self.checkpoint.exists():
            self.checkpoint.replace(self._aside(settings.epoch - 1))
        try:
            self.save(settings)
        finally:
            self.repair_epoch()

    def repair_epoch(self) -> None:
        """Take back what was begun of a new epoch by a process that died; the folder is held.

        The checkpoint of the epoch that the settings name is set aside only until they are saved.
        """
        if self.checkpoint.exists():
            return
        settings = self.settings()
        if settings is not None and (aside := self._aside(settings.epoch)).exists():
            aside.replace(self.checkpoint)

    def forget_uncommitted(self) -> None:
        """Remove the state of a batch that Spark did not commit; the folder is held.

        Repeated, the batch may count other files, or without some; its state replaces none there.
        """
        committed = newest_commit(self.checkpoint)
        kept = 0 if committed is None else committed + 1
        for path in list((self.checkpoint / "state").rglob("*.*")):
            version = STATE_FILE.fullmatch(path.name)
            if version is not None and int(version[1]) > kept:
                path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
                path.unlink()

    def _aside(self, epoch: int) -> Path:
        return self.path / f"checkpoint.epoch={epoch}"

    def hold(self) -> RunLock:
        """Hold the folder for one run, until the returned lock is closed.

        If another run holds it, it can't be written, or it holds other things: OutputError.
        """
        self._check_ours()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            message = f"The output folder {str(self.path)!r} can't be written: {error.strerror}."
            raise OutputError(message, hint="Give a folder of your own with --out.") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock)
            message = f"Another run is writing to {str(self.path)!r}."
            hint = "Wait for it, stop it, or take another --out."
            raise OutputError(message, hint=hint) from error
        return RunLock(lock)

    def is_held(self) -> bool:
        """Whether a run writes to it at present, of whatever process."""
        try:
            lock = os.open(self.path / ".lock", os.O_RDONLY)
        except OSError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(lock)  # at once: a run that begins just now must not find it held
        return False

    def _check_ours(self) -> None:
        if not self.path.is_dir():
            if self.path.exists():
                message = f"The output {str(self.path)!r} is a file, not a folder."
                raise OutputError(message, hint="Give a folder with --out.")
            return
        names = {path.name for path in self.path.iterdir()} - _BEFORE
        if names and not (self.path / "run.json").exists():
            others = f"{len(names)} other file{'s' if len(names) > 1 else ''}"
            message = f"{str(self.path)!r} holds {others}, and no run."
            raise OutputError(message, hint="Give a new or empty folder with --out.")


def _in_words(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {given!r}" for name, given in value.items())
    return ", ".join(map(str, value)) if isinstance(value, tuple) else repr(value)


def files_taken(checkpoint: Path, batch: int) -> int | None:
    """Return how many files were taken by the end of a batch; ``None`` if the log does not say."""
    told = [json.loads(line) for line in _lines(checkpoint, batch) if line.startswith('{"files"')]
    return int(told[0]["files"]) if told else None


def offsets_reached(checkpoint: Path, batch: int, topic: str) -> dict[int, int] | None:
    """Return the offset of each partition that a batch ended before; ``None`` if it is not told."""
    return _of_topic(_lines(checkpoint, batch), topic)


def initial_offsets(checkpoint: Path, topic: str) -> dict[int, int]:
    """Return the offset of each partition that the first batch begins with; empty if not known."""
    found: dict[int, int] | None = None
    for path in (checkpoint / "sources").glob("*/0"):
        if path.is_file():  # as Kafka's source writes it, after a line with its version
            found = found or _of_topic(path.read_text(encoding="utf-8").splitlines(), topic)
    return found or {}


def take_back(checkpoint: Path, batch: int) -> None:
    """Take back the plan of a batch that was not begun."""
    place = checkpoint / _OFFSETS / str(batch)
    # Hadoop keeps a checksum beside each file, and takes one without for what it is.
    place.with_name(f".{batch}.crc").unlink(missing_ok=True)
    place.unlink(missing_ok=True)


def rewrite_offsets(checkpoint: Path, batch: int, topic: str, ends: Mapping[int, int]) -> None:
    """Have a batch that was planned and not begun end elsewhere."""
    place = checkpoint / _OFFSETS / str(batch)
    lines = _lines(checkpoint, batch)
    place.with_name(f".{batch}.crc").unlink(missing_ok=True)
    told = {topic: {str(each): at for each, at in sorted(ends.items())}}
    written = json.dumps(told, separators=(",", ":"))
    changed = [written if line.startswith(_begins(topic)) else line for line in lines]
    replace_text(place, "\n".join(changed))


def _begins(topic: str) -> str:
    return "{" + json.dumps(topic)  # as Spark writes it, without spaces


def _of_topic(lines: list[str], topic: str) -> dict[int, int] | None:
    for line in lines:
        if line.startswith(_begins(topic)):
            return {int(each): at for each, at in json.loads(line)[topic].items()}
    return None


def _lines(checkpoint: Path, batch: int) -> list[str]:
    try:
        raw = (checkpoint / _OFFSETS / str(batch)).read_bytes()
    except FileNotFoundError:
        return []
    versioned_lines(raw, "log of offsets", range(1, 2))
    return raw.decode().split("\n")


def check_log(checkpoint: Path) -> None:
    """Raise a FormatError if Spark's offset log is of another version than is known here."""
    newest = newest_plan(checkpoint)
    if newest is not None:
        _lines(checkpoint, newest)


def newest_plan(checkpoint: Path) -> int | None:
    """Return the number of the newest batch that Spark has planned; ``None`` before the first."""
    return _newest(checkpoint / _OFFSETS)


def newest_commit(checkpoint: Path) -> int | None:
    """Return the number of the newest batch that Spark has committed; ``None`` before the first."""
    return _newest(checkpoint / "commits")


def _newest(folder: Path) -> int | None:
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return max((int(name) for name in names if name.isdigit()), default=None)


def size_bytes(folder: Path) -> int | None:
    """Return what the files of a folder take; files that vanish meanwhile are left out."""
    if not folder.is_dir():
        return None
    total = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            total += path.stat().st_size if path.is_file() else 0
    return total
