"""One honest busy address, to see incidents on: ``python -m tests.events.office``."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parents[2] / "data" / "office"
ADDRESS = "203.0.113.7"
"""Of a range that documents may use, so that it is nobody's."""
ACTIONS = ("comment", "download", "edit", "search", "share", "view")
SINCE = datetime(2026, 3, 2, 9, tzinfo=UTC)
HOURS = 48
"""The sample's."""
TRAINING = range(24, 34)
"""From 09:00 to 19:00 of the second day forty people learn behind that address."""
USUAL, TRAINED = 1.0, 75.0
"""Events an hour of each action."""


def content() -> bytes:
    """Return the events, one JSON object a line, in the order of time."""
    random = np.random.default_rng(17)
    rates = np.array([TRAINED if hour in TRAINING else USUAL for hour in range(HOURS)])
    counts = random.poisson(rates[:, None], (HOURS, len(ACTIONS)))
    hours, kinds = np.repeat(np.indices(counts.shape).reshape(2, -1), counts.ravel(), axis=1)
    times_ms = hours * 3_600_000 + random.integers(0, 3_600_000, hours.size)
    order = np.argsort(times_ms, kind="stable")
    return b"".join(_line(int(times_ms[n]), ACTIONS[kinds[n]]) for n in order)


def _line(at_ms: int, action: str) -> bytes:
    moment = (SINCE + timedelta(milliseconds=at_ms)).isoformat(timespec="milliseconds")
    event = {"time": moment.replace("+00:00", "Z"), "user": ADDRESS, "action": action}
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"


def main() -> None:
    """Write them."""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "events.json.gz").write_bytes(gzip.compress(content(), mtime=0))


if __name__ == "__main__":
    main()
