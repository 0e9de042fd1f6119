"""Jars from a Maven repository in a cache of this user's: there in full, or not at all.

::

    <cache>/jars/<name>-<version>-<hash of what was asked for>/*.jar
                                                              /contents.json: each jar's size

The cache is ``KSTOOLKIT_CACHE_DIR``, else ``kstoolkit`` in ``XDG_CACHE_HOME`` or in ``~/.cache``.
What is in it is never asked for again, so no network is needed from then on. What is missing is
fetched by one call of Ivy, which lies among PySpark's jars: Java alone, neither Maven nor Spark.

Spark's connector to Kafka is asked for by the version of the very Spark. Where the repository lacks
it, or a part of it, the nearest set stands in that this package's tests run with, which is said.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.request
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

from kstoolkit.environment import CACHE_FOLDER, cache_folder, find_java, pip_command
from kstoolkit.errors import ConfigurationError, EnvironmentFault, to_stderr
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    Tell = Callable[[str], object]

_REPOSITORY = "KSTOOLKIT_MAVEN_REPOSITORY"
"""The environment variable for the URL of another Maven repository than the public one."""

_PATTERN = "[artifact]-[revision](-[classifier]).[ext]"
_TROUBLE = re.compile(
    r"^\s*(SERVER ERROR: .+|Server access error at url .+|Host \S+ not found.+"
    r"|problem while downloading .+|impossible to .+|.*(?:invalid|bad) (?:sha1|md5).*)$",
    re.MULTILINE,
)
_UNRESOLVED = re.compile(r"^\s*:: ([^#\s]+)#([^;\s]+);([^!:\s]+)[!:]", re.MULTILINE)

_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="maven"/>
  <timeout-constraints>
    <timeout-constraint name="patience" connectionTimeout="15000" readTimeout="60000"/>
  </timeout-constraints>
  <resolvers>
    <ibiblio name="maven" m2compatible="true" timeoutConstraint="patience"{root}/>
  </resolvers>
</ivysettings>
"""

_MODULE = """\
<ivy-module version="2.0">
  <info organisation="kstoolkit" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""


def _retrieve(artifacts: Sequence[Artifact], folder: Path, *, transitive: bool) -> str | None:
    """Have the jars of ``artifacts``, as checked, in ``jars`` of a folder for this alone.

    If not all come, return what Ivy says; what came stays there for the next try.
    """
    java, ivy = find_java().home / "bin" / "java", _ivy_jar()
    root = os.environ.get(_REPOSITORY)
    settings = _SETTINGS.format(root=f" root={quoteattr(root)}" if root else "")
    (folder / "settings.xml").write_text(settings, encoding="utf-8")
    wanted = "\n".join(_dependency(each, transitive=transitive) for each in artifacts)
    (folder / "ivy.xml").write_text(_MODULE.format(dependencies=wanted), encoding="utf-8")
    # Relative paths: in Ivy's patterns brackets mean something, and a folder's name may have some.
    files = ["-settings", "settings.xml", "-ivy", "ivy.xml", "-cache", "ivy"]
    what = ["-confs", "default", "-types", "jar", "bundle", "-retrieve", f"jars/{_PATTERN}"]
    command = [str(java), *_proxies(), "-jar", str(ivy), *files, *what, "-warn"]
    done = subprocess.run(  # noqa: S603 - our own
        command, cwd=folder, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, check=False
    )
    if done.returncode or not any(folder.glob("jars/*.jar")):
        return done.stdout.decode(errors="replace")
    return None


def _dependency(artifact: Artifact, *, transitive: bool) -> str:
    org, name, version = map(quoteattr, (artifact.group, artifact.name, artifact.version))
    what = f'org={org} name={name} rev={version} conf="default-&gt;default"'
    return f'    <dependency {what} transitive="{str(transitive).lower()}"/>'


def _ivy_jar() -> Path:
    # Found without importing it: pyspark takes its time, and nothing of it runs here.
    found = find_spec("pyspark")
    for place in (found and found.submodule_search_locations) or ():
        for jar in sorted(Path(place, "jars").glob("ivy-*.jar")):
            return jar
    message = "The package pyspark, whose jars/ holds the Ivy that fetches jars, is not complete."
    raise EnvironmentFault(message, hint=f"Run: {pip_command('pyspark', again=True)}")


def _proxies() -> list[str]:
    """Return the proxies that pip would use, in Java's words: it doesn't read the environment."""
    options = []
    for scheme, place in urllib.request.getproxies().items():
        proxy = urlsplit(place if "//" in place else f"//{place}")
        if scheme in {"http", "https"} and proxy.hostname:
            options += [f"-D{scheme}.proxyHost={proxy.hostname}"]
            options += [f"-D{scheme}.proxyPort={proxy.port}"] if proxy.port else []
    return options


def _trouble(said: str) -> tuple[str, tuple[str, ...]]:
    """Return the line of Ivy's that says what is wrong, and all that the repository lacks."""
    if trouble := _TROUBLE.search(said):
        return trouble[1].strip(), ()
    lines = [line.strip() for line in said.splitlines() if line.strip(" .:")]
    missing = dict.fromkeys(":".join(found) for found in _UNRESOLVED.findall(said))
    return lines[-1] if lines else "no reason given", tuple(missing)


_CONTENTS = "contents.json"
_UNTRUSTED = "SSLHandshakeException"
_PAUSES_S = (1.0, 4.0)  # how long to wait before the second try, and before the third and last
_HINT = (
    "It is needed once: try again with a network, set HTTPS_PROXY if there is a proxy, or name a "
    f"Maven repository within reach in {_REPOSITORY}."
)
_UNTRUSTED_HINT = (
    "This Java does not trust the certificate that this network shows: name a store that has it, "
    "as JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore=FILE, or set JAVA_HOME to a Java that does."
)


class MissingArtifact(EnvironmentFault):
    """Something that the Maven repository does not have: ``missing``, as ``group:name:version``."""

    def __init__(self, message: str, *, hint: str | None = None, missing: tuple[str, ...]) -> None:
        super().__init__(message, hint=hint)
        self.missing = missing


def fetch(
    artifacts: Iterable[Artifact], *, transitive: bool = True, tell: Tell = to_stderr
) -> tuple[Path, ...]:
    """Return the jars of ``artifacts``, sorted by name: from the cache, else fetched into it.

    Java alone does it, with the Ivy in PySpark's jars. Checksums are checked. Several processes may
    ask at once: one fetches, the others wait. ``transitive`` fetches also what they need; ``tell``
    is called with a line when something is downloaded: what, from where, how much.

    What the repository has not is a MissingArtifact; no network, no Java and no room for it are an
    EnvironmentFault; nothing asked for, and no place for a cache, a ConfigurationError.

    >>> jars = fetch([Artifact("org.slf4j", "slf4j-api", "1.7.36")])
    >>> [jar.name for jar in jars]
    ['slf4j-api-1.7.36.jar']
    """
    wanted = sorted(set(artifacts))
    if not wanted:
        message = "No artifact is asked for."
        raise ConfigurationError(message, hint="Name at least one.")
    asked = "\n".join([*map(str, wanted), f"transitive={transitive}"])
    name = f"{wanted[0].name}-{wanted[0].version}-{sha256(asked.encode()).hexdigest()[:8]}"
    place = cache_folder() / "jars" / name
    try:
        if there := _complete(place):
            return there
        place.parent.mkdir(parents=True, exist_ok=True)
        with alone(place.with_name(f".{place.name}.lock")):
            there = _complete(place)  # by another process, while this one waited
            return there or _download(wanted, place, transitive=transitive, tell=tell)
    except OSError as error:
        message = f"Jars can't be kept in {place.parent}: {error.strerror or error}."
        hint = f"Make room, or name another folder in {CACHE_FOLDER}."
        raise EnvironmentFault(message, hint=hint) from error


def _complete(place: Path) -> tuple[Path, ...]:
    """Return the jars there if each is as it was written: tidy systems delete from caches."""
    try:
        sizes = json.loads((place / _CONTENTS).read_text(encoding="utf-8"))
        jars = tuple(place / name for name in sorted(sizes))
        whole = all(jar.stat().st_size == sizes[jar.name] for jar in jars)
    except (FileNotFoundError, ValueError):
        return ()
    return jars if whole else ()


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Wait for other processes, and keep them waiting; the kernel lets go if this one dies."""
    with lock.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _download(
    wanted: Sequence[Artifact], place: Path, *, transitive: bool, tell: Tell
) -> tuple[Path, ...]:
    names = ", ".join(f"{each.name} {each.version} ({each.group})" for each in wanted)
    needs = f" and what {'it needs' if len(wanted) == 1 else 'they need'}" if transitive else ""
    tell(f"Downloading {names}{needs} from {_repository()} into {place.parent}.")
    # Never in a folder that was there: the Java of a process that was killed may write on in it.
    draft = Path(tempfile.mkdtemp(prefix=f".{place.name}.part-", dir=place.parent))
    try:
        jars = _retrieved(wanted, draft, transitive=transitive, tell=tell)
        sizes = {jar.name: jar.stat().st_size for jar in sorted(jars.glob("*.jar"))}
        (jars / _CONTENTS).write_text(json.dumps(sizes, indent=1), encoding="utf-8")
        shutil.rmtree(place, ignore_errors=True)
        jars.replace(place)
    finally:
        for left in place.parent.glob(f".{place.name}.part-*"):
            shutil.rmtree(left, ignore_errors=True)
    number = f"{len(sizes)} jar{'s' * (len(sizes) > 1)}"
    tell(f"Downloaded {number}, {format_bytes(sum(sizes.values()))}.")
    return tuple(place / name for name in sizes)


def _retrieved(wanted: Sequence[Artifact], draft: Path, *, transitive: bool, tell: Tell) -> Path:
    """Try a few times: what came at one try is not asked for at the next."""
    names, pauses_s = ", ".join(map(str, wanted)), iter(_PAUSES_S)
    while (said := _retrieve(wanted, draft, transitive=transitive)) is not None:
        reason, missing = _trouble(said)
        if missing:
            message = f"{names} can't be had: {_repository()} has no {', '.join(missing)}."
            hint = f"Name a Maven repository that has it in {_REPOSITORY}."
            raise MissingArtifact(message, hint=hint, missing=missing)
        untrusted, pause_s = _UNTRUSTED in reason, next(pauses_s, None)
        if untrusted or pause_s is None:
            message = f"{names} can't be downloaded from {_repository()}: {reason}"
            raise EnvironmentFault(message, hint=_UNTRUSTED_HINT if untrusted else _HINT)
        tell(f"Once more in {pause_s:g} s: {reason}")
        time.sleep(pause_s)
    return draft / "jars"


def _repository() -> str:
    return os.environ.get(_REPOSITORY) or "the public Maven repository"


_PART = re.compile(r"[A-Za-z0-9_.-]*[A-Za-z0-9_-][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True, order=True)
class Artifact:
    """A jar in a Maven repository: who publishes it, what it is, and which one of it.

    A part that is empty, or has characters that none has, is a ConfigurationError.

    >>> print(Artifact("org.apache.kafka", "kafka-clients", "4.3.1"))
    org.apache.kafka:kafka-clients:4.3.1
    """

    group: str
    name: str
    version: str

    def __post_init__(self) -> None:
        if not all(_PART.fullmatch(part) for part in (self.group, self.name, self.version)):
            message = f"{str(self)!r} is no artifact of a Maven repository."
            raise ConfigurationError(message, hint="Give group, name and version.")

    def __str__(self) -> str:
        return f"{self.group}:{self.name}:{self.version}"


_SPARK = "org.apache.spark"
_CONNECTOR, _TOKENS = "spark-sql-kafka-0-10_2.13", "spark-token-provider-kafka-0-10_2.13"

_NEAREST = (
    Artifact(_SPARK, _CONNECTOR, "4.2.0"),
    # Of the provider of tokens, nothing newer is published; it matters to delegation tokens only.
    Artifact(_SPARK, _TOKENS, "4.0.0"),
    Artifact("org.apache.kafka", "kafka-clients", "3.9.2"),
    Artifact("org.apache.commons", "commons-pool2", "2.13.1"),
)
"""What works with Spark 4.3 where its own is not published; connector 4.0 can't stream there."""

_ASK_AGAIN_SECONDS = 7 * 86_400


def connector_jars(spark_version: str, *, tell: Tell = to_stderr) -> tuple[Path, ...]:
    """Return the jars of the connector for a Spark; an EnvironmentFault if there are none anywhere.

    ``tell`` is called with a line when something is downloaded, and when the nearest set stands in.
    """
    mark = cache_folder() / "jars" / f"{_CONNECTOR}-{spark_version}.missing"
    why = "not published in full"
    if not _asked_lately(mark):
        try:
            return fetch([Artifact(_SPARK, _CONNECTOR, spark_version)], tell=tell)
        except MissingArtifact as error:
            why = f"not published in full: {', '.join(error.missing)} is missing"
            with suppress(OSError):  # else it is asked for again the next time
                mark.touch()
        except EnvironmentFault as error:
            why = f"out of reach: {error.message}"
    nearest = f"That of {_NEAREST[0].version} stands in, which is tested with it."
    tell(f"The connector to Kafka of Spark {spark_version} is {why}. {nearest}")
    return fetch(_NEAREST, transitive=False, tell=tell)


def _asked_lately(mark: Path) -> bool:
    try:
        return time.time() - mark.stat().st_mtime < _ASK_AGAIN_SECONDS
    except OSError:
        return False
