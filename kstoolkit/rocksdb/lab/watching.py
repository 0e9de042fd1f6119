"""One trial as its parent sees it: started, watched, stopped at its limits, and its end read."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from kstoolkit.rocksdb.files.summary import footprint_of
from kstoolkit.rocksdb.lab.faults import TrialCancelled, TrialFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kstoolkit.rocksdb.lab.workloads import Workload
    from kstoolkit.rocksdb.profiles.profile import Profile


_LOOK_S = 0.02
_START_S = 60.0
_STOP_S = 30.0
"""How long a trial that was told to stop may take to end its writes."""
_END_S = 120.0
"""How long it may then take to read its content and end."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a trial may take: seconds since its store was opened, and bytes of disk."""

    seconds: float
    disk_bytes: int


@dataclass(slots=True)
class Watched:
    """What was seen of a trial."""

    moments: list[dict[str, Any]] = field(default_factory=list)
    end: dict[str, Any] = field(default_factory=dict)
    peak_disk_bytes: int = 0
    stopped_by: str | None = None


def trial_request(
    workload: Workload, profile: Profile, path: Path, *, rows: Path | None = None
) -> dict[str, Any]:
    """Return what the process of a trial is asked for.

    Parameters
    ----------
    workload, profile
        What to write, and under which options.
    path
        Where to put the store; it stays there.
    rows
        The file of the rows to replay, if the workload does that.
    """
    told = {"name": profile.name, "options": profile.options(), "unknown": dict(profile.unknown)}
    return {
        "workload": workload.to_dict(),
        "profile": told,
        "rows": None if rows is None else str(rows),
        "path": str(path),
    }


def watch(
    request: dict[str, Any],
    limits: Limits,
    on_moment: Callable[[dict[str, Any]], None],
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Watched:
    """Run a trial in a process of its own; return what was seen of it.

    Parameters
    ----------
    request
        As :func:`trial_request` makes it.
    limits
        Where it is stopped.
    on_moment
        Called with each moment as it comes.
    is_cancelled
        Asked again and again whether to end the process.

    Raises
    ------
    TrialFailed
        If the process fails, dies, or doesn't end when it is told to; a ``TrialCancelled`` if
        ``is_cancelled`` said so.
    """
    child = _Child(request, limits, is_cancelled)
    try:
        for moment in child.moments():
            on_moment(moment)
    finally:
        child.close()
    return child.seen


class _Child:
    """The process of a trial; whatever happens, it is gone afterwards."""

    def __init__(
        self, request: dict[str, Any], limits: Limits, is_cancelled: Callable[[], bool]
    ) -> None:
        self.request = request
        self.name = request["profile"]["name"]
        self.folder = Path(request["path"])
        self.limits = limits
        self._is_cancelled = is_cancelled
        self.seen = Watched()
        self._deadline = monotonic() + _START_S
        self._stopped_by: str | None = None
        self._written = False
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "kstoolkit.rocksdb.lab.trial"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=_environment(),
            bufsize=0,
        )

    def moments(self) -> Iterator[dict[str, Any]]:
        """Ask for the trial; yield its moments as they come, with the disk that it then took."""
        self._send(json.dumps(self.request))
        for message in self._messages():
            match message:
                case {"opened": True}:
                    self._deadline = monotonic() + self.limits.seconds
                case {"written": True}:
                    self._written = True
                    self._deadline += _END_S if self._stopped_by else 0.0
                case {"moment": moment}:
                    moment["disk_bytes"] = self._look()
                    self.seen.moments.append(moment)
                    yield moment
                case {"end": figures}:
                    self.seen.end = figures
                    self._look()
                    self.seen.stopped_by = self._limit_met(at_rest=figures["settled"])
                case {"error": said, "hint": hint}:
                    failed = f"The trial of the profile {self.name!r} failed: {said}"
                    raise TrialFailed(failed, hint=hint)

    def close(self) -> None:
        """End the process, however it stands."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
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
        """Return what the trial told since, and look after its limits; None: it told all.

        Raises
        ------
        TrialCancelled
            If that is wished for.
        """
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

    def _limit_met(self, *, at_rest: bool) -> str | None:
        """Return which limit a trial met; one at rest in time has ended, whoever told it to."""
        if self.seen.peak_disk_bytes > self.limits.disk_bytes:
            return "disk"
        return None if at_rest else self._stopped_by

    def _stuck(self) -> TrialFailed:
        if self._written:
            message = f"The trial of the profile {self.name!r} was told to end, and did not."
            return TrialFailed(message, hint=f"It had {_END_S:.0f} s; give it a smaller workload.")
        writes = self.seen.moments[-1]["writes"] if self.seen.moments else 0
        message = f"The profile {self.name!r} lets no write through, after {writes:,} or some more."
        hint = (
            "What stops them is never lifted: raise level0_stop_writes_trigger, or its rate limit."
        )
        return TrialFailed(message, hint=hint)

    def _look(self) -> int:
        """Return what the store takes on the disk."""
        try:
            now_bytes = footprint_of(self.folder).disk_bytes
        except (FileNotFoundError, NotADirectoryError):  # not made, yet or ever
            return 0
        self.seen.peak_disk_bytes = max(self.seen.peak_disk_bytes, now_bytes)
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


def _environment() -> dict[str, str]:
    """Return this process's environment, with this very package to import."""
    paths = [str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
