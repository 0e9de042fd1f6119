"""Which files a run has taken in, in which order: a file counts once, by its path.

The ledger is a text file of one JSON object a line, only ever appended to. A position in it is how
many files have been taken, and is what Spark's offset log remembers. A file's ``admitted_ms`` is
the clock by which its times are judged, so that a replayed batch judges alike.
"""

from __future__ import annotations

import json
import os
import stat
import time
from dataclasses import asdict, dataclass
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING

from kstoolkit.errors import FormatError, InputError
from kstoolkit.events.opening import format_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass(frozen=True, slots=True)
class Admitted:
    """A file that a run has taken in."""

    path: str
    size_bytes: int
    admitted_ms: int


def list_files(
    pattern: str, file_format: str | None = None, *, without: str | None = None
) -> list[str]:
    """Return the files that a path, folder or glob names, sorted, as absolute paths.

    Folders are searched to the bottom. Names that begin with a dot or an underscore are passed
    over, as Spark does, unless the path or glob spells them out; and so are files in folders whose
    names say no known format, unless the format is given. Links to files count under their own
    names; links to folders are not followed. Output folders of runs are passed over, and so is
    what lies in the folder ``without``, this run's own, unless the pattern begins in there.

    Raises
    ------
    InputError
        If a single path does not exist.
    """
    if not pattern:
        message = "The input is an empty text."
        raise InputError(message, hint="Name a file, a folder or a glob; '.' is this folder.")
    if has_magic(pattern) and not Path(pattern).exists():
        names = glob(pattern, recursive=True)  # noqa: PTH207 - Path's takes no absolute pattern
        spelt_out = _hidden_parts(pattern)
        shown = (Path(name) for name in names if _hidden_parts(name) <= spelt_out)
        found = [each for path in shown for each in _walk(path)]
    elif Path(pattern).exists():
        found = list(_walk(Path(pattern)))
        if Path(pattern).is_file():
            format_of(pattern, file_format)
            return [os.path.abspath(pattern)]  # noqa: PTH100 - links keep their own names
    else:
        message = f"No such file or folder: {pattern!r}."
        raise InputError(message, hint="Check the path; a pattern needs quotes in the shell.")
    paths = {os.path.abspath(path) for path in found if _is_events(path, file_format)}  # noqa: PTH100
    if without is not None and not _is_in(os.path.abspath(pattern), without):  # noqa: PTH100
        paths = {path for path in paths if not _is_in(path, without)}
    return sorted(paths)


def _is_in(path: str, folder: str) -> bool:
    return Path(path).is_relative_to(folder)


def _hidden_parts(path: str) -> int:
    return sum(part.startswith((".", "_")) for part in Path(path).parts)


def _walk(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    for folder, names, files in os.walk(path):
        if Path(folder) != path and "run.json" in files and "checkpoint" in names:
            names.clear()  # an earlier run's output
            continue
        names[:] = [name for name in names if not name.startswith((".", "_"))]
        yield from (Path(folder) / name for name in files if not name.startswith((".", "_")))


def _is_events(path: Path, file_format: str | None) -> bool:
    try:
        format_of(path, file_format)
    except InputError:
        return False
    return True


class Ledger:
    """The files that a run has taken in.

    Parameters
    ----------
    path
        The ledger's own file; made when the first file is admitted.

    Examples
    --------
    >>> import tempfile
    >>> ledger = Ledger(Path(tempfile.mkdtemp()) / "files.jsonl")
    >>> ledger.admit([__file__, __file__]), ledger.admit([__file__]), len(ledger)
    (1, 0, 1)
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._is_torn = False
        self._entries = self._read()
        self._known = {entry.path for entry in self._entries}

    def __len__(self) -> int:
        return len(self._entries)

    def entries(self, start: int, end: int) -> list[Admitted]:
        """Return the files between two positions."""
        return self._entries[start:end]

    def admit(self, paths: Iterable[str]) -> int:
        """Take in the files that are not known yet, durably, and return how many these are.

        A file that is gone by now is passed over, and so is what is no file, such as a pipe.
        """
        now_ms = time.time_ns() // 1_000_000
        fresh = []
        for path in paths:
            if path in self._known:
                continue
            found = _stat(path)
            if found is None or not stat.S_ISREG(found.st_mode):
                continue
            fresh.append(Admitted(path, found.st_size, now_ms))
            self._known.add(path)
        if fresh:
            self._append(fresh)
        return len(fresh)

    def _read(self) -> list[Admitted]:
        if not self.path.exists():
            return []
        whole, _, torn = self.path.read_bytes().rpartition(b"\n")
        self._is_torn = bool(torn)
        try:
            return [Admitted(**json.loads(line)) for line in whole.split(b"\n") if line]
        except (ValueError, TypeError) as error:
            message = f"The ledger {self.path} is damaged: {error}."
            hint = "Restore it from a copy, or begin with a new output folder."
            raise FormatError(message, hint=hint) from error

    def _append(self, fresh: list[Admitted]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self._is_torn:
            self._forget_torn()
        lines = "".join(json.dumps(asdict(entry)) + "\n" for entry in fresh)
        with self.path.open("ab") as file:
            file.write(lines.encode())
            file.flush()
            os.fsync(file.fileno())
        self._entries.extend(fresh)

    def _forget_torn(self) -> None:
        """Cut off the line that a crash cut short: it was never answered for.

        Who only reads leaves it: it may be one that another process is writing just now.
        """
        whole, _, torn = self.path.read_bytes().rpartition(b"\n")
        if torn:
            with self.path.open("r+b") as file:
                file.truncate(len(whole) + 1 if whole else 0)
        self._is_torn = False


def _stat(path: str) -> os.stat_result | None:
    try:
        return Path(path).stat()
    except FileNotFoundError:
        return None
