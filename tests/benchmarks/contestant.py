"""What every contestant shares: what it is told, what it counts, what it says meanwhile."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

WINDOWS = {"1 minute": 60_000, "1 hour": 3_600_000, "1 day": 86_400_000}
CORES = 2


def arguments(*choices: str) -> argparse.Namespace:
    """Return the folder of events, the folder to work in, and how many files a batch takes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("events", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--files-per-batch", type=int, default=2)
    parser.add_argument("--trigger", help="live, so often, until it is interrupted")
    for choice in choices:
        parser.add_argument(f"--{choice}", action="store_true")
    parser.add_argument("--changelog", choices=["bundles", "blocks"])
    parser.add_argument("--buckets", type=int, default=8)
    return parser.parse_args()


def mark(name: str, **facts: Any) -> None:
    """Say on stdout that something is reached, as a line of JSON.

    ``begun``: start-up is over. ``counted``, with the number of ``events`` so far: a batch is over;
    the first one ends the warm-up. ``told``, with ``counters``: what came out, after all counting.
    """
    sys.stdout.write(json.dumps({"mark": name, **facts}) + "\n")
    sys.stdout.flush()
