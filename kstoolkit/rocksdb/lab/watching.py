"""One trial as its parent sees it: started, watched, stopped at its limits, and its end read."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import KstoolkitError
from kstoolkit.rocksdb.files.summary import footprint_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Limits", "TrialFailed", "Watched", "watch"]

_LOOK_S = 0.02
_END_S = 120.0
"""How long a trial that was stopped may take to read its content and end."""
_START_S = 60.0


class TrialFailed(KstoolkitError):  # noqa: N818 - like RunFailed
    """A trial that came to no end."""


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


def watch(
    request: dict[str, Any], limits: Limits, on_moment: Callable[[dict[str, Any]], None]
) -> Watched:
    """Run a trial in a process of its own; return what was seen of it.

    Parameters
    ----------
    request
        What ``kstoolkit.rocksdb.lab.trial`` takes: workload, profile, rows, path.
    limits
        Where it is stopped.
    on_moment
        Called with each moment as it comes.

    Raises
    ------
    TrialFailed
        If the process fails, dies, or doesn't end when it is told to.
    """
    child = _Child(request, limits)
    try:
        for moment in child.moments():
            on_moment(moment)
    finally:
        child.close()
    return child.seen


class _Child:
    """The process of a trial; whatever happens, it is gone afterwards."""

    def __init__(self, request: dict[str, Any], limits: Limits) -> None:
        self.name = request["profile"]["name"]
        self.folder = Path(request["path"])
        self.limits = limits
        self.seen = Watched()
        self._deadline = monotonic() + _START_S
        self._stopped_by: str | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "kstoolkit.rocksdb.lab.trial"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=_environment(),
            bufsize=0,
        )
        self._send(json.dumps(request))

    def moments(self) -> Iterator[dict[str, Any]]:
        """Yield the trial's moments as they come, with the disk that it then took."""
        for message in self._messages():
            match message:
                case {"opened": True}:
                    self._deadline = monotonic() + self.limits.seconds
                case {"moment": moment}:
                    moment["disk_bytes"] = self._look()
                    self.seen.moments.append(moment)
                    yield moment
                case {"end": figures}:
                    self.seen.end = figures
                    # Writes that had come to their end were not stopped, whoever was told to.
                    self.seen.stopped_by = self._stopped_by if figures.pop("stopped") else None
                case {"error": said, "hint": hint}:
                    failed = f"The trial of the profile {self.name!r} failed: {said}"
                    raise TrialFailed(failed, hint=hint)

    def close(self) -> None:
        """End the process, however it stands."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.kill()
        self._process.wait()
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
        stdout = self._process.stdout
        if stdout is None or not select.select([stdout], [], [], _LOOK_S)[0]:
            self._mind_limits()
            return b""
        return os.read(stdout.fileno(), 1 << 16) or None

    def _mind_limits(self) -> None:
        disk_bytes = self._look()
        late = monotonic() > self._deadline
        if self._stopped_by is not None and late:
            message = f"The trial of the profile {self.name!r} was told to stop, and did not."
            raise TrialFailed(message, hint=f"It had {_END_S:.0f} s; give it a smaller workload.")
        if self._stopped_by is None and (late or disk_bytes > self.limits.disk_bytes):
            self._stopped_by = "time" if late else "disk"
            self._deadline = monotonic() + _END_S
            self._send("stop")

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
        return lines[-1].rstrip(".") if lines else f"exit code {code}"


def _environment() -> dict[str, str]:
    """Return this process's environment, with this very package to import."""
    paths = [str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
