"""The soak, in small: see :mod:`tests.pipeline.soak`."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.soak import Soak

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.spark
@pytest.mark.kill
@pytest.mark.slow
@pytest.mark.long
def test_counts_hold_while_files_clocks_and_kills_misbehave(tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    soak = Soak(tmp_path / "soak", batches=45, kills=1, every=4)
    soak.run()
    assert soak.did.keys() >= {"killed", "clock stepped", "moved", "rotated", "repaired", "grown"}
