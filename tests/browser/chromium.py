"""The system's Chromium: found, or installed with the system's packages where one may.

``python -m tests.browser.chromium`` installs it where it is missing; ``make test`` does so.
"""

from __future__ import annotations

import shutil
import sys

from tests.systempackages import install

__all__ = ["FLAGS", "found"]

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


if __name__ == "__main__":
    sys.stderr.write(f"{install('Chromium', found, PACKAGES)}\n")
