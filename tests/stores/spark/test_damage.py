from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kstoolkit as kst
from kstoolkit.errors import KstoolkitError
from tests.stores.spark.madecheckpoints import make_checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def made() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "query")
        make_checkpoint(root)
        yield root


@settings(max_examples=150)
@given(st.data())
def test_a_damaged_file_raises_nothing_but_errors_of_our_own(
    made: Path, data: st.DataObject
) -> None:
    files = sorted(each.relative_to(made) for each in made.rglob("*") if each.is_file())
    name = data.draw(st.sampled_from(files))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "query")
        shutil.copytree(made, root)
        raw = bytearray((root / name).read_bytes())
        at = data.draw(st.integers(0, len(raw) - 1))
        if data.draw(st.booleans()):
            raw[at] ^= data.draw(st.integers(1, 255))
        else:
            del raw[at:]
        (root / name).write_bytes(raw)
        scratch = Path(folder, "scratch")
        scratch.mkdir()
        kst.discover(root)
        path = data.draw(st.sampled_from([root / "state" / "0" / "0", root]))
        with suppress(KstoolkitError), kst.open_store(path, scratch=scratch) as store:
            with suppress(KstoolkitError):
                store.rows().count(exact=False)
            list(store.rows())
        assert list(scratch.iterdir()) == []
