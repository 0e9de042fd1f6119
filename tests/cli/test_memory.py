"""``kstoolkit memory`` of a whole state directory, against its files, javac and real stores."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

import kstoolkit as kst
from kstoolkit.environment import find_java
from kstoolkit.errors import ConfigurationError
from tests.cli.commands import given, rows
from tests.jdk import compiler
from tests.rocksdb.profiles.test_setters import SOURCE, STORES, jars, used
from tests.stores.kafkastreams.archives import State, states

if TYPE_CHECKING:
    from pathlib import Path

OWN, *LARGER = (each for each in states("4.3.1") if each.name == "clean")
TOLD = """
import java.util.Map;
import org.rocksdb.InfoLogLevel;
import org.rocksdb.Options;

public class Told extends OfThisPod {
    @Override
    public void setConfig(
            final String name, final Options options, final Map<String, Object> configs) {
        super.setConfig(name, options, configs);
        options.setInfoLogLevel(InfoLogLevel.INFO_LEVEL);
    }
}
"""


@pytest.fixture(
    scope="module",
    params=[OWN, *(pytest.param(each, marks=pytest.mark.long) for each in LARGER)],
    ids=str,
)
def state(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    state = request.param
    assert isinstance(state, State)
    (application,) = state.directory(tmp_path_factory).iterdir()
    return application


def by_hand(folder: Path) -> int:
    """Return what a RocksDB of Kafka Streams' defaults takes, but for its rows: from OPTIONS."""
    text = max(folder.glob("OPTIONS-*")).read_text()
    families = dict(re.findall(r'\[CFOptions "(\w+)"\](.*?)\[Table', text, re.DOTALL))
    newest = "keyValueWithTimestamp" if "keyValueWithTimestamp" in families else "default"
    size = 50 * 1024 * 1024  # its block cache, which no OPTIONS file holds
    for name, options in families.items():
        told = {each: int(value) for each, value in re.findall(r"\b(\w+)=(\d+)\s", options)}
        memtable = told["write_buffer_size"] + 0.6 * told["arena_block_size"]
        size += round(told["max_write_buffer_number"] * memtable) * (name in {newest, "offsets"})
    return size


def test_the_sum_is_that_of_every_options_file_worked_out_by_hand(state: Path) -> None:
    folders = [each.parent for each in state.rglob("CURRENT")]
    *stores, total = rows(given("memory", state, "--json").out)
    assert total["store"] is None
    assert total["plan"]["instances"] == total["num_stores"] == len(folders)
    # Beside: what each row adds, index, filter, open files, the memtables of unused families.
    rest = total["formula_bytes"] - sum(map(by_hand, folders))
    assert 0 < rest < 64 * 1024 * len(folders)
    assert sum(each["formula_bytes"] for each in stores) == total["formula_bytes"]
    names = {each.parent.name if each.parent.name != "rocksdb" else each.name for each in folders}
    assert {each["store"] for each in stores} == names
    found = kst.discover(state)
    assert kst.plan_memory(found).total_bytes == total["formula_bytes"]
    assert kst.plan_memory(found, iterators=2).total_bytes > total["formula_bytes"]
    with pytest.raises(ConfigurationError, match="partitions=3 is given"):
        kst.plan_memory(found, partitions=3)


def test_segments_are_those_there_or_what_the_retention_makes_at_most(state: Path) -> None:
    """A live segment reaches into the span that is kept; Kafka Streams' are half as long as it."""
    windowed = next(state.glob("0_0/actions-1m"))
    starts = sorted(int(each.name.rpartition(".")[2]) for each in windowed.iterdir())
    (told, total) = rows(given("memory", windowed, "--retention", "6 hours", "--json").out)
    length = math.gcd(*starts)
    spans = range(starts[0], starts[0] + 48 * 3_600_000, 60_000)
    most = max((at // length) - ((at - 6 * 3_600_000) // length) + 1 for at in spans)
    assert told["plan"]["instances"] in {most, most + 1}
    assert told["num_stores"] == len(starts)
    assert total["formula_bytes"] > told["plan"]["instances"] / len(starts) * 0.99 * sum(
        map(by_hand, windowed.iterdir())
    )
    shown = given("memory", windowed, "--retention", "6 hours").out
    assert f"{len(starts)} of at most {told['plan']['instances']}" in shown


def test_a_store_that_cannot_be_read_makes_the_sum_a_floor(state: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(state, tmp_path / state.name)
    (broken,) = copy.glob("0_0/rocksdb/user-count")
    (broken / "CURRENT").write_text("nothing\n")
    *_, total = rows(given("memory", copy, "--json").out)
    assert total["formula_bytes"] is None
    assert str(broken) in total["unknown"]["formula_bytes"]
    answer = given("memory", copy, "--pod", "64GiB", "--heap", "1g")
    assert "One process with all of them" in answer.out
    assert "  at least " in answer.out
    assert "What RocksDB takes as it is configured is unknown" in answer.out


def test_what_java_itself_bounds_is_what_java_says() -> None:
    said = subprocess.run(
        [str(find_java().home / "bin/java"), "-XX:+PrintFlagsFinal", "-version"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    flags = dict(re.findall(r"(\w+) += (\d+) ", said))
    pod = kst.plan_memory("kafka_streams", partitions=9).within("8GiB", "2g")
    assert pod.java["code cache"] == int(flags["ReservedCodeCacheSize"])
    assert pod.java["thread stacks"] % (int(flags["ThreadStackSize"]) * 1024) == 0
    assert pod.left_bytes + pod.java_bytes == (8 - 2) << 30
    assert pod.bound_bytes < pod.left_bytes
    assert pod.needed_bytes is None, "nothing tells of index and filter blocks"


def test_mistakes_are_said_in_a_sentence(state: Path, tmp_path: Path) -> None:
    there = tmp_path / "There.java"
    there.write_text("mine")
    for flags, said in {
        ("--pod", "1GiB"): "--pod is given without --heap",
        ("--setter", tmp_path / "A.java"): "--setter is given without --pod",
        ("--pod", "8x", "--heap", "1g"): "'8x' is no size",
        ("--pod", "2GiB", "--heap", "2GiB"): "nothing left for RocksDB: 2.0 GiB of heap and",
        ("--pod", "8Gi", "--heap", "2g", "--setter", there): f"There is {there} already",
        (
            "--pod",
            "8Gi",
            "--heap",
            "2g",
            "--setter",
            tmp_path / "no" / "A.java",
        ): "can't be written",
        ("--pod", "8Gi", "--heap", "2g", "--setter", tmp_path / "a-b.java"): "no name of a Java",
        ("--partitions", "2"): "--instances, --partitions and --segments are of one store",
        ("--retention", "soon"): "'soon' is not a duration",
    }.items():
        answer = given("memory", state, *flags)
        assert (answer.code, said in answer.err) == (2, True), (flags, answer.err)
    assert there.read_text() == "mine"
    assert [each.name for each in tmp_path.iterdir()] == ["There.java"]
    empty = tmp_path / "empty"
    empty.mkdir()
    for flags in ((), ("--pod", "8Gi", "--heap", "2g")):
        assert given("memory", empty, *flags).code == 2


@pytest.mark.slow
def test_the_setter_is_compiled_and_a_real_store_has_its_bound(state: Path, tmp_path: Path) -> None:
    source = tmp_path / "OfThisPod.java"
    sizes = ("--pod", "8GiB", "--heap", "2GiB", "--setter", source)
    answer = given("memory", state, *sizes, "--json")
    *_, total = rows(answer.out)
    assert source.read_text() == total["setter"]
    (tmp_path / "Told.java").write_text(TOLD)
    lint = ["-Xlint:all,-classfile,-processing", "-Werror", "-encoding", "UTF-8"]
    files = map(str, (SOURCE, source, tmp_path / "Told.java"))
    command = [compiler(), *lint, "-cp", jars("4.3.1"), "-d", str(tmp_path), *files]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    used("4.3.1", tmp_path, "Told", tmp_path / "state")
    logs = [(tmp_path / "state" / "name" / store / "LOG").read_text() for store in STORES]
    caches = {
        each for log in logs for each in re.findall(r"block_cache: (0x\w+)[^@]*?y : (\d+)", log)
    }
    assert {size for _, size in caches} >= {str(total["pod"]["bound_bytes"])}
    ours = {address for address, size in caches if size == str(total["pod"]["bound_bytes"])}
    assert len(ours) == 1, "one cache for all of them"
    assert len({re.findall(r"write_buffer_manager: (0x\w+)", log)[-1] for log in logs}) == 1
