from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rocksdict import Options, Rdict

from kstoolkit.rocksdb.files.damage import rows_of
from kstoolkit.rocksdb.profiles.named import profile_named

if TYPE_CHECKING:
    from collections.abc import Iterator

KEYS = st.binary(max_size=3) | st.lists(st.sampled_from([0, 97, 254, 255]), max_size=4).map(bytes)


@pytest.fixture(scope="module", params=["a plain store", "one with a prefix extractor"])
def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Rdict]:
    plain = request.param == "a plain store"
    options = Options(raw_mode=True) if plain else profile_named("point_lookup").to_rocksdict()
    made = Rdict(str(tmp_path_factory.mktemp("rows") / "store"), options)
    yield made
    made.close()


@given(keys=st.sets(KEYS, max_size=30), prefix=KEYS, start=st.none() | KEYS)
def test_rows_are_those_with_the_prefix_from_the_start_on(
    *, keys: set[bytes], prefix: bytes, start: bytes | None, store: Rdict
) -> None:
    for key in [key for key, _ in rows_of(store)]:
        del store[key]
    for key in keys:
        store[key] = key[::-1]
    store.flush()  # a hash index is on disk alone
    wanted = sorted(each for each in keys if each.startswith(prefix) and each >= (start or b""))
    found = list(rows_of(store, prefix=prefix, start=start))
    assert found == [(each, each[::-1]) for each in wanted]
