"""Findings made by hand, and counts from which some are made as a run makes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import pyarrow as pa

from kstoolkit.findings.baselines import Baselines
from kstoolkit.findings.calibration import Everyone
from kstoolkit.findings.finding import FINDINGS_SCHEMA, Finding, Findings
from kstoolkit.findings.rules import rules_on
from kstoolkit.findings.scoring import Scored, score

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from kstoolkit.findings.rules import Rule

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


def counted(rows: Iterable[tuple[int, str, str, int]], every_ms: int = HOUR) -> pa.Table:
    """Counts, one a row: the window's number, user, action, count."""
    columns = list(zip(*rows, strict=True)) or [()] * 4
    return pa.table(
        {
            "window_start_ms": pa.array([number * every_ms for number in columns[0]], pa.int64()),
            "user": pa.array(columns[1], pa.string()).dictionary_encode(),
            "action": pa.array(columns[2], pa.string()).dictionary_encode(),
            "count": pa.array(columns[3], pa.int64()),
        }
    )


def hourly(counts: NDArray[np.int64], begin: int = 0) -> pa.Table:
    """Counts of users (lines) in hours (columns), the first of which has the number ``begin``."""
    user, hour = np.nonzero(counts)
    names = pa.array([f"user {number}" for number in range(len(counts))], pa.string())
    return pa.table(
        {
            "window_start_ms": (begin + hour) * HOUR,
            "user": pa.DictionaryArray.from_arrays(pa.array(user.astype(np.int32)), names),
            "action": pa.array(["x"] * len(user), pa.string()).dictionary_encode(),
            "count": counts[user, hour],
        }
    )


class Watch:
    """Buckets of users, and what is known of all of them, kept from step to step as in a run."""

    def __init__(self, *rules: Rule, buckets: int = 1) -> None:
        self.rules = rules
        self.buckets = [Baselines.empty(HOUR) for _ in range(buckets)]
        self.everyone = Everyone(HOUR)
        self.unjudged = 0

    def close(
        self, counts: pa.Table, until: int, going_on: pa.Table | None = None, **options: Any
    ) -> Findings:
        """Close the hours before number ``until``: return what is found, and what is no more."""
        until_ms, material = until * HOUR, []
        for baselines, mine in zip(self.buckets, self._split(counts), strict=True):
            closed = baselines.close(mine, until_ms)
            told = Everyone(self.everyone.every_ms)  # as a bucket tells it
            told.add([closed.moments], [closed.facts])
            self.everyone.take_in([told])
            material.append(_told(closed.material, is_open=False))
        if going_on is not None:
            for baselines, mine in zip(self.buckets, self._split(going_on), strict=True):
                material.append(_told(baselines.compare(mine), is_open=True))
        brief = self.everyone.brief(until_ms)
        scored = [
            score(each, brief, rules_on(self.rules, "1 hour"), **options) for each in material
        ]
        self.unjudged += sum(each.unjudged for each in scored)
        judged = self.everyone.judge([Scored.decode(each.encode()) for each in scored], until_ms)
        return Findings(pa.concat_tables([*(each.findings for each in scored), judged]))

    def _split(self, counts: pa.Table) -> list[pa.Table]:
        users = counts["user"].cast(pa.string()).to_pylist()
        bucket = np.array([crc32(user.encode()) % len(self.buckets) for user in users], int)
        return [counts.filter(pa.array(bucket == each)) for each in range(len(self.buckets))]


def _told(material: pa.Table, *, is_open: bool) -> pa.Table:
    return material.append_column("is_open", pa.array([is_open] * len(material), pa.bool_()))
