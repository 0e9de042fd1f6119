"""Real stores of Kafka Streams for tests: the project's own, and larger ones where they are."""

from __future__ import annotations

import json
import os
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

FOLDER = Path(__file__).parent
SHARED = Path(__file__).parents[4] / "shared" / "fixtures"

STATES = {"2.8.2": ("clean",), "3.9.2": ("clean",), "4.3.1": ("clean", "headers-clean")}
"""The state directories in the project's own archives, by release."""

SHARED_STATES = {
    "2.8.2": ("clean",),
    "3.9.2": ("clean", "tuned-clean", "leveled-clean"),
    "4.3.1": ("clean", "tuned-clean", "leveled-clean", "headers-clean"),
}
"""Those in the larger archives that have one set of expected contents: all but the killed."""

RELEASES = tuple(STATES)

MADE_AT = 1_700_003_700
"""The time of every file in our archives, in seconds: just after the last event."""

_unpacked: dict[Path, Path] = {}


@dataclass(frozen=True, slots=True)
class State:
    """A state directory in an archive, beside what its application read out before it closed."""

    archive: Path
    version: str
    name: str

    def __str__(self) -> str:
        origin = "own" if self.archive.parent == FOLDER else "shared"
        return f"{origin}-{self.version}-{self.name}"

    def directory(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """Return the state directory: the folder with that of the application inside."""
        return _unpack(self.archive, tmp_path_factory) / self.version / self.name

    def stores(self, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
        """Return the stores with their expected rows; those in memory are among them."""
        folder = _unpack(self.archive, tmp_path_factory) / self.version / "expected"
        text = (folder / f"{self.name}.json").read_text(encoding="utf-8")
        found: list[dict[str, Any]] = json.loads(text)["stores"]
        return found


def states(version: str) -> list[State]:
    """Return the state directories of a release that closed cleanly: ours, and the larger ones."""
    own = [State(archive_of(version), version, name) for name in STATES[version]]
    there = Path(os.environ.get("KSTOOLKIT_FIXTURES_DIR", SHARED)) / "kafka_streams"
    larger = there / f"{version}.tar.gz"
    if larger.is_file():
        own.extend(State(larger, version, name) for name in SHARED_STATES[version])
    return own


def archive_of(version: str) -> Path:
    """Return the project's own archive of a release."""
    return FOLDER / f"{version}.tar.xz"


def unpacked(tmp_path_factory: pytest.TempPathFactory, version: str) -> Path:
    """Return the folder with the project's own states of a release, and ``expected`` beside."""
    return _unpack(archive_of(version), tmp_path_factory) / version


def _unpack(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where an archive lies open; each is unpacked once a run."""
    if archive not in _unpacked:
        folder = tmp_path_factory.mktemp("streams")
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        _unpacked[archive] = folder
    return _unpacked[archive]
