"""A password goes to the servers that it belongs to: a folder from elsewhere gets none of it."""

from __future__ import annotations

import json
import socket
from contextlib import closing, suppress
from threading import Thread
from typing import TYPE_CHECKING

import pytest

import kstoolkit as kst
from kstoolkit.errors import ConfigurationError
from tests.cli.commands import COLUMNS, given
from tests.face.keptrun import kept_run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PASSWORD = "correct horse"  # noqa: S105 - nobody's
SETTINGS = f"""\
security.protocol=SASL_PLAINTEXT
sasl.mechanism=PLAIN
sasl.username=me
sasl.password={PASSWORD}
"""


class Stranger:
    """A server on loopback that is nobody's broker, and remembers who called."""

    def __init__(self) -> None:
        self.calls = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self._thread = Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        with suppress(OSError):  # closed
            while True:
                self._listening.accept()[0].close()
                self.calls += 1

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join()


@pytest.fixture
def stranger() -> Iterator[Stranger]:
    with closing(Stranger()) as server:
        yield server


@pytest.fixture
def foreign(stranger: Stranger, tmp_path: Path) -> Path:
    """A run's folder that names the stranger for its events and for its counts."""
    out = kept_run(tmp_path).out
    settings = json.loads((out / "run.json").read_text())
    settings |= {"source": f"kafka://{stranger.address}/actions", "feed": "topic"}
    settings |= {"changelog": f"kafka://{stranger.address}/counts"}
    (out / "run.json").write_text(json.dumps(settings))
    return out


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of settings that the environment names."""
    path = tmp_path / "client.properties"
    path.write_text(SETTINGS)
    monkeypatch.setenv("KSTOOLKIT_KAFKA_CONFIG", str(path))
    return path


COMMANDS = (
    ("counts", "OUT", "--window", "1 hour"),
    ("users", "OUT"),
    ("findings", "OUT"),
    ("report", "OUT"),
    ("lag", "OUT", "--over", "0 s"),
    ("reset", "OUT", "--to", "earliest"),
    ("restore", "OUT", "REPLICA"),
    ("diff", "OUT", "OUT", "--window-size", "1 hour"),
)


@pytest.mark.parametrize("owner", ["nobody", "others"])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: str(words[0]))
def test_a_folder_from_elsewhere_gets_no_call_of_who_has_a_password(
    stranger: Stranger, foreign: Path, config: Path, command: tuple[str, ...], owner: str
) -> None:
    if owner == "others":
        config.write_text(SETTINGS + "bootstrap.servers=kafka.example:9093,other.example:9093\n")
    places = {"OUT": foreign, "REPLICA": foreign.parent / "new"}
    words = [places.get(word, word) for word in command]
    for told in ((), ("--kafka-config", config)):
        answer = given(*words, *told)
        assert answer.code == 2
        error, hint = answer.err.splitlines()
        assert f"names the servers '{stranger.address}', and the settings" in error
        assert hint.endswith(f"add to the settings: bootstrap.servers={stranger.address}")
        assert PASSWORD not in answer.err
    assert stranger.calls == 0


def test_who_says_that_the_servers_are_known_calls_them(
    stranger: Stranger, foreign: Path, config: Path
) -> None:
    config.write_text(SETTINGS + f"bootstrap.servers=SASL_PLAINTEXT://{stranger.address}\n")
    answer = given("counts", foreign, "--window", "1 hour")
    assert f"No Kafka broker answers at '{stranger.address}'" in answer.err
    assert stranger.calls > 0


def test_without_settings_there_is_nothing_to_give_away(stranger: Stranger, foreign: Path) -> None:
    answer = given("counts", foreign, "--window", "1 hour")
    assert f"No Kafka broker answers at '{stranger.address}'" in answer.err
    assert stranger.calls > 0


@pytest.mark.parametrize(
    "name", ["bootstrap.servers", "metadata.broker.list", "java.bootstrap.servers"]
)
def test_settings_of_other_servers_than_those_given_are_refused(
    stranger: Stranger, config: Path, tmp_path: Path, name: str
) -> None:
    config.write_text(f"{SETTINGS}{name}={stranger.address}\n")
    topic, events = "kafka://dev.example:9092/actions", tmp_path / "events.json"
    events.write_text('{"time": 0, "user": "Anna", "action": "read"}\n')
    commands = (
        ("produce", events, "--to", topic, "--event-time", "time", "--user", "user"),
        ("run", topic, *COLUMNS, "--out", tmp_path / "out"),
        ("run", events, *COLUMNS, "--out", tmp_path / "out", "--changelog", topic),
        ("run", events, *COLUMNS, "--out", tmp_path / "out", "--findings-to", topic),
        ("lag", "kafka://dev.example:9092", "--group", "billing"),
        ("rows", topic),
        ("restore", topic, tmp_path / "replica"),
    )
    for command in commands:
        answer = given(*command)
        assert answer.code == 2
        assert f"of the servers '{stranger.address}', and 'dev.example:9092' is" in answer.err
    with pytest.raises(ConfigurationError, match=r"and 'dev\.example:9092' is given"):
        kst.ensure_topic("asks", bootstrap="dev.example:9092")
    assert stranger.calls == 0
