"""``python -m kstoolkit``: the command line, where the script is not on PATH."""

from __future__ import annotations

import sys

from kstoolkit.cli import main

if __name__ == "__main__":
    sys.exit(main())
