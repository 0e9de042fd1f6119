"""Which files a run takes in, and what a task reads of each: events, or rows for expressions.

A file counts once. The ledger of those taken in is a text file of one JSON object a line, only ever
appended to. A position in it is how many files have been taken, and is what Spark's offset log
remembers. A file's ``admitted_ms`` is the clock by which its times are judged, so that a replayed
batch judges alike. Files that are given up stand, by their position, in a list beside it, before
any task is told of it. A look at the first records says of a wrong column before Spark is started.

A path whose size and modification time are those of the file that was taken in is not opened again.
Else what was read there is held against what lies there now, and one that is new against what has
gone from its own path (:mod:`kstoolkit.events.contents`). Of a file without a modification time in
the ledger, taken in before that was kept, the path alone counts.

For those who name columns by SQL expressions, files go out as rows with their raw text: JSON line
by line, unparsed, as Spark parses it by the schema that the run fixed; CSV and Parquet as columns.
A file is read to its end before its first row goes out: of a damaged one nothing is counted.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from fnmatch import fnmatchcase
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.csv as pv

from kstoolkit.errors import ColumnError, FormatError, InputError, UnreadableFile
from kstoolkit.events.contents import Change, ContentsFile, Fate, checksum, in_words
from kstoolkit.events.csv import (
    csv_header,
    parquet_names,
    parquet_parts,
    parquet_schema,
    read_csv,
    read_parquet,
    read_parquet_rows,
)
from kstoolkit.events.event import Limits, is_plain, judge, letters, require, storable
from kstoolkit.events.json import chunks_of, read_json_lines, read_json_texts
from kstoolkit.events.opening import (
    Part,
    WholeLineEnds,
    format_of,
    open_stream,
    patiently,
    patiently_each,
    text_parts,
    told_format,
)
from kstoolkit.events.times import lack_zone
from kstoolkit.records import counted
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

    from kstoolkit.events.event import Columns, Judged


@dataclass(frozen=True, slots=True)
class Admitted:
    """A file that a run has taken in."""

    path: str
    size_bytes: int
    admitted_ms: int
    mtime_ns: int | None = None


_ENTRY = tuple(each.name for each in fields(Admitted))
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Listing:
    """What an input has, as of now: files of events, sorted; how many others, by their endings."""

    paths: list[str]
    unread: Mapping[str, int]

    def unread_in_words(self) -> str | None:
        """Return what is left unread, and how it could be read; ``None`` if nothing is.

        >>> print(Listing([], {".log": 2}).unread_in_words())
        Left unread are 2 files whose names say no format: .log (2). If they hold events, give
        --format json, csv or parquet (format= in Python).
        """
        if not self.unread:
            return None
        number = sum(self.unread.values())
        most = sorted(self.unread.items(), key=lambda each: (-each[1], each[0]))
        named = ", ".join(f"{ending} ({format_count(each)})" for ending, each in most[:_SHOWN])
        more = f" and {counted(len(most) - _SHOWN, 'others')}" if len(most) > _SHOWN else ""
        return (
            f"Left unread {'is' if number == 1 else 'are'} {counted(number, 'files')} whose "
            f"{'name says' if number == 1 else 'names say'} no format: {named}{more}. If they hold "
            f"events, give --format json, csv or parquet (format= in Python)."
        )


def listing(pattern: str, file_format: str | None = None, *, without: str | None = None) -> Listing:
    """Return the files that a path, folder or glob names, as absolute paths.

    Folders are searched to the bottom. Names that begin with a dot or an underscore are passed
    over, as Spark does, unless the path or glob spells them out; and so are files in folders whose
    names say no known format, unless the format is given. Links to files count under their own
    names; links to folders are not followed. Output folders of runs are passed over, and so is
    what lies in the folder ``without``, this run's own, unless the pattern begins in there.

    A missing single path is an InputError; a folder that nobody may list, an UnreadableFile.
    """
    if not pattern:
        message = "The input is an empty text."
        raise InputError(message, hint="Name a file, a folder or a glob; '.' is this folder.")
    found = patiently(pattern, lambda: _found(pattern, file_format), how="listed")
    if without is not None and not Path(os.path.abspath(pattern)).is_relative_to(without):  # noqa: PTH100
        inside = os.path.join(without, "")  # noqa: PTH118 - with a slash at its end
        found = {path for path in found if not path.startswith(inside)}
    if file_format is not None:
        return Listing(sorted(found), {})
    known = {path for path in found if told_format(path) is not None}
    unread = Counter(os.path.splitext(path)[1] or "no ending" for path in found - known)  # noqa: PTH122
    return Listing(sorted(known), unread)


def _found(pattern: str, file_format: str | None) -> set[str]:
    """Return the files that a pattern names, whatever their names end with."""
    whole = os.path.abspath(pattern)  # noqa: PTH100 - links keep their own names
    if has_magic(pattern) and not Path(pattern).exists():
        spelt_out = _hidden_parts(pattern)
        names = glob(pattern, recursive=True)  # noqa: PTH207 - Path's takes no absolute pattern
        shown = (os.path.abspath(name) for name in names if _hidden_parts(name) <= spelt_out)  # noqa: PTH100
        return {each for path in shown for each in _walk(path)}
    if not Path(pattern).exists():
        message = f"No such file or folder: {pattern!r}."
        raise InputError(message, hint="Check the path; a pattern needs quotes in the shell.")
    if Path(pattern).is_file():
        format_of(pattern, file_format)
    return set(_walk(whole))


def _hidden_parts(path: str) -> int:
    return sum(part.startswith((".", "_")) for part in Path(path).parts)


def _walk(path: str) -> Iterator[str]:
    if os.path.isfile(path):  # noqa: PTH113 - of a million, each object counts
        yield path
        return
    for folder, names, files in os.walk(path, onerror=_raise_fault):
        if folder != path and "run.json" in files and "checkpoint" in names:
            names.clear()  # an earlier run's output
            continue
        names[:] = [name for name in names if not name.startswith((".", "_"))]
        inside = os.path.join(folder, "")  # noqa: PTH118
        yield from (inside + name for name in files if not name.startswith((".", "_")))


def _raise_fault(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):  # a folder that is gone meanwhile
        raise error


_TELLING_BYTES = 1 << 10  # so much of records with times has no other file, as a header has


class Ledger:
    """The files that a run has taken in; its own file is made when the first one is admitted.

    >>> import tempfile
    >>> ledger = Ledger(Path(tempfile.mkdtemp()) / "files.jsonl")
    >>> ledger.admit([__file__, __file__]), ledger.admit([__file__]), len(ledger)
    (1, 0, 1)
    >>> ledger.give_up({0: "missing_file"})
    >>> ledger.given_up()
    {0: 'missing_file'}
    """

    def __init__(self, path: str | Path) -> None:
        self._lines = JsonLines(Path(path), "ledger")
        self._given_up = JsonLines(Path(path).with_name("given_up.jsonl"), "list of files given up")
        self._changed = _changed(Path(path))
        self.contents = ContentsFile(Path(path).with_name("contents"))
        self._entries = self._lines.read(lambda line: Admitted(**line))
        self._known = {entry.path: place for place, entry in enumerate(self._entries)}
        self._grown: set[int] = set()
        for change in self._changed.read(lambda line: Change(**line)):
            self._follow(change)

    def __len__(self) -> int:
        return len(self._entries)

    def entries(self, start: int, end: int) -> list[Admitted]:
        """Return the files between two positions."""
        return self._entries[start:end]

    def has_all(self, paths: Iterable[str]) -> bool:
        """Whether all of them were taken in, and lie where they lay, as they were."""
        with suppress(KeyError, OSError):  # one is new, or is gone just now
            pairs = ((os.stat(path), self._entries[self._known[path]]) for path in paths)  # noqa: PTH116
            return all(
                now.st_mtime_ns == then.mtime_ns and now.st_size == then.size_bytes
                for now, then in pairs
            )
        return False

    def admit(
        self,
        paths: Iterable[str],
        *,
        again: bool = False,
        set_aside: str | None = None,
        done: int | None = None,
    ) -> int:
        """Take in the files that are not known yet, durably, and return how many these are.

        A file that is gone by now is passed over, and so is what is no file, such as a pipe. Those
        that are known are taken in once more if that is asked for: who asks knows that no event of
        them was counted. Of what ``set_aside`` names, nothing is asked. What has become of the
        first ``done`` files, all by default, is final; others will be read again. If the system
        does not tell what a path is, it is an UnreadableFile.
        """
        now_ms = time.time_ns() // 1_000_000
        done = len(self) if done is None else done
        changes: list[Change] = []
        asked: dict[str, Admitted] = {}
        fresh: list[Admitted] = []
        for path in paths if again else self._unsettled(paths, done, changes):
            if set_aside is not None and names_file(set_aside, path):
                fresh += [] if path in self._known else [Admitted(path, 0, now_ms)]
            elif (found := _stat(path)) is not None and stat.S_ISREG(found.st_mode):
                asked[path] = _admitted(path, found, now_ms)
        for path, place in {} if again else (self._rotated(asked) | self._moved(asked)).items():
            changes.append(self._change(Fate.MOVED, place, path))
            self._follow(changes[-1])
            del asked[path]
        for path, entry in asked.items():
            before = -1 if again else self._known.get(path, -1)
            if before < done:
                fresh.append(entry)
            if 0 <= before < done:
                changes.append(self._change(Fate.REPLACED, before, path))
        if fresh:
            self._append(fresh)
        if changes:
            self._changed.append(asdict(each) for each in changes)
        return len(fresh)

    def _unsettled(self, paths: Iterable[str], done: int, changes: list[Change]) -> Iterable[str]:
        """Return which paths are new, or hold something else than what was read there."""
        known, entries = self._known, self._entries
        unsettled: dict[str, None] = {}
        given_up: dict[int, str] | None = None
        for path in paths:
            place = known.get(path)
            if place is None:
                unsettled[path] = None
                continue
            entry = entries[place]
            if entry.mtime_ns is None:
                continue
            try:
                found = os.stat(path)  # noqa: PTH116 - of a million, each object counts
                if found.st_mtime_ns == entry.mtime_ns and found.st_size == entry.size_bytes:
                    continue
                fate = self._fate(place, path, found)
            except OSError:  # it was taken in: nothing of it is to be read
                continue
            if fate is None:
                given_up = self.given_up() if given_up is None else given_up
                fate = Fate.REPLACED if place in given_up else None
            if fate is Fate.REPLACED:
                unsettled[path] = None
            elif fate is Fate.GROWN and place < done and place not in self._grown:
                changes.append(self._change(fate, place, path))
                self._follow(changes[-1])
        return unsettled

    def _fate(self, place: int, path: str, found: os.stat_result) -> Fate | None:
        """Return what became of a file at its path; ``None`` if what was read is not known."""
        held = self.contents.read(place)
        if held is None:
            return None
        fate = held.fate(path, found)
        if fate is not Fate.REPLACED:  # till it changes again
            self._entries[place] = _admitted(path, found, self._entries[place].admitted_ms)
        if fate is Fate.SAME and held.mtime_ns != found.st_mtime_ns:
            self.contents.write(place, replace(held, mtime_ns=found.st_mtime_ns))
        return fate

    def _moved(self, asked: Mapping[str, Admitted]) -> dict[str, int]:
        """Return which of the paths hold what lay elsewhere, and the positions of that."""
        kinds = {path: (each.size_bytes, each.mtime_ns or 0) for path, each in asked.items()}
        gone: dict[tuple[int, int, int], list[int]] = {}
        for place, held in self.contents.of_times({mtime_ns for _, mtime_ns in kinds.values()}):
            if self._is_gone(place, asked):
                gone.setdefault((held.size_bytes, held.mtime_ns, held.whole), []).append(place)
        wanted = {known[:2] for known in gone}
        moved = {}
        for path, kind in kinds.items():
            with suppress(OSError):  # told as it is counted
                if kind in wanted and (places := gone.get((*kind, checksum(path, kind[0])))):
                    moved[path] = places.pop(0)
        return moved

    def _rotated(self, asked: Mapping[str, Admitted]) -> dict[str, int]:
        """Return which of the paths hold what has grown elsewhere; of some bytes none is sure."""
        rotated: dict[str, int] = {}
        for place in [each for each in self._grown if self._is_gone(each, asked)]:
            held = self.contents.read(place)
            if held is None or held.size_bytes < _TELLING_BYTES:
                continue
            for path in asked:
                with suppress(OSError):  # told as it is counted
                    if held.fate(path, os.stat(path)) is Fate.GROWN:  # noqa: PTH116
                        rotated[path] = place
                        break
        return rotated

    def _is_gone(self, place: int, asked: Mapping[str, Admitted]) -> bool:
        """Return whether a file lies no longer where it lay."""
        path = self._entries[place].path
        return self._known.get(path) != place or path in asked or not os.path.lexists(path)

    def _change(self, fate: Fate, place: int, path: str) -> Change:
        return Change(fate, place, path, self._entries[place].path, len(self._entries))

    def _follow(self, change: Change) -> None:
        """Take in what became of a file: where it lies now is where it is looked for."""
        place = change.position
        if change.fate == Fate.GROWN:
            self._grown.add(place)
        if change.fate != Fate.MOVED:
            return
        if self._known.get(change.was) == place:
            del self._known[change.was]
        if self._known.get(change.path, -1) < change.taken:  # not replaced there since
            self._known[change.path] = place
        self._entries[place] = replace(self._entries[place], path=change.path)

    def replaced(self, start: int, end: int, without: Mapping[int, str]) -> list[str]:
        """Return which files between two positions are others than when they were read before."""
        found = []
        for place, held in self.contents.between(start, end):
            path = self._entries[place].path
            if held.is_damaged or place in without:
                continue
            with suppress(OSError):  # told as whoever reads it meets it
                if held.fate(path, os.stat(path)) is Fate.REPLACED:  # noqa: PTH116
                    found.append(path)
        return found

    def given_up(self) -> dict[int, str]:
        """Return why files are given up, by their positions."""
        return dict(self._given_up.read(lambda line: (line["position"], line["reason"])))

    def give_up(self, reasons: Mapping[int, str]) -> None:
        """Give files up, durably: what is to be read from now on leaves them out."""
        told = [
            {"position": place, "path": self._entries[place].path, "reason": reason}
            for place, reason in sorted(reasons.items())
        ]
        self._given_up.append(told)
        for place in reasons:
            self.contents.write(place, None)

    def _append(self, fresh: list[Admitted]) -> None:
        self._lines.append({name: getattr(each, name) for name in _ENTRY} for each in fresh)
        for each in fresh:
            self._known[each.path] = len(self._entries)
            self._entries.append(each)


_Line = TypeVar("_Line")


class JsonLines:
    """A text file of one JSON object a line, only ever appended to."""

    def __init__(self, path: Path, what: str) -> None:
        self.path, self.what = path, what
        self._is_torn = True  # or may be: nobody has looked

    def read(self, made: Callable[[dict[str, Any]], _Line]) -> list[_Line]:
        """Return what is made of each line; of none where there is no file."""
        if not self.path.exists():
            return []
        whole, _, torn = self.path.read_bytes().rpartition(b"\n")
        self._is_torn = bool(torn)
        try:
            lines = b",".join(line for line in whole.split(b"\n") if line)
            return [made(line) for line in json.loads(b"[%s]" % lines)]  # a million at once
        except (ValueError, TypeError, KeyError) as error:
            message = f"The {self.what} {self.path} is damaged: {error}."
            hint = "Restore it from a copy, or begin with a new output folder."
            raise FormatError(message, hint=hint) from error

    def append(self, told: Iterable[Mapping[str, object]]) -> None:
        """Put objects behind the others, for good."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self._is_torn:
            self._forget_torn()
        lines = "".join(json.dumps(each) + "\n" for each in told)
        with self.path.open("ab") as file:
            file.write(lines.encode())
            file.flush()
            os.fsync(file.fileno())

    def _forget_torn(self) -> None:
        """Cut off the line that a crash cut short: it was never answered for.

        Who only reads leaves it: it may be one that another process is writing just now.
        """
        if self.path.exists():
            whole, _, torn = self.path.read_bytes().rpartition(b"\n")
            if torn:
                os.truncate(self.path, len(whole) + 1 if whole else 0)
        self._is_torn = False


def _changed(ledger: Path) -> JsonLines:
    return JsonLines(ledger.with_name("changed.jsonl"), "list of changed files")


class Changes:
    """What became of files that a run took in, look after look, as the run finds it."""

    def __init__(self, ledger: Path) -> None:
        self._lines = _changed(ledger)
        self._seen_bytes = self._known = 0

    def look(self) -> list[Change]:
        """Return what has come since the last look."""
        found = _stat(str(self._lines.path))
        if found is None or found.st_size == self._seen_bytes:
            return []
        fresh = self._lines.read(lambda line: Change(**line))[self._known :]
        self._seen_bytes, self._known = found.st_size, self._known + len(fresh)
        return fresh

    def in_words(self) -> Iterator[str]:
        """Yield the same in sentences."""
        return in_words(self.look())


def _stat(path: str) -> os.stat_result | None:
    """Return what the system says of a path; ``None`` if there is nothing any more."""

    def ask() -> os.stat_result | None:
        try:
            return os.stat(path)  # noqa: PTH116 - of a million, each object counts
        except (FileNotFoundError, NotADirectoryError):
            return None

    return patiently(path, ask)


def _admitted(path: str, found: os.stat_result, now_ms: int) -> Admitted:
    return Admitted(path, found.st_size, now_ms, found.st_mtime_ns)


def gone_from(
    pattern: str, file_format: str | None, paths: Iterable[str], *, without: str | None = None
) -> list[str]:
    """Return which files of an input are gone, if others are still there.

    A share that is away looks like a folder without any file: that says nothing of one.
    """
    gone = [path for path in paths if _stat(path) is None]
    with suppress(InputError):
        if gone and listing(pattern, file_format, without=without).paths:
            return gone
    return []


def names_file(pattern: str, path: str) -> bool:
    """Return whether a path, folder or glob names a file, which need not be there.

    A ``*`` stands for slashes, too.

    >>> names_file("/in/*.json", "/in/a/b.json"), names_file("/in", "/in/a[1].csv")
    (True, True)
    """
    given = os.path.abspath(pattern)  # noqa: PTH100 - links keep their own names
    return Path(path).is_relative_to(given) or fnmatchcase(path, given)


_READERS = {"json": read_json_lines, "csv": read_csv, "parquet": read_parquet}
_LEAST_BYTES = 4 << 20  # a part that has less is not worth a task


def parts_of(path: str, file_format: str | None, size_bytes: int, number: int) -> list[Part]:
    """Return up to so many parts of a file, of about one size; less than two if it stays whole."""
    number, kind = min(number, size_bytes // _LEAST_BYTES), format_of(path, file_format)
    if number <= 1 or kind == "parquet":
        return parquet_parts(path, number) if number > 1 else []
    return text_parts(path, size_bytes, number, quotes=kind == "csv")


def read_events(
    path: str,
    columns: Columns,
    part: Part | None = None,
    *,
    now_ms: int,
    limits: Limits,
    file_format: str | None = None,
) -> Iterator[tuple[Judged, list[pa.RecordBatch]]]:
    """Yield the events of a file, or a part, piece by piece, and the dead letters beside them.

    One that is damaged or gone is an OSError: none of what was yielded may count then.
    """
    for piece in _READERS[format_of(path, file_format)](path, columns, part):
        event, items = (piece.times, piece.users, piece.actions), len(columns.items)
        judged = judge(*event, now_ms=now_ms, limits=limits, items=items)
        dead = []
        if piece.unparseable:
            raws, details = zip(*piece.unparseable, strict=True)
            dead.append(letters(["unparseable"] * len(raws), raws, file=path, details=details))
        if judged.bad.size:
            dead.append(letters(judged.reasons, piece.raw(judged.bad), file=path))
        yield judged, dead


def letter_of_file(path: str, reason: str, detail: str | None = None) -> pa.RecordBatch:
    """Return the one dead letter of a file of which nothing is counted."""
    return letters([reason], [""], file=path, details=detail)


_FIRST_BYTES = 1 << 20
_FIRST_FILES = 3
_FIRST_RECORDS = 1_000


def check_columns(paths: Sequence[str], columns: Columns, file_format: str | None) -> None:
    """Check that the first files have the columns; files that can't be read are judged later.

    A column that none of the first records has, or a header has twice, is a ColumnError.
    """
    if not is_plain(columns):
        return
    for path in filter(os.path.isfile, paths[:_FIRST_FILES]):  # whoever opens a pipe waits
        if names := _column_names(path, file_format):
            require(columns, names, path)


def lacks_zone(paths: Sequence[str], columns: Columns, file_format: str | None) -> bool:
    """Whether the first file has times that are told without a zone, as far as can be read."""
    if not paths or not is_plain(columns) or not os.path.isfile(paths[0]):  # noqa: PTH113
        return False
    path, of_format = paths[0], format_of(paths[0], file_format)
    try:
        if of_format == "parquet":  # in pieces as small as that
            rows = next(read_parquet_rows(path, _FIRST_RECORDS), None)
            times = None if rows is None else rows.column(columns.event_time)
        else:
            piece = next(_READERS[of_format](path, columns), None)
            times = None if piece is None else piece.times[:_FIRST_RECORDS]
    except (OSError, MemoryError, ColumnError, KeyError):
        return False
    return times is not None and lack_zone(times)


def _column_names(path: str, file_format: str | None = None) -> list[str]:
    """Return the names that a file's first records have; none if it is empty or damaged."""
    try:
        return _NAMES[format_of(path, file_format)](path)
    except OSError:
        return []


def _json_names(path: str) -> list[str]:
    names: dict[str, None] = {}
    for line in first_lines(path):
        with suppress(ValueError, RecursionError):
            if isinstance(record := json.loads(line), dict):
                names |= dict.fromkeys(record)
    return list(names)


_NAMES = {"json": _json_names, "csv": csv_header, "parquet": parquet_names}

RAW, FILE, NOW, BROKEN = "_raw", "_file", "_admitted_ms", "_broken"
"""Columns beside the file's own: raw text, path, the clock to judge by, what was wrong."""

_CHUNK_BYTES, _PARQUET_ROWS = 4 << 20, 1 << 16
_DAMAGE = (OSError, pa.ArrowException, UnicodeDecodeError, KeyError)
"""What Arrow raises of files that are not what they should be; KeyError of a name that is twice."""

_Told = tuple[pa.RecordBatch, list[str] | None]


def row_types(path: str, file_format: str | None) -> pa.Schema:
    """Return the columns that rows of such files have, beside those of ours.

    JSON has none of its own here: its lines are parsed by Spark.
    """
    match format_of(path, file_format):
        case "parquet":
            told = parquet_schema(path)  # dictionaries are told as the texts that they stand for
            types = [it.value_type if pa.types.is_dictionary(it) else it for it in told.types]
            return pa.schema([pa.field(*each) for each in zip(told.names, types, strict=True)])
        case "csv":
            return pa.schema([pa.field(name, pa.string()) for name in csv_header(path)])
        case "json":
            return pa.schema([])


def first_lines(path: str) -> list[str]:
    """Return the first lines of a file, at most a megabyte of them."""
    with open_stream(path) as stream:
        read = stream.read(_FIRST_BYTES)
    whole_lines, newline, _ = read.rpartition(b"\n")
    cut = len(read) == _FIRST_BYTES and newline
    return [
        line.decode("utf-8-sig", "replace")
        for line in (whole_lines if cut else read).split(b"\n")
        if line.strip()
    ]


def read_rows(
    path: str, admitted_ms: int, file_format: str | None, types: pa.Schema
) -> Generator[pa.RecordBatch, None, bool]:
    """Yield a file's rows; of one that can't be read to its end, a single row that says so.

    Returns whether it is such a one. If it is the system that fails, and goes on to, also once some
    rows went out, it is an UnreadableFile.
    """
    try:
        patiently(path, lambda: _read_to_the_end(path, file_format, types))
    except _DAMAGE as error:
        yield row_of_file(path, admitted_ms, types, str(error))
        return True
    try:
        for batch, broken in patiently_each(path, lambda: _batches(path, file_format, types)):
            if batch.num_rows:
                yield _with_ours(batch, path, admitted_ms, broken=broken)
    except _DAMAGE as error:
        raise UnreadableFile(path, f"it is another one by now ({error})") from error
    return False


def row_of_file(path: str, admitted_ms: int, types: pa.Schema, why: str) -> pa.RecordBatch:
    """Return the one row of a file of which nothing is counted, with the reason."""
    return _with_ours(_nothing(types, ""), path, admitted_ms, broken=[why])


def _read_to_the_end(path: str, file_format: str | None, types: pa.Schema) -> None:
    # Lines of JSON are judged one by one, as they go out.
    is_json = format_of(path, file_format) == "json"
    for _ in chunks_of(path) if is_json else _batches(path, file_format, types):
        pass


def _batches(path: str, file_format: str | None, types: pa.Schema) -> Iterator[_Told]:
    """Yield the file's columns, a text column :data:`RAW` the last, and what is wrong with each."""
    match format_of(path, file_format):
        case "parquet":
            for batch in read_parquet_rows(path, _PARQUET_ROWS):
                yield _conformed(batch, types), None
        case "csv":
            ragged: list[tuple[str, str]] = []
            for batch in _open_csv(path, ragged) if csv_header(path) else ():
                yield _conformed(batch, types), None
            for text, why in ragged:
                yield _nothing(types, text), [why]
        case "json":
            for good, bad in read_json_texts(path):
                yield _texts(good), None
                yield _texts([raw for raw, _ in bad]), [why for _, why in bad]


def _open_csv(path: str, ragged: list[tuple[str, str]]) -> Iterator[pa.RecordBatch]:
    """Yield the rows; those that have more or fewer values than the header are told as ragged."""

    def keep(row: pv.InvalidRow) -> str:
        told = f"{row.actual_columns} values in place of {row.expected_columns}"
        ragged.append((row.text or "", told))
        return "skip"

    reading = pv.ReadOptions(use_threads=False, block_size=_CHUNK_BYTES)
    parsing = pv.ParseOptions(newlines_in_values=True, invalid_row_handler=keep)
    converting = pv.ConvertOptions(column_types={name: pa.string() for name in csv_header(path)})
    with (
        pa.PythonFile(WholeLineEnds(open_stream(path)), "r") as stream,
        pv.open_csv(stream, reading, parsing, converting) as reader,
    ):
        yield from reader


def _texts(lines: list[str]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(lines, pa.string())], names=[RAW])


def _conformed(batch: pa.RecordBatch, types: pa.Schema) -> pa.RecordBatch:
    """Return the columns that the run fixed, in their types; one that a file lacks is null."""
    columns = [
        _cast(batch.column(field.name), field)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in types
    ]
    raw = pa.nulls(batch.num_rows, pa.string())  # told from the columns where it is needed
    return pa.record_batch([*columns, raw], names=[*types.names, RAW])


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    """Return a column in the type that the run fixed, if that leaves what it means.

    A number cast to a timestamp would be taken for microseconds, whatever it counts.
    """
    if pa.types.is_temporal(column.type) != pa.types.is_temporal(field.type) and not (
        pa.types.is_string(column.type) or pa.types.is_string(field.type)
    ):
        message = f"its column {field.name!r} is {column.type}; this run's is {field.type}"
        raise pa.ArrowInvalid(message)
    return column.cast(field.type)


def _nothing(types: pa.Schema, raw: str) -> pa.RecordBatch:
    """Return a row without any value, but with its raw text."""
    columns = [pa.nulls(1, field.type) for field in types]
    return pa.record_batch([*columns, pa.array([raw])], names=[*types.names, RAW])


def _with_ours(
    batch: pa.RecordBatch, path: str, admitted_ms: int, *, broken: list[str] | None = None
) -> pa.RecordBatch:
    rows, text = batch.num_rows, pa.string()
    files = pa.repeat(pa.scalar(storable(path), text), rows)
    clocks = pa.repeat(pa.scalar(admitted_ms, pa.int64()), rows)
    why = pa.nulls(rows, text) if broken is None else pa.array(broken, text)
    names = [*batch.schema.names, FILE, NOW, BROKEN]
    return pa.record_batch([*batch.columns, files, clocks, why], names=names)
