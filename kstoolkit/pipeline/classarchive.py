"""Java's classes in an archive that it maps as it starts, in place of reading each out of a jar.

Half of what Spark's Java takes from its start to the first micro-batch goes by on some 13,000
classes, which are the same each time. Java has an archive for that (class data sharing, JEP 310):
the first start that finds none writes down which classes it loaded, and when it has ended a process
of its own, at the lowest priority, makes the archive. Java itself refuses one that does not fit its
version, its jars or its options, and starts as without it.

    <cache>/classes-<hash of the Java and the Spark>/spark/        a home of Spark's: links to it
                                                    classes.jsa   the archive, 160 to 200 MB
                                                    <pid>.txt     names, while there is none
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark

from kstoolkit.environment import cache_folder
from kstoolkit.errors import ConfigurationError

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway

    from kstoolkit.environment import Java

_LONGEST_MAKING_SECONDS = 600
_UNUSED_SECONDS = 30 * 24 * 3600
_ENDING_SECONDS = 60
_ROOM_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """Where the classes that one Java loads for one Spark are kept: in this user's own folder."""

    folder: Path

    @classmethod
    def of(cls, java: Java) -> ClassArchive | None:
        """Return that of a Java for the Spark that is installed; None where none can be kept."""
        jars = Path(pyspark.__file__).parent / "jars"
        with suppress(OSError, ConfigurationError):
            told = (java.home, java.version, jars, jars.stat().st_mtime_ns)
            name = sha256("\n".join(map(str, told)).encode()).hexdigest()[:16]
            folder = cache_folder() / f"classes-{name}"
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            is_others = folder.stat().st_uid != os.getuid() or folder.stat().st_mode & 0o022
            if not is_others and shutil.disk_usage(folder).free > _ROOM_BYTES:
                return cls(folder)
        return None

    @property
    def file(self) -> Path:
        """The archive itself."""
        return self.folder / "classes.jsa"

    def option(self) -> str:
        """Return what to tell Java: to map the archive or, where there is none, to name classes."""
        if self.file.exists():
            with suppress(OSError):
                os.utime(self.folder)
            return f"-XX:SharedArchiveFile={self.file}"
        return f"-XX:DumpLoadedClassList={self._named_by(os.getpid())}"

    def learn(self, gateway: JavaGateway) -> None:
        """Have the archive made of what a Java loaded, if it names that, once both have ended."""
        named, java = self._named_by(os.getpid()), getattr(gateway, "proc", None)
        if java is not None and named.exists():
            system: Any = gateway.jvm.System
            told = [system.getProperty(name) for name in ("java.home", "java.class.path")]
            asked = [sys.executable, "-m", __name__, str(named), str(java.pid), *told]
            atexit.register(_begin, asked)

    def make(self, named: Path, java_home: str, class_path: str) -> None:
        """Make the archive of the classes that are named, unless another process does."""
        making = self.folder / "making"
        with suppress(FileNotFoundError):
            if time.time() - making.stat().st_mtime > _LONGEST_MAKING_SECONDS:
                shutil.rmtree(making, ignore_errors=True)
        try:
            making.mkdir()
        except FileExistsError:
            return
        try:
            made, listed = making / self.file.name, making / named.name
            names = named.read_text(encoding="utf-8").splitlines(keepends=True)
            # A class that Java made up has no file: what looks at all classes (JFR) would end it.
            listed.write_text("".join(name for name in names if "[SPECIES_RESOLVE]" not in name))
            options = [f"-XX:SharedClassListFile={listed}", f"-XX:SharedArchiveFile={made}"]
            java = [f"{java_home}/bin/java", "-Xshare:dump", "-Xmx1g", *options, "-cp", class_path]
            done = subprocess.run(java, check=False, timeout=_LONGEST_MAKING_SECONDS, **_UNHEARD)  # noqa: S603 - what Spark started
            if done.returncode == 0:
                made.replace(self.file)
        finally:
            shutil.rmtree(making, ignore_errors=True)

    def tidy(self) -> None:
        """Delete names that nobody needs any more, and archives unused for a month."""
        for named in self.folder.glob("*.txt"):
            named.unlink(missing_ok=True)
        for other in self.folder.parent.glob("classes-*"):
            if time.time() - other.stat().st_mtime > _UNUSED_SECONDS:
                shutil.rmtree(other, ignore_errors=True)

    def _named_by(self, process: int) -> Path:
        return self.folder / f"{process}.txt"


_UNHEARD: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)


def _begin(command: list[str]) -> None:
    """Start what goes on when this process has ended."""
    subprocess.Popen(command, start_new_session=True, **_UNHEARD)  # noqa: S603 - our own


def link_home(folder: Path) -> Path:
    """Return a home of Spark's with which local workers import pyspark from where it is installed.

    Spark puts its home's ``pyspark.zip`` first, out of which each kind of worker would compile all
    modules anew: half a second each, for nine of them. A home without it has the same Java.
    """
    home, installed = folder / "spark", Path(pyspark.__file__).parent
    home.mkdir(exist_ok=True)
    for name in ("bin", "jars"):
        with suppress(FileExistsError):
            (home / name).symlink_to(installed / name, target_is_directory=True)
    return home


def _has_ended(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


def main(named: str, java: str, java_home: str, class_path: str) -> None:
    """Make the archive once Java has ended, which then has named all its classes."""
    until = time.monotonic() + _ENDING_SECONDS
    while not _has_ended(int(java)) and time.monotonic() < until:
        time.sleep(0.1)
    os.nice(19)
    archive = ClassArchive(Path(named).parent)
    try:
        if not archive.file.exists():
            archive.make(Path(named), java_home, class_path)
            archive.tidy()
    finally:
        Path(named).unlink(missing_ok=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
