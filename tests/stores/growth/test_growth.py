from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstoolkit.errors import ConfigurationError
from kstoolkit.formats.columns import ByteColumn
from kstoolkit.formats.serdes import serde_of
from kstoolkit.stores.growth.growth import _measured_growth
from kstoolkit.stores.growth.records import CheckpointUse, Eviction
from kstoolkit.stores.growth.tallies import SegmentTally, Tallies
from tests.stores.growth.listedrows import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    NOON_MS,
    Listed,
    found,
    part,
    stamped,
    windows,
)

if TYPE_CHECKING:
    from kstoolkit.formats.columns import RowColumns
    from kstoolkit.records import Record
    from kstoolkit.stores.growth.verdict import Growth

HALF_MS = HOUR_MS // 2


def five_segments() -> tuple[list[RowColumns], tuple[int, ...]]:
    """Return the rows of a window store from 10:00 up to 12:20, one a minute, and its segments."""
    starts = range(NOON_MS - 2 * HOUR_MS, NOON_MS + 21 * MINUTE_MS, MINUTE_MS)
    rows = [("anna" if at % 2 else "bo", start) for at, start in enumerate(starts)]
    segments = tuple(range(starts.start, starts.stop, HALF_MS))
    return [windows(*rows[:100]), windows(*rows[100:])], segments


def measured(*parts: RowColumns, kind: str | None = "window", **options: Any) -> Growth:
    starts = options.pop("segments", ())
    return _measured_growth(Listed(list(parts)), found=found(kind, *starts), **options)


def of_spark(rows: RowColumns, use: CheckpointUse, **options: Any) -> Growth:
    store = found("aggregation", engine="spark")
    return _measured_growth(Listed([rows]), found=store, checkpoint=use, **options)


def test_segments_that_are_past_are_named_with_why_they_are_still_there() -> None:
    parts, segments = five_segments()
    found_ = measured(*parts, segments=segments, retention="1 hour", now=NOON_MS + HOUR_MS)
    assert found_.expired.num_past_segments == 4
    assert found_.expired.past_segments_bytes == 4 << 20
    assert [each.is_past for each in found_.segments] == [True, True, True, True, False]
    assert found_.verdict[1] == (
        "4 of 5 segments (4.0 MiB of 5.0 MiB) end by 2023-11-15 12:00 UTC, a retention of 1 hour "
        "before 2023-11-15 13:00 UTC. Kafka Streams drops a segment only when a newer record "
        "arrives, and the newest here is of 2023-11-15 12:20 UTC."
    )
    assert found_.verdict[0].startswith(
        "121 rows (1.3 KiB), 86 % of the rows, are expired: they start by 2023-11-15 12:00 UTC"
    )


def test_rows_and_bytes_are_those_of_their_segments() -> None:
    parts, segments = five_segments()
    found_ = measured(*parts, segments=segments)
    assert [each.num_rows for each in found_.segments] == [30, 30, 30, 30, 21]
    assert [each.data_bytes for each in found_.segments[:2]] == [15 * 22, 15 * 22]
    assert [each.start_ms for each in found_.segments] == list(segments)
    assert sum(each.data_bytes for each in found_.segments) == found_.data_bytes


def test_a_retention_that_was_not_told_is_inferred_and_said_to_be() -> None:
    parts, segments = five_segments()
    found_ = measured(*parts, segments=segments)
    horizon = found_.horizon
    assert (horizon.retention_ms, horizon.inferred_retention_ms) == (None, HOUR_MS)
    assert (horizon.inferred_least_ms, horizon.inferred_most_ms) == (HOUR_MS, HOUR_MS + 1)
    assert (horizon.segment_interval_ms, horizon.expected_segments) == (HALF_MS, 3)
    assert horizon.stream_time_ms == NOON_MS + 20 * MINUTE_MS
    # Expired are the starts from 10:00 up to 11:20.
    assert found_.expired.num_rows == 81
    assert "a retention of 1 hour (inferred from the segments) before the newest row" in str(found_)
    assert "rows stay for up to 90 minutes" in str(found_)


def test_with_gaps_between_segments_the_bounds_of_the_retention_are_said() -> None:
    rows = windows(("a", 0), ("b", 40 * MINUTE_MS), ("b", 4 * HOUR_MS))
    horizon = measured(rows, segments=(0, 4 * HOUR_MS)).horizon
    assert horizon.segment_interval_least_ms == 48 * MINUTE_MS
    assert horizon.segment_interval_ms == 4 * HOUR_MS
    assert horizon.inferred_retention_ms == 8 * HOUR_MS
    assert (horizon.inferred_least_ms, horizon.inferred_most_ms) == (
        96 * MINUTE_MS,
        8 * HOUR_MS + 1,
    )


def test_segments_of_a_minute_tell_only_how_long_the_retention_is_at_most() -> None:
    rows = windows(*(("a", at * MINUTE_MS) for at in range(10)))
    found_ = measured(rows, segments=tuple(at * MINUTE_MS for at in range(10)))
    assert found_.horizon.inferred_retention_ms is None
    assert found_.horizon.inferred_most_ms == 2 * MINUTE_MS + 1
    assert found_.expired.num_rows == 7
    assert "a retention of 2 minutes at most (inferred from the segments)" in str(found_)
    assert "its segments speak for 0 seconds to 2 minutes" in found_.verdict[-1]


def test_the_edge_of_the_retention_is_kept_to_the_millisecond() -> None:
    rows = windows(("old", 0), ("edge", 1), ("new", HOUR_MS))
    plain = measured(rows, retention="1 hour")
    assert (plain.expired.num_rows, plain.horizon.kept_from_ms) == (1, 1)
    ordered = measured(rows, kind="time-ordered-window", retention="1 hour")
    assert (ordered.expired.num_rows, ordered.horizon.kept_from_ms) == (0, 0)


def test_sessions_expire_by_when_they_end() -> None:
    ends = [10 * MINUTE_MS, 200 * MINUTE_MS]
    rows = part([b"a", b"b"], start=[0, 0], end=ends)
    found_ = measured(rows, kind="session", retention="1 hour")
    assert (found_.clock, found_.horizon.stream_time_ms) == ("session end", ends[1])
    assert found_.expired.num_rows == 1
    assert "is expired: it ends by" in found_.verdict[0]
    assert not found_.windows


def test_when_nothing_is_overdue_it_says_so() -> None:
    rows = windows(("a", NOON_MS), ("b", NOON_MS + HALF_MS))
    found_ = measured(rows, segments=(NOON_MS, NOON_MS + HALF_MS), retention="1 hour")
    told = "a store with a retention of 1 hour keeps up to 3, and this one has 2."
    assert found_.verdict == (f"No segment is overdue: {told}",)


def test_without_a_retention_it_says_what_is_missing() -> None:
    found_ = measured(windows(("a", NOON_MS)), segments=(NOON_MS,))
    assert found_.expired.num_rows is None
    why = "fewer than two segments do not tell how long one is: give retention="
    assert found_.expired.unknown["num_rows"] == why
    assert found_.verdict == (f"What is expired is unknown: {why}.",)


def test_one_segment_tells_how_long_the_retention_is_at_least() -> None:
    start = NOON_MS // (12 * HOUR_MS) * 12 * HOUR_MS
    rows = windows(("a", start), ("b", start + 10 * HOUR_MS))
    found_ = measured(rows, segments=(start,))
    assert found_.horizon.inferred_most_ms is None
    least = found_.horizon.inferred_least_ms
    assert least is not None
    assert 20 * HOUR_MS < least <= 24 * HOUR_MS
    assert "Its one segment has rows so far apart that the retention is at least" in str(found_)


def test_a_told_retention_that_the_segments_contradict_is_not_believed_in_silence() -> None:
    parts, segments = five_segments()
    found_ = measured(*parts, segments=segments, retention="3 hours")
    assert any("the store was made with another retention" in each for each in found_.verdict)
    assert found_.horizon.segment_interval_ms == HALF_MS


def test_a_told_retention_that_its_rows_contradict_is_not_believed_either() -> None:
    rows = windows(("a", 0), ("b", 110 * MINUTE_MS), ("c", 2 * HOUR_MS))
    found_ = measured(rows, segments=(0, 2 * HOUR_MS), retention="1 hour")
    assert found_.horizon.segment_interval_ms == 2 * HOUR_MS
    assert any("the store was made with another retention" in each for each in found_.verdict)


def test_a_record_from_the_future_is_pointed_at() -> None:
    parts, segments = five_segments()
    late = windows(("late", NOON_MS + 400 * DAY_MS))
    found_ = measured(*parts, late, segments=segments, retention="1 hour", now=NOON_MS)
    assert any("a record from the future moves stream time on" in each for each in found_.verdict)


def test_a_key_value_store_has_no_retention_and_its_old_rows_are_counted() -> None:
    ages = [("a", 40 * DAY_MS), ("b", 8 * DAY_MS), ("c", 2 * DAY_MS), ("d", 2 * HOUR_MS), ("e", 0)]
    rows = stamped(*((key, NOON_MS - age) for key, age in ages))
    found_ = measured(rows, kind="timestamped-key-value")
    assert [(each.not_updated_for_ms, each.num_rows) for each in found_.ages] == [
        (HOUR_MS, 4),
        (DAY_MS, 3),
        (7 * DAY_MS, 2),
        (30 * DAY_MS, 1),
    ]
    assert found_.verdict[0].startswith(
        "A key-value store has no retention: each row stays until its key is deleted. Counted back "
        "from 2023-11-15 12:00 UTC, not updated were 4 rows (36 B), 80 % of the rows, for 1 hour "
        "or longer; 3 rows (27 B), 60 % of the rows, for 1 day or longer;"
    )
    assert found_.expired.num_rows is None
    assert "until they are deleted" in found_.expired.unknown["num_rows"]


def test_a_row_just_a_day_old_was_not_updated_for_a_day() -> None:
    rows = stamped(("a", NOON_MS - DAY_MS), ("b", NOON_MS - DAY_MS + 1), ("c", NOON_MS))
    assert measured(rows, kind="timestamped-key-value").ages[1].num_rows == 1


def test_a_key_value_store_without_timestamps_says_that_ages_are_unknown() -> None:
    found_ = measured(part([b"a", b"b"]), kind="key-value")
    assert not found_.ages
    assert found_.verdict[-1] == "How old its rows are is unknown: they have no timestamps."
    assert found_.horizon.unknown["stream_time_ms"] == "there is no row with a time"


def versions(count: int, interval: int) -> RowColumns:
    """Return one key's versions, a minute each, the newest one the latest."""
    begins = [NOON_MS + at * MINUTE_MS for at in range(count)]
    ends = [*begins[1:], None]
    segment = [None if end is None else end // interval for end in ends]
    return part(
        [b"price"] * count,
        stamp=begins,
        valid_to_ms=pa.array(ends, pa.int64()),
        details={"segment_id": pa.array(segment, pa.int64())},
    )


def test_history_past_its_retention_and_versions_per_key_are_counted() -> None:
    found_ = measured(versions(121, 300_000), kind="versioned", retention="1 hour")
    told = found_.versions
    assert told is not None
    assert (told.num_latest, told.num_history, told.versions_per_key) == (1, 120, 121.0)
    assert told.most_versions == 121
    assert found_.num_untimed_rows == 1
    # Stream time is 14:00; versions that were valid up to 13:00 or less can't be asked for.
    assert found_.expired.num_rows == 60
    assert "they were replaced by 2023-11-15 13:00 UTC" in found_.verdict[0]
    assert "Only whole segments are dropped" in found_.verdict[0]


@pytest.mark.parametrize("interval", [150_000, 300_000, 3_600_000])
def test_a_versioned_store_tells_how_long_its_segments_are(interval: int) -> None:
    horizon = measured(versions(121, interval), kind="versioned").horizon
    least, most = horizon.segment_interval_least_ms, horizon.segment_interval_ms
    assert least is not None
    assert most is not None
    assert least <= interval <= most <= interval + 8


def test_versions_at_both_ends_of_a_segment_tell_its_length_exactly() -> None:
    interval, number = 300_000, NOON_MS // 300_000
    rows = part(
        [b"a", b"a"],
        stamp=[NOON_MS - DAY_MS] * 2,
        valid_to_ms=pa.array([number * interval, (number + 1) * interval - 1]),
        details={"segment_id": pa.array([number, number])},
    )
    horizon = measured(rows, kind="versioned").horizon
    assert (horizon.segment_interval_least_ms, horizon.segment_interval_ms) == (interval, interval)
    assert (horizon.inferred_least_ms, horizon.inferred_most_ms) == (HOUR_MS, 2 * HOUR_MS + 23)


def test_rows_at_or_before_sparks_watermark_are_counted() -> None:
    ends = [NOON_MS + at * MINUTE_MS for at in range(4)]
    rows = part([b"a"] * 4, start=[end - MINUTE_MS for end in ends], end=ends)
    found_ = of_spark(rows, CheckpointUse(Eviction.WATERMARK, NOON_MS, ends[1]))
    assert (found_.expired.num_below_watermark, found_.expired.below_watermark_bytes) == (2, 18)
    assert found_.verdict[0].startswith(
        "2 rows (18 B), 50 % of the rows, are those whose windows end at or before the watermark, "
        "2023-11-15 12:01 UTC."
    )
    none = of_spark(rows, CheckpointUse(Eviction.WATERMARK, NOON_MS, 0))
    assert none.verdict[0].startswith("No row is at")
    nothing = _measured_growth(Listed([rows]), found=found("aggregation", engine="spark"))
    assert nothing.expired.unknown["num_below_watermark"] == "no watermark was given"
    assert "a watermark or a time to live decides, and none is known" in nothing.verdict[-1]


def test_without_windows_it_is_a_rows_own_time_that_the_watermark_is_held_against() -> None:
    rows = stamped(("a", NOON_MS), ("b", NOON_MS + 1), ("c", None))
    found_ = of_spark(rows, CheckpointUse(Eviction.WATERMARK, NOON_MS, NOON_MS))
    assert found_.expired.num_below_watermark == 1


names = st.text("abü", min_size=0, max_size=3)
row_parts = st.lists(
    st.lists(st.tuples(names, st.integers(0, 300).map(lambda at: at * MINUTE_MS)), max_size=9),
    max_size=6,
)


@given(row_parts, st.integers(1, 3))
def test_sums_by_key_prefix_and_window_are_those_of_a_dict(
    parts: list[list[tuple[str, int]]], prefix_bytes: int
) -> None:
    rows_in_parts = Listed([windows(*rows) for rows in parts])
    store: Any = SimpleNamespace(source=rows_in_parts, key_serde=serde_of("string"))
    found_ = _measured_growth(store, found=found("window"), prefix_bytes=prefix_bytes, top=10_000)
    rows = [
        (user.encode(), start, len(user.encode()) + 8) for part in parts for user, start in part
    ]
    by_key, by_prefix, by_start = Counter[bytes](), Counter[bytes](), Counter[int]()
    for key, start, size in rows:
        by_key[key] += size
        by_prefix[key[:prefix_bytes]] += size
        by_start[start] += size
    assert {each.key_raw: each.data_bytes for each in found_.keys} == by_key
    assert {each.key: each.key_raw for each in found_.keys} == {key.decode(): key for key in by_key}
    assert {each.prefix_raw: each.data_bytes for each in found_.prefixes} == by_prefix
    assert {each.start_ms: each.data_bytes for each in found_.windows} == by_start
    assert (found_.num_rows, found_.num_keys) == (len(rows), len(by_key))
    assert found_.data_bytes == sum(size for _, _, size in rows)


def test_who_takes_more_than_an_even_share_is_named() -> None:
    rows = [windows(*((f"user-{at}", at * MINUTE_MS) for at in range(40)))]
    even = measured(*rows, retention="1 day")
    assert not any("One key" in each for each in even.verdict)
    much = part([b"hot"] * 20, size=100, start=[at * MINUTE_MS for at in range(20)])
    uneven = measured(*rows, much, retention="1 day")
    assert "One key of 41, 'hot', takes 20 rows (2.0 KiB): 78 % of the data." in uneven.verdict


def test_what_stands_out_does_not_depend_on_how_many_are_named() -> None:
    rows = [
        windows(*((f"{at:02d}", at * MINUTE_MS) for at in range(40))),
        part([b"hot"] * 8, size=40, start=[7 * MINUTE_MS] * 8),
    ]
    told = {measured(*rows, retention="1 day", top=top).verdict for top in (1, 2, 3, 10, 100)}
    assert len(told) == 1
    [verdict] = told
    named = ("One key of 41, 'hot'", "In the window that starts at 1970-01-01 00:07 UTC")
    assert all(any(each.startswith(name) for each in verdict) for name in named)
    found_ = measured(*rows, top=1)
    assert (found_.num_keys, found_.num_prefixes, found_.num_windows) == (41, 41, 40)


def test_more_even_keys_than_are_kept_leave_none_to_name() -> None:
    """No counter is left: yet what the keys begin with is known."""
    keys = [b"a%07d" % number for number in range(66_000)]
    keys += [bytes([first]) + b"%07d" % number for first in range(90) for number in range(10)]
    found_ = measured(part(keys, start=[0] * len(keys)), prefix_bytes=1)
    assert (len(found_.keys), found_.num_keys) == (0, None)
    assert "num_keys" in found_.unknown
    assert any("Keys that begin with 'a' take" in each for each in found_.verdict)


def test_one_row_is_spoken_of_as_one() -> None:
    rows = windows(("a", 0), ("b", HOUR_MS), ("b", HOUR_MS + 1))
    [first, *_] = measured(rows, retention="20 minutes").verdict
    assert "1 row (9 B), 33 % of the rows, is expired: it starts by" in first
    [first, *_] = measured(
        stamped(("a", 0), ("b", DAY_MS)), kind="key-value", retention="1 hour"
    ).verdict
    assert "1 row (9 B), 50 % of the rows, was updated last by" in first


def test_only_as_many_are_named_as_asked_for() -> None:
    found_ = measured(windows(*((f"user-{at}", at) for at in range(40))), top=3)
    assert (len(found_.keys), len(found_.windows), len(found_.prefixes)) == (3, 3, 3)
    for bad in ({"top": 0}, {"prefix_bytes": 0}, {"retention": "soon"}):
        with pytest.raises(ConfigurationError):
            measured(windows(("a", 0)), **bad)


def test_rows_that_are_torn_are_counted_and_in_no_other_figure() -> None:
    rows = part([b"ok", b"torn"], start=[0, 0], problems={1: "the key has 4 bytes"})
    found_ = measured(rows)
    assert (found_.num_rows, found_.num_undecoded_rows, found_.data_bytes) == (1, 1, 10)
    assert found_.verdict[-1] == "1 row could not be taken apart, and is in no other figure."


def test_a_store_without_rows_says_so() -> None:
    found_ = measured()
    assert found_.verdict == ("The store has no rows.",)
    assert found_.clock is None
    assert not found_.keys
    assert not found_.prefixes
    assert "Growth('counts', window, 0 rows" in repr(found_)


def test_room_that_is_set_aside_is_told_from_room_that_is_used() -> None:
    store = found("window", 0, HOUR_MS, segment_bytes=1000, disk_bytes=8 << 20)
    found_ = _measured_growth(Listed([windows(("a", 0))]), found=store)
    assert any(
        "Its files are 2.0 KiB long, but take 8.0 MiB on the disk" in each
        for each in found_.verdict
    )


def test_the_applications_own_part_of_a_key_is_whose_the_room_is() -> None:
    inner = ByteColumn.of([b"anna", b"bo"])
    found_ = measured(part([b"\x00\x01anna", b"\x00\x02bo"], inner_key=inner), kind="list-value")
    assert [each.key for each in found_.keys] == ["anna", "bo"]


def test_where_nothing_is_to_be_said_the_size_is() -> None:
    found_ = measured(stamped(("a", 0), ("b", 0), ("c", 0)), kind="list-value")
    assert found_.verdict == ("No figure here says why it would not shrink: it has 3 rows (27 B).",)


def test_a_spark_store_without_a_watermark_says_what_is_missing() -> None:
    found_ = _measured_growth(
        Listed([stamped(("a", 0), ("b", 0))]), found=found("dedup", engine="spark")
    )
    assert found_.verdict[-1] == (
        "What is expired is unknown: in Spark's state a watermark or a time to live decides, and "
        "none is known."
    )


def test_a_query_without_a_watermark_is_told_that_nothing_is_evicted() -> None:
    rows = stamped(("a", None), ("b", None))
    found_ = of_spark(rows, CheckpointUse(Eviction.WATERMARK, NOON_MS))
    assert found_.verdict == (
        "The query has no watermark: Spark evicts no row of this store, however old it is.",
    )
    assert found_.horizon.unknown["watermark_ms"] == "the query has none"
    assert found_.expired.unknown["num_below_watermark"] == "the query has none"


def test_rows_without_times_are_not_held_against_a_watermark() -> None:
    use = CheckpointUse(Eviction.WATERMARK, NOON_MS, NOON_MS - HOUR_MS)
    [told] = of_spark(stamped(("a", None)), use).verdict
    assert told == (
        "Its rows have no time that could be held against the watermark, 2023-11-15 11:00 UTC: "
        "Spark evicts none of them."
    )
    [some] = of_spark(stamped(("a", NOON_MS), ("b", None)), use).verdict
    assert some.startswith("No row is at or before the watermark")


@pytest.mark.parametrize(
    ("eviction", "told"),
    [
        (Eviction.CODE, "each stays until the query's own code removes it"),
        (Eviction.NEVER, "it stays for as long as the query runs"),
    ],
)
def test_where_no_watermark_decides_none_is_spoken_of(eviction: Eviction, told: str) -> None:
    use = CheckpointUse(eviction, NOON_MS, NOON_MS)
    found_ = of_spark(stamped(("a", NOON_MS - HOUR_MS)), use)
    assert len(found_.verdict) == 1
    assert told in found_.verdict[0]
    assert found_.horizon.watermark_ms is None
    assert str(eviction) in found_.horizon.unknown["watermark_ms"]


def test_rows_past_their_time_to_live_are_counted_and_those_without_one_named() -> None:
    use = CheckpointUse(Eviction.TTL, NOON_MS)
    rows = stamped(("a", NOON_MS), ("b", NOON_MS + 1), ("c", NOON_MS + DAY_MS), ("d", None))
    found_ = of_spark(rows, use, now=NOON_MS)
    assert (found_.expired.num_past_ttl, found_.expired.past_ttl_bytes) == (1, 9)
    assert found_.expired.num_below_watermark is None
    assert found_.verdict == (
        (
            "1 row (9 B), 25 % of the rows, was past its time to live when the latest micro-batch "
            "ran, 2023-11-15 12:00 UTC. Reads hide such rows, and Spark removes them at the end of "
            "a micro-batch."
        ),
        "1 row has no time to live: such a row stays until the query's own code removes it.",
    )
    assert not found_.ages
    live = of_spark(stamped(("a", NOON_MS + 1)), use)
    assert live.verdict == (
        "No row was past its time to live when the latest micro-batch ran, 2023-11-15 12:00 UTC.",
    )


def test_versions_of_a_checkpoint_are_named_with_what_they_take() -> None:
    use = CheckpointUse(
        Eviction.CODE,
        NOON_MS,
        num_versions=100,
        oldest_version=1601,
        newest_version=1700,
        num_snapshots=20,
        snapshots_bytes=20 << 10,
        num_changelogs=167,
        changelogs_bytes=15 << 10,
        num_others=187,
        others_bytes=3 << 10,
        size_bytes=38 << 10,
        disk_bytes=1400 << 10,
    )
    store = found("transformWithState: a", engine="spark", disk_bytes=1400 << 10)
    found_ = _measured_growth(Listed([stamped(("a", None))]), found=store, checkpoint=use)
    assert found_.verdict[1].startswith(
        "Its checkpoint keeps 100 versions of it, 1601 to 1700: 20 files of snapshots (20.0 KiB), "
        "167 changelogs (15.0 KiB) and 187 other files (3.0 KiB); the rows that are read here are "
        "9 B. The 38.0 KiB of these files take 1.4 MiB on the disk, as small files take whole "
        "blocks. Spark keeps as many as spark.sql.streaming.minBatchesToRetain says"
    )
    assert not any("MANIFEST" in each for each in found_.verdict)
    assert found_.to_dict()["checkpoint"]["num_changelogs"] == 167


def test_a_long_key_is_not_said_whole() -> None:
    rows = part([b"x" * 10_000, *[b"%d" % number for number in range(99)]])
    [told] = [each for each in measured(rows, kind="list-value").verdict if "One key" in each]
    assert len(told) < 200
    assert "… (10,002 long)" in told


def test_the_segments_of_others_have_no_retention_to_infer() -> None:
    rows = windows(("a", 0), ("b", HOUR_MS))
    store = found("window", 0, HOUR_MS, engine="kstoolkit")
    silent = _measured_growth(Listed([rows]), found=store)
    assert (silent.horizon.segment_interval_ms, silent.horizon.inferred_most_ms) == (HOUR_MS, None)
    assert "only the segments of Kafka Streams' stores speak of it" in silent.verdict[-1]
    told = _measured_growth(Listed([rows]), found=store, retention="1 hour", now=3 * HOUR_MS)
    assert told.expired.num_past_segments == 2
    assert not any("Kafka Streams" in each for each in told.verdict)


def test_rows_alone_are_enough_and_what_is_missing_is_said() -> None:
    found_ = _measured_growth(Listed([windows(("a", 0))]))
    assert found_.size_bytes is None
    assert "only the rows were handed over" in found_.unknown["size_bytes"]
    assert found_.deletions.num_entries is None
    assert "not handed over" in found_.deletions.unknown["num_entries"]


@pytest.mark.parametrize("told", [True, False])
def test_every_figure_names_its_source_and_each_unknown_one_says_why(*, told: bool) -> None:
    parts, segments = five_segments()
    options: dict[str, Any] = {"retention": "1 hour", "now": NOON_MS} if told else {}
    found_ = measured(*parts, segments=segments if told else (), **options)
    records: list[Record] = [found_, *found_.segments, *found_.keys, *found_.windows]
    for figure in [each for record in records for each in record.figures()]:
        assert figure.value is not None or figure.why_unknown, figure.name
    with_reasons = (found_.horizon, found_.expired, found_.deletions, *found_.segments)
    for record in with_reasons:
        none = {each.name for each in record.figures() if each.value is None}
        assert record.to_dict()["unknown"].keys() == none
    frame = found_.to_pandas()
    assert {"num_rows", "expired.num_rows", "horizon.stream_time_ms"} <= set(frame["figure"])
    assert frame["figure"].is_unique
    assert set(frame["source"]) <= {"store on disk", "given", "formula"}


def test_it_can_be_printed_shown_and_written_as_json() -> None:
    parts, segments = five_segments()
    found_ = measured(*parts, part([b"<b>\xff"], start=[0]), segments=segments)
    html = found_._repr_html_()
    assert "<b>\xff" not in html
    assert all(each.partition(" ")[0] in html for each in found_.verdict)
    plain = json.loads(json.dumps(found_.to_dict()))
    assert plain["verdict"] == list(found_.verdict)
    assert plain["segments"][0]["num_rows"] == 30
    assert plain["keys"][-1]["key_raw"] == b"<b>\xff".hex()
    assert str(found_).splitlines() == list(found_.verdict)


def test_times_of_any_size_are_taken() -> None:
    ends = [2**63 - 1, -(2**63)]
    found_ = measured(part([b"a", b"b"], start=ends), retention="1 hour", segments=(0, HOUR_MS))
    assert found_.horizon.stream_time_ms == 2**63 - 1
    assert found_.expired.num_rows == 1
    assert "9223372036" in str(found_)


def test_rows_on_disk_are_counted_where_they_are_several_rows_or_none() -> None:
    """A history row holds several versions, and index rows of windows are for finding others."""
    rows = replace(part([b"a", b"a", b"b"]), row=np.array([0, 0, 1]), num_left_out=2)
    tallies = Tallies(None, None, SegmentTally(np.zeros(0, dtype=np.int64)))
    tallies.add(rows)
    assert (tallies.num_rows, tallies.num_on_disk) == (3, 4)
