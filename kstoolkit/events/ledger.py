"""Which files a run has taken in, and which of those that lie there now are new.

A file counts once. The ledger of those taken in is a text file of one JSON object a line, only ever
appended to. A position in it is how many files have been taken, and is what Spark's offset log
remembers. A file's ``admitted_ms`` is the clock by which its times are judged, so that a replayed
batch judges alike. Files that are given up stand, by their position, in a list beside it, before
any task is told of it.

A path whose size and modification time are those of the file that was taken in is not opened again.
Else what was read there is held against what lies there now, and one that is new against what has
gone from its own path (:mod:`kstoolkit.events.contents`). Of a file without a modification time in
the ledger, taken in before that was kept, the path alone counts.

No memory grows with files: who opens a ledger has SQLite index it in a file without a name, where
it keeps what is temporary, which is gone with the process. A look takes some paths at a time.
"""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from fnmatch import fnmatchcase
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import finalize

from kstoolkit.errors import EnvironmentFault, FormatError
from kstoolkit.events.contents import Change, ContentsFile, Fate, checksum, in_words, modified_ns
from kstoolkit.events.opening import patiently

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Admitted:
    """A file that a run has taken in."""

    path: str
    size_bytes: int
    admitted_ms: int
    mtime_ns: int | None = None


_ENTRY = tuple(each.name for each in fields(Admitted))
_TELLING_BYTES = 1 << 10  # so much of records with times has no other file, as a header has
_TOGETHER, _MANY = 500, 10_000
_READ_BYTES = 1 << 20

_TABLES = """
pragma journal_mode = off;
pragma cache_size = -8000;
create table taken (
    place integer primary key, path blob, size_bytes int, admitted_ms int, mtime_ns int, grown int
);
create table lies (path blob primary key, place int) without rowid;
create table asked (path blob primary key, size_bytes int, mtime_ns int) without rowid;
create table gone (
    size_bytes int, mtime_ns int, whole int, place int,
    primary key (size_bytes, mtime_ns, whole, place)
) without rowid;
create table given_up (place integer primary key);
begin;
"""
"""Files that were taken in, the position of what lies at a path, and what a look has to settle.

And what held as many bytes, of the same time, as one of these, and has gone; what is given up.
"""

_TAKEN = "select path, size_bytes, admitted_ms, mtime_ns from taken where place >= ? and place < ?"
_LYING = """select lies.path, place, size_bytes, mtime_ns, grown
from lies join taken using (place) where lies.path in ({})"""
_SETTLED = """select path, size_bytes, mtime_ns, coalesce(place, -1)
from asked left join lies using (path) order by path"""
_MAY_BE_MOVED = """select path, size_bytes, mtime_ns from asked where exists (
    select 1 from gone where gone.size_bytes = asked.size_bytes and gone.mtime_ns = asked.mtime_ns
) order by path"""
_WHERE_IT_LAY = """select path from taken join lies using (place, path)
where place = ? and path not in (select path from asked)"""
_LEFT_THERE = "select min(place) from gone where size_bytes = ? and mtime_ns = ? and whole = ?"
_TAKEN_UP = "delete from gone where size_bytes = ? and mtime_ns = ? and whole = ? and place = ?"
_LIES = """insert into lies values (?, ?)
on conflict (path) do update set place = excluded.place where place < ?"""

_Lying = tuple[bytes, int, int, int | None, int | None]
_Line = TypeVar("_Line")


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
        # Whoever follows a run asks from a thread of his own, in turn.
        self._index = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        finalize(self, self._index.close)
        self._number, self._untold, self._given_up_bytes = 0, list[Change](), 0
        with _room_for_index():
            self._index.executescript(_TABLES)
            for entries in _some(self._lines.read(lambda line: Admitted(**line)), _MANY):
                self._take(entries)
            for change in self._changed.read(lambda line: Change(**line)):
                self._follow(change)

    def __len__(self) -> int:
        return self._number

    def __iter__(self) -> Iterator[Admitted]:
        return self._between(0, self._number)

    def entries(self, start: int, end: int) -> list[Admitted]:
        """Return the files between two positions."""
        return list(self._between(start, end))

    def size_bytes(self, start: int = 0, end: int = sys.maxsize) -> int:
        """Return how much the files between two positions have in all."""
        sizes = "select coalesce(sum(size_bytes), 0) from taken where place >= ? and place < ?"
        return int(self._one(sizes, start, end))

    def has_all(self, paths: Iterable[str]) -> bool:
        """Whether all of them were taken in, and lie where they lay, as they were."""
        with suppress(OSError):  # one is gone just now
            return all(
                lies is not None and _is_as_it_was(path, lies) for path, lies in self._each(paths)
            )
        return False

    def unknown(self, paths: Iterable[str]) -> Iterator[str]:
        """Yield which of them are new."""
        return (path for path, lies in self._each(paths) if lies is None)

    def admit(
        self,
        paths: Iterable[str],
        *,
        again: bool = False,
        set_aside: str | None = None,
        done: int | None = None,
    ) -> int:
        """Take in the files that are not known yet, durably, and return how many these are.

        They are taken in the order of their names. A file that is gone by now is passed over, and
        so is what is no file, such as a pipe. Those that are known are taken in once more if that
        is asked for: who asks knows that no event of them was counted. Of what ``set_aside`` names,
        nothing is asked. What has become of the first ``done`` files, all by default, is final;
        others will be read again. If the system does not tell what a path is, it is an
        UnreadableFile; if there is no room for what is looked at, an EnvironmentFault.
        """
        now_ms, before = time.time_ns() // 1_000_000, len(self)
        done = before if done is None else done
        with _room_for_index():
            self._index.execute("delete from asked")
            for some in _some(paths if again else self._unsettled(paths, done), _MANY):
                asked = filter(None, (self._asked(path, set_aside) for path in some))
                self._index.executemany("insert or ignore into asked values (?, ?, ?)", asked)
            if not again:
                self._settle_moved(before)
            for rows in _some(self._index.execute(_SETTLED), _MANY):
                known = [
                    (os.fsdecode(path), *told, -1 if again else at) for path, *told, at in rows
                ]
                self._append(
                    [
                        Admitted(path, size_bytes, now_ms, mtime_ns)
                        for path, size_bytes, mtime_ns, at in known
                        if at < done
                    ]
                )
                for path, _, _, at in known:
                    if 0 <= at < done:
                        self._note(Fate.REPLACED, at, path, before)
            self._tell()
        return len(self) - before

    def _asked(self, path: str, set_aside: str | None) -> tuple[bytes, int, int | None] | None:
        """Return what the system says of a file that is to be settled; ``None`` if it is none."""
        coded = os.fsencode(path)
        if set_aside is not None and names_file(set_aside, path):
            return None if self._at(coded) is not None else (coded, 0, None)
        found = stat_of(path)
        is_file = found is not None and stat.S_ISREG(found.st_mode)
        return (coded, found.st_size, modified_ns(found)) if found is not None and is_file else None

    def _unsettled(self, paths: Iterable[str], done: int) -> Iterator[str]:
        """Yield which paths are new, or hold something else than what was read there."""
        for path, lies in self._each(paths):
            try:
                if lies is None or (
                    not _is_as_it_was(path, lies) and self._is_replaced(path, lies, done)
                ):
                    yield path
            except OSError:  # it was taken in: nothing of it is to be read
                continue

    def _is_replaced(self, path: str, lies: _Lying, done: int) -> bool:
        """Return whether a file is another one by now, and tell of one that has grown."""
        _, place, *_, has_grown = lies
        found = os.stat(path)  # noqa: PTH116
        held = self.contents.read(place)
        if held is None:
            return self._is_given_up(place)
        fate = held.fate(path, found)
        if fate is not Fate.REPLACED:  # till it changes again
            kept = "update taken set size_bytes = ?, mtime_ns = ? where place = ?"
            self._index.execute(kept, (found.st_size, modified_ns(found), place))
        if fate is Fate.SAME and held.mtime_ns != modified_ns(found):
            self.contents.write(place, replace(held, mtime_ns=modified_ns(found)))
        if fate is Fate.GROWN and place < done and not has_grown:
            self._note(fate, place, path, len(self))
        return fate is Fate.REPLACED

    def _settle_moved(self, taken: int) -> None:
        """Ask no more for paths that hold what lay elsewhere, or has grown elsewhere."""
        for path, place in chain(self._moved(), self._rotated()):
            self._note(Fate.MOVED, place, path, taken)
            self._index.execute("delete from asked where path = ?", (os.fsencode(path),))

    def _moved(self) -> Iterator[tuple[str, int]]:
        """Yield which of the paths hold what lay elsewhere, and the positions of that."""
        ask = self._index.execute
        ask("delete from gone")
        kinds = ask("select distinct size_bytes, mtime_ns from asked where mtime_ns is not null")
        for some in _some(kinds, _MANY):
            gone = (
                (held.size_bytes, held.mtime_ns, held.whole, place)
                for place, held in self.contents.alike(set(some))
                if self._is_gone(place)
            )
            self._index.executemany("insert into gone values (?, ?, ?, ?)", gone)
        for coded, *kind in ask(_MAY_BE_MOVED):
            path = os.fsdecode(coded)
            with suppress(OSError):  # told as it is counted
                held = *kind, checksum(path, kind[0])
                place = self._one(_LEFT_THERE, *held)
                if place is not None:
                    ask(_TAKEN_UP, (*held, place))
                    yield path, place

    def _rotated(self) -> Iterator[tuple[str, int]]:
        """Yield which of the paths hold what has grown elsewhere; of some bytes none is sure."""
        for (place,) in self._index.execute("select place from taken where grown"):
            held = self.contents.read(place) if self._is_gone(place) else None
            if held is None or held.size_bytes < _TELLING_BYTES:
                continue
            larger = "select path from asked where size_bytes > ? order by path"
            for (coded,) in self._index.execute(larger, (held.size_bytes,)):
                path = os.fsdecode(coded)
                with suppress(OSError):  # told as it is counted
                    if held.fate(path, os.stat(path)) is Fate.GROWN:  # noqa: PTH116
                        yield path, place
                        break

    def _is_gone(self, place: int) -> bool:
        """Return whether a file lies no longer where it lay."""
        coded = self._one(_WHERE_IT_LAY, place)
        return coded is None or not os.path.lexists(coded)

    def _note(self, fate: Fate, place: int, path: str, taken: int) -> None:
        """Go by what became of a file from now on; it is told for good with others."""
        change = Change(fate, place, path, self._path(place), taken)
        self._follow(change)
        self._untold.append(change)
        if len(self._untold) >= _MANY:
            self._tell()

    def _tell(self) -> None:
        if self._untold:
            self._changed.append(asdict(each) for each in self._untold)
            self._untold.clear()

    def _follow(self, change: Change) -> None:
        """Take in what became of a file: where it lies now is where it is looked for."""
        place, path = change.position, os.fsencode(change.path)
        if change.fate == Fate.GROWN:
            self._index.execute("update taken set grown = 1 where place = ?", (place,))
        if change.fate == Fate.MOVED:
            left = (os.fsencode(change.was), place)
            self._index.execute("delete from lies where path = ? and place = ?", left)
            # Not if it was replaced there since.
            self._index.execute(_LIES, (path, place, change.taken))
            self._index.execute("update taken set path = ? where place = ?", (path, place))

    def replaced(self, start: int, end: int, without: Mapping[int, str]) -> list[str]:
        """Return which files between two positions are others than when they were read before."""
        found = []
        for place, held in self.contents.between(start, end):
            if held.is_damaged or place in without:
                continue
            path = self._path(place)
            with suppress(OSError):  # told as whoever reads it meets it
                if held.fate(path, os.stat(path)) is Fate.REPLACED:  # noqa: PTH116
                    found.append(path)
        return found

    def given_up(self, start: int = 0, end: int = sys.maxsize) -> dict[int, str]:
        """Return why files between two positions are given up, by their positions."""
        return {place: reason for place, reason in self._all_given_up() if start <= place < end}

    def _all_given_up(self) -> Iterator[tuple[int, str]]:
        return self._given_up.read(lambda line: (line["position"], line["reason"]))

    def _is_given_up(self, place: int) -> bool:
        found = stat_of(str(self._given_up.path))
        if found is not None and found.st_size != self._given_up_bytes:
            more = ((place,) for place, _ in self._all_given_up())
            self._index.executemany("insert or ignore into given_up values (?)", more)
            self._given_up_bytes = found.st_size
        return self._one("select 1 from given_up where place = ?", place) is not None

    def give_up(self, reasons: Mapping[int, str]) -> None:
        """Give files up, durably: what is to be read from now on leaves them out."""
        self._given_up.append(
            {"position": place, "path": self._path(place), "reason": reason}
            for place, reason in sorted(reasons.items())
        )
        for place in reasons:
            self.contents.write(place, None)

    def _append(self, fresh: Sequence[Admitted]) -> None:
        if fresh:
            self._lines.append({name: getattr(each, name) for name in _ENTRY} for each in fresh)
            self._take(fresh)

    def _take(self, fresh: Sequence[Admitted]) -> None:
        """Index files that were taken in."""
        start, paths = self._number, [os.fsencode(each.path) for each in fresh]
        self._index.executemany(
            "insert into taken values (?, ?, ?, ?, ?, null)",
            (
                (place, path, each.size_bytes, each.admitted_ms, each.mtime_ns)
                for place, (path, each) in enumerate(zip(paths, fresh, strict=True), start)
            ),
        )
        places = zip(paths, range(start, start + len(paths)), strict=True)
        self._index.executemany("insert or replace into lies values (?, ?)", places)
        self._number += len(paths)

    def _between(self, start: int, end: int) -> Iterator[Admitted]:
        with _room_for_index():
            for path, *told in self._index.execute(_TAKEN, (start, end)):
                yield Admitted(os.fsdecode(path), *told)

    def _each(self, paths: Iterable[str]) -> Iterator[tuple[str, _Lying | None]]:
        """Yield the paths, each with what was taken in there, or has been moved there since."""
        for some in _some(paths, _TOGETHER):
            coded = [os.fsencode(path) for path in some]
            asked = _LYING.format(", ".join("?" * len(coded)))
            with _room_for_index():
                lying = {lies[0]: lies for lies in self._index.execute(asked, coded)}
            yield from zip(some, map(lying.get, coded), strict=True)

    def _path(self, place: int) -> str:
        return os.fsdecode(self._one("select path from taken where place = ?", place))

    def _at(self, path: bytes) -> int | None:
        """Return the position of what lies at a path; ``None`` if it was not taken in."""
        place: int | None = self._one("select place from lies where path = ?", path)
        return place

    def _one(self, asked: str, *given: object) -> Any:
        with _room_for_index():
            row = self._index.execute(asked, given).fetchone()
        return None if row is None else row[0]


def _is_as_it_was(path: str, lies: _Lying) -> bool:
    *_, size_bytes, mtime_ns, _ = lies
    if mtime_ns is None:
        return True
    found = os.stat(path)  # noqa: PTH116 - of a million, each object counts
    return modified_ns(found) == mtime_ns and found.st_size == size_bytes


def _some(them: Iterable[_Line], most: int) -> Iterator[list[_Line]]:
    """Yield so many of them at once."""
    each = iter(them)
    while some := list(islice(each, most)):
        yield some


@contextmanager
def _room_for_index() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        message = (
            "Which files were taken in can't be looked up, for which each takes some 200 bytes "
        )
        message += f"where temporary files go: {error}."
        hint = "Make room there, or name another folder with TMPDIR."
        raise EnvironmentFault(message, hint=hint) from None  # of errors, Spark tells the first


class JsonLines:
    """A text file of one JSON object a line, only ever appended to."""

    def __init__(self, path: Path, what: str) -> None:
        self.path, self.what = path, what
        self._is_torn = True  # or may be: nobody has looked

    def read(self, made: Callable[[dict[str, Any]], _Line]) -> Iterator[_Line]:
        """Yield what is made of each line; of none where there is no file."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            # Not beyond a line that is being written: the rest of it would look like one.
            while (lines := file.readlines(_READ_BYTES)) and (there := _whole(lines)):
                whole = b",".join(filter(None, (line.rstrip(b"\n") for line in there)))
                try:
                    made_of = [made(told) for told in json.loads(b"[%s]" % whole)]  # many at once
                except (ValueError, TypeError, KeyError) as error:
                    message = f"The {self.what} {self.path} is damaged: {error}."
                    hint = "Restore it from a copy, or begin with a new output folder."
                    raise FormatError(message, hint=hint) from error
                yield from made_of
                if len(there) < len(lines):
                    return

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
            with self.path.open("rb+") as file:
                whole = sum(len(line) for line in file if line.endswith(b"\n"))
                file.truncate(whole)
        self._is_torn = False


def _whole(lines: list[bytes]) -> list[bytes]:
    """Return the lines without one that a crash cut short."""
    return lines if lines[-1].endswith(b"\n") else lines[:-1]


def _changed(ledger: Path) -> JsonLines:
    return JsonLines(ledger.with_name("changed.jsonl"), "list of changed files")


class Changes:
    """What became of files that a run took in, look after look, as the run finds it."""

    def __init__(self, ledger: Path) -> None:
        self._lines = _changed(ledger)
        self._seen_bytes = self._known = 0

    def look(self) -> list[Change]:
        """Return what has come since the last look."""
        found = stat_of(str(self._lines.path))
        if found is None or found.st_size == self._seen_bytes:
            return []
        fresh = list(islice(self._lines.read(lambda line: Change(**line)), self._known, None))
        self._seen_bytes, self._known = found.st_size, self._known + len(fresh)
        return fresh

    def in_words(self) -> Iterator[str]:
        """Yield the same in sentences."""
        return in_words(self.look())


def stat_of(path: str) -> os.stat_result | None:
    """Return what the system says of a path; ``None`` if there is nothing any more."""

    def ask() -> os.stat_result | None:
        try:
            return os.stat(path)  # noqa: PTH116 - of a million, each object counts
        except (FileNotFoundError, NotADirectoryError):
            return None

    return patiently(path, ask)


def names_file(pattern: str, path: str) -> bool:
    """Return whether a path, folder or glob names a file, which need not be there.

    A ``*`` stands for slashes, too.

    >>> names_file("/in/*.json", "/in/a/b.json"), names_file("/in", "/in/a[1].csv")
    (True, True)
    """
    given = os.path.abspath(pattern)  # noqa: PTH100 - links keep their own names
    return Path(path).is_relative_to(given) or fnmatchcase(path, given)
