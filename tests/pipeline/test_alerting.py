"""Alerts reach real servers: at least once, in order, and nothing else waits for them."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import signal
import socket
import subprocess
import threading
import time
from base64 import b64encode
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trustme

import kstoolkit as kst
from kstoolkit.errors import ConfigurationError, FormatError
from kstoolkit.pipeline import alerting
from kstoolkit.pipeline.alerting import BOUNDED_MS, LIVE_MS, Alerting, receivers_of
from tests.alertmanager import Alertmanager, found
from tests.changelog.changelogs import HOUR
from tests.pipeline.alerted import (
    HOOK,
    NOW,
    OVER,
    Listener,
    Told,
    add_batch,
    finding,
    hook,
    listening,
    tell,
)
from tests.pipeline.harness import finish, source, spawn, until
from tests.plots.made import made_run

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator

    from kstoolkit.pipeline.run import Run

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "alerts.md"
SIGNING = "s3cret"


@pytest.fixture
def listener() -> Iterator[Listener]:
    with listening() as listener:
        yield listener


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return made_run(tmp_path / "out", counts={})


def test_an_incident_is_told_as_it_opens_and_as_it_is_over(run: Run, listener: Listener) -> None:
    to = hook(listener, secret=SIGNING, link="https://wiki/{incident}?who={user}")
    tell(run, to)
    add_batch(run.folder.path, 0, finding("Zoë & co"))
    assert tell(run, to) == []
    assert tell(run, to) == []
    add_batch(run.folder.path, 1, reached_ms=OVER)
    assert tell(run, to) == []
    opened, resolved = (each.told for each in listener.taken)
    (incident,) = run.incidents()
    sent_ms = opened.pop("sent_ms")
    assert NOW <= sent_ms <= time.time() * 1_000
    assert opened == {
        "version": 1,
        "id": incident.id,
        "revision": 1,
        "state": "open",
        "run": "out",
        "link": f"https://wiki/{incident.id}?who=Zo%C3%AB%20%26%20co",
        "incident": incident.to_dict() | {"state": "open"},
    }
    assert (resolved["state"], resolved["revision"]) == ("resolved", 1)
    assert listener.keys() == [f"{incident.id}-1-open", f"{incident.id}-1-resolved"]
    for each in listener.taken:
        signed = f"{each.headers['X-Kstoolkit-Timestamp']}.".encode() + each.body
        right = hmac.new(b"s3cret", signed, hashlib.sha256).hexdigest()
        assert each.headers["X-Kstoolkit-Signature"] == f"sha256={right}"
        assert each.path == HOOK


def test_nothing_is_signed_without_a_secret(run: Run, listener: Listener) -> None:
    add_batch(run.folder.path, 0, finding())
    tell(run, hook(listener))
    assert "X-Kstoolkit-Signature" not in listener.taken[0].headers
    assert listener.taken[0].told["link"] is None


def test_what_came_and_went_while_nobody_listened_is_told_in_order(
    run: Run, listener: Listener
) -> None:
    to = hook(listener)
    tell(run, to)
    add_batch(run.folder.path, 0, finding("Anna"), finding("Bo"), reached_ms=OVER)
    tell(run, to)
    states = [state for _, state in listener.states()]
    assert states == ["open", "open", "resolved", "resolved"]
    assert len({each for each, _ in listener.states()}) == 2


def test_of_what_was_over_before_anybody_was_named_nothing_is_told(
    run: Run, listener: Listener
) -> None:
    add_batch(run.folder.path, 0, finding("Anna"), reached_ms=OVER)
    add_batch(run.folder.path, 1, finding("Bo", hours=20), clock_ms=NOW + 1, reached_ms=OVER)
    tell(run, hook(listener))
    open_one = next(each for each in run.incidents() if each.user == "Bo")
    assert listener.states() == [(open_one.id, "open")]


def test_a_receiver_that_is_named_later_has_its_own_beginning(run: Run, listener: Listener) -> None:
    tell(run, hook(listener))
    add_batch(run.folder.path, 0, finding("Anna"), reached_ms=OVER)
    with listening() as later:
        tell(run, hook(listener), hook(later))
        assert later.came == []
    assert [state for _, state in listener.states()] == ["open", "resolved"]


def test_what_several_receivers_took_is_known_to_the_next_run(run: Run, listener: Listener) -> None:
    first, second, third = (kst.webhook(f"{listener.url}/hook/{n}") for n in range(3))
    add_batch(run.folder.path, 0, finding())
    for several, told in (((first, second), 2), ((first, second, third), 3)):
        for _ in range(2):
            tell(run, *several)
            assert len(listener.taken) == told, "each is told once, whenever it was named"


def test_incidents_that_become_one_end_as_merged_into_it(run: Run, listener: Listener) -> None:
    add_batch(run.folder.path, 0, finding(hours=0), finding(hours=7))
    tell(run, hook(listener))
    add_batch(run.folder.path, 1, finding(hours=4), clock_ms=NOW + 1)
    tell(run, hook(listener))
    merged = next(each for each in run.incidents() if each.state == "merged")
    assert listener.states()[2:] == [(merged.id, "merged")]
    assert listener.taken[2].told["incident"]["merged_into"] == merged.merged_into


def test_what_is_taken_back_ends_and_may_open_again(run: Run, listener: Listener) -> None:
    add_batch(run.folder.path, 0, finding())
    tell(run, hook(listener))
    add_batch(run.folder.path, 1, finding(log10_probability=0.0), clock_ms=NOW + 1)
    assert len(run.incidents()) == 0
    tell(run, hook(listener))
    assert listener.taken[1].told["incident"] is None
    add_batch(run.folder.path, 2, finding(count=70), clock_ms=NOW + 2)
    tell(run, hook(listener))
    (incident,) = run.incidents()
    made = [f"{incident.id}-1-open", f"{incident.id}-1-resolved", f"{incident.id}-2-open"]
    assert listener.keys() == made


def news(run: Run, notes: dict[str, alerting.Note], mark: str | None) -> list[alerting.News]:
    found = run.incidents()
    marked = found.marked([mark] * len(found))
    return list(alerting._news(marked, alerting._Taken(0, notes), NOW, LIVE_MS))


@pytest.mark.parametrize("mark", ["muted", "known"])
def test_what_nobody_need_look_at_ends_and_opens_again_once_the_mark_goes(
    run: Run, mark: str
) -> None:
    add_batch(run.folder.path, 0, finding())
    assert news(run, {}, mark) == []
    (opened,) = news(run, {}, None)
    (ended,) = news(run, {opened.id: opened.note}, mark)
    assert (ended.note.state, ended.note.revision, ended.note.ends_ms) == (mark, 1, NOW)
    assert news(run, {opened.id: ended.note}, mark) == []
    (again,) = news(run, {opened.id: ended.note}, None)
    assert (again.note.state, again.note.revision) == ("open", 2)
    add_batch(run.folder.path, 1, reached_ms=OVER)
    assert news(run, {}, mark) == []
    assert news(run, {opened.id: ended.note}, mark) == []
    (over,) = news(run, {opened.id: opened.note}, mark)
    assert over.note.state == "resolved"


def test_a_mark_is_told_although_no_batch_comes(
    run: Run, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alerting, "_GLANCE_SECONDS", 0.05)
    add_batch(run.folder.path, 0, finding())
    with Alerting(run.folder, [hook(listener)], print, lasts_ms=LIVE_MS):
        until(lambda: len(listener.taken) == 1, "what was found")
        run.mark("Anna", "known")
        until(lambda: len(listener.taken) == 2, "that it is known")
        run.unmark("Anna")
        until(lambda: len(listener.taken) == 3, "that it is open again")
    assert [state for _, state in listener.states()] == ["open", "known", "open"]


def test_a_confirmed_incident_is_told_like_any(run: Run) -> None:
    add_batch(run.folder.path, 0, finding())
    assert [each.note.state for each in news(run, {}, "confirmed")] == ["open"]


TWICE: list[tuple[Any, str]] = [
    (503, "503 Service Unavailable"),
    (500, "500 Internal Server Error"),
    (404, "404 Not Found"),
    (401, "401 Unauthorized"),
    ("break", "RemoteDisconnected|BadStatusLine|reset"),
    ((429, {"Retry-After": "1"}, b""), "429 Too Many Requests"),
]


@pytest.mark.parametrize(("answer", "why"), TWICE)
def test_what_is_not_taken_is_told_again_under_the_same_key(
    run: Run, listener: Listener, answer: Any, why: str
) -> None:
    listener.answer = lambda _: answer if len(listener.came) == 1 else 200
    add_batch(run.folder.path, 0, finding())
    said = tell(run, hook(listener))
    first, second = (each.key for each in listener.came)
    assert first == second
    assert len(said) == 1
    assert any(each in said[0] for each in why.split("|")), said
    assert listener.url in said[0]


def test_an_answer_may_ask_for_more_time(run: Run, listener: Listener) -> None:
    times: list[float] = []

    def answer(_: object) -> Any:
        times.append(time.monotonic())
        return (503, {"Retry-After": "3"}, b"") if len(times) == 1 else 200

    listener.answer = answer
    add_batch(run.folder.path, 0, finding())
    assert len(tell(run, hook(listener))) == 1
    assert 3 <= times[1] - times[0] < 5


def test_whoever_does_not_answer_in_time_is_asked_again(
    run: Run, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alerting, "_TIMEOUT_SECONDS", 0.3)

    def answer(_: object) -> int:
        if len(listener.came) == 1:
            time.sleep(1)
        return 200

    listener.answer = answer
    add_batch(run.folder.path, 0, finding())
    (said,) = tell(run, hook(listener))
    assert "TimeoutError" in said
    assert len({each.key for each in listener.came}) == 1


def test_a_path_stays_as_it_is_given(run: Run, listener: Listener) -> None:
    add_batch(run.folder.path, 0, finding())
    tell(run, kst.webhook(f"{listener.url}/a/b/?c=d#e"))
    assert listener.taken[0].path == "/a/b/?c=d"


def test_a_redirect_leads_nowhere_and_carries_nothing_along(run: Run, listener: Listener) -> None:
    with listening() as other:
        listener.answer = lambda _: (307, {"Location": f"{other.url}/x?told"}, b"")
        add_batch(run.folder.path, 0, finding())
        to = f"{listener.url.replace('//', '//me:s3cret@')}/hook"
        said = tell(run, kst.webhook(to), seconds=2)
        assert other.came == []
    login = f"Basic {b64encode(b'me:s3cret').decode()}"
    assert {each.headers["Authorization"] for each in listener.came} == {login}
    assert "307 Temporary Redirect" in said[0]
    assert (
        said[1]
        == f"1 alert could not be sent to {listener.url} yet; the next run goes on with that."
    )
    assert "s3cret" not in "".join(said)


@pytest.mark.parametrize("status", [400, 422])
def test_what_is_refused_is_said_once_and_not_told_again(
    run: Run, listener: Listener, status: int
) -> None:
    listener.answer = lambda _: status if len(listener.came) == 1 else 200
    add_batch(run.folder.path, 0, finding())
    said = tell(run, hook(listener))
    assert len(said) == 1
    assert f"refuses the alert of incident {run.incidents()[0].id}: {status}" in said[0]
    assert tell(run, hook(listener)) == []
    assert len(listener.came) == 1
    add_batch(run.folder.path, 1, reached_ms=OVER)
    assert tell(run, hook(listener)) == []
    assert [each.told["state"] for each in listener.taken] == ["resolved"]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def test_a_receiver_that_is_away_loses_nothing_and_holds_up_neither_batches_nor_others(
    run: Run, listener: Listener
) -> None:
    port, said = free_port(), Told()
    away = kst.webhook(f"http://127.0.0.1:{port}{HOOK}")
    alerting = Alerting(run.folder, [away, hook(listener)], said, lasts_ms=LIVE_MS)
    users = [f"user {number}" for number in range(12)]
    for number, user in enumerate(users):
        done = add_batch(run.folder.path, number, finding(user), clock_ms=NOW + number)
        began = time.monotonic()
        alerting.batch_ended(done)
        assert time.monotonic() - began < 0.1
        until(lambda: len(listener.taken) == number + 1, "the other to be told")  # noqa: B023
    over = add_batch(run.folder.path, 12, clock_ms=NOW + 12, reached_ms=OVER)
    alerting.batch_ended(over)
    until(lambda: len(listener.taken) == 24, "all to be over")
    assert said == [f"Alerts to http://127.0.0.1:{port} wait: Connection refused."]
    with listening(port) as back:
        until(lambda: len(back.taken) == 24, "who was away to be told", seconds=60)
        alerting.close(5)
        told = [(each.told["incident"]["user"], each.told["state"]) for each in back.taken]
    assert told == [(user, "open") for user in users] + [(user, "resolved") for user in users]
    assert len(said) == 1


def test_a_slow_receiver_holds_up_no_other(run: Run, listener: Listener) -> None:
    slow_may = threading.Event()
    with listening() as slow:
        slow.answer = lambda _: slow_may.wait(30) and 200
        alerting = Alerting(run.folder, [hook(slow), hook(listener)], print, lasts_ms=LIVE_MS)
        for number in range(3):
            user = f"user {number}"
            done = add_batch(run.folder.path, number, finding(user), clock_ms=NOW + number)
            alerting.batch_ended(done)
            until(lambda: len(listener.taken) == number + 1, "the fast one", seconds=5)  # noqa: B023
        assert len(slow.came) == 1
        slow_may.set()
        until(lambda: len(slow.taken) == 3, "the slow one")
        alerting.close(5)


def test_the_end_of_a_run_does_not_wait_for_long_and_says_what_the_next_one_tells(run: Run) -> None:
    port = free_port()
    to = kst.webhook(f"http://127.0.0.1:{port}/")
    add_batch(run.folder.path, 0, finding("Anna"), finding("Bo"), finding("Cy"))
    began = time.monotonic()
    said = tell(run, to, seconds=2)
    assert time.monotonic() - began < 3
    left = f"3 alerts could not be sent to http://127.0.0.1:{port} yet"
    assert said[-1] == f"{left}; the next run goes on with that."
    with listening(port) as back:
        assert tell(run, to) == []
        assert len(back.taken) == 3


def test_a_run_that_ended_writes_no_more_into_what_the_next_one_keeps(
    run: Run, listener: Listener
) -> None:
    may = threading.Event()
    listener.answer = lambda _: may.wait(20) and 200
    add_batch(run.folder.path, 0, finding())
    tell(run, hook(listener), seconds=0.5)
    kept = (run.folder.path / "alerts.json").read_bytes()
    may.set()
    until(lambda: listener.taken, "the late answer")
    time.sleep(0.3)
    assert (run.folder.path / "alerts.json").read_bytes() == kept
    tell(run, hook(listener))
    assert len(set(listener.keys())) == 1


def test_without_findings_and_open_incidents_nothing_is_looked_at(
    run: Run, listener: Listener
) -> None:
    with Alerting(run.folder, [hook(listener)], print, lasts_ms=LIVE_MS) as alerting:
        until(lambda: not alerting._stirs, "the first look")
        for number in range(5):
            alerting.batch_ended(add_batch(run.folder.path, number))
        assert alerting._due == 0
        alerting.batch_ended(add_batch(run.folder.path, 5, finding()))
        until(lambda: listener.taken, "what was found")
        alerting.batch_ended(add_batch(run.folder.path, 6, reached_ms=OVER))
        until(lambda: len(listener.taken) == 2, "that it is over")


def test_whoever_is_not_named_leaves_no_outbox(run: Run) -> None:
    add_batch(run.folder.path, 0, finding())
    assert tell(run) == []
    assert not (run.folder.path / "alerts.json").exists()


def test_a_damaged_outbox_is_said_to_be(run: Run, listener: Listener) -> None:
    (run.folder.path / "alerts.json").write_text('{"http://a": {"began_ms": 1}}')
    with pytest.raises(FormatError, match=r"alerts\.json is damaged"):
        tell(run, hook(listener))


def test_no_secret_is_kept_or_said(run: Run, listener: Listener) -> None:
    address = f"{listener.url.replace('//', '//me:p4ss@')}/T0KEN?key=K3Y"
    to = kst.webhook(address, secret=SIGNING)
    listener.answer = lambda _: 503
    add_batch(run.folder.path, 0, finding())
    said = tell(run, to, seconds=1)
    kept = (run.folder.path / "alerts.json").read_text()
    pipeline = kst.Pipeline(source=source(run.folder.path), alert_to=address)
    for each in ("p4ss", "T0KEN", "K3Y", "s3cret"):
        assert each not in kept + "".join(said) + repr(to) + repr(pipeline)
    assert listener.came[0].path == "/T0KEN?key=K3Y"
    body = listener.came[0].body.decode()
    assert "s3cret" not in body + str(listener.came[0].headers)


def test_whoever_shows_no_certificate_that_is_trusted_is_told_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    with listening(tls=_context(authority)) as listener:
        add_batch(run.folder.path, 0, finding())
        said = tell(run, hook(listener), seconds=2)
        assert "certificate verify failed" in said[0]
        assert listener.came == []
        authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        assert tell(run, hook(listener)) == []
        assert len(listener.taken) == 1


def _context(authority: trustme.CA) -> ssl.SSLContext:
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("http://a:9093", None),
        ("http://a:9093/", None),
        ("http://a:9093/api/v2/alerts", "alertmanager"),
        ("http://a/am/api/v2/alerts/", "alertmanager"),
        ("https://a/hook", "webhook"),
        ("https://a?token=1", "webhook"),
    ],
)
def test_an_address_tells_what_it_is_of(url: str, kind: str | None) -> None:
    (receiver,) = receivers_of(url)
    assert receiver.kind == kind


def test_an_address_without_a_path_is_asked_what_it_is(run: Run, listener: Listener) -> None:
    listener.answer = lambda request: 404 if request.method == "GET" else 200
    add_batch(run.folder.path, 0, finding())
    assert tell(run, listener.url) == []
    asked, told = listener.came
    assert (asked.method, asked.path) == ("GET", "/api/v2/status")
    assert (told.path, told.told["state"]) == ("/", "open")


def test_who_answered_in_the_place_of_one_that_was_away_is_no_receiver(
    run: Run, listener: Listener
) -> None:
    def answer(request: Any) -> Any:
        if len(listener.came) < 3:
            return 404  # as a proxy does whose service is down
        return (200, {}, b'{"versionInfo": {}}') if request.method == "GET" else 200

    listener.answer = answer
    add_batch(run.folder.path, 0, finding())
    tell(run, listener.url)
    assert listener.taken[-1].path == "/api/v2/alerts"


def test_whoever_does_not_say_what_it_is_is_asked_again_before_it_is_told(
    run: Run, listener: Listener
) -> None:
    def answer(request: Any) -> Any:
        if request.method == "GET":
            return 503 if len(listener.came) == 1 else (200, {}, b'{"versionInfo": {}}')
        return 200

    listener.answer = answer
    add_batch(run.folder.path, 0, finding())
    assert len(tell(run, listener.url)) == 1
    assert [each.path for each in listener.came] == [*["/api/v2/status"] * 2, "/api/v2/alerts"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("ftp://me:s3cret@a/b", "'a/b' is no address"),
        ("me:s3cret@a", "'a' is no address"),
        ("http://", "is no address"),
        ("http://a b/", "is no address"),
        ("http://a:port/?s3cret", "'http://a:port/' is no address"),
        ("http://ä/", "is no address"),
        ([7], "'' is no address"),
    ],
)
def test_what_is_no_address_is_told_without_what_may_be_secret(given: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told) as raised:
        kst.Pipeline(source=source("in"), alert_to=given)
    assert "s3cret" not in str(raised.value)


def test_an_address_that_is_named_twice_is_told_once() -> None:
    (receiver,) = receivers_of(["http://a/b", "http://c/d", kst.webhook("http://me:x@a/b")])[:1]
    assert len(receivers_of(["http://a/b", "http://me:x@a/b"])) == 1
    assert receiver.url == "http://me:x@a/b"


@pytest.mark.parametrize("link", ["wiki/{incident}", "https://wiki/{usr}", "", "ftp://{user}"])
def test_a_link_that_leads_nowhere_is_refused(link: str) -> None:
    with pytest.raises(ConfigurationError, match="leads to no incident"):
        kst.alertmanager("http://a", link=link)


def test_a_file_names_who_is_alerted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rules.toml"
    (tmp_path / "secret").write_text("s1\n")
    monkeypatch.setenv("HOOK_SECRET", "s2")
    path.write_text(
        """
        [[alert]]
        url = "http://a:9093"
        link = "https://wiki/{incident}"
        [[alert]]
        url = "https://b"
        secret_file = "secret"
        [[alert]]
        url = "https://c/hook"
        secret_env = "HOOK_SECRET"
        [[alert]]
        url = "https://d/x"
        kind = "alertmanager"
        """
    )
    found = kst.load_alerts(path)
    assert [each.kind for each in found] == [None, "webhook", "webhook", "alertmanager"]
    assert [each.secret for each in found] == [None, "s1", "s2", None]
    assert found[0].link == "https://wiki/{incident}"
    assert kst.load_rules(path) == ()
    path.write_text(path.read_text() + '[[rule]]\nkind = "Ceiling"\nwindow = "1 hour"\ncount = 9')
    assert kst.load_rules(path) == (kst.Ceiling("1 hour", 9),)
    assert kst.load_alerts(path) == found


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("url = 'http://a'\nsecret = 's'", "alert 1: secret is no text, or no field"),
        ("url = 7", "alert 1: url is no text, or no field"),
        ("link = 'http://a'", "alert 1: '' is no address"),
        ("url = 'http://a'\nkind = 'slack'", "alert 1: There is no kind 'slack'"),
        (
            "url = 'http://a'\nsecret_env = 'NOWHERE_SET'",
            "alert 1: The secret is empty: no variable 'NOWHERE_SET' is set",
        ),
        ("url = 'http://a'\nsecret_file = 'none'", "alert 1: secret_file = 'none' can't be read"),
        (
            "url = 'http://a'\nkind = 'alertmanager'\nsecret_env = 'PATH'",
            "alert 1: An Alertmanager takes no secret",
        ),
    ],
)
def test_a_table_that_makes_no_sense_is_named(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(f"[[alert]]\n{text}\n")
    with pytest.raises(ConfigurationError, match=rf"rules\.toml, {told}"):
        kst.load_alerts(path)


KILLED = """
    import os, signal, sys
    from pathlib import Path
    import kstoolkit as kst
    from kstoolkit.pipeline.alerting import Alerting, LIVE_MS
    from kstoolkit.pipeline.runfolder import RunFolder

    out, url, event, number = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
    seen = 0
    def end(name, arguments):
        global seen
        is_it = name == event and (name != "open" or arguments[1] == "a")
        seen += is_it
        if is_it and seen == number:
            os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(end)
    with Alerting(RunFolder(out), [kst.webhook(url)], print, lasts_ms=LIVE_MS):
        pass
"""


@pytest.mark.kill
@pytest.mark.parametrize("event", ["open", "socket.connect"])
@pytest.mark.parametrize("number", [1, 2, 4])
def test_whoever_is_killed_before_a_note_or_before_sending_tells_all_and_twice_only_under_one_key(
    run: Run, listener: Listener, event: str, number: int
) -> None:
    users = [f"user {each}" for each in range(4)]
    add_batch(run.folder.path, 0, *map(finding, users), reached_ms=OVER)
    add_batch(run.folder.path, 1, *map(finding, users), clock_ms=NOW + 1)
    url = f"{listener.url}{HOOK}"
    code, _, errors = finish(spawn(KILLED, run.folder.path, url, event, number))
    assert code == -signal.SIGKILL, errors
    assert len(listener.taken) == (number if event == "open" else number - 1)
    assert tell(run, kst.webhook(url)) == []
    counts = Counter(listener.keys())
    assert {each.told["incident"]["user"] for each in listener.taken} == set(users)
    assert len(counts) == 4
    assert sum(counts.values()) == 4 + (event == "open")


# ---- Debian's Alertmanager


@pytest.fixture
def manager(tmp_path: Path, listener: Listener) -> Iterator[Alertmanager]:
    with Alertmanager(tmp_path / "alertmanager", listener.url) as manager:
        yield manager


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have an alert last for as long as this Alertmanager takes, not one with usual settings."""
    monkeypatch.setattr(alerting, "_LEAST_MS", 3_000)


def sent_on(listener: Listener, status: str) -> list[dict[str, Any]]:
    """Return groups of alerts that Alertmanager has passed on."""
    return [each.told for each in listener.taken if each.told["status"] == status]


def _by_user(groups: list[dict[str, Any]]) -> dict[str, int]:
    return {each["groupLabels"]["user"]: len(each["alerts"]) for each in groups}


def test_an_end_is_told_again_to_an_alertmanager_that_was_away_for_long(
    run: Run, listener: Listener, manager: Alertmanager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took the end, which lay ahead, and was gone before it came: nobody heard of it."""
    monkeypatch.setattr(alerting, "_ENDED_MS", 2_000)
    monkeypatch.setattr(alerting, "_LEAST_MS", 4_000)
    until(lambda: _is_up(manager), "Alertmanager")
    said = Told()
    teller = Alerting(run.folder, [kst.alertmanager(manager.url)], said, lasts_ms=2_000)
    teller.batch_ended(add_batch(run.folder.path, 0, finding()))
    until(lambda: sent_on(listener, "firing"), "that it fires")
    teller.batch_ended(add_batch(run.folder.path, 1, clock_ms=NOW + 1, reached_ms=OVER))
    until(lambda: noted_states(run) == {"resolved"}, "that its end was taken")
    manager.__exit__()
    until(lambda: said, "that it is missed")
    time.sleep(7)  # its end, and the time in which that is told again, are over
    with manager:
        (resolved,) = until(lambda: sent_on(listener, "resolved"), "that it is over")
    teller.close(5)
    assert [each["labels"]["user"] for each in resolved["alerts"]] == ["Anna"]


def noted_states(run: Run) -> set[str]:
    kept = alerting._read(run.folder.path / "alerts.json")
    return {note.state for each in kept.values() for note in each.notes.values()}


def test_alertmanager_has_an_alert_for_each_incident_and_passes_them_on_by_user(
    run: Run, listener: Listener, manager: Alertmanager
) -> None:
    until(lambda: _is_up(manager), "Alertmanager")
    add_batch(run.folder.path, 0, finding("Anna"), finding("Anna", hours=10), finding('B"o\n名'))
    to = kst.alertmanager(manager.url, link="https://wiki/{incident}")
    tell(run, to, lasts_ms=BOUNDED_MS)
    alerts = {each["labels"]["incident"]: each for each in manager.alerts()}
    incidents = {each.id: each for each in run.incidents()}
    assert alerts.keys() == incidents.keys()
    for name, each in incidents.items():
        labels = {"alertname": "kstoolkit incident", "incident": name, "run": "out"}
        assert alerts[name]["labels"] == labels | {"user": each.user}
        assert alerts[name]["annotations"] == {
            "summary": each.sentence,
            "certainty": each.certainty,
            "state": "open",
            "link": f"https://wiki/{name}",
        }
        assert datetime.fromisoformat(alerts[name]["startsAt"]) == each.since
        ends = datetime.fromisoformat(alerts[name]["endsAt"]).timestamp()
        assert 86_000 < ends - time.time() < 86_500
    right = {"Anna": 2, 'B"o\n名': 1}
    until(lambda: _by_user(sent_on(listener, "firing")) == right, "a group for each user")


@pytest.mark.usefixtures("soon")
def test_an_alert_stays_the_same_while_it_is_kept_alive_and_is_resolved_when_it_is_over(
    run: Run, listener: Listener, manager: Alertmanager
) -> None:
    to = kst.alertmanager(manager.url)
    alerting = Alerting(run.folder, [to], print, lasts_ms=2_000)
    alerting.batch_ended(add_batch(run.folder.path, 0, finding()))
    (first,) = until(manager.alerts, "the alert")
    alerting.batch_ended(add_batch(run.folder.path, 1, finding(hours=2), clock_ms=NOW + 1))
    time.sleep(5)  # it would have ended by itself
    (later,) = manager.alerts()
    assert later["fingerprint"] == first["fingerprint"]
    assert later["startsAt"] == first["startsAt"]
    assert later["endsAt"] > first["endsAt"]
    assert later["annotations"] != first["annotations"]
    assert sent_on(listener, "resolved") == []
    over = add_batch(run.folder.path, 2, clock_ms=NOW + 2, reached_ms=OVER + 2 * HOUR)
    alerting.batch_ended(over)
    (resolved,) = until(lambda: sent_on(listener, "resolved"), "that it is over")
    alerting.close(5)
    assert [each["fingerprint"] for each in resolved["alerts"]] == [first["fingerprint"]]
    assert len(sent_on(listener, "firing")) == 1
    assert manager.alerts() == []


@pytest.mark.usefixtures("soon")
def test_what_is_over_as_it_is_found_is_passed_on_all_the_same(
    run: Run, listener: Listener, manager: Alertmanager
) -> None:
    to = kst.alertmanager(manager.url)
    tell(run, to)
    add_batch(run.folder.path, 0, finding(), reached_ms=OVER)
    until(lambda: manager.alerts() == [] and _is_up(manager), "Alertmanager")
    tell(run, to, lasts_ms=BOUNDED_MS)
    until(lambda: sent_on(listener, "firing"), "the alert")
    until(lambda: sent_on(listener, "resolved"), "its end")


def test_an_alert_that_a_bounded_run_left_ends_with_the_run_that_finds_it_over(
    run: Run, listener: Listener, manager: Alertmanager
) -> None:
    to = kst.alertmanager(manager.url)
    until(lambda: _is_up(manager), "Alertmanager")
    add_batch(run.folder.path, 0, finding(), finding("Bo"))
    tell(run, to, lasts_ms=BOUNDED_MS)
    until(lambda: len(sent_on(listener, "firing")) == 2, "the alerts")
    add_batch(run.folder.path, 1, finding(log10_probability=0.0), clock_ms=NOW + 1, reached_ms=OVER)
    tell(run, to, lasts_ms=BOUNDED_MS)
    until(lambda: len(sent_on(listener, "resolved")) == 2, "their ends")
    summaries = {
        each["commonLabels"]["user"]: each["commonAnnotations"]["summary"]
        for each in sent_on(listener, "resolved")
    }
    assert summaries["Anna"] == "What was found was taken back."


def test_an_alertmanager_that_is_not_there_yet_is_recognised_when_it_comes(
    run: Run, tmp_path: Path, listener: Listener
) -> None:
    manager, said = Alertmanager(tmp_path / "late", listener.url), Told()
    add_batch(run.folder.path, 0, finding())
    with Alerting(run.folder, receivers_of(manager.url), said, lasts_ms=LIVE_MS), manager:
        until(manager.alerts, "the alert", seconds=60)
    assert said == [f"Alerts to {manager.url} wait: Connection refused."]


def test_one_alert_that_alertmanager_refuses_keeps_no_other_from_it(
    run: Run, manager: Alertmanager
) -> None:
    until(lambda: _is_up(manager), "Alertmanager")
    add_batch(run.folder.path, 0, finding("Anna"), finding("Bo"))
    to = kst.alertmanager(manager.url)
    alerting_ = Alerting(run.folder, [], print, lasts_ms=LIVE_MS)
    now_ms = time.time_ns() // 1_000_000
    nothing = alerting._Taken(0, {})
    news = list(alerting._news(alerting_.incidents(), nothing, now_ms, LIVE_MS))
    ends_first = news[0]._replace(note=news[0].note._replace(ends_ms=1))
    said = Told()
    sending = Alerting(run.folder, [to], said, lasts_ms=LIVE_MS)
    sending.close(10)
    sending.tell, refused = Told(), sending._tellers[0]
    refused._send([ends_first, news[1]])
    assert f"refuses the alert of incident {news[0].id}: 400" in sending.tell[0]
    until(lambda: len(manager.alerts()) == 2, "both alerts")


def test_the_page_shows_a_route_that_alertmanager_takes_and_the_fields_that_are_sent(
    run: Run, listener: Listener, tmp_path: Path
) -> None:
    found() or pytest.skip("no prometheus-alertmanager")
    page = PAGE.read_text(encoding="utf-8")
    shown = dict(re.findall(r"```(yaml|json)\n(.*?)```", page, re.DOTALL))
    (tmp_path / "route.yml").write_text(shown["yaml"])
    told = subprocess.run(
        ["amtool", "check-config", tmp_path / "route.yml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stdout + told.stderr
    add_batch(run.folder.path, 0, finding())
    tell(run, hook(listener))
    assert json.loads(shown["json"]).keys() == listener.taken[0].told.keys()


def _is_up(manager: Alertmanager) -> bool:
    with socket.socket() as asked:
        return asked.connect_ex(("127.0.0.1", int(manager.url.rpartition(":")[2]))) == 0
