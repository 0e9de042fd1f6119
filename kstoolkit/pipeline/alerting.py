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
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from http.client import HTTPConnection, HTTPSConnection, responses
from pathlib import Path
from random import uniform
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from urllib.parse import SplitResult, quote, unquote, urlsplit

from kstoolkit.changelog.changelog import replace_text
from kstoolkit.errors import ConfigurationError, FormatError, KstoolkitError
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
_REFUSALS = {400, 413, 415, 422}
"""Answers to what was sent. Others are about an address, a password or a server, which somebody may
mend: nothing is lost by them."""
_TIMEOUT_SECONDS, _LONGEST_PAUSE, _GLANCE_SECONDS = 10.0, 300.0, 15.0
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
    refused: int | None = None

    def ended(self, state: str, now_ms: int) -> Note:
        """Return how it ends: Alertmanager takes what ends later than told before, or by now."""
        least_ms = self.opened_ms + _LEAST_MS
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
        status, retry_after, body = self._asked("GET", _STATUS)
        if status // 100 not in {2, 4} or status in {408, 425, 429}:
            raise _NotTaken(status, retry_after)
        is_manager = status // 100 == 2 and b'"versionInfo"' in body  # noqa: PLR2004 - HTTP's
        return replace(self, kind=_ALERTMANAGER if is_manager else _WEBHOOK)

    def told(self, news: Sequence[News], run: str, now_ms: int) -> int | None:
        """Tell news, one by one unless to an Alertmanager; return the status if they are refused.

        An answer that asks to come again is a KstoolkitError, a broken connection an OSError.
        """
        headers, at = {"Content-Type": "application/json"}, str(now_ms // 1_000)
        if self.kind == _ALERTMANAGER:
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
        path = _ALERTS if self.kind == _ALERTMANAGER else ""
        status, retry_after, _ = self._asked("POST", path, body.encode(), headers)
        if status // 100 != 2 and status not in _REFUSALS:  # noqa: PLR2004 - HTTP's
            raise _NotTaken(status, retry_after)
        return status if status in _REFUSALS else None

    def _asked(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] = {}
    ) -> tuple[int, str, bytes]:
        """Return its answer's status, ``Retry-After`` and text; what redirects leads nowhere."""
        at = urlsplit(self.url)
        secret = unquote(at.netloc.rpartition("@")[0]).encode()
        login = {"Authorization": f"Basic {b64encode(secret).decode()}"} if secret else {}
        kind = HTTPSConnection if at.scheme == "https" else HTTPConnection
        connection = kind(at.hostname or "", at.port, timeout=_TIMEOUT_SECONDS)
        try:
            place = f"{at.path.rstrip('/')}{path}" if path else at.path or "/"
            query = f"?{at.query}" if at.query else ""
            connection.request(method, f"{place}{query}", body, {**headers, **login})
            with connection.getresponse() as answer:
                text = answer.read(_MOST_BYTES) if method == "GET" else b""
                return answer.status, answer.getheader("Retry-After", ""), text
        finally:
            connection.close()

    def _linked(self, news: News) -> str | None:
        user = quote(dict([news.note.about]).get("user", ""), safe="")
        return self.link and self.link.replace("{incident}", news.id).replace("{user}", user)


def _alert(news: News, link: str | None, run: str, now_ms: int) -> dict[str, Any]:
    """Return an alert for Alertmanager: labels stay the same as long as an incident has its id."""
    note, incident = news.note, news.incident
    named = {"alertname": "kstoolkit incident", "incident": news.id, "run": run}
    told = {"labels": named | dict([note.about]), "endsAt": moment_of(note.ends_ms).isoformat()}
    words = {"state": note.state, "link": link or "", "summary": "What was found was taken back."}
    if incident is not None:
        told["startsAt"] = moment_of(min(incident.since_ms, now_ms)).isoformat()
        words |= {"summary": incident.sentence, "certainty": incident.certainty}
        words["state"] += f" into {incident.merged_into}" if note.state == MERGED else ""
    return {**told, "annotations": words}


def alertmanager(url: str, *, link: str | None = None) -> Receiver:
    """Return an Alertmanager as a receiver of alerts, which it groups and passes on.

    Parameters
    ----------
    url
        Where it is, ``http://host:9093``; with ``user:password@`` in it if it asks for them.
    link
        Where an incident can be looked at; ``{incident}`` in it stands for its id, ``{user}`` for
        whom it is about.

    Raises
    ------
    ConfigurationError
        If one of them is no address.

    Examples
    --------
    >>> alertmanager("http://me:secret@127.0.0.1:9093").shown
    'http://127.0.0.1:9093'
    """
    return receiver_of(url, _ALERTMANAGER, link=link)


def webhook(url: str, *, secret: str | None = None, link: str | None = None) -> Receiver:
    """Return an address that takes alerts as JSON, one a request, as a receiver of them.

    Parameters
    ----------
    url, link
        As of :func:`alertmanager`, ``https://host/path``.
    secret
        What each request is signed with, by HMAC.

    Raises
    ------
    ConfigurationError
        If one of them is no address, or the secret is empty.

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
    return tuple(_of_table(each, Path(path), f"{path}, alert {number}") for number, each in tables)


def _of_table(table: Mapping[str, Any], path: Path, where: str) -> Receiver:
    for name, given in table.items():
        if name not in _FIELDS or not isinstance(given, str):
            message = f"{where}: {name} is no text, or no field."
            raise ConfigurationError(message, hint=f"It takes texts: {', '.join(_FIELDS)}.")
    try:
        named = {name: table.get(name) for name in ("url", "kind", "link")}
        return receiver_of(**named, secret=_secret(table, path))
    except ConfigurationError as error:
        message = f"{where}: {error.message}"
        raise ConfigurationError(message, hint=error.hint) from error


def _secret(table: Mapping[str, str], path: Path) -> str | None:
    if (name := table.get("secret_env")) is not None:
        return os.environ.get(name, "")
    if (name := table.get("secret_file")) is None:
        return None
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
    for is_wrong, message, hint in (
        (kind not in {None, *_KINDS}, f"There is no kind {kind!r}.", f"Give {_KINDS}."),
        (secret == "", "The secret is empty.", "Give one that nobody guesses, or none."),
        (secret and kind != _WEBHOOK, "An Alertmanager takes no secret.", "Leave it out."),
        (
            link is not None and not (link.startswith(("http://", "https://")) and holes),
            f"The link {link!r} leads to no incident.",
            "Write https://host/path/{incident}, or {user}.",
        ),
    ):
        if is_wrong:
            raise ConfigurationError(message, hint=hint)
    return Receiver(url=at.geturl(), kind=kind, link=link, secret=secret)


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


class _Outbox:
    """What each receiver took, by its name; of what was over before ``began_ms`` it takes none."""

    def __init__(self, path: Path, names: Sequence[str], clock_ms: int) -> None:
        self._path, self._lock, self._is_closed = path, Lock(), False
        try:
            kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
            self.began_ms = {name: int(each["began_ms"]) for name, each in kept.items()}
            each_noted = {name: each["notes"].items() for name, each in kept.items()}
            self.notes = {n: {i: Note(*of) for i, of in all_} for n, all_ in each_noted.items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            message = f"{path} is damaged."
            hint = "Restore it; without it, what is open is told again."
            raise FormatError(message, hint=hint) from error
        for name in names:
            if name not in self.began_ms:
                self.began_ms[name], self.notes[name] = clock_ms, {}
                self.note(name, {})

    def note(self, name: str, notes: dict[str, Note]) -> None:
        """Keep what a receiver took."""
        with self._lock:
            self.notes[name] = self.notes[name] | notes
            told = {n: {"began_ms": ms, "notes": self.notes[n]} for n, ms in self.began_ms.items()}
            if not self._is_closed:
                replace_text(self._path, json.dumps(told))

    def close(self) -> None:
        """Keep no more: from now on the next run may."""
        with self._lock:
            self._is_closed = True


def _news(
    found: Incidents, notes: Mapping[str, Note], began_ms: int, now_ms: int, lasts_ms: int
) -> Iterator[News]:
    """Yield what has to be told next of each incident, beyond what was taken."""
    rows = found.table.select(["id", "user", "state", "mark", "opened_ms"]).to_pylist()
    left = dict(notes)
    for at, row in sorted(enumerate(rows), key=lambda each: (each[1]["opened_ms"], each[1]["id"])):
        note, mark = left.pop(row["id"], Note()), row["mark"]
        state = mark if row["state"] == OPEN and mark in SETTLED else row["state"]
        is_missed = not note.revision and mark not in SETTLED and row["opened_ms"] > began_ms
        if note.state == OPEN != state:
            yield News(row["id"], note.ended(state, now_ms), found[at])
        elif note.state == OPEN:
            if lasts_ms and note.ends_ms <= now_ms + lasts_ms * 3 // 4:
                going_on = note._replace(ends_ms=now_ms + lasts_ms)
                yield News(row["id"], going_on, found[at], again=True)
        elif state == OPEN or is_missed:
            each, user = found[at], row["user"]
            about = ("action", each.peak.what) if user is None else ("user", user)
            ends_ms = now_ms + (lasts_ms if state == OPEN else _LEAST_MS)
            yield News(each.id, Note(OPEN, note.revision + 1, now_ms, ends_ms, about), each)
    for gone, note in left.items():
        if note.state == OPEN:
            yield News(gone, note.ended(RESOLVED, now_ms), None)


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
        self._due, self._seen, self._rests_until = 0, -1, 0.0
        self._tellers = [_Teller(self, each) for each in receivers]

    def batch_ended(self, done: MicroBatch) -> None:
        """Take in that there is one more batch."""
        if done.findings or self._stirs:
            self._due += 1
            for each in self._tellers:
                each.due.set()

    def incidents(self) -> Incidents:
        """Return them as of the newest batch; to look takes a tenth of the time at most."""
        with self._lock:
            due, began = self._due, time.monotonic()
            if due != self._seen and (began >= self._rests_until or self.closing.is_set()):
                self._found = self.run.incidents()
                self._stirs = OPEN in self._found.table["state"].to_pylist()
                self._seen, self._rests_until = due, 10 * time.monotonic() - 9 * began
            return self._found

    def looks_in(self) -> float:
        """Return in how many seconds it is to look again; never, before there is a reason."""
        left = self._rests_until - time.monotonic()
        return float("inf") if self._due == self._seen else max(left, 0.001)

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
        self._of, self._given, self._failures, self._said = of, receiver, 0, ""
        self._receiver = receiver
        self.thread = Thread(target=self._tell_on, name="kstoolkit-alerting", daemon=True)
        self.thread.start()

    def _tell_on(self) -> None:
        while True:
            is_last = self._of.closing.is_set()
            pause = self._turn()
            if is_last and (not self.waits or time.monotonic() + pause >= self._of.until):
                return
            if is_last:
                time.sleep(pause)
            elif self._failures:
                self._of.closing.wait(pause)
            else:
                self.due.wait(pause)
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
        self._failures = 0
        return min(_GLANCE_SECONDS, self._of.lasts_ms / 16_000, self._of.looks_in())

    def _tell_all(self) -> None:
        while news := self._news():
            self.waits = sum(not each.again for each in news)
            if self._receiver.kind is None:
                self._receiver = self._receiver.settled()
                continue
            most = _AT_ONCE if self._receiver.kind == _ALERTMANAGER else 1
            for at in range(0, len(news), most):
                if time.monotonic() > self._of.until:
                    return
                self._send(news[at : at + most])
        self.waits = 0

    def _news(self) -> list[News]:
        found, outbox, name = self._of.incidents(), self._of.outbox, self._receiver.name
        lasts_ms = 0 if self._receiver.kind == _WEBHOOK else self._of.lasts_ms
        now_ms, notes = time.time_ns() // 1_000_000, outbox.notes[name]
        return list(_news(found, notes, outbox.began_ms[name], now_ms, lasts_ms))

    def _send(self, news: Sequence[News]) -> None:
        run = self._of.run.folder.path.name
        refused = self._receiver.told(news, run, time.time_ns() // 1_000_000)
        if refused and len(news) > 1:  # for the sake of one, maybe
            for each in news:
                self._send([each])
            return
        if refused:
            why = f"refuses the alert of incident {news[0].id}: {_in_words(refused)}"
            self._say(f"{self.shown} {why}. It is not sent again.")
        else:
            self._said = ""
        taken = {each.id: each.note._replace(refused=refused) for each in news}
        self._of.outbox.note(self._receiver.name, taken)
        self.waits -= sum(not each.again for each in news)

    def _say(self, line: str) -> None:
        if not self._said:
            self._of.tell(line)
        self._said = line
