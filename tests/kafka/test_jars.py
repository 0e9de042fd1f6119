from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from kstoolkit.environment import CACHE_FOLDER, cache_folder
from kstoolkit.errors import ConfigurationError, EnvironmentFault
from kstoolkit.kafka import jars
from kstoolkit.kafka.jars import _REPOSITORY, Artifact, MissingArtifact, fetch
from tests.kafka.repositories import Repository, jar_of, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

APP = Artifact("org.example", "app_2.13", "1.2.0")
CORE = Artifact("org.example.parts", "core", "0.9-rc1")
TEXTS = Artifact("org.example", "texts", "3")

PROGRAM = """
from kstoolkit.kafka.jars import Artifact
from kstoolkit.kafka.jars import fetch
print(*fetch([Artifact("org.example", "app_2.13", "1.2.0")]), sep="\\n")
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "a cache [of ü]"
    monkeypatch.setenv(CACHE_FOLDER, str(folder))
    return folder


@pytest.fixture
def repository(
    cache: Path,  # so that nothing of this gets into the user's
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Repository]:
    """A repository that is asked instead of the public one: an app, and two that it needs."""
    assert not cache.exists()
    with serving() as served:
        served.publish(APP, CORE)
        served.publish(CORE, TEXTS)
        served.publish(TEXTS, packaging="bundle")
        monkeypatch.setenv(_REPOSITORY, served.url)
        monkeypatch.setattr(jars, "_PAUSES_S", (0.01, 0.01))
        yield served


def names(found: tuple[Path, ...]) -> list[str]:
    return [path.name for path in found]


def left_in(cache: Path) -> list[str]:
    """Return what lies in the cache; locks stay, and are empty."""
    there = [path.name for path in (cache / "jars").iterdir()]
    return [name for name in there if not name.endswith(".lock")]


def test_an_artifact_comes_with_all_that_it_needs(repository: Repository) -> None:
    found = fetch([APP])
    assert names(found) == ["app_2.13-1.2.0.jar", "core-0.9-rc1.jar", "texts-3.jar"]
    assert [path.read_bytes() for path in found] == [jar_of(each) for each in (APP, CORE, TEXTS)]
    assert len(repository.jars_asked()) == 3


@pytest.mark.usefixtures("repository")
def test_artifacts_come_alone_if_that_is_asked_for() -> None:
    assert names(fetch([TEXTS, APP], transitive=False)) == ["app_2.13-1.2.0.jar", "texts-3.jar"]


def test_it_is_said_what_is_downloaded_from_where_and_how_much(
    repository: Repository, cache: Path
) -> None:
    told: list[str] = []
    found = fetch([APP], tell=told.append)
    start = "Downloading app_2.13 1.2.0 (org.example) and what it needs from "
    assert told[0] == f"{start}{repository.url} into {cache / 'jars'}."
    size = sum(path.stat().st_size for path in found)
    assert told[1:] == [f"Downloaded 3 jars, {size} B."]


def test_what_is_in_the_cache_needs_no_network(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = fetch([APP, TEXTS])
    asked = len(repository.asked)
    monkeypatch.setenv(_REPOSITORY, "http://127.0.0.1:9")
    told: list[str] = []
    assert fetch([TEXTS, APP], tell=told.append) == found
    assert (len(repository.asked), told) == (asked, [])


def test_what_the_repository_has_not_is_named_and_not_asked_for_again(
    repository: Repository, cache: Path
) -> None:
    told: list[str] = []
    with pytest.raises(MissingArtifact) as caught:
        fetch([Artifact("org.example", "app_2.13", "1.3.0")], tell=told.append)
    missing = "org.example:app_2.13:1.3.0"
    assert caught.value.missing == (missing,)
    assert caught.value.message == (f"{missing} can't be had: {repository.url} has no {missing}.")
    assert str(caught.value.hint).endswith(f"in {_REPOSITORY}.")
    assert len(told) == 1
    assert left_in(cache) == []


def test_a_part_that_is_missing_is_named_with_what_needs_it(
    repository: Repository, cache: Path
) -> None:
    repository.publish(APP, CORE, Artifact("org.example", "gone", "7"))
    with pytest.raises(MissingArtifact, match=r"app_2\.13:1\.2\.0 can't be had") as caught:
        fetch([APP])
    assert caught.value.missing == ("org.example:gone:7",)
    assert left_in(cache) == []


def test_a_part_of_which_only_the_description_is_published_is_missing(
    repository: Repository, cache: Path
) -> None:
    half = Artifact("org.example", "half", "7")
    repository.publish(half, with_jar=False)
    repository.publish(APP, half)
    with pytest.raises(MissingArtifact) as caught:
        fetch([APP])
    assert caught.value.missing == (str(half),)
    assert left_in(cache) == []


def test_a_repository_that_stumbles_is_asked_again(repository: Repository) -> None:
    repository.failing = 2
    told: list[str] = []
    assert len(fetch([APP], tell=told.append)) == 3
    again = [line for line in told if line.startswith("Once more in 0.01 s: SERVER ERROR")]
    assert len(again) in {1, 2}


def test_without_a_network_the_error_says_what_could_not_be_asked_and_what_to_do(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jars, "_PAUSES_S", (0.01,))
    monkeypatch.setenv(_REPOSITORY, "http://127.0.0.1:9")
    with pytest.raises(EnvironmentFault) as caught:
        fetch([APP])
    assert not isinstance(caught.value, MissingArtifact)
    said = r"org\.example:app_2\.13:1\.2\.0 can't be downloaded .*Connection refused"
    assert re.match(said, caught.value.message)
    assert "try again with a network" in str(caught.value.hint)
    assert left_in(cache) == []


def test_bytes_that_are_not_what_was_published_are_refused(
    repository: Repository, cache: Path
) -> None:
    repository.damage("core-0.9-rc1.jar")
    with pytest.raises(EnvironmentFault, match="can't be downloaded"):
        fetch([APP])
    assert left_in(cache) == []


def test_a_jar_that_was_tidied_away_or_cut_off_is_fetched_again(repository: Repository) -> None:
    found = fetch([APP])
    found[1].unlink()
    assert fetch([APP]) == found
    found[2].write_bytes(b"")
    assert fetch([APP]) == found
    assert [path.read_bytes() for path in found] == [jar_of(each) for each in (APP, CORE, TEXTS)]
    assert len(repository.jars_asked()) == 9


def test_processes_that_ask_at_once_download_once(repository: Repository) -> None:
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(3)
    ]
    answers = [process.communicate(timeout=120) for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert len({out for out, _ in answers}) == 1
    assert sorted(err.count(b"Downloaded 3 jars") for _, err in answers) == [0, 0, 1]
    assert len(repository.jars_asked()) == 3


@pytest.mark.kill
def test_a_download_that_was_killed_leaves_nothing_that_could_be_taken_for_whole(
    repository: Repository, cache: Path
) -> None:
    repository.open.clear()
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not repository.jars_asked():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert all(name.startswith(".") for name in left_in(cache))
    repository.open.set()
    assert len(fetch([APP])) == 3
    assert len([name for name in left_in(cache) if not name.startswith(".")]) == 1


def test_a_proxy_is_asked_as_pip_would_ask_it(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", repository.url.removesuffix("/maven"))
    monkeypatch.setenv(_REPOSITORY, "http://repository.invalid/maven")
    assert len(fetch([APP])) == 3


def test_a_pyspark_without_its_jars_is_said(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").touch()
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(EnvironmentFault, match="pyspark, whose jars/ holds the Ivy") as caught:
        fetch([APP])
    assert "install --force-reinstall pyspark" in str(caught.value.hint)
    assert repository.asked == []


def test_the_cache_is_named_or_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv(CACHE_FOLDER, raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == tmp_path / ".cache" / "kstoolkit"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert cache_folder() == tmp_path / "x" / "kstoolkit"
    monkeypatch.setenv(CACHE_FOLDER, str(tmp_path / "y"))
    assert cache_folder() == tmp_path / "y"
    monkeypatch.delenv(CACHE_FOLDER)
    monkeypatch.setenv("XDG_CACHE_HOME", "not/whole")
    with pytest.raises(ConfigurationError, match="no place for a cache"):
        cache_folder()


def test_a_cache_that_cannot_be_written_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(CACHE_FOLDER, str(tmp_path / "file"))
    with pytest.raises(EnvironmentFault, match=r"Jars can't be kept in .*: Not a directory"):
        fetch([APP])


def test_to_ask_for_nothing_is_a_mistake() -> None:
    with pytest.raises(ConfigurationError, match="No artifact"):
        fetch([])


@pytest.mark.parametrize("part", ["", "..", "a/b", "a:b", "../a", "a b", "[1,2)", "1.+", 'x"'])
def test_a_part_that_no_artifact_has_is_refused(part: str) -> None:
    for parts in ((part, "a", "1"), ("g", part, "1"), ("g", "a", part)):
        with pytest.raises(ConfigurationError, match="is no artifact"):
            Artifact(*parts)
