"""What a contestant says while it works: a line of JSON on stdout for whoever measures it."""

from __future__ import annotations

import json
import sys
from typing import Any

WINDOWS = {"1 minute": 60_000, "1 hour": 3_600_000, "1 day": 86_400_000}
"""What everyone counts."""


def mark(name: str, **facts: Any) -> None:
    """Say that something is reached.

    ``begun``: start-up is over. ``counted``, with the number of ``events`` so far: a batch is over;
    the first one ends the warm-up. ``told``, with ``counters``: what came out, after all counting.
    """
    sys.stdout.write(json.dumps({"mark": name, **facts}) + "\n")
    sys.stdout.flush()
