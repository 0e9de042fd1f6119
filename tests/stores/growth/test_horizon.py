"""How old rows are, by which clock; and why they have no age where they have none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import kstoolkit as kst
from kstoolkit.stores.growth.growth import _measured_growth
from kstoolkit.stores.growth.records import CheckpointUse, Eviction
from tests.changelog.changelogs import HOUR, MINUTE, write
from tests.replica.replicas import restored
from tests.stores.growth.listedrows import NOON_MS, Listed, found, part, stamped, windows

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.formats.columns import RowColumns
    from kstoolkit.stores.growth.verdict import Growth

DAY = 24 * HOUR


def ended(*ago_ms: int, kind: str = "window", **told: Any) -> Growth:
    """Return the growth of windows of an hour that ended so long before noon."""
    ends = [NOON_MS - each for each in ago_ms]
    keys = [b"Anna"] * len(ends)
    rows = part(keys, start=[end - HOUR for end in ends], end=ends)
    return _measured_growth(Listed([rows]), found=found(kind), **told)


def test_a_replica_tells_how_long_ago_its_windows_ended(tmp_path: Path) -> None:
    counts = {(n * HOUR, user, "read"): 1 for n in range(30) for user in ("Anna", "Bo")}
    write(tmp_path / "changelog", 1, {HOUR: counts})
    with restored(tmp_path / "changelog", tmp_path / "replica"):
        pass
    measured = kst.growth(tmp_path / "replica" / str(HOUR))
    # The newest window begins at 29:00. Ended at least an hour before are those of 0:00 to 27:00.
    assert [(each.num_rows, each.clock) for each in measured.ages] == [
        (2 * 28, "window end"),
        (2 * 5, "window end"),
        (0, "window end"),
        (0, "window end"),
    ]
    assert {each.judged_by for each in measured.ages} == {"the newest window's start"}
    assert {each.judged_at_ms for each in measured.ages} == {29 * HOUR}
    assert "ages" not in measured.unknown


def test_a_window_that_ended_just_an_hour_ago_is_an_hour_old() -> None:
    measured = ended(HOUR, HOUR - 1, now=NOON_MS)
    assert [each.num_rows for each in measured.ages] == [1, 0, 0, 0]
    assert {each.judged_by for each in measured.ages} == {"the moment given"}


def test_windows_of_sparks_count_back_from_the_watermark() -> None:
    use = CheckpointUse(Eviction.WATERMARK, batch_at_ms=0, watermark_ms=NOON_MS)
    measured = ended(2 * HOUR, 2 * DAY, -HOUR, kind="windowed aggregation", checkpoint=use)
    assert [each.num_rows for each in measured.ages] == [2, 1, 0, 0]
    assert {(each.judged_by, each.judged_at_ms) for each in measured.ages} == {
        ("the watermark", NOON_MS)
    }


def test_sessions_count_back_from_the_end_of_the_newest() -> None:
    rows = part([b"a", b"b"], start=[0, 0], end=[10 * MINUTE, 200 * MINUTE])
    measured = _measured_growth(Listed([rows]), found=found("session"))
    assert [each.num_rows for each in measured.ages] == [1, 0, 0, 0]
    assert {each.judged_by for each in measured.ages} == {"the newest session's end"}


def test_rows_with_timestamps_still_tell_when_they_were_updated() -> None:
    rows = stamped(("a", NOON_MS - HOUR), ("b", NOON_MS))
    measured = _measured_growth(Listed([rows]), found=found("timestamped-key-value"))
    assert (measured.ages[0].num_rows, measured.ages[0].clock) == (1, "timestamp")
    assert measured.ages[0].judged_by == "the newest row's timestamp"


@pytest.mark.parametrize(
    ("rows", "kind", "why"),
    [
        (
            windows(("Anna", NOON_MS)),
            "window",
            "when its windows end is unknown: give window_size=",
        ),
        (part([b"a"]), "key-value", "there is no row with a time"),
        (part([]), "key-value", "there are no rows"),
    ],
)
def test_why_there_are_no_ages_is_said(rows: RowColumns, kind: str, why: str) -> None:
    measured = _measured_growth(Listed([rows]), found=found(kind))
    assert len(measured.ages) == 0
    assert measured.unknown["ages"] == why


def test_a_time_that_rows_expire_at_is_no_age() -> None:
    use = CheckpointUse(Eviction.TTL, batch_at_ms=NOON_MS)
    measured = _measured_growth(Listed([stamped(("a", NOON_MS))]), checkpoint=use)
    assert len(measured.ages) == 0
    assert "when they expire" in measured.unknown["ages"]
