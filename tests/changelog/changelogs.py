"""What the tests of the changelog share: counts as plain rows, batches written without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from kstoolkit.changelog.changelog import BatchFolders, Changelog
from kstoolkit.changelog.countsfile import ChangelogWriter
from kstoolkit.counters.counters import Counters

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MINUTE, HOUR = 60_000, 3_600_000
BUCKETS = 4

Rows = dict[tuple[int, str, str], int]
"""The count of each window start, user and action."""

# Parquet's text is UTF-8, which has no lone surrogates.
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
few = st.sampled_from(["Anna", "Bo", "Čeněk", "d", "e e", "名前"])
keys = st.tuples(st.integers(0, 5), few | texts, few)
levels = st.dictionaries(
    st.sampled_from([MINUTE, HOUR]), st.dictionaries(keys, st.integers(1, 2**40), max_size=8)
)
"""What a batch tells, by window length."""


def counters(rows: Rows) -> Counters:
    """Return rows as counters."""
    starts, users, actions = zip(*rows, strict=True) if rows else ((), (), ())
    return Counters.of(
        np.array(starts, np.int64),
        pa.array(users, pa.string()),
        pa.array(actions, pa.string()),
        np.array(list(rows.values()), np.uint64),
    )


def rows_of(counted: Counters) -> Rows:
    """Return counters as rows."""
    batch = counted.to_batch().to_pydict()
    names = zip(batch["window_start_ms"], batch["user"], batch["action"], strict=True)
    return dict(zip(names, batch["count"], strict=True))


def write(
    root: Path,
    number: int,
    told: Mapping[int, Rows],
    *,
    epoch: int = 0,
    marked: bool = True,
    changed_ms: int | None = None,
) -> Path:
    """Write a batch as two tasks would, each with half of the buckets, and return its folder."""
    folders = BatchFolders(root)
    folder = folders.begin(epoch, number)
    for task in range(2):
        path = folder / f"part-{task:05d}.parquet"
        clock_ms = 1_000 * number if changed_ms is None else changed_ms
        writer = ChangelogWriter(path, buckets=BUCKETS, changed_ms=clock_ms)
        for window_ms, rows in told.items():
            for bucket, part in counters(rows).by_bucket(BUCKETS):
                if bucket % 2 == task:
                    writer.write(bucket, window_ms, part)
        writer.close()
    if marked:
        folders.mark(epoch, number)
    return folder


def read(root: Path) -> dict[int, Rows]:
    """Return the latest counts of a changelog, by window length."""
    changelog = Changelog(root)
    return {each: rows_of(changelog.counters(each)) for each in changelog.window_lengths_ms()}


def newest(*batches: Mapping[int, Rows]) -> dict[int, Rows]:
    """Return what should be read of batches: the newest value of each key."""
    told: dict[int, Rows] = {}
    for batch in batches:
        for window_ms, rows in batch.items():
            told.setdefault(window_ms, {}).update(rows)
    return {window_ms: rows for window_ms, rows in sorted(told.items()) if rows}
