"""The run of 0.1 that is kept beside these tests, put where a test wants it.

A run's folder names places: the ledger has its files by their paths, and Spark's checkpoint that of
its own schemas. Here both are told the new place, as nobody but the tests needs to move a run.
"""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import NamedTuple

__all__ = ["KeptRun", "kept_run"]

ARCHIVE = Path(__file__).with_name("run-of-0.1.tar.xz")
MADE_IN = "/tmp/kstoolkit-run-of-0.1"  # noqa: S108 - where it was made; nothing is written there


class KeptRun(NamedTuple):
    """Where the run is, what it was made of, what it goes on with, and a replica of it."""

    out: Path
    events: Path
    third: Path
    rules: Path
    replica: Path


def kept_run(folder: Path) -> KeptRun:
    """Put the run into a folder."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    place = folder / Path(MADE_IN).name
    for path in _that_name_places(place / "out"):
        path.write_text(path.read_text().replace(MADE_IN, str(place)))
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    return KeptRun(
        place / "out",
        place / "events",
        place / "third.json",
        place / "rules.toml",
        place / "replica",
    )


def _that_name_places(out: Path) -> list[Path]:
    schemas = out.glob("checkpoint/state/*/_metadata/v2/*")
    return [out / "files.jsonl", *(each for each in schemas if each.suffix != ".crc")]
