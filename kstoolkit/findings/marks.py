"""What people say of users and incidents: known, confirmed, muted; one file that they can read.

    [[mark]]
    mark = "known"                      # or "confirmed", "muted"
    user = "Anna"                       # of an incident, its user
    incident = "3ecd9f6b26b0"           # if it is of that alone, with its time:
    since = 2026-03-04T03:00:00+00:00
    through = 2026-03-04T05:00:00+00:00
    until = 2026-04-01T00:00:00+00:00   # it holds for windows that begin before then
    rules = ["Unusual"]                 # and for rules whose names begin so
    why = "nightly backup"
    who = "max"
    when = 2026-03-04T09:12:44+00:00

A known user is exempt from rules, and teaches nothing; a muted one is found, and no alert is sent.
What is known or confirmed is a label by which findings can be judged. What else is in the file,
comments too, stays byte for byte.
"""

from __future__ import annotations

import fcntl
import getpass
import os
import re
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.errors import ConfigurationError, OutputError, check_known, guessed
from kstoolkit.findings.rules import Exempt, names
from kstoolkit.markup import plain
from kstoolkit.moments import moment_ms, moment_of, moment_text
from kstoolkit.records import Record, Records

if TYPE_CHECKING:
    from kstoolkit.findings.incidents import Incident, Incidents
    from kstoolkit.moments import Moment

KNOWN, CONFIRMED, MUTED = MARKS = ("known", "confirmed", "muted")
_MOMENTS = {"since", "through", "until", "when"}
_HEADER = re.compile(r"^\s*\[\[\s*mark\s*\]\]", re.MULTILINE)
_HINT = "A mark reads: [[mark]], mark = 'known', user = 'Anna'."


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark(Record):
    """What somebody said of a user, or of one incident.

    Parameters
    ----------
    mark
        ``"known"``, ``"confirmed"`` or ``"muted"``.
    user
        Who; ``None`` of a campaign.
    incident
        The id of the incident that it is of alone.
    since_ms, through_ms
        From when until when that incident was, epoch ms UTC.
    until_ms
        It holds for windows begun and alerts due before then, epoch ms UTC; ``None`` for all.
    rules
        Of which rules, by how their names begin; ``None`` for all.
    why, who, when_ms
        The reason, who gave it, and when, epoch ms UTC.
    """

    mark: str
    user: str | None = None
    incident: str | None = None
    since_ms: int | None = None
    through_ms: int | None = None
    until_ms: int | None = None
    rules: tuple[str, ...] | None = None
    why: str | None = None
    who: str | None = None
    when_ms: int | None = None

    @property
    def of(self) -> str:
        """What it is of, for people."""
        if self.incident is None:
            return str(self.user)
        return f"incident {self.incident}" + (f" of {self.user}" if self.user else "")

    @property
    def sentence(self) -> str:
        """The mark in words."""
        until = "" if self.until_ms is None else f" until {moment_text(self.until_ms)}"
        rules = "" if self.rules is None else f" for {', '.join(self.rules)}"
        why = f": {self.why}" if self.why else ""
        who = "" if self.who is None else f" by {self.who}"
        when = "" if self.when_ms is None else f" ({moment_text(self.when_ms)}{who})"
        return f"{self.of} is {self.mark}{rules}{until}{why}{when}"

    def is_of(self, incident: Incident, now_ms: int) -> bool:
        """Whether it is of an incident, by its id or by its user."""
        if self.incident is not None:
            return self.incident == incident.id
        if self.user is None or self.user != incident.user:
            return False
        rules = self.rules
        if rules is not None and not all(each.startswith(rules) for each in incident.rules):
            return False
        last_ms = pc.max(incident.findings.table["window_start_ms"]).as_py()
        at_ms = now_ms if self.mark == MUTED else last_ms
        return self.until_ms is None or at_ms < self.until_ms


class Marks(Records[Mark]):
    """The marks in a file, in its order; of one thing the last one counts."""

    def __init__(self, rows: Sequence[Mark]) -> None:
        super().__init__(rows, "marks")

    def exempts(self) -> tuple[Exempt, ...]:
        """Return the users that are known, as rules."""
        return tuple(
            Exempt([m.user], until=m.until_ms, rules=m.rules, why=m.why)
            for m in self.newest()
            if m.mark == KNOWN and m.incident is None and m.user is not None
        )

    @property
    def known(self) -> set[str]:
        """The names of users that are known."""
        return {str(m.user) for m in self.newest() if m.mark == KNOWN and not m.incident}

    def of_users(self) -> dict[str, str]:
        """Return what users are marked as by now, each as a whole."""
        now_ms = time.time_ns() // 1_000_000
        some = (m for m in self.newest() if m.user is not None and m.incident is None)
        return {str(m.user): m.mark for m in some if m.until_ms is None or now_ms < m.until_ms}

    def newest(self) -> Iterator[Mark]:
        """Yield the last mark of each thing."""
        return iter({each.of: each for each in self}.values())

    def on(self, incidents: Incidents, now_ms: int | None = None) -> Incidents:
        """Return incidents with their marks: their own, or that of one that was merged into them.

        Else it is their user's, as of now.
        """
        if not len(self):
            return incidents
        now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        last = list(self.newest())
        own = {each.incident: each.mark for each in last if each.incident is not None}
        marked = {each.user for each in last if each.incident is None}
        columns = (incidents.table[each].to_pylist() for each in ("id", "merged_into", "user"))
        told = list(zip(*columns, strict=True))
        own = {into: own[name] for name, into, _ in told if into and name in own} | own

        def mark(place: int, name: str, user: str | None) -> str | None:
            if name in own or user not in marked:
                return own.get(name)
            of_user = (each.mark for each in last if each.is_of(incidents[place], now))
            return next(of_user, None)

        return incidents.marked([mark(n, name, user) for n, (name, _, user) in enumerate(told)])

    def labels(self) -> pa.Table:
        """Return what is confirmed or known as labels that :func:`kstoolkit.evaluate` takes."""
        some = [each for each in self.newest() if each.mark != MUTED and each.user is not None]
        stamp = pa.timestamp("ms", tz="UTC")
        types = {"user": pa.string(), "kind": pa.string(), "since": stamp, "until": stamp}
        told = ((m.user, m.mark, m.since_ms, m.through_ms or m.until_ms) for m in some)
        rows = [dict(zip(types, each, strict=True)) for each in told]
        return pa.Table.from_pylist(rows, pa.schema(types))


def load_marks(path: str | os.PathLike[str]) -> Marks:
    """Return the marks of a TOML file, or raise what is wrong with it; none without the file."""
    try:
        return Marks([mark for mark, _ in _read(Path(path))[1]])
    except OSError as error:
        message = f"The marks in {path} can't be read: {error.strerror}."
        raise ConfigurationError(message, hint="Give the file back, or take it away.") from error


def add_mark(path: str | os.PathLike[str], mark: Mark) -> None:
    """Add a mark to a file, which is made if it is not there; others of the same thing go.

    It is replaced as a whole, so readers find all or what was there before; links stay links. If
    it holds something else than marks, or the mark makes no sense, it is a ConfigurationError.
    """
    with _changing(Path(path), mark.of) as change:
        before = change.without(mark.of)
        end = "\r\n" if "\r\n" in before else "\n"
        blank = "" if not before else end if before.endswith("\n") else 2 * end
        change.content = before + blank + _table(mark).replace("\n", end)


def remove_marks(path: str | os.PathLike[str], of: str) -> int:
    """Remove the marks of a user, or of an incident by its id; return how many there were.

    The errors are those of :func:`add_mark`.
    """
    with _changing(Path(path), of) as change:
        number = sum(of in {mark.of, mark.incident} for mark, _ in change.marks)
        if number:
            change.content = change.without(of)
    return number


def mark_of(
    what: Incident | str,
    mark: str,
    *,
    until: Moment | None = None,
    rules: str | Iterable[str] | None = None,
    why: str | None = None,
) -> Mark:
    """Return a mark of an incident, or a user, by whoever runs this, now."""
    check_known("mark", mark, MARKS)
    given = [rules] if isinstance(rules, str) else rules
    who = None
    with suppress(KeyError, OSError):  # a container's user need have no name
        who = getpass.getuser()
    told = Mark(
        mark=mark,
        until_ms=None if until is None else moment_ms(until),
        rules=None if given is None else names("rules", given),
        why=why,
        who=who,
        when_ms=time.time_ns() // 1_000_000 // 1_000 * 1_000,
    )
    if isinstance(what, str):
        return replace(told, user=what)
    of = replace(told, user=what.user, incident=what.id)
    return replace(of, since_ms=what.since_ms, through_ms=what.until_ms)


def _refuse(message: str, hint: str = _HINT) -> NoReturn:
    raise ConfigurationError(message, hint=hint)


@dataclass(slots=True)
class _Change:
    """A file of marks that is being changed: each mark with where its table stands."""

    content: str
    marks: list[tuple[Mark, slice]]

    def without(self, of: str) -> str:
        """Return the text without the tables of one user or incident."""
        kept, at = [], 0
        for mark, place in self.marks:
            if of in {mark.of, mark.incident}:
                kept.append(self.content[at : place.start])
                at = place.stop
        return "".join([*kept, self.content[at:]]).lstrip("\r\n")


@contextmanager
def _changing(path: Path, of: str) -> Iterator[_Change]:
    """Hold a file of marks while it is changed, and write it as a whole if it was."""
    if any("\ud800" <= char <= "\udfff" for char in of):
        message = f"{of!r} is no text that a file can hold: it has half a character."
        raise ConfigurationError(message, hint="Exempt it by a pattern in the file of rules.")
    place = Path(os.path.realpath(path))  # of a link to itself, resolve makes a RuntimeError
    try:
        with _alone_in(place.parent):
            before, marks = _read(place)
            change = _Change(before, marks)
            yield change
            if change.content != before:
                _replace(place, change.content)
    except OSError as error:
        message = f"The marks in {str(path)!r} can't be written: {error.strerror}."
        raise OutputError(message, hint="Make room there, or mend the permissions.") from error


def _read(path: Path) -> tuple[str, list[tuple[Mark, slice]]]:
    if path.is_fifo():
        _refuse(f"{path} is a pipe, no file.")
    try:
        content = path.read_bytes().decode("utf-8-sig")
        document = tomllib.loads(content)
    except FileNotFoundError:
        return "", []
    except (ValueError, RecursionError) as error:
        _refuse(f"{path} is no TOML: {error}.")
    tables = document.pop("mark", [])
    starts = [found.start() for found in _HEADER.finditer(content)]
    if document or not isinstance(tables, list) or len(starts) != len(tables):
        _refuse(f"{path} holds something else than [[mark]] tables.")
    marks = [_mark(each, f"{path}, mark {n}") for n, each in enumerate(tables, 1)]
    spans = pairwise([*starts, len(content)])
    places = [slice(start, _end(content, start, stop)) for start, stop in spans]
    return content, list(zip(marks, places, strict=True))


def _end(content: str, start: int, stop: int) -> int:
    """Return where a table ends: comments right above the next one belong to that."""
    lines = content[start:stop].splitlines(keepends=True)
    if stop < len(content):
        while len(lines) > 1 and lines[-1].lstrip().startswith("#"):
            lines.pop()
    return start + sum(map(len, lines))


def _mark(table: Any, where: str) -> Mark:
    known = {each.name.removesuffix("_ms") for each in fields(Mark)}
    if not isinstance(table, Mapping):
        _refuse(f"{where} is no table.")
    for name in table:
        if name not in known:
            hint = f"{guessed(name, known)}Allowed: {', '.join(sorted(known))}."
            _refuse(f"{where} has an unknown field {name!r}.", hint)
    told = {f"{n}_ms" if n in _MOMENTS else n: _value(n, v, where) for n, v in table.items()}
    if told.get("mark") not in MARKS or not {"user", "incident"} & told.keys():
        message = f"{where} says {told.get('mark')!r} of {told.get('user')!r}."
        _refuse(message, f"{_HINT} Marks: {', '.join(MARKS)}.")
    return Mark(**told)


def _value(name: str, value: Any, where: str) -> Any:
    if name in _MOMENTS:
        try:
            return moment_ms(str(value))
        except ConfigurationError as error:
            _refuse(f"{where}: {name} = {error.message}", error.hint or _HINT)
    kind, called = (list, "list of names") if name == "rules" else (str, "text")
    is_given = isinstance(value, kind) and all(isinstance(each, str) for each in value)
    if not is_given or value == []:
        _refuse(f"{where}: {name} = {value!r} is no {called}.")
    return tuple(value) if kind is list else value


def _table(mark: Mark) -> str:
    lines = ["[[mark]]"]
    for each in fields(mark):
        value, name = getattr(mark, each.name), each.name.removesuffix("_ms")
        if value is not None:
            told = moment_of(value).isoformat() if name in _MOMENTS else _toml(value)
            lines.append(f"{name} = {told}")
    return "\n".join([*lines, ""])


def _toml(value: Any) -> str:
    """Return a text, or several, as TOML has them, on one line; what is unseen as code points."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    chars = (f"\\{c}" if c in '"\\' else c if plain(c) == c else f"\\U{ord(c):08X}" for c in value)
    return f'"{"".join(chars)}"'


def _replace(place: Path, content: str) -> None:
    hidden = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        with hidden.open("wb") as file:
            file.write(content.encode())
            file.flush()
            os.fsync(file.fileno())
        if place.exists():
            hidden.chmod(place.stat().st_mode & 0o7777)
        hidden.replace(place)
    finally:
        hidden.unlink(missing_ok=True)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Hold a folder: of two who add a mark at the same time, none loses the other's."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
