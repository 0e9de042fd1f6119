from __future__ import annotations

import socket
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cli.commands import COLUMNS, given

if TYPE_CHECKING:
    from pathlib import Path

EVENT = '{"time": "2026-03-01T00:00:00Z", "user": "Anna", "action": "read"}\n'


@pytest.fixture
def command(tmp_path: Path) -> tuple[object, ...]:
    (tmp_path / "a.json").write_text(EVENT)
    return ("run", tmp_path / "a.json", *COLUMNS, "--out", tmp_path / "out", "--metrics-port")


@pytest.mark.parametrize("follow", [(), ("--follow",)])
def test_a_port_that_is_taken_ends_it_before_anything_is_counted(
    follow: tuple[str, ...], command: tuple[object, ...], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        answer = given(*command, port, *follow)
    assert (answer.code, answer.out) == (2, "")
    assert f"Metrics can't be served at port {port} of '127.0.0.1': it is taken." in answer.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("port", ["-1", "65536", "http"])
def test_what_is_no_port_is_refused(port: str, command: tuple[object, ...]) -> None:
    answer = given(*command, port)
    assert answer.code == 2
    assert "--metrics-port" in answer.err


def test_without_the_extra_it_is_named(
    command: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    answer = given(*command, 0)
    assert answer.code == 2
    assert 'pip install "kstoolkit[operations]"' in answer.err
