"""Whether a process has a store open, asked without touching the store.

RocksDB holds a POSIX lock on the file ``LOCK``. A process that asks about one and then closes the
file would drop its own locks on it, if it had some: so another process asks, and only asks.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path


_ASKING = """
import fcntl, os, struct, sys
form = "hhqqi4x"
for line in sys.stdin.buffer:
    try:
        file = os.open(bytes.fromhex(line.decode()), os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        answer = "free"
    except OSError:
        answer = "unknown"
    else:
        asked = struct.pack(form, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        try:
            kind = struct.unpack(form, fcntl.fcntl(file, fcntl.F_GETLK, asked))[0]
            answer = "free" if kind == fcntl.F_UNLCK else "locked"
        except OSError:
            answer = "unknown"
        os.close(file)
    print(answer, flush=True)
"""
"""What the other process runs; ``form`` is Linux's ``struct flock`` on 64 bits."""

_ANSWERS = {"free": False, "locked": True}


class Locks:
    """Asks which stores are open, in a process of its own, until it is closed by ``with``.

    Examples
    --------
    >>> from pathlib import Path
    >>> with Locks() as locks:
    ...     locks.is_locked(Path("there/is/no/store"))
    False
    """

    def __init__(self) -> None:
        self._asking: subprocess.Popen[str] | None = None

    def is_locked(self, folder: Path) -> bool | None:
        """Return whether a process has the store in a folder open; None where it can't be told."""
        if not sys.platform.startswith("linux"):
            return None
        try:
            return self._answer(folder / "LOCK")
        except (OSError, ValueError):
            return None

    def close(self) -> None:
        """End the other process."""
        if self._asking is not None:
            with suppress(OSError):
                self._asking.communicate()
            self._asking = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _answer(self, file: Path) -> bool | None:
        if self._asking is None:
            self._asking = subprocess.Popen(  # noqa: S603 - this Python, and the text above
                [sys.executable, "-I", "-S", "-c", _ASKING],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        asking = self._asking
        if asking.stdin is None or asking.stdout is None:
            return None
        asking.stdin.write(f"{bytes(file).hex()}\n")
        asking.stdin.flush()
        return _ANSWERS.get(asking.stdout.readline().strip())
