"""Jars from a Maven repository in a cache of this user's: there in full, or not at all.

::

    <cache>/jars/<name>-<version>-<hash of what was asked for>/*.jar
                                                              /contents.json: each jar's size

The cache is ``KSTOOLKIT_CACHE_DIR``, else ``kstoolkit`` in ``XDG_CACHE_HOME`` or in ``~/.cache``.
What is in it is never asked for again, so that no network is needed from then on.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sys
import tempfile
import time
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from kstoolkit.errors import ConfigurationError, EnvironmentFault
from kstoolkit.kafka.ivy import REPOSITORY, Refusal, retrieve
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kstoolkit.kafka.artifacts import Artifact


CACHE_FOLDER = "KSTOOLKIT_CACHE_DIR"
"""The environment variable that names another folder for the cache."""

_CONTENTS = "contents.json"
_UNTRUSTED = "SSLHandshakeException"
_PAUSES_S = (1.0, 4.0)
"""How long to wait before the second try, and before the third and last."""

_HINT = (
    "It is needed once: try again with a network, set HTTPS_PROXY if there is a proxy, or name a "
    f"Maven repository within reach in {REPOSITORY}."
)
_UNTRUSTED_HINT = (
    "This Java does not trust the certificate that this network shows: name a store that has it, "
    "as JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore=FILE, or set JAVA_HOME to a Java that does."
)


class MissingArtifact(EnvironmentFault):
    """Something that the Maven repository does not have.

    Parameters
    ----------
    message, hint
        As of every error.
    missing
        What it does not have, as ``group:name:version``: what was asked for, or what that needs.
    """

    def __init__(self, message: str, *, hint: str | None = None, missing: tuple[str, ...]) -> None:
        super().__init__(message, hint=hint)
        self.missing = missing


def to_stderr(line: str) -> None:
    """Print a line to stderr, where it is in the way of no result."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def fetch(
    artifacts: Iterable[Artifact],
    *,
    transitive: bool = True,
    tell: Callable[[str], object] = to_stderr,
) -> tuple[Path, ...]:
    """Return the jars of ``artifacts``, sorted by name: from the cache, else fetched into it.

    Java alone does it, with the Ivy that lies among PySpark's jars. Checksums are checked. Several
    processes may ask for the same at once: one fetches, the others wait.

    Parameters
    ----------
    artifacts
        What to fetch. The order doesn't matter.
    transitive
        Whether to fetch also what they need.
    tell
        Called with a line when something is downloaded: what, from where, and how much it was.

    Raises
    ------
    MissingArtifact
        If the repository has not all of it.
    EnvironmentFault
        If there is no network, no Java, or no room for it.
    ConfigurationError
        If nothing is asked for, or there is no place for a cache.

    Examples
    --------
    >>> from kstoolkit.kafka.artifacts import Artifact
    >>> jars = fetch([Artifact("org.slf4j", "slf4j-api", "1.7.36")])
    >>> [jar.name for jar in jars]
    ['slf4j-api-1.7.36.jar']
    """
    wanted = sorted(set(artifacts))
    if not wanted:
        message = "No artifact is asked for."
        raise ConfigurationError(message, hint="Name at least one.")
    place = cache_folder() / "jars" / _name(wanted, transitive=transitive)
    try:
        return _complete(place) or _fetched(wanted, place, transitive=transitive, tell=tell)
    except OSError as error:
        message = f"Jars can't be kept in {place.parent}: {error.strerror or error}."
        hint = f"Make room, or name another folder in {CACHE_FOLDER}."
        raise EnvironmentFault(message, hint=hint) from error


def cache_folder() -> Path:
    """Return the folder for what can be fetched again; it need not exist yet.

    Raises
    ------
    ConfigurationError
        If none is named and there is no home folder.
    """
    named = os.environ.get(CACHE_FOLDER)
    if named:
        return Path(named).absolute()
    # Path.expanduser() would raise for a user without a home folder, as some containers have.
    home = os.path.expanduser("~")  # noqa: PTH111
    cache = Path(os.environ.get("XDG_CACHE_HOME") or f"{home}/.cache")
    if not cache.is_absolute():
        message = f"There is no place for a cache: {str(cache)!r} is no whole path."
        raise ConfigurationError(message, hint=f"Name a folder in {CACHE_FOLDER}.")
    return cache / "kstoolkit"


def _name(wanted: Sequence[Artifact], *, transitive: bool) -> str:
    asked = "\n".join([*map(str, wanted), f"transitive={transitive}"])
    return f"{wanted[0].name}-{wanted[0].version}-{sha256(asked.encode()).hexdigest()[:8]}"


def _complete(place: Path) -> tuple[Path, ...]:
    """Return the jars there if each is as it was written: tidy systems delete from caches."""
    try:
        sizes = json.loads((place / _CONTENTS).read_text(encoding="utf-8"))
        jars = tuple(place / name for name in sorted(sizes))
        whole = all(jar.stat().st_size == sizes[jar.name] for jar in jars)
    except (FileNotFoundError, ValueError):
        return ()
    return jars if whole else ()


def _fetched(
    wanted: Sequence[Artifact], place: Path, *, transitive: bool, tell: Callable[[str], object]
) -> tuple[Path, ...]:
    place.parent.mkdir(parents=True, exist_ok=True)
    with _alone(place.with_name(f".{place.name}.lock")):
        there = _complete(place)  # by another process, while this one waited
        return there or _download(wanted, place, transitive=transitive, tell=tell)


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Wait for other processes, and keep them waiting; the kernel lets go if this one dies."""
    with lock.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _download(
    wanted: Sequence[Artifact], place: Path, *, transitive: bool, tell: Callable[[str], object]
) -> tuple[Path, ...]:
    names = ", ".join(f"{each.name} {each.version} ({each.group})" for each in wanted)
    needs = f" and what {'it needs' if len(wanted) == 1 else 'they need'}" if transitive else ""
    tell(f"Downloading {names}{needs} from {_repository()} into {place.parent}.")
    # Never in a folder that was there: the Java of a process that was killed may write on in it.
    draft = Path(tempfile.mkdtemp(prefix=f".{place.name}.part-", dir=place.parent))
    try:
        jars = _retrieved(wanted, draft, _PAUSES_S, transitive=transitive, tell=tell)
        sizes = {jar.name: jar.stat().st_size for jar in sorted(jars.glob("*.jar"))}
        (jars / _CONTENTS).write_text(json.dumps(sizes, indent=1), encoding="utf-8")
        shutil.rmtree(place, ignore_errors=True)
        jars.replace(place)
    finally:
        for left in place.parent.glob(f".{place.name}.part-*"):
            shutil.rmtree(left, ignore_errors=True)
    tell(
        f"Downloaded {len(sizes)} jar{'s' * (len(sizes) > 1)}, {format_bytes(sum(sizes.values()))}."
    )
    return tuple(place / name for name in sizes)


def _retrieved(
    wanted: Sequence[Artifact],
    draft: Path,
    pauses_s: Sequence[float],
    *,
    transitive: bool,
    tell: Callable[[str], object],
) -> Path:
    """Try a few times: what came at one try is not asked for at the next."""
    try:
        return retrieve(wanted, draft, transitive=transitive)
    except Refusal as refusal:
        if refusal.missing or not pauses_s or _UNTRUSTED in refusal.reason:
            raise _explained(wanted, refusal) from refusal
        tell(f"Once more in {pauses_s[0]:g} s: {refusal.reason}")
    time.sleep(pauses_s[0])
    return _retrieved(wanted, draft, pauses_s[1:], transitive=transitive, tell=tell)


def _explained(wanted: Sequence[Artifact], refusal: Refusal) -> EnvironmentFault:
    names = ", ".join(map(str, wanted))
    if refusal.missing:
        message = f"{names} can't be had: {_repository()} has no {', '.join(refusal.missing)}."
        hint = f"Name a Maven repository that has it in {REPOSITORY}."
        return MissingArtifact(message, hint=hint, missing=refusal.missing)
    untrusted = _UNTRUSTED in refusal.reason
    message = f"{names} can't be downloaded from {_repository()}: {refusal.reason}"
    return EnvironmentFault(message, hint=_UNTRUSTED_HINT if untrusted else _HINT)


def _repository() -> str:
    return os.environ.get(REPOSITORY) or "the public Maven repository"
