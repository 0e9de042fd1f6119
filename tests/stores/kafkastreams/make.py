"""Make the small real stores again: fetch a Kafka Streams, run its applications, pack what is left.

python -m tests.stores.kafkastreams.make --version 3.9.2 --version 4.3.1
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

from kstoolkit.environment import find_java
from tests.stores.kafkastreams.archives import FOLDER, MADE_AT, RELEASES

if TYPE_CHECKING:
    from collections.abc import Sequence

JAVA = Path(__file__).parent / "java"
STATE_DIR = b"/var/lib/kafka-streams"
"""What the files say in place of the folder that the stores were made in."""

FIRST_WITH_ALL = (3, 8)
FIRST_WITH_HEADERS = (4, 3)
LAST_WITHOUT = (2, 8)


def main() -> int:
    asked = _asked()
    for version in asked.version or RELEASES:
        with tempfile.TemporaryDirectory(prefix="kstoolkit-streams-") as work:
            archive = make(version, Path(work).resolve(), asked.to)
        sys.stdout.write(f"{archive}: {archive.stat().st_size:,} bytes\n")
    return 0


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.stores.kafkastreams.make")
    parser.add_argument("--version", action="append", help=f"default: {', '.join(RELEASES)}")
    parser.add_argument("--to", type=Path, default=FOLDER, help="where the archives go")
    return parser.parse_args()


def make(version: str, work: Path, to: Path) -> Path:
    """Return the archive of what the applications of one release left behind."""
    jars, classes, made = work / "jars", work / "classes", work / "made"
    folders, applications = _parts(version)
    _fetch(version, jars)
    every = f"{jars}{os.sep}*"
    sources = [str(file) for folder in folders for file in sorted((JAVA / folder).glob("*.java"))]
    _run(_tool("javac"), "-encoding", "UTF-8", "-cp", every, "-d", str(classes), *sources)
    for each in applications:
        java = [_tool("java"), "-Xmx512m", "-Dfile.encoding=UTF-8", "-Duser.timezone=UTC"]
        _run(*java, "-cp", f"{classes}{os.pathsep}{every}", each, str(made), version)
    shutil.rmtree(made / "links")
    _forget(made, str(made / "links").encode())
    to.mkdir(parents=True, exist_ok=True)
    archive = to / f"{version}.tar.xz"
    _pack(made, version, archive)
    return archive


def _parts(version: str) -> tuple[list[str], list[str]]:
    """Return the folders of sources for a release, and the applications in them."""
    release = tuple(int(part) for part in version.split(".")[:2])
    if release >= FIRST_WITH_ALL:
        newest = release >= FIRST_WITH_HEADERS
        return (
            ["every", "since_3_8", *(["since_4_3"] if newest else [])],
            ["Application", *(["HeadersApplication"] if newest else [])],
        )
    if release == LAST_WITHOUT:
        return ["every", "before_3_0"], ["Application"]
    message = f"There are no sources for Kafka Streams {version}: give 2.8.x, or 3.8.0 and later."
    raise SystemExit(message)


def _fetch(version: str, jars: Path) -> None:
    """Fetch the jars with Ivy, which comes with PySpark, from Maven Central."""
    ivy = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    module = ["org.apache.kafka", "kafka-streams-test-utils", version]
    wanted = ["-confs", "default", "-types", "jar", "bundle"]
    where = str(jars / "[artifact]-[revision](-[classifier]).[ext]")
    _run(_tool("java"), "-jar", str(ivy), "-dependency", *module, *wanted, "-retrieve", where)


def _tool(name: str) -> str:
    beside = find_java().home / "bin" / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        message = f"There is no {name} beside the Java that runs here: install a JDK, 17 or newer."
        raise SystemExit(message)
    return found


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        shown: Sequence[str] = (done.stdout + done.stderr).splitlines()[-40:]
        message = "\n".join([f"{command[0]} ended with {done.returncode}:", *shown])
        raise SystemExit(message)


def _forget(made: Path, state_dir: bytes) -> None:
    for path in made.rglob("*"):
        if path.name.startswith(("OPTIONS-", "LOG")) and path.stat().st_size:
            path.write_bytes(path.read_bytes().replace(state_dir, STATE_DIR))


def _pack(made: Path, version: str, archive: Path) -> None:
    names = sorted(path.relative_to(made).as_posix() for path in made.rglob("*"))
    with tarfile.open(archive, "w:xz", preset=9) as packed:
        for name in names:
            packed.add(made / name, f"{version}/{name}", recursive=False, filter=_plain)


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mtime = MADE_AT
    member.mode = 0o755 if member.isdir() else 0o644
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    sys.exit(main())
