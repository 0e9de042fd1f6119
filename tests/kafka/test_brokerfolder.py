"""A broker's folder, and what is said where there is no broker: nothing is started for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kstoolkit.errors import ConfigurationError, FormatError, InputError, OutputError
from kstoolkit.kafka.broker import Broker, BrokerFolder, Identity, _default_folder

if TYPE_CHECKING:
    from pathlib import Path


def test_where_none_was_ever_started_none_runs(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "new")
    status = broker.status()
    assert (status.running, status.bootstrap, status.version) == (False, None, None)
    assert repr(status) == f"stopped: no broker was ever started in {tmp_path / 'new'}"
    broker.kill()
    for asked in (broker.stop, lambda: broker.bootstrap):
        with pytest.raises(InputError, match="none was ever started there"):
            asked()
    assert not (tmp_path / "new").exists()


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(OutputError, match=r"holds other files: 'thesis\.tex'"):
        Broker(tmp_path).start()
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OutputError, match="No broker can live in"):
            Broker(place).start()


def test_a_folder_that_cannot_be_written_is_said_and_may_be_tried_again(tmp_path: Path) -> None:
    (tmp_path / ".broker.json.part").mkdir()
    folder = BrokerFolder(tmp_path)
    folder.make()
    with pytest.raises(OutputError, match="No broker can live in"):
        folder.keep(Identity.new())


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"inode": inode}', '{"inode": inode, "pid": "x"}']
)
@pytest.mark.parametrize("name", ["broker.json", "process.json"])
def test_files_that_are_not_ours_are_named(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content.replace(": inode", f": {tmp_path.stat().st_ino}"))
    with pytest.raises(FormatError, match=name):
        Broker(tmp_path).status()


def test_a_folder_of_a_newer_version_is_said(tmp_path: Path) -> None:
    (tmp_path / "broker.json").write_text('{"format": 9}')
    with pytest.raises(FormatError, match="broker folder of version 9"):
        Broker(tmp_path).status()


def test_the_default_folder_is_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert Broker().folder == tmp_path / ".local" / "share" / "kstoolkit" / "broker"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert _default_folder() == tmp_path / "data" / "kstoolkit" / "broker"
    monkeypatch.setenv("XDG_DATA_HOME", "not/whole")
    with pytest.raises(ConfigurationError, match="no place for a broker"):
        Broker()
