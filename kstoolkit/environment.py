"""What this machine has of what kstoolkit needs, and the one command that mends what it lacks."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import EnvironmentFault
from kstoolkit.java import find_java, pip_command
from kstoolkit.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator


_OLDEST_PYTHON = (3, 11)
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
    return Diagnosis(
        (
            _check_python(),
            _check_java(),
            check_spark_home(),
            *_check_packages(),
            _check_memory(),
            _check_disk(),
        )
    )


def check_spark_home() -> Check:
    """Return whether ``SPARK_HOME``, if it is set, holds the Spark that the package speaks to."""
    name, folder = "SPARK_HOME", os.environ.get("SPARK_HOME")
    if not folder:
        return Check(name, ok=True, found="not set: the Spark inside the package pyspark is used")
    jars = [path.stem for path in Path(folder, "jars").glob("spark-core_*.jar")]
    version = jars[0].rpartition("-")[2] if jars else None
    found = f"{folder} ({f'Spark {version}' if version else 'no Spark in it'})"
    wanted = _installed("pyspark")
    if version is not None and version == wanted:
        return Check(name, ok=True, found=found)
    problem = f"the package pyspark is version {wanted or 'unknown (not installed)'}"
    return Check(name, ok=False, found=found, problem=problem, remedy="unset SPARK_HOME")


def memory_bytes() -> int | None:
    """Return how much memory this process may have in all; ``None`` where the system doesn't tell.

    It is the machine's, or what the container is allowed if that is less.
    """
    known = [size for size in (_physical_bytes(), _container_bytes()) if size is not None]
    return min(known, default=None)


def _check_python() -> Check:
    found = platform.python_version()
    if sys.version_info >= _OLDEST_PYTHON:
        return Check("Python", ok=True, found=found)
    problem = "kstoolkit needs 3.11 or newer"
    remedy = "conda env create -f environment.yml"
    return Check("Python", ok=False, found=found, problem=problem, remedy=remedy)


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
        problem = f"kstoolkit needs {versions}"
        if found is None:
            yield Check(name, ok=False, found="not installed", problem=problem, remedy=remedy)
        elif not _satisfies(found, versions):
            yield Check(name, ok=False, found=found, problem=problem, remedy=remedy)
        else:
            yield Check(name, ok=True, found=found)


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
        fits = {
            "==": found[: len(limit)] == limit,
            ">=": found >= limit,
            "<": found < limit,
        }
        if not fits[operator]:
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
    if free >= _NEEDED_MEMORY_BYTES:
        return Check("free memory", ok=True, found=found)
    problem = f"Spark and its Python workers want {format_bytes(_NEEDED_MEMORY_BYTES)}"
    remedy = "export KSTOOLKIT_DRIVER_MEMORY=600m"
    return Check("free memory", ok=False, found=found, problem=problem, remedy=remedy)


def _check_disk() -> Check:
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    found = f"{format_bytes(free)} in {folder}"
    if free >= _NEEDED_DISK_BYTES:
        return Check("free disk", ok=True, found=found)
    problem = f"Spark's working files want {format_bytes(_NEEDED_DISK_BYTES)}"
    remedy = 'export TMPDIR="$HOME"'
    return Check("free disk", ok=False, found=found, problem=problem, remedy=remedy)


def _physical_bytes() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _container_bytes() -> int | None:
    """Return the memory limit of the control group, which ``"max"`` says there is none of."""
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(limit) if limit.isdigit() else None


def _available_bytes() -> int | None:
    try:
        facts = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return None
    match = re.search(r"^MemAvailable:\s+(\d+) kB", facts, re.MULTILINE)
    free = int(match[1]) << 10 if match else None
    limit = _container_bytes()
    return min(free, limit) if free is not None and limit is not None else free
