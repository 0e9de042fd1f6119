"""Findings made by hand."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from kstoolkit.findings.finding import FINDINGS_SCHEMA, Finding, Findings

START = 1_442_052_000_000  # 12 September 2015, 10:00 UTC
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


def finding(**changed: Any) -> Finding:
    facts: dict[str, Any] = {
        "rule": "Unusual 1 hour, 5 false alarms a day",
        "kind": "Unusual",
        "user": "ClueBot NG",
        "action": "Main",
        "window": "1 hour",
        "window_ms": HOUR,
        "window_start_ms": START,
        "count": 61,
        "expected_low": 2,
        "expected_high": 14,
        "baseline_windows": 19,
        "peers": 4112,
        "log10_probability": -8.5,
        "first_seen_ms": START + HOUR,
    }
    return Finding(**facts | changed)


def findings(*records: Finding) -> Findings:
    rows = [{name: getattr(r, name) for name in FINDINGS_SCHEMA.names} for r in records]
    rows = [row | {"other_levels": list(row["other_levels"].items())} for row in rows]
    return Findings(pa.Table.from_pylist(rows, schema=FINDINGS_SCHEMA))


CEILING = {"rule": "Ceiling 100 per 1 minute", "kind": "Ceiling", "ceiling": 100}
UNKNOWN = dict.fromkeys(["expected_low", "expected_high", "peers", "log10_probability"])
