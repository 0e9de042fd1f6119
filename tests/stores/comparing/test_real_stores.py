"""Stores that Kafka Streams wrote, against themselves, each other, and kstoolkit's own counts."""

from __future__ import annotations

import json
import os
import tarfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kstoolkit.stores.comparing.comparing import diff_stores
from kstoolkit.stores.comparing.folders import _together
from kstoolkit.stores.discovery.discovering import discover
from kstoolkit.stores.opening import open_store
from kstoolkit.stores.rows.counts import changelog_counts
from tests.changelog.changelogs import MINUTE, write
from tests.stores.comparing.dictionaries import expected, plain

if TYPE_CHECKING:
    from kstoolkit.stores.opening import OpenedStore

FOLDER = Path(__file__).parents[4] / "shared" / "fixtures"


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> Path:
    there = Path(os.environ.get("KSTOOLKIT_FIXTURES_DIR", FOLDER)) / "kafka_streams"
    folder = tmp_path_factory.mktemp("streams")
    for release in ("2.8.2", "3.9.2"):
        archive = there / f"{release}.tar.gz"
        if not archive.is_file():
            pytest.skip(f"real stores not present: {archive}")
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
    return folder


def stores(state: Path) -> dict[str, str]:
    """Return the stores of a state directory by task and name, and where each lies."""
    return {f"{each.task} {each.store}": each.path for each in discover(state)}


def opened(path: str) -> OpenedStore:
    return open_store(path, window_size="1 minute")


def test_a_store_equals_itself(states: Path) -> None:
    found = stores(states / "2.8.2" / "clean")
    assert len(found) == 30
    rows = 0
    for path in found.values():
        with opened(path) as one, opened(path) as other, diff_stores(one, other) as diff:
            assert diff.is_empty, path
            assert diff.equal == one.rows().count()
            rows += diff.equal
    assert rows > 2_000


def test_what_a_kill_left_differs_from_a_clean_end_as_dictionaries_say(states: Path) -> None:
    clean, killed = (stores(states / "3.9.2" / state) for state in ("clean", "kill9"))
    assert len(clean.keys() & killed.keys()) > 30
    differing = 0
    for name in clean.keys() & killed.keys():
        with opened(clean[name]) as one, opened(killed[name]) as other:
            if "versioned" in one.kind:  # whose rows have a time of their own
                continue
            a, b = ([plain(row) for row in each.rows()] for each in (one, other))
            with diff_stores(one, other) as diff:
                counts = (diff.added, diff.removed, diff.changed, diff.equal)
                assert counts == expected(a, b), name
                assert len(list(diff)) == sum(counts[:3])
                differing += not diff.is_empty
    assert differing > 10


def test_versions_are_compared_by_when_they_began(states: Path) -> None:
    path = stores(states / "3.9.2" / "clean")["6_0 price-history"]
    with opened(path) as one, opened(path) as other:
        times = sorted(row.timestamp_ms or 0 for row in one.rows())
        middle = times[len(times) // 2]
        with diff_stores(one, other.rows(since=middle)) as diff:
            older = sum(each < middle for each in times)
            assert (diff.added, diff.removed, diff.changed) == (0, older, 0)
            assert diff.equal == len(times) - older


def counted_by_streams(states: Path) -> dict[tuple[int, str, str], int]:
    """Return what the application read out of its windowed count store, as our counts."""
    told: Any = json.loads((states / "3.9.2" / "expected" / "clean.json").read_text("utf-8"))
    rows = [row for each in told["stores"] if each["store"] == "actions-1m" for row in each["rows"]]
    return {(row["start"], row["key"], "did"): row["value"]["value"] for row in rows}


def test_a_windowed_count_store_equals_our_own_counts_of_the_same_events(
    states: Path, tmp_path: Path
) -> None:
    counted = counted_by_streams(states)
    some = dict(list(counted.items())[5:])
    [first] = [key for number, key in enumerate(some) if number == 0]
    write(tmp_path, 1, {MINUTE: some | {first: 1_000_000}})
    ours = changelog_counts(tmp_path, window="1 minute", total=True)
    found = stores(states / "3.9.2" / "clean")
    with ExitStack() as opening:
        parts = [
            opening.enter_context(opened(found[f"{n}_{p} actions-1m"])) for n, p in ((0, 0), (0, 1))
        ]
        theirs = _together(parts)
        with diff_stores(theirs, ours) as diff:
            assert (diff.added, diff.changed, diff.equal) == (0, 1, len(some) - 1)
            [changed] = [each for each in diff if each.change == "changed"]
            # Since 3.4 a read hides rows that have expired, and the segment still holds them.
            oldest = min(start for start, _, _ in counted)
            left = [each for each in diff if each.change == "removed"]
            assert sum((each.row.window_start_ms or 0) >= oldest for each in left) == 5
    assert changed.a is not None
    assert changed.b is not None
    assert (changed.a.value, changed.b.value) == (counted[first], 1_000_000)
    assert (changed.row.window_start_ms, changed.key) == first[:2]
