"""The system's Chromium: found, or installed with the system's packages where one may.

``python -m tests.browser.chromium`` installs it where it is missing; ``make test`` does so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

__all__ = ["FLAGS", "found", "install"]

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--no-sandbox",  # root may not use it; the pages are the tests' own
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
)
PACKAGES = ("chromium", "fonts-dejavu-core")


def found() -> str | None:
    """Return the path of a Chromium, or None if there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def install() -> str:
    """Install Chromium with apt, as root or through sudo; return what came of it."""
    if path := found():
        return f"Chromium is {path}."
    if not shutil.which("apt-get") or not (_asks_nobody() or os.geteuid() == 0):
        return "There is no Chromium, and no way to install one: the browser tests will say so."
    before = [] if os.geteuid() == 0 else ["sudo", "-n"]
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "-y", "--no-install-recommends", *PACKAGES]):
        subprocess.run([*before, "apt-get", "-q", *command], check=False, env=environment)
    return f"Chromium is {found() or 'still missing'}."


def _asks_nobody() -> bool:
    if not shutil.which("sudo"):
        return False
    return subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    sys.stderr.write(f"{install()}\n")
