"""Differences of state in column families: whose each is, in every way to show it."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

import kstoolkit as kst
from kstoolkit.stores.spark.sparkstore import SparkStore
from tests.cli.commands import given, rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.formats.spark.checkpoints import Checkpoints

pytestmark = pytest.mark.spark

VARIABLES = {"total", "seen", "by_n"}


def test_a_difference_names_its_variable(checkpoints: Checkpoints, tmp_path: Path) -> None:
    with kst.open_store(checkpoints.make("remembering", "changelogs")) as store:
        assert isinstance(store, SparkStore)
        before, after = store.at(1), store.at(3)
        with kst.diff_stores(before, after) as diff:
            families = [json.loads(line)["family"] for line in diff.json_lines()]
            assert set(families) == VARIABLES
            assert [str(each).split()[1] for each in diff] == families
            assert diff.to_pandas()["family"].tolist() == families
            assert diff.to_arrow()["family"].to_pylist() == families
            kst.export(diff, tmp_path / "diff.parquet")
            kst.export(diff, tmp_path / "diff.csv")
            kst.export(diff, tmp_path / "diff.jsonl")
            changes = [each.change for each in diff]
        of_total = {
            row.key["user"]: row.value["total"] for row in after.family("total").rows()
        }.items() - {
            row.key["user"]: row.value["total"] for row in before.family("total").rows()
        }.items()
    assert {"added", "removed", "changed"} == set(changes)
    assert families.count("total") == len(of_total) > 0
    assert pq.read_table(tmp_path / "diff.parquet")["family"].to_pylist() == families
    with (tmp_path / "diff.csv").open(encoding="utf-8", newline="") as file:
        assert [row["family"] for row in csv.DictReader(file)] == families
    lines = (tmp_path / "diff.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["family"] for line in lines] == families


def test_a_difference_of_a_join_names_its_side(checkpoints: Checkpoints) -> None:
    for query in ("join 2", "join 3"):
        checkpoint = checkpoints.make(query, "HDFS")
        told = rows(given("diff", checkpoint, "--batches", 0, 2, "--json").out)
        sides = {row["family"] for row in told}
        assert {"left-keyWithIndexToValue", "right-keyWithIndexToValue"} <= sides
        lines = given("diff", checkpoint, "--batches", 0, 2).out.splitlines()
        assert all(line.split()[1] in sides for line in lines)


def test_one_variable_is_compared_measured_and_written_out_at_the_terminal(
    checkpoints: Checkpoints, tmp_path: Path
) -> None:
    checkpoint = checkpoints.make("remembering", "changelogs")
    only = ("--column-family", "total")
    told = rows(given("diff", checkpoint, "--versions", 1, 3, *only, "--json").out)
    assert {row["family"] for row in told} == {"total"}
    [grown] = rows(given("growth", checkpoint, *only, "--json").out)
    path = tmp_path / "total.parquet"
    assert given("export", checkpoint, *only, "--to", path).code == 0
    table = pq.read_table(path)
    assert len(table) == grown["num_rows"] > 0
    assert set(table["family"].to_pylist()) == {"total"}
    assert "user" in table["key"][0].as_py()
    answer = given("rows", checkpoint, "--key", "00")
    assert answer.code == 2
    assert "Hint: Choose one by --column-family: " in answer.err
