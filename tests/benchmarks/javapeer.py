"""Contestants in Java: their jars, their classes, and how they are run.

Jars come from the public Maven repository, once, into the cache that kstoolkit's own come into;
sources lie in ``java/`` and are compiled beside what they measure.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kstoolkit.environment import find_java
from kstoolkit.errors import EnvironmentFault
from kstoolkit.kafka.jars import Artifact, fetch
from tests.jdk import found

if TYPE_CHECKING:
    from collections.abc import Sequence

SOURCES = Path(__file__).parent / "java"
KAFKA_STREAMS = ("StreamsCounts", [Artifact("org.apache.kafka", "kafka-streams", "4.3.1")])
_FLINK, _VERSION = "org.apache.flink", "2.3.0"
FLINK = (
    "FlinkCounts",
    [
        Artifact(_FLINK, "flink-clients", _VERSION),
        Artifact(_FLINK, "flink-table-planner-loader", _VERSION),
        Artifact(_FLINK, "flink-table-runtime", _VERSION),
        Artifact(_FLINK, "flink-statebackend-rocksdb", _VERSION),
        Artifact(_FLINK, "flink-json", _VERSION),
        Artifact(_FLINK, "flink-connector-base", _VERSION),
        Artifact(_FLINK, "flink-connector-kafka", "5.0.0-2.2"),  # the newest that there is for 2.x
    ],
)
HELPERS = {"StreamsCounts": ["Ends", "Marks"], "FlinkCounts": ["Ends", "KeptMetrics", "Marks"]}
# Without it neither says anything; it writes to stderr.
_LOG = Artifact("org.slf4j", "slf4j-simple", "1.7.36")


def classpath(peer: tuple[str, Sequence[Artifact]], folder: Path) -> str:
    """Return the classpath of a contestant; it is compiled into a folder if it is not there yet."""
    name, artifacts = peer
    jars = [str(jar) for jar in (*fetch(artifacts), *fetch([_LOG]))]
    classes = folder / name
    if not (classes / f"{name}.class").exists():
        javac = found()
        if javac is None:
            message = "There is no javac, and the rivals in Java are compiled here."
            raise EnvironmentFault(message, hint="Run: make jdk")
        files = [str(SOURCES / f"{each}.java") for each in (name, *HELPERS[name])]
        lint = ["-Xlint:all,-classfile,-processing,-serial", "-Werror", "--release", "17"]
        path = ["-cp", os.pathsep.join(jars), "-d", str(classes), "-encoding", "UTF-8"]
        subprocess.run([javac, *lint, *path, *files], check=True)
    return os.pathsep.join([str(classes), str(SOURCES), *jars])


def run(peer: tuple[str, Sequence[Artifact]], folder: Path, *arguments: str) -> dict[str, Any]:
    """Run a contestant to its end, pass on what it says, and return what it notes at last."""
    java = [str(find_java().home / "bin" / "java"), "-Xmx2g", *_OPTIONS]
    command = [*java, "-cp", classpath(peer, folder), peer[0], *arguments]
    noted: dict[str, Any] = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            told = json.loads(line)
            if told["mark"] == "noted":
                noted = {name: value for name, value in told.items() if name != "mark"}
            else:
                sys.stdout.write(line)
                sys.stdout.flush()
    if process.returncode:
        raise SystemExit(process.returncode)
    return noted


_OPTIONS = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Duser.timezone=UTC",
    # Flink's serializers look into Java's own classes.
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
)
