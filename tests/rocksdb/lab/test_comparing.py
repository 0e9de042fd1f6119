"""Trials as they are: real stores, each in a process of its own."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from kstoolkit.errors import ConfigurationError, InputError
from kstoolkit.rocksdb.lab.comparing import compare_profiles
from kstoolkit.rocksdb.lab.workloads import Workload, generated
from kstoolkit.rocksdb.profiles.named import point_lookup
from kstoolkit.rocksdb.profiles.namedoptions import profile_names
from kstoolkit.rocksdb.profiles.profile import Profile
from tests.rocksdb.lab.smallprofile import LEVEL

if TYPE_CHECKING:
    from kstoolkit.rocksdb.lab.comparison import Comparison

UNIVERSAL = LEVEL.changed(name="universal", compaction_style="universal")
WORKLOAD = Workload("delete_heavy", writes=20_000, keys=5_000, reads_per_write=0.2)


def live_rows(workload: Workload) -> dict[bytes, bytes]:
    """Return what a dictionary would hold after the same writes."""
    rows: dict[bytes, bytes] = {}
    for batch in generated(workload):
        for key, value in zip(batch.keys, batch.values, strict=True):
            if value is None:
                rows.pop(key, None)
            else:
                rows[key] = value
    return rows


def digest(rows: dict[bytes, bytes]) -> str:
    found = hashlib.sha256()
    for key in sorted(rows):
        found.update(b"%d %d " % (len(key), len(rows[key])) + key + rows[key])
    return found.hexdigest()


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    folder = tmp_path_factory.mktemp("lab")
    found = compare_profiles(
        WORKLOAD, [LEVEL, UNIVERSAL, point_lookup()], folder=folder, progress=False
    )
    assert not list(folder.iterdir()), "stores are removed"
    return found


def test_a_trial_is_found_by_the_name_of_its_profile(compared: Comparison) -> None:
    assert compared.of("universal") is compared[1]
    with pytest.raises(ConfigurationError, match="no trial of a profile 'fifo'"):
        compared.of("fifo")


def test_every_profile_ends_with_what_a_dictionary_would_hold(compared: Comparison) -> None:
    rows = live_rows(WORKLOAD)
    assert len(rows) > 1_000
    for trial in compared:
        assert trial.content_sha256 == digest(rows)
        assert trial.live_rows == len(rows)
        assert trial.live_bytes == sum(len(key) + len(value) for key, value in rows.items())


def test_every_profile_is_given_the_same_writes_and_gets(compared: Comparison) -> None:
    done = {(t.writes, t.deletes, t.gets, t.gets_found, t.user_bytes) for t in compared}
    ((writes, deletes, gets, found, user_bytes),) = done
    assert (writes, gets) == (20_000, 4_000)
    assert user_bytes == 16 * writes + 100 * (writes - deletes)
    assert 0 < found < gets


def test_trials_that_came_to_their_end_say_so(compared: Comparison) -> None:
    assert [(t.stopped_by, t.settled) for t in compared] == [(None, True)] * 3
    not_asked = {f"{kind}_block_hit_ratio" for kind in ("data", "index", "filter")}
    assert all(t.unknown.keys() <= not_asked | {"filter_usefulness"} for t in compared)
    assert compared.of("level").unknown["filter_usefulness"] == "no filter was asked"


def test_amplifications_are_the_tickers_to_the_users_bytes(compared: Comparison) -> None:
    for t in compared:
        written = t.flush_bytes + t.compaction_write_bytes
        assert t.write_amplification == pytest.approx(written / t.user_bytes)
        assert t.space_amplification == pytest.approx(t.sst_bytes / t.live_bytes)
        assert t.peak_space_amplification == pytest.approx(t.peak_disk_bytes / t.live_bytes)
        assert t.peak_disk_bytes >= t.sst_bytes > 0


def test_memtables_that_hold_all_write_less_and_read_no_files(compared: Comparison) -> None:
    small, large = compared.of("level"), compared.of("point_lookup")
    assert small.compaction_write_bytes > 0 == large.compaction_write_bytes
    assert (small.write_amplification or 0) > (large.write_amplification or 0)
    assert (small.blocks_per_get or 0) > 0.1
    assert (large.blocks_per_get or 0) < 0.01, "opening a file reads some"
    assert large.peak_memtable_bytes > small.peak_memtable_bytes


def test_bytes_by_level_are_what_the_tickers_count(compared: Comparison) -> None:
    for trial in compared:
        levels = [each for each in compared.levels if each.profile == trial.profile]
        flushed = next(each for each in levels if each.level == 0)
        # A flush's ticker is some 150 bytes above the size of the file.
        written = sum(each.written_bytes for each in levels)
        tickers = trial.flush_bytes + trial.compaction_write_bytes
        assert written == pytest.approx(tickers, rel=0.02)
        assert flushed.num_flushes >= 1
        assert len({each.level for each in levels}) == len(levels)


def test_the_series_grows_to_the_figures_of_the_end(compared: Comparison) -> None:
    for trial in compared:
        moments = [each for each in compared.series if each.profile == trial.profile]
        for name in ("at_ms", "writes", "user_bytes", "written_bytes", "stall_ms"):
            values = [getattr(each, name) for each in moments]
            assert values == sorted(values)
        last = moments[-1]
        assert (last.writes, last.user_bytes) == (trial.writes, trial.user_bytes)
        assert last.write_amplification == pytest.approx(trial.write_amplification)
        assert all(0 < each.disk_bytes <= trial.peak_disk_bytes for each in moments)


def test_latencies_are_of_every_put_and_get(compared: Comparison) -> None:
    for trial in compared:
        for p50, p99 in (
            (trial.put_p50_us, trial.put_p99_us),
            (trial.get_p50_us, trial.get_p99_us),
        ):
            assert p50 is not None
            assert p99 is not None
            assert 0 < p50 <= p99
        assert trial.put_p50_us is not None
        assert trial.put_s * 1e6 > trial.put_p50_us * trial.writes / 2


def test_a_comparison_shows_itself_as_text_table_and_json(compared: Comparison) -> None:
    assert "3 trials of Workload(delete_heavy" in repr(compared)
    assert list(compared.to_pandas()["profile"]) == ["level", "universal", "point_lookup"]
    assert compared[0].content_sha256 in compared._repr_html_()
    assert "rocksdb.stall.micros" not in compared._repr_html_()
    assert "amplification: write" in repr(compared[0])
    told = json.loads(json.dumps(compared.to_dict(), allow_nan=False))
    assert {"workload", "trials", "series", "levels"} == set(told)


def test_the_same_seed_writes_the_same_and_another_does_not() -> None:
    first, second, other = (
        compare_profiles(
            Workload("skewed", writes=2_000, keys=500, seed=seed), [LEVEL], progress=False
        )[0]
        for seed in (1, 1, 2)
    )
    assert first.content_sha256 == second.content_sha256 != other.content_sha256


def test_rows_are_replayed_in_their_order_under_each_profile() -> None:
    rows: list[tuple[bytes, bytes | None]] = [(b"a", b"1"), (b"b", b""), (b"a", b"2")]
    rows += [(b"c", b"3"), (b"c", None)]
    found = compare_profiles(iter(rows), [LEVEL, UNIVERSAL], progress=False)
    assert {t.content_sha256 for t in found} == {digest({b"a": b"2", b"b": b""})}
    assert {(t.writes, t.deletes, t.live_rows) for t in found} == {(5, 1, 2)}
    assert found.workload.writes == 5


HOSTILE = [b"", b"\x00", b"\xff" * 300, b"a", b"a\x00absent", b"\n\r\x1b[2J", bytes(200_000)]


def test_keys_of_any_kind_are_replayed_under_every_named_profile() -> None:
    rows = [(key, key[::-1]) for key in HOSTILE] * 2 + [(b"key %d" % n, b"") for n in range(999)]
    found = compare_profiles(rows, list(profile_names()), progress=False)
    assert {t.content_sha256 for t in found} == {digest(dict(rows))}
    assert {t.live_rows for t in found} == {len(dict(rows))}


def test_a_single_profile_may_be_named_without_a_list() -> None:
    found = compare_profiles(Workload(writes=1_000), "spark", progress=False)
    assert [t.profile for t in found] == ["spark"]


def test_profiles_without_a_name_are_numbered() -> None:
    found = compare_profiles(
        Workload(writes=1_000), [LEVEL, Profile(), Profile(block_size=8192)], progress=False
    )
    assert [t.profile for t in found] == ["level", "profile 2", "profile 3"]


def test_ratios_of_the_cache_and_the_filters_are_those_of_the_tickers() -> None:
    filtered = LEVEL.changed(
        name="filtered", bloom_bits_per_key=3.0, cache_index_and_filter_blocks=True
    )
    workload = Workload(writes=10_000, keys=10_000, reads_per_write=0.5, absent_share=0.5)
    found = compare_profiles(workload, [filtered], progress=False)
    trial = found[0]
    count = {name.removeprefix("rocksdb."): n for name, n in trial.tickers.items()}
    for kind in ("data", "index", "filter"):
        hit, miss = count[f"block.cache.{kind}.hit"], count[f"block.cache.{kind}.miss"]
        assert getattr(trial, f"{kind}_block_hit_ratio") == hit / (hit + miss)
    let = count["bloom.filter.full.positive"]
    right = count["bloom.filter.useful"] + count["bloom.filter.full.true.positive"]
    assert trial.filter_usefulness == right / (count["bloom.filter.useful"] + let) < 1
    assert trial.num_entries >= trial.live_rows
    assert (trial.num_deletions, trial.unknown) == (0, {})
    flushed = next(each for each in found.levels if each.level == 0)
    assert trial.num_flushes == flushed.num_flushes


def test_stalls_are_counted_by_their_cause_and_timed() -> None:
    tight = LEVEL.changed(
        name="tight",
        write_buffer_size=64 << 10,
        level0_file_num_compaction_trigger=2,
        level0_slowdown_writes_trigger=2,
        level0_stop_writes_trigger=3,
        max_background_jobs=1,
    )
    trial = compare_profiles(Workload(writes=20_000), [tight], progress=False)[0]
    assert trial.l0_file_count_limit_stops + trial.l0_file_count_limit_delays > 0
    assert 0 < trial.longest_stall_ms <= trial.stall_ms * 1.01
    assert trial.num_stalls > 0
    assert trial.pending_compaction_bytes_stops == 0


def test_a_pace_is_kept() -> None:
    paced = Workload(writes=3_000, keys=100, writes_per_second=6_000)
    found = compare_profiles(paced, [LEVEL], progress=False)
    assert found.series[-1].at_ms >= 450


def test_figures_of_gets_are_unknown_when_nothing_is_asked_for() -> None:
    trial = compare_profiles(Workload(writes=1_000, reads_per_write=0), [LEVEL], progress=False)[0]
    assert trial.get_p99_us is None is trial.blocks_per_get
    assert trial.unknown["get_p99_us"] == "nothing was asked for"


def test_options_that_could_not_be_set_are_told() -> None:
    silent = LEVEL.changed(name="silent", info_log_level="error")
    trial = compare_profiles(Workload(writes=1_000), [silent], progress=False)[0]
    assert "info_log_level" in trial.unset


@pytest.mark.parametrize(
    ("arguments", "options", "error", "said"),
    [
        (["uniform", []], {}, ConfigurationError, "no profiles"),
        (["uniform", ["spark", "spark"]], {}, ConfigurationError, "Two profiles are called"),
        (["uniform", ["spork"]], {}, ConfigurationError, "spork"),
        (["unifrom", ["spark"]], {}, ConfigurationError, "unifrom"),
        (["uniform", ["spark"]], {"seconds": 0}, ConfigurationError, "seconds is 0"),
        (["uniform", ["spark"]], {"disk_bytes": -1}, ConfigurationError, "disk_bytes is -1"),
        (["uniform", ["spark"]], {"folder": "no/such"}, InputError, "no folder 'no/such'"),
        ([[], ["spark"]], {}, InputError, "no rows to replay"),
        ([{b"ab": b"c"}, ["spark"]], {}, ConfigurationError, "Row 1 to replay is b'ab'"),
    ],
)
def test_a_mistake_is_told_before_anything_is_tried(
    arguments: list[Any], options: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        compare_profiles(*arguments, **options, progress=False)
