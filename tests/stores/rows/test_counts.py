"""kstoolkit's own counts as rows: a changelog's, a replica's, and one against the other."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kstoolkit.errors import ConfigurationError, InputError
from kstoolkit.stores.comparing.comparing import diff_stores
from kstoolkit.stores.rows.counts import changelog_counts, replica_counts
from tests.changelog.changelogs import HOUR, MINUTE, newest, write
from tests.replica.replicas import restored, told

if TYPE_CHECKING:
    from pathlib import Path

    from tests.changelog.changelogs import Rows

COUNTS: Rows = {
    (0, "Anna", "read"): 3,
    (0, "Anna", "edit"): 1,
    (0, "Bo", "read"): 2,
    (HOUR, "名前", 'say "hi"'): 7,
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path / "run" / "changelog", 1, {MINUTE: COUNTS, HOUR: {(0, "Anna", "read"): 9}})
    return tmp_path / "run"


def by_hand(rows: Rows) -> dict[tuple[str, int], dict[str, int]]:
    found: dict[tuple[str, int], dict[str, int]] = {}
    for (start, user, action), count in rows.items():
        found.setdefault((user, start), {})[action] = count
    return found


def test_a_row_is_a_user_in_a_window_with_all_counts(root: Path) -> None:
    rows = list(changelog_counts(root, window="1 minute").rows())
    assert {(row.key, row.window_start_ms): row.value for row in rows} == by_hand(COUNTS)
    assert {(row.window_end_ms or 0) - (row.window_start_ms or 0) for row in rows} == {MINUTE}


def test_counts_may_be_of_one_action_or_of_all_together(root: Path) -> None:
    def told(**asked: object) -> dict[str, int]:
        return {row.key: row.value for row in changelog_counts(root, **asked).rows()}  # type: ignore[arg-type]

    assert told(window="1 minute", action="read") == {"Anna": 3, "Bo": 2}
    assert told(window="1 minute", total=True) == {"Anna": 4, "Bo": 2, "名前": 7}
    assert told(window="1 hour", total=True) == {"Anna": 9}
    assert told(window="1 minute", action="fly") == {}


def test_one_users_rows_are_found(root: Path) -> None:
    counts = changelog_counts(root, window="1 minute")
    assert [row.value for row in counts.rows(key="Bo")] == [{"read": 2}]
    assert [row.key for row in counts.rows(since=HOUR)] == ["名前"]
    assert counts.rows(key=b"\xff").count() == 0


def test_what_cannot_be_counted_is_refused(root: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="Both the total and the count of 'read'"):
        changelog_counts(root, window="1 minute", action="read", total=True)
    with pytest.raises(ConfigurationError, match="no windows of 1 day") as error:
        changelog_counts(root, window="1 day")
    assert error.value.hint == "It has: 1 minute, 1 hour."
    with pytest.raises(InputError, match="No changelog"):
        changelog_counts(tmp_path / "nothing", window="1 day")


def test_a_replica_that_lacks_a_window_or_holds_it_in_memory_is_refused(
    root: Path, tmp_path: Path
) -> None:
    with restored(root, tmp_path / "r", memory_windows=["1 minute"]) as replica:
        with pytest.raises(ConfigurationError, match="no windows of 1 day"):
            replica_counts(replica, window="1 day")
        with pytest.raises(ConfigurationError, match="in memory"):
            list(replica_counts(replica, window="1 minute").rows())


@settings(
    deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(batches=st.lists(told, min_size=1, max_size=3), counted=st.sampled_from(["each", "total"]))
def test_a_replica_equals_its_changelog_and_both_equal_what_was_told(
    tmp_path_factory: pytest.TempPathFactory, batches: list[dict[int, Rows]], counted: str
) -> None:
    folder = tmp_path_factory.mktemp("counts")
    for number, batch in enumerate(batches, 1):
        write(folder / "changelog", number, batch)
    with restored(folder / "changelog", folder / "replica") as replica:
        for window_ms, rows in newest(*batches).items():
            if not rows:
                continue
            total = counted == "total"
            kind = {MINUTE: "1 minute", HOUR: "1 hour"}[window_ms]
            ours = changelog_counts(folder, window=kind, total=total)
            theirs = replica_counts(replica, window=kind, total=total)
            with diff_stores(ours, theirs) as diff:
                assert diff.is_empty
                assert diff.equal == len(by_hand(rows))
            found = {(row.key, row.window_start_ms): row.value for row in theirs.rows()}
            by_user = by_hand(rows)
            sums = {key: sum(counts.values()) for key, counts in by_user.items()}
            assert found == (sums if total else by_user)


def test_a_replica_that_missed_a_batch_differs_from_its_changelog(
    root: Path, tmp_path: Path
) -> None:
    with restored(root, tmp_path / "replica") as replica:
        write(root / "changelog", 2, {MINUTE: {(0, "Bo", "read"): 5, (0, "Cy", "read"): 1}})
        with diff_stores(
            replica_counts(replica, window="1 minute"), changelog_counts(root, window="1 minute")
        ) as diff:
            assert [str(each).partition(" ")[0] for each in diff] == ["~", "+"]
            assert Counter(each.change for each in diff) == {"changed": 1, "added": 1}
            assert '{"read": 5}, was {"read": 2}' in str(next(iter(diff)))
