"""Programs that tests need, installed with the system's packages where one may."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def install(name: str, found: Callable[[], str | None], packages: Sequence[str]) -> str:
    """Install a program with apt, as root or through sudo; return what came of it."""
    if path := found():
        return f"{name} is {path}."
    if not shutil.which("apt-get") or not (_asks_nobody() or os.geteuid() == 0):
        return f"There is no {name}, and no way to install one: the tests that need it will say so."
    before = [] if os.geteuid() == 0 else ["sudo", "-n"]
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        subprocess.run([*before, "apt-get", "-q", *command], check=False, env=environment)
    return f"{name} is {found() or 'still missing'}."


def _asks_nobody() -> bool:
    if not shutil.which("sudo"):
        return False
    return subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode == 0
