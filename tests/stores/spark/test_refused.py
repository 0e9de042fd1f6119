"""State that is written as kstoolkit does not read it: a sentence says which setting did that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kstoolkit as kst
from kstoolkit.errors import FormatError
from tests.cli.commands import given
from tests.formats.spark import queries
from tests.formats.spark.checkpoints import ONE_PARTITION

if TYPE_CHECKING:
    from pathlib import Path

    from tests.formats.spark.checkpoints import Checkpoints

pytestmark = pytest.mark.spark

AVRO = {f"{queries.STORE}encodingFormat": "avro"}


def test_rows_in_avro_are_refused_by_the_setting(checkpoints: Checkpoints, tmp_path: Path) -> None:
    settings = queries.CHANGELOGS | AVRO | ONE_PARTITION
    path = queries.run(checkpoints.events, queries.remembering, tmp_path / "avro", settings)
    with kst.open_store(path) as store, pytest.raises(FormatError) as told:
        store.rows()
    assert "spark.sql.streaming.stateStore.encodingFormat=avro" in told.value.message
    answer = given("rows", path)
    assert (answer.code, answer.out) == (1, "")
    assert len(answer.err.splitlines()) == 2
    [found] = kst.discover(path)
    assert (found.kind or "").startswith("transformWithState")
    answer = given("log", path)
    assert (answer.code, answer.out) == (0, "")
    assert "There is no LOG in" in answer.err
