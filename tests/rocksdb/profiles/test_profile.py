"""A profile: checked, compared, and the same in the OPTIONS file of a store opened with it."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rocksdict import Rdict

from kstoolkit.errors import ConfigurationError, FormatError, InputError
from kstoolkit.rocksdb.profiles.named import profile_named, profile_names
from kstoolkit.rocksdb.profiles.options import OPTIONS, OptionPlace, OptionSet
from kstoolkit.rocksdb.profiles.profile import Profile
from tests.rocksdb.otheroptions import BESIDE, changed, other_value

ROOT = Path(__file__).parents[3]


def opened(folder: Path, profile: Profile) -> Profile:
    """Return the profile that a store opened with another has, by its own account."""
    options = profile.to_rocksdict()
    Rdict(str(folder / "store"), options, column_families={"default": options}).close()
    return Profile.from_options(folder / "store")


@pytest.mark.parametrize(
    "name", [n for n, o in OPTIONS.items() if o.place is not OptionPlace.NOWHERE]
)
def test_each_option_comes_back_from_the_options_file_of_a_store_or_is_said_to_be_out_of_reach(
    name: str, tmp_path: Path
) -> None:
    profile = changed(name)
    found = opened(tmp_path, profile)
    lacking = profile.not_in_rocksdict()
    if name == "bloom_bits_per_key":  # rocksdict's filter doesn't tell its bits
        assert "without its bits" in found.unknown[name]
    elif name in lacking:
        assert f"it leaves {getattr(found, name)!r}" in lacking[name]
    else:
        assert getattr(found, name) == other_value(name)


def test_which_options_do_not_come_back_is_written_where_the_options_are() -> None:
    text = str(OptionSet.__doc__)
    said = text[text.index("OPTIONS files hold no objects") : text.index("Parameters\n")]
    named = set(re.findall(r"``(\w+)``", said)) & OPTIONS.keys()
    nowhere = {name for name, option in OPTIONS.items() if option.place is OptionPlace.NOWHERE}
    by_group = {n for n in nowhere if n.startswith(("block_cache_", "write_buffer_manager_"))}
    reads_and_writes = {
        "fill_cache",
        "readahead_bytes",
        "prefix_same_as_start",
        "disable_wal",
        "sync",
    }
    lacking = {name for name in OPTIONS if name in changed(name).not_in_rocksdict()}
    assert named == (nowhere - by_group - reads_and_writes) | lacking


@pytest.mark.parametrize("name", [n for n, o in OPTIONS.items() if o.place is OptionPlace.NOWHERE])
def test_an_option_that_is_in_no_options_file_changes_nothing_there_that_is_not_told(
    name: str, tmp_path: Path
) -> None:
    profile = changed(name)
    found = opened(tmp_path, profile)
    told = found.unknown.keys() | profile.not_in_rocksdict().keys()
    assert {each.option for each in profile.diff(found)} <= told


@pytest.mark.parametrize("name", profile_names())
def test_a_store_opened_with_a_named_profile_has_all_of_it_but_what_is_said_to_lack(
    name: str, tmp_path: Path
) -> None:
    profile = profile_named(name)
    found = opened(tmp_path, profile)
    differ = {each.option for each in profile.diff(found)}
    assert differ - found.unknown.keys() == profile.not_in_rocksdict().keys() - found.unknown.keys()


def test_a_store_opened_with_rocksdbs_own_options_differs_in_nothing_that_is_known(
    tmp_path: Path,
) -> None:
    found = opened(tmp_path, Profile())
    assert found.changes() == {}
    assert {each.option for each in found.diff(Profile())} == found.unknown.keys()


def test_what_options_files_hold_of_none_is_unknown_with_why(tmp_path: Path) -> None:
    found = opened(tmp_path, Profile())
    nowhere = {name for name, option in OPTIONS.items() if option.place is OptionPlace.NOWHERE}
    logged = {"block_cache_bytes", "strict_capacity_limit", "high_pri_pool_ratio"}
    assert found.unknown.keys() == nowhere - logged
    alone = Profile.from_options(next((tmp_path / "store").glob("OPTIONS-*")))
    assert alone.unknown.keys() == nowhere
    assert "no caches" in alone.unknown["block_cache_bytes"]
    assert "one by one" in found.unknown["disable_wal"]


@pytest.mark.parametrize("name", ["kafka_streams", "spark", "rocksdb"])
def test_what_options_files_do_not_hold_is_as_the_log_of_a_store_tells(
    name: str, tmp_path: Path
) -> None:
    """Its cache, the bits of its filters, and whether it had a write-ahead log."""
    own = Profile(write_buffer_size=64 << 10, bloom_bits_per_key=6.0, block_cache_bytes=5 << 20)
    profile = own if name == "rocksdb" else profile_named(name).changed(write_buffer_size=64 << 10)
    options, writes = profile.to_rocksdict(), profile.write_options()
    store = Rdict(str(tmp_path), options, column_families={"default": options})
    for number in range(4_000):
        store.put(b"%08d" % number, bytes(80), writes)
    store.close()
    found = Profile.from_options(tmp_path)
    for option in ("block_cache_bytes", "bloom_bits_per_key", "disable_wal"):
        assert getattr(found, option) == getattr(profile, option), option
    text = (tmp_path / "LOG").read_text().replace("ratio: 0.5", "ratio: 0.5.")
    text = re.sub(r"capacity : \d+", f"capacity : {'9' * 5_000}", text)
    (tmp_path / "LOG").write_text(re.sub('"filter_size": ', '"filter_size": 99999999999999', text))
    torn = Profile.from_options(tmp_path)
    assert torn.block_cache_bytes is torn.bloom_bits_per_key is torn.high_pri_pool_ratio is None
    (tmp_path / "LOG").unlink()
    assert Profile.from_options(tmp_path).disable_wal is None


def test_a_store_without_a_cache_says_so_in_its_options_file(tmp_path: Path) -> None:
    assert opened(tmp_path, Profile(block_cache_bytes=0)).block_cache_bytes == 0


def test_the_newest_of_several_options_files_is_read(tmp_path: Path) -> None:
    opened(tmp_path, Profile(block_size=8192))
    assert opened(tmp_path, Profile(block_size=16384)).block_size == 16384


def test_rocksdict_opens_a_store_again_with_its_old_options_unless_they_are_given_by_family(
    tmp_path: Path,
) -> None:
    opened(tmp_path, Profile(block_size=8192))
    options = Profile(block_size=16384, max_background_jobs=3).to_rocksdict()
    Rdict(str(tmp_path / "store"), options).close()
    found = Profile.from_options(tmp_path / "store")
    assert (found.block_size, found.max_background_jobs) == (8192, 3)


def test_each_column_family_has_its_own_options(tmp_path: Path) -> None:
    store = Rdict(str(tmp_path), Profile().to_rocksdict())
    store.create_column_family("hot", Profile(write_buffer_size=1 << 20).to_rocksdict())
    store.close()
    assert Profile.from_options(tmp_path, column_family="hot").write_buffer_size == 1 << 20
    assert Profile.from_options(tmp_path).write_buffer_size == 64 << 20
    with pytest.raises(InputError, match=r"no column family 'cold'(?s:.*)default, hot"):
        Profile.from_options(tmp_path, column_family="cold")


def test_a_word_that_only_a_newer_rocksdb_knows_is_unknown_and_the_rest_is_read(
    tmp_path: Path,
) -> None:
    file = tmp_path / "OPTIONS-000007"
    file.write_text(
        '[DBOptions]\n max_open_files=many\n[CFOptions "default"]\n compression=kNewer\n'
        " num_levels=5\n prefix_extractor=rocksdb.CappedPrefix.3\n"
    )
    found = Profile.from_options(file)
    assert found.num_levels == 5
    assert "'kNewer'" in found.unknown["compression"]
    assert "'many'" in found.unknown["max_open_files"]
    assert "CappedPrefix" in found.unknown["prefix_bytes"]
    assert "no section" in found.unknown["block_size"]


@pytest.mark.parametrize(
    ("content", "error", "said"),
    [
        (None, InputError, "There is no"),
        (b"", InputError, "no OPTIONS file"),
        (b"[Version]\n", InputError, "no OPTIONS file"),
        (b"root:x:0:0", InputError, "no OPTIONS file"),
        (b"\xff\xfe", InputError, "no OPTIONS file"),
    ],
)
def test_what_is_no_options_file_is_refused_in_a_sentence(
    content: bytes | None, error: type[Exception], said: str, tmp_path: Path
) -> None:
    file = tmp_path / "OPTIONS-000001"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(error, match=said):
        Profile.from_options(file)


@pytest.mark.parametrize("path", ["x" * 300, "a\0b"], ids=["long", "null"])
def test_a_path_that_no_system_takes_is_refused(path: str) -> None:
    with pytest.raises(InputError):
        Profile.from_options(path)


def test_a_folder_that_may_not_be_read_is_told(tmp_path: Path) -> None:
    program = f"""
import os
import kstoolkit.rocksdb.profiles.rocksdict  # before the interpreter is out of reach
from kstoolkit.errors import InputError
from kstoolkit.rocksdb.profiles.profile import Profile
if os.getuid() == 0: os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    Profile.from_options({str(tmp_path)!r})
except InputError as error:
    print(error.message)
"""
    tmp_path.chmod(0o000)
    told = subprocess.check_output([sys.executable, "-c", program], text=True, cwd=ROOT)
    tmp_path.chmod(0o700)
    assert told == f"{tmp_path} can't be read: Permission denied.\n"


def test_a_damaged_options_file_of_a_store_is_no_mistake_of_the_users(tmp_path: Path) -> None:
    (tmp_path / "OPTIONS-000001").write_bytes(b"\xff\xfe")
    with pytest.raises(FormatError, match="byte 0 is no text"):
        Profile.from_options(tmp_path)


def test_profiles_are_told_apart_by_name() -> None:
    assert Profile().diff("spark").to_dicts() == Profile().diff(profile_named("spark")).to_dicts()
    for wrong in ("sprak", None, 7):
        with pytest.raises(ConfigurationError, match="There is no profile"):
            Profile().diff(wrong)  # type: ignore[arg-type] # on purpose


@pytest.mark.parametrize("what", ["name", "purpose"])
def test_a_name_that_is_no_text_is_refused(what: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{what} is 1, which is no text"):
        Profile(**{what: 1})  # type: ignore[arg-type] # on purpose


def test_a_folder_without_an_options_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no OPTIONS file"):
        Profile.from_options(tmp_path)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"write_buffer_size": 1}, "the least that RocksDB takes is 65536"),
        ({"high_pri_pool_ratio": 1.5}, "the most that RocksDB takes is 1"),
        ({"compression": "brotli"}, "compression can't be 'brotli'"),
        ({"compression_per_level": ("none", "brotli")}, "can't be 'brotli'"),
        ({"compression_per_level": 3}, "compression_per_level can't be 3"),
        ({"compaction_style": 1}, "compaction_style can't be 1"),
        ({"block_size": True}, "block_size is True, which is no int"),
        ({"atomic_flush": 1}, "atomic_flush is 1, which is no bool"),
        ({"block_size": "4096"}, "block_size is '4096', which is no int"),
        ({"level0_stop_writes_trigger": 5}, "below level0_slowdown_writes_trigger"),
        ({"hard_pending_compaction_bytes_limit": 5}, "below soft_pending_compaction_bytes_limit"),
        ({"index_type": "hash_search"}, "needs a prefix"),
        ({"partition_filters": True}, "needs index_type"),
        ({"sync": True, "disable_wal": True}, "no log to wait for"),
        ({"write_buffer_manager_in_cache": True, "block_cache_bytes": 0}, "cache of 0 bytes"),
        ({"ttl": None}, "why it is unknown isn't said"),
    ],
)
def test_options_that_make_no_sense_are_refused_with_what_to_do(
    options: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        Profile(**options)
    assert caught.value.hint


def test_a_profile_names_only_what_differs_from_rocksdbs_own() -> None:
    assert repr(Profile()) == "Profile()"
    assert repr(Profile(name="a", sync=True)) == "Profile(name='a', sync=True)"
    unknown = Profile(ttl=None, unknown={"ttl": "not told"})
    assert repr(unknown) == "Profile(1 unknown)"


@given(st.sets(st.sampled_from(sorted(OPTIONS)), max_size=6))
def test_the_repr_of_a_profile_makes_the_profile_again(names: set[str]) -> None:
    options: dict[str, Any] = {}
    for name in names - {"sync", "disable_wal"}:
        options |= {name: other_value(name)} | BESIDE.get(name, {})
    if options.get("partition_filters"):
        options["index_type"] = "two_level_search"
    profile = Profile(**options)
    assert eval(repr(profile), {"Profile": Profile}) == profile  # noqa: S307 - it is our own text


def test_the_html_of_a_profile_says_what_its_repr_says_and_escapes_it() -> None:
    html = Profile(name="<b>", compression="zstd", ttl=None, unknown={"ttl": "a & b"})._repr_html_()
    assert "<b>" not in html
    assert "compression" in html
    assert "unknown (a &amp; b)" in html


def test_a_profile_is_changed_by_making_another() -> None:
    profile = Profile(name="mine", ttl=None, unknown={"ttl": "not told"})
    other = profile.changed(ttl=60)
    assert (other.name, other.ttl, other.unknown) == ("mine, changed", 60, {})
    assert other.changed(ttl=61).name == "mine, changed"
    assert profile.ttl is None
    both = other.changed(block_size=None, unknown={"block_size": "why"}, name="theirs")
    assert (both.name, both.unknown) == ("theirs", {"block_size": "why"})
    with pytest.raises(FrozenInstanceError):
        profile.ttl = 3  # type: ignore[misc]


def test_a_diff_names_the_profiles_and_tells_what_is_unknown() -> None:
    left = Profile(name="a", compression="lz4")
    right = Profile(name="b", ttl=None, unknown={"ttl": "not told"})
    found = left.diff(right)
    assert [str(each) for each in found] == [
        "ttl: 2592000 (a), unknown (not told) (b)",
        "compression: 'lz4' (a), 'snappy' (b)",
    ]
    assert found.to_pandas()["option"].tolist() == ["ttl", "compression"]
    assert [str(each) for each in found[0].figures()] == [
        "left: 2,592,000 (the profile)",
        "right: unknown (not told)",
    ]
    assert not len(left.diff(left))


def test_rocksdbs_own_consequences_are_in_the_profile_as_soon_as_it_is_made() -> None:
    universal = Profile(compaction_style="universal", ttl=7200)
    assert universal.level_compaction_dynamic_level_bytes is False
    assert universal.periodic_compaction_seconds == 7200
    merging = Profile(min_write_buffer_number_to_merge=2, max_write_buffer_number=4)
    assert merging.changed(atomic_flush=True).min_write_buffer_number_to_merge == 1
    assert Profile().delayed_write_rate == 16 << 20
    assert Profile(rate_limit_bytes_per_second=1 << 20).delayed_write_rate == 1 << 20
