"""What the same workload costs under several profiles, one after the other.

Each trial runs in a process of its own (:mod:`kstoolkit.rocksdb.lab.trial`), which its parent
starts, watches, and stops where it meets a limit. Its store is removed afterwards, or stays in a
folder of its profile's name, with a note beside it that says what was written there.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from kstoolkit.errors import ConfigurationError, InputError, OutputError, local_folder
from kstoolkit.records import Records
from kstoolkit.rocksdb.files.shadow import new_scratch_folder
from kstoolkit.rocksdb.files.summary import footprint_of
from kstoolkit.rocksdb.lab.replaying import peak_sst_bytes
from kstoolkit.rocksdb.lab.results import (
    Comparison,
    LevelWork,
    Listener,
    TrialCancelled,
    TrialFailed,
    Watched,
    moment_of,
    trial_of,
    work_by_level,
)
from kstoolkit.rocksdb.lab.workloads import REPLAYED, Workload, chosen_profiles, keep_rows
from kstoolkit.rocksdb.log.storelog import read_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kstoolkit.rocksdb.lab.workloads import Row
    from kstoolkit.rocksdb.profiles.profile import Profile

_NOTE = ".trial.json"
"""The ending of the note beside a store: without it, what is there is nobody's to remove."""

_LONGEST = 200  # bytes of a folder's name, with room for the ending


def _places_to_keep(
    folder: str | os.PathLike[str] | None, profiles: Sequence[Profile]
) -> dict[str, Path]:
    """Return where the store of each profile is to stay; nothing if none is."""
    if folder is None:
        return {}
    home = local_folder(folder)
    places = {each.name: home / _as_folder(each.name) for each in profiles}
    for place in places.values():
        if place.is_symlink() or (place.exists() and not _note_of(place).is_file()):
            message = f"{str(place)!r} is there already, and is no store that a trial left."
            raise OutputError(message, hint="Name another folder with keep=, or another profile.")
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _no_room(home, error) from error
    return places


def _make_room(place: Path, workload: Workload, profile: Profile) -> None:
    """Remove what an earlier trial left at a place, and note beside it what comes there now."""
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


def _note_of(place: Path) -> Path:
    return place.with_name(place.name + _NOTE)


def _no_room(place: Path, error: OSError) -> OutputError:
    message = f"Stores can't be kept in {str(place)!r}: {error.strerror}."
    return OutputError(message, hint="Name another folder with keep=.")


_LOOK_S = 0.02
_START_S = 60.0
_STOP_S = 30.0  # how long a trial that was told to stop may take to end its writes
_END_S = 120.0  # how long it may then take to read its content and end


@dataclass(frozen=True, slots=True)
class _TrialLimits:
    """What a trial may take: seconds since its store was opened, and bytes of disk."""

    seconds: float
    disk_bytes: int


def _trial_request(
    workload: Workload, profile: Profile, path: Path, *, rows: Path | None = None
) -> dict[str, Any]:
    """Return what the process of a trial is asked for; ``rows`` is a file of those to replay."""
    told = {"name": profile.name, "options": profile.options(), "unknown": dict(profile.unknown)}
    return {
        "workload": workload.to_dict(),
        "course": workload.was and workload.was.course,
        "asked": workload.was.asked if workload.was else (),
        "profile": told,
        "rows": None if rows is None else str(rows),
        "path": str(path),
    }


def _watch(
    request: dict[str, Any],
    limits: _TrialLimits,
    on_moment: Callable[[dict[str, Any]], None],
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Watched:
    """Run a trial in a process of its own; return what was seen of it."""
    with closing(_Child(request, limits, is_cancelled)) as child:
        for moment in child.moments():
            on_moment(moment)
    return child.seen


class _Child:
    """The process of a trial; whatever happens, it is gone afterwards."""

    def __init__(
        self, request: dict[str, Any], limits: _TrialLimits, is_cancelled: Callable[[], bool]
    ) -> None:
        self.request, self.limits, self._is_cancelled = request, limits, is_cancelled
        self.name, self.folder = request["profile"]["name"], Path(request["path"])
        self.seen, self._highest_bytes = Watched(), 0
        self._deadline = monotonic() + _START_S
        self._stopped_by: str | None = None
        self._written = False
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        # This very package is what the process has to import.
        paths = [str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "kstoolkit.rocksdb.lab.trial"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
            bufsize=0,
        )

    def moments(self) -> Iterator[dict[str, Any]]:
        """Ask for the trial; yield its moments as they come, with the most disk until then."""
        self._send(json.dumps(self.request))
        for message in self._messages():
            match message:
                case {"opened": True}:
                    self._deadline = monotonic() + self.limits.seconds
                case {"written": True}:
                    self._written = True
                    self._deadline += _END_S if self._stopped_by else 0.0
                case {"moment": moment}:
                    self._look()
                    moment["disk_bytes"], self._highest_bytes = self._highest_bytes, 0
                    most = max(self.seen.peak_disk_bytes, moment["disk_bytes"])
                    self.seen.peak_disk_bytes = most
                    self.seen.moments.append(moment)
                    yield moment
                case {"end": figures}:
                    self.seen.end = figures
                    # One at rest in time has ended, whoever told it to.
                    self.seen.stopped_by = None if figures["settled"] else self._stopped_by
                    if self.seen.peak_disk_bytes > self.limits.disk_bytes:
                        self.seen.stopped_by = "disk"
                case {"error": said, "hint": hint}:
                    failed = f"The trial of the profile {self.name!r} failed: {said}"
                    raise TrialFailed(failed, hint=hint)

    def close(self) -> None:
        """End the process, however it stands."""
        with self._process:  # whose end closes its pipes, and is waited for
            self._process.kill()
        self._errors.close()

    def _messages(self) -> Iterator[dict[str, Any]]:
        pending = b""
        while (some := self._read()) is not None:
            *lines, pending = (pending + some).split(b"\n")
            yield from map(json.loads, lines)
        if not self.seen.end:
            message = f"The trial of the profile {self.name!r} died: {self._last_words()}."
            raise TrialFailed(message, hint="Give it less: a smaller workload, or less memory.")

    def _read(self) -> bytes | None:
        """Return what the trial told since, and look after its limits; None: it told all."""
        if self._is_cancelled():
            message = f"The trial of the profile {self.name!r} was cancelled."
            raise TrialCancelled(message)
        stdout = self._process.stdout
        if stdout is None or not _readable(stdout.fileno(), within_s=_LOOK_S):
            self._mind_limits()
            return b""
        return os.read(stdout.fileno(), 1 << 16) or None

    def _mind_limits(self) -> None:
        disk_bytes = self._look()
        late = monotonic() > self._deadline
        if self._stopped_by is not None and late:
            raise self._stuck()
        if self._stopped_by is None and (late or disk_bytes > self.limits.disk_bytes):
            self._stopped_by = "time" if late else "disk"
            self._deadline = monotonic() + (_END_S if self._written else _STOP_S)
            self._send("stop")

    def _stuck(self) -> TrialFailed:
        if self._written:
            message = f"The trial of the profile {self.name!r} was told to end, and did not."
            return TrialFailed(message, hint=f"It had {_END_S:.0f} s; give it a smaller workload.")
        writes = self.seen.moments[-1]["writes"] if self.seen.moments else 0
        message = f"The profile {self.name!r} lets no write through, after {writes:,} or some more."
        way = "raise level0_stop_writes_trigger, or its rate limit"
        return TrialFailed(message, hint=f"What stops them is never lifted: {way}.")

    def _look(self) -> int:
        """Return what the store takes on the disk."""
        try:
            now_bytes = footprint_of(self.folder).disk_bytes
        except (FileNotFoundError, NotADirectoryError):  # not made, yet or ever
            return 0
        self._highest_bytes = max(self._highest_bytes, now_bytes)  # since the last moment
        return now_bytes

    def _send(self, line: str) -> None:
        stdin = self._process.stdin
        if stdin is None:
            return
        with suppress(BrokenPipeError):  # it has ended; what it told last says how
            stdin.write(f"{line}\n".encode())

    def _last_words(self) -> str:
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        if code < 0:
            return f"{signal.strsignal(-code)} (signal {-code})"
        return lines[-1].rstrip(".") if lines else f"exit code {code}"


def _readable(descriptor: int, *, within_s: float) -> bool:
    """Return whether there is something to read; ``select`` would fail above 1,023 open files."""
    asked = select.poll()
    asked.register(descriptor, select.POLLIN)
    return bool(asked.poll(within_s * 1e3))


def compare_profiles(
    workload: str | Workload | Iterable[tuple[bytes, bytes | None]],
    profiles: Sequence[str | Profile],
    *,
    engine: str | None = None,
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
    engine
        Whose store they are tried for: ``"kafka_streams"`` or ``"spark"``. Of a profile that lies
        over RocksDB's own options, what it doesn't set is then as that engine leaves it.
    seconds, disk_bytes
        How long a profile may write and settle, and how much disk its store may take; rows to
        replay may take as much. One that takes more is stopped: its figures are of what it wrote
        until then, and ``stopped_by`` says why.
    folder
        On whose disk the stores are made. By default, where temporary files are.
    keep
        Where to leave them instead, each with its log in a folder of its profile's name, to be
        looked into; made if it isn't there. What an earlier comparison kept there is replaced.
    progress, listener
        Whether to show a bar on stderr, by default if a terminal; who hears of it, and may cancel.

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
        ``TrialCancelled`` if the listener cancelled it. Its ``found`` has the trials before it.

    Examples
    --------
    >>> workload = Workload("uniform", writes=2_000, keys=500)
    >>> found = compare_profiles(workload, ["kafka_streams", "spark"], progress=False)
    >>> [trial.live_rows for trial in found]
    [488, 488]
    >>> found.of("spark").content_sha256 == found.of("kafka_streams").content_sha256
    True
    """
    chosen, planned = chosen_profiles(profiles, engine), _workload(workload)
    kept = _places_to_keep(keep, chosen)
    if folder is not None and not Path(folder).is_dir():
        message = f"There is no folder {str(folder)!r} to make stores in."
        raise InputError(message, hint="Make it first, or leave it out.")
    for name, value in (("seconds", seconds), ("disk_bytes", disk_bytes)):
        if not value > 0:
            message = f"{name} is {value!r}."
            raise ConfigurationError(message, hint="Give more than 0.")
    limits, heard = _TrialLimits(seconds, disk_bytes), listener or Listener()
    found: dict[str, Watched] = {}
    levels: list[LevelWork] = []
    with _scratch(folder) as place, _bar(progress) as bar:
        planned, rows = _kept(planned, place, disk_bytes, heard)
        heard.begin(planned, [profile.name for profile in chosen])
        bar.reset(planned.writes * len(chosen))
        for number, profile in enumerate(chosen):
            bar.set_description_str(profile.name)
            path = kept.get(profile.name, place / "store")
            if kept:
                _make_room(path, planned, profile)
            show = partial(_show, bar, heard, profile.name, number * planned.writes)
            request = _trial_request(planned, profile, path, rows=rows)
            try:
                found[profile.name] = _watch(request, limits, show, heard.is_cancelled)
            except TrialFailed as failed:
                failed.found = _comparison(planned, found, levels)
                raise
            levels += work_by_level(profile.name, log := read_log(path))
            found[profile.name].peak_sst_bytes = peak_sst_bytes(log)
            if not kept:
                shutil.rmtree(path)
    return _comparison(planned, found, levels)


def _workload(given: str | Workload | Iterable[Row]) -> Workload:
    if isinstance(given, Workload):
        return given
    return Workload(given) if isinstance(given, str) else Workload(REPLAYED, rows=given)


@contextmanager
def _scratch(parent: str | os.PathLike[str] | None) -> Iterator[Path]:
    """Yield a folder that goes in any case: at the latest when the next comparison begins."""
    folder = new_scratch_folder(parent, prefix="kstoolkit-lab-")
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
    ends = workload.was.asked if workload.was else ()
    return replace(workload, writes=keep_rows(rows, path, disk_bytes=disk_bytes, ends=ends)), path


def _unless_cancelled(rows: Iterable[Row], listener: Listener) -> Iterator[Row]:
    """Yield the rows, and look now and then whether the listener wants no more of them."""
    for number, row in enumerate(rows):
        if number % 1_000 == 0 and listener.is_cancelled():
            message = "The comparison was cancelled before its first trial."
            raise TrialCancelled(message)
        yield row


def _comparison(workload: Workload, found: dict[str, Watched], work: list[LevelWork]) -> Comparison:
    trials = [trial_of(name, seen) for name, seen in found.items()]
    moments = [moment_of(name, told) for name, seen in found.items() for told in seen.moments]
    return Comparison(workload, trials, Records(moments, "moments"), Records(work, "levels"))


_TRIED_S = 0.5
_TRIED_ROWS, _KEY_BYTES, _VALUE_BYTES = 1_000, 24, 100


def written_per_second(folder: Path) -> int:
    """Return how many bytes of keys and values RocksDB takes a second, as a restore writes them."""
    from rocksdict import Rdict, WriteBatch  # noqa: PLC0415 - loads RocksDB

    [profile] = chosen_profiles(["kafka_streams"])
    with _scratch(folder) as place:
        store = Rdict(str(place / "store"), profile.to_rocksdict())
        options = profile.write_options()
        began, written = monotonic(), 0
        while (took := monotonic() - began) < _TRIED_S:
            batch = WriteBatch(raw_mode=True)
            for _ in range(_TRIED_ROWS):
                batch.put(os.urandom(_KEY_BYTES), os.urandom(_VALUE_BYTES))
            store.write(batch, options)
            written += _TRIED_ROWS * (_KEY_BYTES + _VALUE_BYTES)
        store.close()
    return int(written / took)
