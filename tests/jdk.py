"""The compiler of Java: found, or installed with the system's packages where one may.

``python -m tests.jdk`` installs it where it is missing; ``make test`` does so.
"""

from __future__ import annotations

import shutil
import sys

import pytest

from kstoolkit.environment import find_java
from tests.systempackages import install

__all__ = ["compiler", "found"]

PACKAGES = ("default-jdk-headless",)


def found() -> str | None:
    """Return the path of javac: of the Java that runs here, or of PATH; None if there is none."""
    beside = find_java().home / "bin" / "javac"
    return str(beside) if beside.exists() else shutil.which("javac")


def compiler() -> str:
    """Return the path of javac, or skip the test: which is a failure under CI."""
    return found() or pytest.skip("no javac: compiling Java takes a JDK")


if __name__ == "__main__":
    sys.stderr.write(f"{install('javac', found, PACKAGES)}\n")
