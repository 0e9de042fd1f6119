"""Alerts that go out: what a run's incidents come to, told to whoever asked for it.

::

    run.incidents() ──┐
                      ├── the difference is told ──▶ a receiver ── its answer ──▶ alerts.json
    alerts.json ──────┘

What has to be told is never queued: it is what incidents are by now, beyond what a receiver took,
which ``alerts.json`` in the run's folder notes. So whoever is killed before a receiver answers
loses nothing, and after that tells the same again, under the same id. Each receiver has a thread
beside the run: one that is away holds up neither a batch nor another receiver.
"""

from __future__ import annotations

import hmac
import json
import os
import re
import time
from base64 import b64encode
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from http.client import HTTPConnection, HTTPSConnection, responses
from pathlib import Path
from random import uniform
from socket import SHUT_RDWR
from threading import Event, Lock, Thread, Timer
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from urllib.parse import SplitResult, quote, unquote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.changelog.changelog import replace_text
from kstoolkit.errors import ConfigurationError, FormatError, KstoolkitError, OutputError
from kstoolkit.findings.incidents import MERGED, OPEN, RESOLVED, SETTLED, Incidents
from kstoolkit.findings.rulefiles import tables_of
from kstoolkit.moments import moment_of
from kstoolkit.pipeline.batches import newest_batch
from kstoolkit.pipeline.run import Run
from kstoolkit.records import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kstoolkit.findings.incidents import Incident
    from kstoolkit.kafka.cluster import Log
    from kstoolkit.pipeline.batches import MicroBatch
    from kstoolkit.pipeline.runfolder import RunFolder

LIVE_MS, BOUNDED_MS = 240_000, 86_400_000
"""How long an alert goes on by itself; once a quarter of that is over, it is sent again."""
STOP_SECONDS, END_SECONDS = 5.0, 10.0
"""How long the end of a live run waits for what is being told, and of a bounded one."""
_LEAST_MS = 600_000
"""How long an alert lasts at least, two of Alertmanager's usual ``group_interval``: of one that is
over before it looks, it tells nobody."""
_ENDED_MS = 900_000
"""How long after its end that is told again, as Prometheus does, while somebody listens: an
Alertmanager that was started anew has forgotten the alert, but not that it notified somebody."""
_REFUSALS = {400, 413, 415, 422}
"""Answers to what was sent. Others are about an address, a password or a server, which somebody may
mend: nothing is lost by them."""
_ASKED_AGAIN = {408, 425, 429}
_TIMEOUT_SECONDS, _ANSWER_SECONDS, _LONGEST_PAUSE, _GLANCE_SECONDS = 10.0, 30.0, 300.0, 15.0
_WHAT, _VERSION, _KEPT_MS = "list of alerts", 1, 7 * BOUNDED_MS
"""What was taken back may be found again, within a week."""
_ALERTS, _STATUS, _MOST_BYTES, _AT_ONCE = "/api/v2/alerts", "/api/v2/status", 1 << 20, 500
_ALERTMANAGER, _WEBHOOK = _KINDS = ("alertmanager", "webhook")
_FIELDS = ("url", "kind", "secret_file", "secret_env", "link")


class Note(NamedTuple):
    """What a receiver took of an incident, or is to take.

    ``revision`` counts how often it was opened; ``about`` is a label: whom it is about.
    """

    state: str = ""
    revision: int = 0
    opened_ms: int = 0
    ends_ms: int = 0
    about: tuple[str, str] = ("user", "")

    def ended(self, state: str, now_ms: int) -> Note:
        """Return how it ends: Alertmanager takes what ends later than told before, or by now."""
        least_ms = min(self.opened_ms, now_ms) + _LEAST_MS  # a clock may be set back
        lasts = state not in SETTLED and least_ms >= max(now_ms, self.ends_ms)
        return self._replace(state=state, ends_ms=least_ms if lasts else now_ms)


class News(NamedTuple):
    """What has to be told of an incident, ``None`` if it was taken back; or again, to go on."""

    id: str
    note: Note
    incident: Incident | None
    again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """Who is told. Made by :func:`alertmanager` or :func:`webhook`; of no kind, it is asked."""

    url: str = field(repr=False)
    kind: str | None = None
    link: str | None = None
    secret: str | None = field(default=None, repr=False)

    @property
    def shown(self) -> str:
        """Where it is, without what may be secret: a password, a path, a query."""
        at = urlsplit(self.url)
        return f"{at.scheme}://{at.netloc.rpartition('@')[2]}"

    @property
    def name(self) -> str:
        """What its notes stand under: where it is, and a digest of the rest but the password."""
        at = urlsplit(self.url)
        rest = f"{at.path.rstrip('/')}?{at.query}".encode()
        return f"{self.shown} {blake2b(rest, digest_size=6).hexdigest()}"

    def settled(self) -> Receiver:
        """Return it as what it says it is; if it does not yet, it is a KstoolkitError."""
        _, text = self._asked(_STATUS, {*range(400, 500)} - _ASKED_AGAIN)
        return replace(self, kind=_ALERTMANAGER if b'"versionInfo"' in text else _WEBHOOK)

    def told(self, news: Sequence[News], run: str, now_ms: int) -> int | None:
        """Tell news, one by one unless to an Alertmanager; return the status if they are refused.

        An answer that asks to come again is a KstoolkitError, a broken connection an OSError.
        """
        headers, at, path = {"Content-Type": "application/json"}, str(now_ms // 1_000), ""
        if self.kind == _ALERTMANAGER:
            path = _ALERTS
            body = json.dumps([_alert(each, self._linked(each), run, now_ms) for each in news])
        else:
            ((name, note, incident, _),) = news
            named = {"id": name, "revision": note.revision, "state": note.state}
            beside = {"run": run, "sent_ms": now_ms, "link": self._linked(news[0])}
            about = None if incident is None else incident.to_dict()
            body = json.dumps({"version": 1, **named, **beside, "incident": about})
            headers["Idempotency-Key"] = "-".join(map(str, named.values()))
            headers["X-Kstoolkit-Timestamp"] = at
        if self.secret is not None:
            signed = hmac.digest(self.secret.encode(), f"{at}.{body}".encode(), "sha256")
            headers["X-Kstoolkit-Signature"] = f"sha256={signed.hex()}"
        status, _ = self._asked(path, _REFUSALS, body.encode(), headers)
        return status if status in _REFUSALS else None

    def _asked(
        self, path: str, finals: set[int], body: bytes = b"", headers: Mapping[str, str] = {}
    ) -> tuple[int, bytes]:
        """Return the status and text of its answer, if that is 2xx or final; no redirect is one."""
        at, method = urlsplit(self.url), "POST" if body else "GET"
        secret = unquote(at.netloc.rpartition("@")[0]).encode()
        login = {"Authorization": f"Basic {b64encode(secret).decode()}"} if secret else {}
        kind = HTTPSConnection if at.scheme == "https" else HTTPConnection
        place = f"{at.path.rstrip('/')}{path}" if path else at.path or "/"
        query = f"?{at.query}" if at.query else ""
        connection = kind(at.hostname or "", at.port, timeout=_TIMEOUT_SECONDS)
        with closing(connection), ExitStack() as on:
            connection.request(method, f"{place}{query}", body, {**headers, **login})
            late = Timer(_ANSWER_SECONDS, connection.sock.shutdown, [SHUT_RDWR])
            late.daemon = True  # of a socket, each byte may take its time anew
            late.start()
            on.callback(late.cancel)
            answer = on.enter_context(connection.getresponse())
            if answer.status not in {*range(200, 300), *finals}:
                raise _NotTaken(answer.status, answer.getheader("Retry-After", ""))
            return answer.status, b"" if body else answer.read(_MOST_BYTES)

    def _linked(self, news: News) -> str | None:
        user = quote(dict([news.note.about]).get("user", ""), safe="")
        return self.link and self.link.replace("{incident}", news.id).replace("{user}", user)


def _alert(news: News, link: str | None, run: str, now_ms: int) -> dict[str, Any]:
    """Return an alert for Alertmanager: labels stay the same as long as an incident has its id."""
    note, incident = news.note, news.incident
    named = {"alertname": "kstoolkit incident", "incident": news.id, "run": run}
    told = {"labels": named | dict([note.about]), "endsAt": moment_of(note.ends_ms).isoformat()}
    words = {"state": note.state, "summary": "What was found was taken back."}
    words |= {"link": link} if link else {}
    if incident is not None:
        told["startsAt"] = moment_of(min(incident.since_ms, now_ms)).isoformat()
        words |= {"summary": incident.sentence, "certainty": incident.certainty}
        words["state"] += f" into {incident.merged_into}" if note.state == MERGED else ""
    return {**told, "annotations": words}


def alertmanager(url: str, *, link: str | None = None) -> Receiver:
    """Return an Alertmanager as a receiver of alerts, which it groups and passes on.

    What is no address is a ConfigurationError.

    Parameters
    ----------
    url
        Where it is, ``http://host:9093``; with ``user:password@`` in it if it asks for them.
    link
        Where an incident can be seen; ``{incident}`` in it is its id, ``{user}`` whom it is about.

    Examples
    --------
    >>> alertmanager("http://me:secret@127.0.0.1:9093").shown
    'http://127.0.0.1:9093'
    """
    return receiver_of(url, _ALERTMANAGER, link=link)


def webhook(url: str, *, secret: str | None = None, link: str | None = None) -> Receiver:
    """Return an address that takes alerts as JSON, one a request, as a receiver of them.

    What is no address, or an empty secret, is a ConfigurationError.

    Parameters
    ----------
    url, link
        As of :func:`alertmanager`, ``https://host/path``.
    secret
        What each request is signed with, by HMAC.

    Examples
    --------
    >>> webhook("https://example.org/hook?token=1", secret="s")
    Receiver(kind='webhook', link=None)
    """
    return receiver_of(url, _WEBHOOK, secret=secret, link=link)


def load_alerts(path: str | Path) -> tuple[Receiver, ...]:
    """Return the receivers that a file of rules names: its tables ``[[alert]]``, in its order.

    Each has a ``url``, and may have a ``kind``, a ``link``, and ``secret_env`` or ``secret_file``
    (from the file's folder): what has the secret. Else it is a ConfigurationError.
    """
    tables = enumerate(tables_of(path)["alert"], start=1)
    return tuple(_of_table(each, Path(path), number) for number, each in tables)


def _of_table(table: Mapping[str, Any], path: Path, number: int) -> Receiver:
    wrong = [n for n, given in table.items() if n not in _FIELDS or not isinstance(given, str)]
    takes = f"It takes texts: {', '.join(_FIELDS)}."
    try:
        _refuse(wrong, f"{''.join(wrong[:1])} is no text, or no field.", takes)
        named = {name: table.get(name) for name in ("url", "kind", "link")}
        return receiver_of(**named, secret=_secret(table, path))
    except ConfigurationError as error:
        message = f"{path}, alert {number}: {error.message}"
        raise ConfigurationError(message, hint=error.hint) from error


def _secret(table: Mapping[str, str], path: Path) -> str | None:
    if (name := table.get("secret_file")) is None:
        variable = table.get("secret_env")
        secret = None if variable is None else os.environ.get(variable, "")
        told = f"The secret is empty: no variable {variable!r} is set."
        _refuse(secret == "", told, "Set it where the run is started, or leave secret_env out.")
        return secret
    try:
        return (path.parent / name).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        message = f"secret_file = {name!r} can't be read: {getattr(error, 'strerror', 'no UTF-8')}."
        raise ConfigurationError(message, hint="Give a file with the secret alone.") from error


def receiver_of(
    url: object, kind: str | None = None, *, secret: str | None = None, link: str | None = None
) -> Receiver:
    """Return who is at an address; if neither kind nor path tells what it is, it is asked."""
    at = _address(url)
    path = at.path.rstrip("/")
    if kind is None and (path or at.query or secret is not None):
        kind = _ALERTMANAGER if path.endswith(_ALERTS) else _WEBHOOK
    if kind == _ALERTMANAGER:
        at = at._replace(path=path.removesuffix(_ALERTS))
    holes = {"incident", "user"}.issuperset(re.findall(r"\{(.*?)\}", link or ""))
    leads = link is None or (link.startswith(("http://", "https://")) and holes)
    way = "Write https://host/path/{incident}, or {user}."
    _refuse(kind not in {None, *_KINDS}, f"There is no kind {kind!r}.", f"Give {_KINDS}.")
    _refuse(secret == "", "The secret is empty.", "Give one that nobody guesses, or none.")
    _refuse(secret and kind != _WEBHOOK, "An Alertmanager takes no secret.", "Leave it out.")
    _refuse(not leads, f"The link {link!r} leads to no incident.", way)
    return Receiver(url=at.geturl(), kind=kind, link=link, secret=secret)


def _refuse(is_wrong: object, message: str, hint: str) -> None:
    if is_wrong:
        raise ConfigurationError(message, hint=hint)


def _address(url: object) -> SplitResult:
    """Return an address in its parts; what is none is told without what may be secret."""
    text = url if isinstance(url, str) else ""
    with suppress(ValueError):
        at, plain = urlsplit(text), text.isascii() and text.isprintable() and " " not in text
        if plain and at.scheme in {"http", "https"} and at.hostname and at.port != 0:
            return at._replace(fragment="")
    told = re.split(r"[?#]", text.rpartition("@")[2])[0]
    message = f"{told!r} is no address that alerts can go to."
    raise ConfigurationError(message, hint="Give http://host:9093, or https://host/path.")


def receivers_of(given: Any) -> tuple[Receiver, ...]:
    """Return receivers, some of which may be given as addresses; of one address, the last."""
    several = (given,) if isinstance(given, str | Receiver) else given or ()
    found = [each if isinstance(each, Receiver) else receiver_of(each) for each in several]
    return tuple({each.name: each for each in found}.values())


class _NotTaken(KstoolkitError):  # noqa: N818 - it is tried again
    def __init__(self, status: int, retry_after: str) -> None:
        super().__init__(_in_words(status))
        self.seconds = float(retry_after) if re.fullmatch(r"\d{1,9}", retry_after) else 0.0


def _in_words(status: int) -> str:
    return f"{status} {responses.get(status, '')}".rstrip()


class _Taken(NamedTuple):
    """What a receiver took; of what was over before ``began_ms`` it takes nothing."""

    began_ms: int
    notes: dict[str, Note]


def _read(path: Path) -> dict[str, _Taken]:
    """Return what receivers took, by their names; none if there is no such file."""
    try:
        whole, *changes = path.read_text(encoding="utf-8").split("\n")
        told = json.loads(whole)
        if (version := told.get("version", _VERSION)) != _VERSION:
            raise FormatError.version(_WHAT, version, _VERSION)
        told = told["receivers"] if "version" in told else told  # the first ones had none
        kept = {name: _Taken(int(each["began_ms"]), {}) for name, each in told.items()}
        noted = {name: each["notes"] for name, each in told.items()}
        for change in (noted, *map(json.loads, changes[:-1])):  # a crash cut off some of the last
            for name, notes in change.items():
                kept[name].notes.update((each, Note(*of[:5])) for each, of in notes.items())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        message = f"{path} is damaged: {error}."
        hint = "Restore it; without it, what is open is told again."
        raise FormatError(message, hint=hint) from error
    return kept


class _Outbox:
    """What each receiver took, kept in a file: all of it, and a line for each change since.

    So a note takes as long as it does however many there are. Lines are folded at the start, and
    once they are more than what they change.
    """

    def __init__(self, path: Path, names: Sequence[str], clock_ms: int) -> None:
        self._path, self._lock, self._is_closed = path, Lock(), False
        self._size = self._most = -1
        self.taken = _read(path)
        for name in names:
            self.taken.setdefault(name, _Taken(clock_ms, {}))
        for name in names[:1]:  # all are written with the first one
            if why := self.note(name, {}):
                message = f"{path} can't be written: {why}."
                raise OutputError(message, hint="Make room there, or mend the permissions.")

    def note(self, name: str, notes: dict[str, Note]) -> str:
        """Keep what a receiver took, and what could not be kept before; return why it can't be."""
        with self._lock:
            self.taken[name].notes.update(notes)
            try:
                if not self._is_closed:
                    self._write({name: notes} if notes else {})
            except OSError as error:
                return error.strerror or type(error).__name__
        return ""

    def _write(self, change: dict[str, dict[str, Note]]) -> None:
        size = self._path.stat().st_size if self._path.exists() else -1
        if not 0 <= size == self._size <= self._most:
            told = {name: each._asdict() for name, each in self.taken.items()}
            whole = f"{json.dumps({'version': _VERSION, 'receivers': told})}\n"
            self._size = -1
            replace_text(self._path, whole)
            self._size, self._most = len(whole), 2 * len(whole) + _MOST_BYTES
        elif change:
            line = f"{json.dumps(change)}\n".encode()
            with self._path.open("ab", 0) as file:
                file.write(line)
                os.fsync(file)
            self._size += len(line)

    def forget(self, name: str, found: Incidents, now_ms: int) -> None:
        """Drop notes of what ended, and is no incident any more: it expired, or was taken back."""
        notes, ids = self.taken[name].notes, {*found.table["id"].to_pylist()}
        old = {n for n, note in notes.items() if note.opened_ms < now_ms - _KEPT_MS}
        with self._lock:
            for each in old - ids:
                del notes[each]
                self._size = -1  # to be written anew
        self.note(name, {})

    def close(self) -> None:
        """Keep no more: from now on the next run may."""
        with self._lock:
            self._is_closed = True


def _news(found: Incidents, taken: _Taken, now_ms: int, lasts_ms: int) -> Iterator[News]:
    """Yield what has to be told next of each incident, beyond what was taken."""
    table, (began_ms, notes) = found.table, taken
    going = {name: note for name, note in notes.items() if note.state == OPEN}
    is_going, is_noted = (
        pc.is_in(table["id"], pa.array([*some], pa.string())) for some in (going, notes)
    )
    is_fresh = pc.and_not(pc.greater(table["opened_ms"], began_ms), is_noted)
    chosen = pc.or_(pc.or_(pc.equal(table["state"], OPEN), is_going), is_fresh)
    rows = table.append_column("at", pa.array(range(len(table)))).filter(chosen)
    rows = rows.sort_by([("opened_ms", "ascending"), ("id", "ascending")])
    for row in rows.select(["at", "id", "user", "state", "mark"]).to_pylist():
        at, name, user, state, mark = row.values()
        note = notes.get(name, Note())
        going.pop(name, None)
        state = mark if state == OPEN and mark in SETTLED else state
        if note.state == OPEN != state:
            yield News(name, note.ended(state, now_ms), found[at])
        elif note.state == OPEN:
            if lasts_ms and not lasts_ms * 3 // 4 < note.ends_ms - now_ms <= lasts_ms:
                yield News(name, note._replace(ends_ms=now_ms + lasts_ms), found[at], again=True)
        elif state == OPEN or not (note.state or mark in SETTLED):
            each = found[at]
            about = ("action", each.peak.what) if user is None else ("user", user)
            ends_ms = now_ms + (lasts_ms if state == OPEN else _LEAST_MS)
            yield News(name, Note(OPEN, note.revision + 1, now_ms, ends_ms, about), each)
    for gone, note in going.items():
        yield News(gone, note.ended(RESOLVED, now_ms), None)


def _ended(found: Incidents, taken: _Taken, since_ms: int) -> Iterator[News]:
    """Yield what has ended since then, or is about to."""
    for name, note in taken.notes.items():
        if note.state not in {"", OPEN} and note.ends_ms > since_ms:
            at = pc.index(found.table["id"], name).as_py()
            yield News(name, note, None if at < 0 else found[at], again=True)


class Alerting:
    """Tells receivers beside a run what its incidents come to, until it is closed.

    An alert goes on by itself for ``lasts_ms``. ``tell`` is told once of what can't be sent.
    """

    def __init__(
        self, folder: RunFolder, receivers: Sequence[Receiver], tell: Log, *, lasts_ms: int
    ) -> None:
        self.run, self.tell, self.lasts_ms = Run(folder), tell, lasts_ms
        newest, names = newest_batch(folder), [each.name for each in receivers]
        clock_ms = 0 if newest is None else newest.batch_ms
        self.outbox = _Outbox(folder.path / "alerts.json", names, clock_ms)
        self.closing, self.until = Event(), float("inf")
        self._lock, self._found, self._stirs = Lock(), Incidents.none(), True
        self._due, self._seen, self._rests_until = 0, (-1, 0), 0.0
        self._tellers = [_Teller(self, each) for each in receivers]

    def batch_ended(self, done: MicroBatch) -> None:
        """Take in that there is one more batch."""
        if done.findings or self._stirs:
            self._due += 1
            for each in self._tellers:
                each.due.set()

    def incidents(self) -> Incidents:
        """Return them as of the newest batch and mark; to look takes a tenth of the time."""
        with self._lock:
            due, began = self._reason(), time.monotonic()
            if due != self._seen and (began >= self._rests_until or self.closing.is_set()):
                self._found = self.run.incidents()
                self._stirs = OPEN in self._found.table["state"].to_pylist()
                self._seen, self._rests_until = due, 10 * time.monotonic() - 9 * began
            return self._found

    def pause(self) -> float:
        """Return after how many seconds to look again: there may be no reason before a glance."""
        glance = min(_GLANCE_SECONDS, self.lasts_ms / 16_000)
        rests = max(self._rests_until - time.monotonic(), 0.001)
        return glance if self._reason() == self._seen else min(glance, rests)

    def _reason(self) -> tuple[int, int]:
        """Return why to look: how many batches, and when the marks changed, also between these."""
        with suppress(OSError):
            return self._due, self.run.folder.marks.stat().st_mtime_ns
        return self._due, 0

    def close(self, seconds: float = 0) -> None:
        """End with the run: what can't be told in so many seconds, the next one tells."""
        self.until = time.monotonic() + seconds
        self.closing.set()
        for each in self._tellers:
            each.due.set()
        for each in self._tellers:
            each.thread.join(max(self.until - time.monotonic(), 0))
        self.outbox.close()
        for each in self._tellers:
            if each.waits and seconds:
                waits = f"{counted(each.waits, 'alerts')} could not be sent to {each.shown} yet"
                self.tell(f"{waits}; the next run goes on with that.")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        self.close(END_SECONDS if error is None else 0)


class _Teller:
    """The thread that tells one receiver; ``waits`` is how much it has not taken."""

    def __init__(self, of: Alerting, receiver: Receiver) -> None:
        self.due, self.waits, self.shown = Event(), 0, receiver.shown
        self._of, self._given, self._receiver = of, receiver, receiver
        self._failures, self._said, self._retold_ms = 0, "", 0
        self._heard_ms, self._away_ms = time.time_ns() // 1_000_000, (0, 0)
        self.thread = Thread(target=self._tell_on, name="kstoolkit-alerting", daemon=True)
        self.thread.start()

    def _tell_on(self) -> None:
        while True:
            is_last, pause = self._of.closing.is_set(), self._turn()
            if is_last and (not self.waits or time.monotonic() + pause >= self._of.until):
                return
            wakes = self._of.closing if self._failures else self.due
            (time.sleep if is_last else wakes.wait)(pause)
            self.due.clear()

    def _turn(self) -> float:
        """Tell what there is, and return after how many seconds to look again."""
        try:
            self._tell_all()
        except Exception as error:  # noqa: BLE001 - whatever it is, counting goes on
            why = getattr(error, "message", None) or getattr(error, "strerror", None)
            self._say(f"Alerts to {self.shown} wait: {why or type(error).__name__}.")
            pause = 2.0 ** min(self._failures, 9) * uniform(0.5, 1)  # noqa: S311 - no secret
            self._failures += 1
            self._receiver = self._given  # it may have been another that answered
            time.sleep(min(getattr(error, "seconds", 0.0), _LONGEST_PAUSE))
            return min(pause, _LONGEST_PAUSE)
        now_ms = time.time_ns() // 1_000_000
        if self._failures:
            self._away_ms = (self._heard_ms, now_ms)
        self._failures, self._heard_ms = 0, now_ms
        return self._of.pause()

    def _unheard_ms(self, now_ms: int) -> int:
        """Return since when ends are told again: one that was away missed its time for that."""
        since_ms, until_ms = self._away_ms
        if self._failures:
            now_ms = self._heard_ms
        elif now_ms < until_ms + _ENDED_MS:
            now_ms = since_ms
        return now_ms - _ENDED_MS

    def _tell_all(self) -> None:
        outbox, name = self._of.outbox, self._given.name
        while True:
            found, now_ms = self._of.incidents(), time.time_ns() // 1_000_000
            lasts_ms = 0 if self._receiver.kind == _WEBHOOK else self._of.lasts_ms
            news = list(_news(found, outbox.taken[name], now_ms, lasts_ms))
            if lasts_ms and now_ms - self._retold_ms >= lasts_ms // 4:
                self._retold_ms = now_ms
                news += _ended(found, outbox.taken[name], self._unheard_ms(now_ms))
            self.waits = sum(not each.again for each in news)
            if not news:
                outbox.forget(name, found, now_ms)
                return
            if self._receiver.kind is None:
                self._receiver = self._receiver.settled()
                continue
            most = _AT_ONCE if self._receiver.kind == _ALERTMANAGER else 1
            for at in range(0, len(news), most):
                if time.monotonic() > self._of.until:
                    return
                self._send(news[at : at + most])

    def _send(self, news: Sequence[News]) -> None:
        run = self._of.run.folder.path.name
        refused = self._receiver.told(news, run, time.time_ns() // 1_000_000)
        if refused and len(news) > 1:  # for the sake of one, maybe
            for each in news:
                self._send([each])
            return
        name, outbox = self._given.name, self._of.outbox
        kept = outbox.taken[name].notes
        why = outbox.note(name, {n.id: n.note for n in news if n.note != kept.get(n.id)})
        if refused and not news[0].again:
            told = f"refuses the alert of incident {news[0].id}: {_in_words(refused)}"
            self._say(f"{self.shown} {told}. It is not sent again.")
        elif why:
            self._say(f"What {self.shown} took can't be noted: {why}. It may be told again.")
        else:
            self._said = ""
        self.waits -= sum(not each.again for each in news)

    def _say(self, line: str) -> None:
        if not self._said:
            self._of.tell(line)
        self._said = line
