"""Alerts where something is wrong: with names, servers, the clock, the disk, or the notes."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest
import trustme

import kstoolkit as kst
from kstoolkit.errors import ConfigurationError, FormatError, OutputError
from kstoolkit.pipeline import alerting
from kstoolkit.pipeline.alerting import LIVE_MS, Alerting, Note
from tests.alertmanager import Alertmanager
from tests.changelog.changelogs import HOUR
from tests.pipeline.alerted import (
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
from tests.pipeline.harness import until
from tests.pipeline.test_bad_input import MOUNTING, can_mount
from tests.plots.made import made_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kstoolkit.pipeline.run import Run

DAY = 24 * HOUR


@pytest.fixture
def listener() -> Iterator[Listener]:
    with listening() as listener:
        yield listener


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return made_run(tmp_path / "out", counts={})


def kept(run: Run) -> Path:
    return run.folder.path / "alerts.json"


# ---- what is kept


def test_what_is_kept_says_its_version_and_a_later_one_asks_for_an_upgrade(
    run: Run, listener: Listener
) -> None:
    add_batch(run.folder.path, 0, finding())
    tell(run, hook(listener))
    whole, change = kept(run).read_text().splitlines()
    assert json.loads(whole)["version"] == 1
    assert json.loads(whole)["receivers"].keys() == json.loads(change).keys()
    kept(run).write_text('{"version": 2, "receivers": []}\n')
    with pytest.raises(FormatError, match="version 2: this kstoolkit reads up to version 1") as no:
        tell(run, hook(listener))
    assert "upgrade" in str(no.value)


def test_what_was_kept_without_a_version_is_read_still(run: Run, listener: Listener) -> None:
    add_batch(run.folder.path, 0, finding("Anna"), finding("Bo"))
    anna = next(each for each in run.incidents() if each.user == "Anna")
    note = ["open", 1, NOW - 1, NOW + 1, ["user", "Anna"], None]
    name = hook(listener).name
    kept(run).write_text(json.dumps({name: {"began_ms": 0, "notes": {anna.id: note}}}))
    assert tell(run, hook(listener)) == []
    assert [each.told["incident"]["user"] for each in listener.taken] == ["Bo"]
    add_batch(run.folder.path, 1, reached_ms=OVER)
    tell(run, hook(listener))
    assert listener.keys().count(f"{anna.id}-1-resolved") == 1


@pytest.mark.parametrize("bytes_left", [1, 20, 80])
def test_a_line_that_a_crash_cut_off_is_told_again_under_its_key(
    run: Run, listener: Listener, bytes_left: int
) -> None:
    add_batch(run.folder.path, 0, finding("Anna"), finding("Bo"))
    tell(run, hook(listener))
    *whole, last = kept(run).read_bytes().splitlines(keepends=True)
    kept(run).write_bytes(b"".join(whole) + last[:bytes_left])
    assert tell(run, hook(listener)) == []
    assert len(listener.taken) == 3
    assert listener.keys()[1] == listener.keys()[2]
    tell(run, hook(listener))
    assert len(listener.taken) == 3


@pytest.mark.parametrize("damage", ["{", "[]", '{"version": 1}', "\udcff", '{"http://a": 7}'])
def test_what_is_damaged_is_said_to_be(run: Run, listener: Listener, damage: str) -> None:
    kept(run).write_bytes(os.fsencode(damage))
    with pytest.raises(FormatError, match=r"alerts\.json is damaged: .*\n.*told again"):
        tell(run, hook(listener))


def test_what_cannot_be_read_or_written_is_said(run: Run, listener: Listener) -> None:
    kept(run).mkdir()
    with pytest.raises(FormatError, match="Is a directory"):
        tell(run, hook(listener))
    kept(run).rmdir()
    (run.folder.path / ".alerts.json").mkdir()
    with pytest.raises(OutputError, match=r"alerts\.json can't be written: Is a directory"):
        tell(run, hook(listener))


def test_what_is_deleted_while_it_runs_is_there_again_and_nothing_is_told_twice(
    run: Run, listener: Listener
) -> None:
    with Alerting(run.folder, [hook(listener)], print, lasts_ms=2_000) as alerting_:
        alerting_.batch_ended(add_batch(run.folder.path, 0, finding("Anna")))
        until(lambda: len(listener.taken) == 1, "Anna")
        kept(run).unlink()
        until(kept(run).exists, "the notes")
        kept(run).write_text("{")
        alerting_.batch_ended(add_batch(run.folder.path, 1, finding("Bo"), clock_ms=NOW + 1))
        until(lambda: len(listener.taken) == 2, "Bo")
    assert tell(run, hook(listener)) == []
    assert len(listener.taken) == 2


def test_a_note_costs_the_same_however_many_there_are(run: Run, listener: Listener) -> None:
    to = hook(listener)
    tell(run, to)
    taken = json.loads(kept(run).read_text())
    note = ["resolved", 1, NOW, NOW, ["user", "somebody"]]
    taken["receivers"][to.name]["notes"] = {f"{n:012x}": note for n in range(20_000)}
    kept(run).write_text(json.dumps(taken) + "\n")
    with Alerting(run.folder, [to], print, lasts_ms=LIVE_MS) as alerting_:
        whole = kept(run).stat()
        users = [finding(f"user {n}") for n in range(100)]
        alerting_.batch_ended(add_batch(run.folder.path, 0, *users))
        until(lambda: len(listener.taken) == 100, "all of them")
    after = kept(run).stat()
    assert after.st_ino == whole.st_ino  # it was never written anew
    assert after.st_size - whole.st_size < 100 * 200


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return what sets the clock by which alerts are told."""
    return lambda days: monkeypatch.setattr(time, "time_ns", lambda: (NOW + days * DAY) * 1_000_000)


def test_notes_go_with_the_incidents_that_they_are_of_and_nothing_is_told_anew(
    run: Run, listener: Listener, at: Callable[[int], None]
) -> None:
    users = [f"user {n}" for n in range(5)]
    tell(run, hook(listener))
    at(0)
    add_batch(run.folder.path, 0, *map(finding, users))
    add_batch(run.folder.path, 1, finding("Anna", hours=40), clock_ms=NOW + 1, reached_ms=OVER)
    tell(run, hook(listener))
    told = len(listener.taken)
    assert told == 11
    at(9)
    assert tell(run, hook(listener)) == []
    assert len(noted(run)) == 6
    shutil.rmtree(run.folder.path / "findings" / "epoch=0" / "batch=0")
    assert len(run.incidents()) == 1
    at(3)
    tell(run, hook(listener))
    assert len(noted(run)) == 6  # they may come back
    at(9)
    tell(run, hook(listener))
    assert noted(run) == {each.id for each in run.incidents()}
    tell(run, hook(listener))
    assert len(listener.taken) == told


def noted(run: Run) -> set[str]:
    (receiver,) = alerting._read(kept(run)).values()
    return set(receiver.notes)


# ---- the clock


def going_on(run: Run, note: Note, now_ms: int) -> list[alerting.News]:
    (incident,) = run.incidents()
    taken = alerting._Taken(0, {incident.id: note})
    return list(alerting._news(run.incidents(), taken, now_ms, LIVE_MS))


def test_an_alert_is_kept_alive_where_the_clock_was_set_back_or_ahead_by_a_day(run: Run) -> None:
    add_batch(run.folder.path, 0, finding())
    note = Note("open", 1, NOW, NOW + LIVE_MS)
    assert going_on(run, note, NOW + 1_000) == []
    for now_ms in (NOW - DAY, NOW + DAY):
        (news,) = going_on(run, note, now_ms)
        assert news.again
        assert news.note.ends_ms == now_ms + LIVE_MS
        assert going_on(run, news.note, now_ms + 1_000) == []


def test_an_alert_ends_at_once_where_the_clock_was_set_back_by_a_day() -> None:
    note = Note("open", 1, NOW, NOW + LIVE_MS)
    assert note.ended("resolved", NOW - DAY).ends_ms == NOW - DAY
    assert note.ended("resolved", NOW + 1_000).ends_ms == NOW + 600_000


def test_what_comes_and_goes_after_the_clock_was_set_back_by_days_is_told(
    run: Run, listener: Listener, at: Callable[[int], None]
) -> None:
    tell(run, hook(listener))
    at(0)
    add_batch(run.folder.path, 0, *(finding(f"user {n}") for n in range(3)), reached_ms=OVER)
    tell(run, hook(listener))
    at(-3)
    late = finding("Anna", hours=-48)
    add_batch(run.folder.path, 1, late, clock_ms=NOW - 3 * DAY, reached_ms=OVER)
    before = len(listener.taken)
    tell(run, hook(listener))
    assert [state for _, state in listener.states()[before:]] == ["open", "resolved"]


# ---- names


HOSTILE = [
    "line\nbreak\r\nX-Header: 1",
    "nul\0here",
    "{incident}",
    "{}%s{user}",
    '"}],"labels":{"x":"y',
    "\u2028\u2029\u202eabc\ufeff",
    "../../?a=b#c&d",
    "<script>alert(1)</script>",
    "\x1b[2J\x07",
    "😀\U0010ffff",
    "x" * 1_024,
    "字" * 341,
]


def test_no_name_breaks_what_is_told(run: Run, listener: Listener) -> None:
    add_batch(run.folder.path, 0, *map(finding, HOSTILE))
    link = "https://wiki/{incident}/{user}"
    assert tell(run, hook(listener, link=link)) == []
    told = {each.told["incident"]["user"]: each.told["link"] for each in listener.taken}
    assert sorted(told) == sorted(HOSTILE)
    for user, shown in told.items():
        _, _, _, incident, quoted = shown.split("/")
        assert {each.id: each.user for each in run.incidents()}[incident] == user
        assert all(char.isalnum() or char in "%-._~" for char in quoted)
        assert set(quoted) < set(map(chr, range(33, 127)))


def test_alertmanager_takes_each_name_as_it_is(
    run: Run, listener: Listener, tmp_path: Path
) -> None:
    add_batch(run.folder.path, 0, *map(finding, HOSTILE))
    with Alertmanager(tmp_path / "alertmanager", listener.url) as manager:
        until(lambda: _answers(manager.url), "Alertmanager")
        assert tell(run, kst.alertmanager(manager.url), lasts_ms=3_600_000) == []
        users = sorted(each["labels"]["user"] for each in manager.alerts())
    assert users == sorted(HOSTILE)


def _answers(url: str) -> bool:
    with socket.socket() as asked:
        return asked.connect_ex(("127.0.0.1", int(url.rpartition(":")[2]))) == 0


@pytest.mark.parametrize("link", ["https://a/{}", "https://a/{{incident}}", "https://a/{0}"])
def test_a_link_with_other_holes_is_refused(link: str) -> None:
    with pytest.raises(ConfigurationError, match="leads to no incident"):
        kst.webhook("https://a/b", link=link)


# ---- servers


@contextmanager
def speaking(speak: Callable[[socket.socket], None]) -> Iterator[str]:
    """Return the address of a server that says what it likes, once it was asked."""

    def answer(asking: socket.socket) -> None:
        with asking, suppress(OSError):
            asking.recv(1 << 16)
            speak(asking)

    def serve() -> None:
        with suppress(OSError):
            while True:
                asking, _ = server.accept()
                threading.Thread(target=answer, args=(asking,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def byte_by_byte(asking: socket.socket) -> None:
    for byte in b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 10_000:
        asking.sendall(bytes([byte]))
        time.sleep(0.05)


def without_end(asking: socket.socket) -> None:
    while True:
        asking.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        time.sleep(0.01)


def garbage(asking: socket.socket) -> None:
    asking.sendall(b"\0\xff" * 500 + b"\r\n\r\n")


def too_many_headers(asking: socket.socket) -> None:
    asking.sendall(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 10_000 + b"\r\n")


def in_circles(asking: socket.socket) -> None:
    asking.sendall(b"HTTP/1.1 302 Found\r\nLocation: /hook\r\nContent-Length: 0\r\n\r\n")


SPEAKERS = [byte_by_byte, without_end, garbage, too_many_headers, in_circles]


@pytest.mark.parametrize("speak", SPEAKERS, ids=lambda speak: speak.__name__)
@pytest.mark.parametrize("path", ["/hook", ""])
def test_whoever_speaks_no_sense_is_asked_again_and_holds_up_nobody(
    run: Run,
    listener: Listener,
    speak: Callable[[socket.socket], None],
    path: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(alerting, "_ANSWER_SECONDS", 0.5)
    come, said = [], Told()

    def counted(asking: socket.socket) -> None:
        come.append(asking)
        speak(asking)

    with speaking(counted) as url:
        to = [*alerting.receivers_of(f"{url}{path}"), hook(listener)]
        alerting_ = Alerting(run.folder, to, said, lasts_ms=LIVE_MS)
        alerting_.batch_ended(add_batch(run.folder.path, 0, finding()))
        until(lambda: len(listener.taken) == 1, "the other", seconds=5)
        until(lambda: len(come) >= 2, "that it is asked again", seconds=20)
        began = time.monotonic()
        alerting_.close(1)
        assert time.monotonic() - began < 2
    assert len(said) == 2
    assert said[0].startswith(f"Alerts to {url} wait: ")
    assert said[1].startswith(f"1 alert could not be sent to {url} yet")


def test_an_answer_without_a_text_takes_it(run: Run, listener: Listener) -> None:
    listener.answer = lambda _: 204
    add_batch(run.folder.path, 0, finding())
    assert tell(run, hook(listener)) == []
    assert len(listener.taken) == 1


def test_a_certificate_of_another_host_is_none(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ssl

    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("wiki.example.org").configure_cert(context)
    with listening(tls=context) as other:
        add_batch(run.folder.path, 0, finding())
        said = tell(run, hook(other), seconds=2)
        assert "certificate verify failed" in said[0]
        assert other.came == []


# ---- the disk


FULL = """
    import os, sys
    from pathlib import Path
    import kstoolkit as kst
    from kstoolkit.pipeline.alerting import Alerting
    from tests.pipeline.alerted import Told, add_batch, finding, hook, listening, tell
    from tests.pipeline.harness import until
    from tests.plots.made import made_run

    disk, said = Path(sys.argv[1]), Told()
    run = made_run(disk / "out", counts={})
    kept, filler = run.folder.path / "alerts.json", disk / "filler"
    with listening() as listener:
        listener.answer = lambda _: 503
        add_batch(run.folder.path, 0, *(finding(f"user {n}") for n in range(150)))
        alerting = Alerting(run.folder, [hook(listener)], said, lasts_ms=2_000)
        until(lambda: listener.came, "a try")
        with filler.open("wb", 0) as file:
            try:
                while file.write(b"x" * 1_000):
                    pass
            except OSError as error:
                print("full:", error.strerror)
        listener.answer = lambda _: 200
        until(lambda: len(listener.taken) == 150, "all of them")
        print("notes that fitted:", len(kept.read_bytes().splitlines()) < 150)
        filler.unlink()
        until(lambda: kept.read_text().count("user ") >= 150, "the notes")
        alerting.close(5)
        print(*(line.replace(listener.url, "URL") for line in said), sep="\\n")
        print(tell(run, hook(listener)), len(listener.taken), len(set(listener.keys())))
"""


@pytest.mark.skipif(not can_mount(), reason="no disk of one's own can be mounted")
def test_a_full_disk_holds_up_no_alert_and_is_caught_up_with(tmp_path: Path) -> None:
    shell = 'mount -t tmpfs -o size=300k tmpfs "$1"; exec "$0" -c "$2" "$1"'
    done = subprocess.run(
        [*MOUNTING, shell, sys.executable, str(tmp_path), textwrap.dedent(FULL)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == [
        "full: No space left on device",
        "notes that fitted: True",
        "Alerts to URL wait: 503 Service Unavailable.",
        "What URL took can't be noted: No space left on device. It may be told again.",
        "[] 150 150",
    ], done.stderr
