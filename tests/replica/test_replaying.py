"""A changelog replayed: the writes of a store, which end with what a replica holds."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstoolkit.errors import InputError
from kstoolkit.formats import countbundle
from kstoolkit.replica.catchup import changelog_rows
from kstoolkit.rocksdb.lab.comparing import compare_profiles
from tests.changelog.changelogs import HOUR, MINUTE, write
from tests.replica.replicas import Told, held, restored, told


def totals(rows: dict[bytes, bytes]) -> list[int]:
    bundles = countbundle.decode_many(list(rows.values()))
    return sorted(int(count) for count in bundles.count)


@given(batches=st.lists(told, max_size=4))
@settings(deadline=None, max_examples=30)
def test_the_last_bundle_of_each_key_has_what_a_replica_holds(batches: list[Told]) -> None:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place, "changelog")
        for number, batch in enumerate(batches):
            write(root, number, batch)
        for window, length in (("1 minute", MINUTE), ("1 hour", HOUR)):
            if not any(batch.get(length) for batch in batches):
                continue
            last = dict(changelog_rows(root, window=window))
            with restored(root, Path(place, "replica")) as store:
                wanted = held(store)[length]
            assert totals(last) == sorted(wanted.values())
            assert len(last) == len({(start, user) for start, user, _ in wanted})


def test_each_batch_writes_the_whole_bundle_of_the_keys_that_it_tells_of(tmp_path: Path) -> None:
    write(tmp_path, 0, {HOUR: {(0, "Anna", "read"): 1, (0, "Bo", "read"): 5}})
    write(tmp_path, 1, {HOUR: {(0, "Anna", "write"): 2}})
    rows = list(changelog_rows(tmp_path, window="1 hour"))
    assert [totals({key: value}) for key, value in rows] in ([[1], [5], [1, 2]], [[5], [1], [1, 2]])
    trial = compare_profiles(rows, ["spark"], progress=False)[0]
    assert (trial.writes, trial.live_rows) == (3, 2)


def test_windows_that_are_not_told_of_are_a_sentence(tmp_path: Path) -> None:
    write(tmp_path, 0, {HOUR: {(0, "Anna", "read"): 1}})
    with pytest.raises(InputError, match=r"no windows of 1 day(?s:.*)It has: 1 hour"):
        list(changelog_rows(tmp_path, window="1 day"))
    with pytest.raises(InputError, match="No changelog in"):
        list(changelog_rows(tmp_path / "epoch=0", window="1 hour"))
