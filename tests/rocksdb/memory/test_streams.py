"""The memory formula against a real Kafka Streams process, by RocksDB's own account in it.

The application fills memtables by having flushes wait, fills caches by reading, and tells what
RocksDB says of itself all the while (KIP-607). Plans are made from the folders of its open stores.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kstoolkit.environment import find_java
from kstoolkit.kafka.jars import fetch
from kstoolkit.operations.checkup import checkup
from kstoolkit.rocksdb.memory.measured import process_memory
from kstoolkit.rocksdb.memory.planning import MemoryPlan, plans_in_all
from kstoolkit.stores.opening import open_store
from kstoolkit.stores.rows.statestore import StateStore
from tests.cli.commands import given
from tests.kafka.clients import make_topic
from tests.operations.livestreams import KAFKA_STREAMS, compiled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kstoolkit.kafka.broker import Broker
    from kstoolkit.rocksdb.memory.measured import MemoryParts

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

MB = 1 << 20
SOURCE = Path(__file__).parent / "java" / "MemoryApplication.java"
VALUES = {"timestamped": 8_000, "plain": 500, "windows": 8_000, "sessions": 2_000}
ROW_BYTES = 45
"""What a row takes in a memtable beside its value, about."""

SHARED = ("shared-a", "shared-b")
FULL = 0.85

Gauges = dict[str, int]


@dataclass
class Application:
    """A Kafka Streams application that does as it is told."""

    process: subprocess.Popen[str]
    state: Path

    def tell(self, line: str) -> tuple[Gauges, Gauges]:
        """Return what RocksDB said of each store when it had done that, and at most until then."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        now, most = self.process.stdout.readline().split("\t")
        return json.loads(now), json.loads(most)

    def settled(self) -> tuple[Gauges, Gauges]:
        """Return the same once nothing is flushed or compacted any more."""
        quiet = 0
        while quiet < 3:
            now, most = self.tell("look")
            quiet = 0 if any(now[each] for each in now if " num-" in each) else quiet + 1
            time.sleep(0.1)
        return now, most

    def most_rss_bytes(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024

    def parts(self, store: str, *, iterators: int | None = None) -> MemoryParts:
        """Return what the files of a store tell of the memory it may take, beside the process."""
        task = self.state / "0_0"
        whole = task / "rocksdb" / store
        folder = whole if whole.is_dir() else next((task / store).glob(f"{store}.*"))
        with open_store(folder) as opened:
            assert isinstance(opened, StateStore)
            return opened.memory(pid=self.process.pid, iterators=iterators)


@contextmanager
def running(
    broker: Broker, folder: Path, name: str, setter: Path | None = None
) -> Iterator[Application]:
    jars = os.pathsep.join(map(str, fetch([KAFKA_STREAMS])))
    classes = compiled(folder / "classes", SOURCE)
    make_topic(broker, name, 1)
    java = [str(find_java().home / "bin" / "java"), "-Xmx128m", "-XX:TieredStopAtLevel=1"]
    if setter is not None:
        compiled(folder / "classes", setter)
        java += [f"-Dsetter={setter.stem}"]
    told = [broker.bootstrap, str(folder / "state"), name, name]
    with (
        (folder / "errors").open("w") as errors,
        subprocess.Popen(
            [*java, "-cp", f"{classes}{os.pathsep}{jars}", SOURCE.stem, *told],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        try:
            yield Application(process, folder / "state" / name)
        finally:
            process.kill()


@dataclass
class Driven:
    """What the application said when it was full, quiet, held by iterators, and at most."""

    most: Gauges
    quiet: Gauges
    held: Gauges
    parts: dict[str, MemoryParts]
    holding: MemoryParts
    most_rss_bytes: int
    state: Path


@pytest.fixture(scope="module")
def driven(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Driven:
    folder = tmp_path_factory.mktemp("memory of streams")
    with running(broker, folder, f"memory-{os.getpid()}-{time.time_ns()}") as application:
        for store, size in VALUES.items():  # just so much that nothing has to wait
            application.tell(f"write {store} {46 * MB * size // (size + ROW_BYTES)} {size}")
        application.tell(f"limit {16 * MB}")
        application.tell(f"write timestamped {24 * MB} {VALUES['timestamped']}")  # waits for room
        application.tell(f"limit {1 << 30}")
        for store in SHARED:
            application.tell(f"write {store} {20 * MB} 2000")
        for store, size in VALUES.items():
            application.tell(f"write {store} {40 * MB} {size}")
        application.settled()
        for store in [*VALUES, *SHARED]:
            application.tell(f"read {store}")
        quiet, most = application.settled()
        parts = {store: application.parts(store) for store in [*VALUES, *SHARED]}
        rss = process_memory(application.process.pid).rss_bytes
        application.tell(f"limit {8 * MB}")
        for _ in range(4):
            application.tell("hold windows")
            application.tell(f"write windows {24 * MB} {VALUES['windows']}")
        held, _ = application.tell("look")
        holding = application.parts("windows", iterators=4)
        application.tell("release")
    return Driven(most, quiet, held, parts, holding, rss or 0, application.state)


def term_of(parts: MemoryParts | MemoryPlan, *names: str) -> int:
    plan = parts if isinstance(parts, MemoryPlan) else parts.plan
    assert plan is not None
    sizes = [each.total_bytes for each in plan.terms if each.term in names]
    assert len(sizes) == len(names)
    return sum(size or 0 for size in sizes)


READERS = ("index blocks", "filter blocks", "open files")


@pytest.mark.parametrize("store", VALUES)
def test_memtables_that_were_filled_stay_below_their_term_and_come_near_it(
    store: str, driven: Driven
) -> None:
    ceiling = term_of(driven.parts[store], "memtables")
    assert ceiling < 53 * MB
    assert ceiling * FULL <= driven.most[f"{store} size-all-mem-tables"] <= ceiling


@pytest.mark.parametrize("store", VALUES)
def test_a_cache_that_was_filled_stays_below_its_term_though_it_is_inferred(
    store: str, driven: Driven
) -> None:
    ceiling = term_of(driven.parts[store], "block cache")
    assert ceiling * FULL <= driven.most[f"{store} block-cache-usage"] <= ceiling
    plan = driven.parts[store].plan
    assert plan is not None
    assert plan.terms[1].is_inferred
    assert "inferred from profile 'kafka_streams'" in str(plan)


@pytest.mark.parametrize("store", [*VALUES, *SHARED])
def test_table_readers_are_those_of_the_files(store: str, driven: Driven) -> None:
    ceiling = term_of(driven.parts[store], *READERS)
    assert ceiling * FULL <= driven.quiet[f"{store} estimate-table-readers-mem"] <= ceiling


def test_an_open_iterator_holds_memtables_beyond_those_that_may_be_written(driven: Driven) -> None:
    held = driven.held["windows size-all-mem-tables"]
    assert driven.holding.plan is not None
    memtables = term_of(driven.holding, "memtables")
    assert memtables < held <= memtables + term_of(driven.holding, "pinned by iterators")


def test_a_cache_that_the_logs_show_as_shared_counts_once(driven: Driven) -> None:
    plans = [driven.parts[store].plan for store in SHARED]
    assert None not in plans
    together = plans_in_all([plan for plan in plans if plan is not None])
    ceiling = term_of(together, "block cache")
    usage = {driven.most[f"{store} block-cache-usage"] for store in SHARED}
    assert 16 * MB <= ceiling < 16 * MB + 64_000  # the rest is of the offsets' own caches
    assert all(ceiling * FULL <= each <= ceiling for each in usage)
    memtables, cache = together.terms[:2]
    assert "of 2 stores counts once" in cache.formula
    assert "the writer's log" in cache.origin
    assert "of 2 stores may allow less" in memtables.formula
    apart = sum(term_of(driven.parts[store], "memtables") for store in SHARED)
    assert memtables.total_bytes == apart, "what the manager allows, no file and no log tells"


def test_what_the_process_has_beyond_the_formula_is_told_as_not_accounted_for(
    driven: Driven,
) -> None:
    own = [each.plan for each in driven.parts.values() if each.plan is not None]
    together = plans_in_all(own)
    names = ("size-all-mem-tables", "estimate-table-readers-mem", "block-cache-usage")
    measured = sum(driven.quiet[f"{store} {name}"] for store in VALUES for name in names)
    assert driven.most_rss_bytes > measured
    assert together.total_bytes > measured
    for parts in driven.parts.values():
        assert parts.writer_rss_bytes is not None
        assert parts.formula_bytes is not None
        rest = parts.writer_rss_bytes - parts.formula_bytes
        assert parts.writer_not_accounted_for_bytes == rest


def test_a_checkup_tells_a_setter_that_bounds_all_from_one_that_does_not(
    driven: Driven, tmp_path: Path
) -> None:
    """Of the stores whose caches are one the setter bounds all, of the application it does not."""
    rule = "a setter that does not bound all"
    for store in SHARED:
        folder = Path("app") / "0_0" / "rocksdb" / store
        shutil.copytree(driven.state / "0_0" / "rocksdb" / store, tmp_path / folder)
    bounded = checkup(tmp_path, restore_bytes_per_second=MB)
    assert len(bounded.stores) == len(SHARED)
    assert rule not in {each.rule for each in bounded.steps}
    (step,) = (
        each
        for each in checkup(driven.state, restore_bytes_per_second=MB).steps
        if each.rule == rule
    )
    caches, budgets = step.evidence
    assert re.fullmatch(r"block cache: none that a log tells of 4, 0x[0-9a-f]+ of 2", caches), (
        "those that have no setter"
    )
    assert re.fullmatch(r"memtables: none that a log tells of 4, 0x[0-9a-f]+ of 2", budgets)


def filled(application: Application) -> Gauges:
    """Return what was most after as much was written to each store, and read, as it can hold."""
    application.tell(f"limit {1 << 30}")
    for store in [*VALUES, *SHARED]:
        size = VALUES.get(store, 2_000)
        for _ in range(3):
            application.tell(f"write {store} {30 * MB} {size}")
    application.settled()
    for store in [*VALUES, *SHARED]:
        application.tell(f"read {store}")
    _, most = application.settled()
    return most


@pytest.mark.long
def test_a_pod_holds_the_process_that_has_the_setter_that_was_reckoned_for_it(
    driven: Driven, broker: Broker, tmp_path: Path
) -> None:
    """The kernel tells the most that it took; without that setter the same is too much."""
    setter, pod = tmp_path / "Bounded.java", "400MiB"
    reserved = ("--pod", pod, "--heap", "128MiB", "--reserve", "150MiB")
    told = given("memory", driven.state, *reserved, "--setter", setter)
    assert told.code == 0, told.err
    name = f"pod-{os.getpid()}-{time.time_ns()}"
    with running(broker, tmp_path / "without", f"{name}-without") as application:
        filled(application)
        without = application.most_rss_bytes()
    with running(broker, tmp_path / "with", name, setter) as application:
        most = filled(application)
        bounded = application.most_rss_bytes()
    bound = json.loads(given("memory", driven.state, *reserved, "--json").out.splitlines()[-1])
    assert bounded <= 400 * MB < without
    caches = {size for name, size in most.items() if name.endswith("block-cache-usage")}
    assert 0.9 * bound["pod"]["bound_bytes"] < max(caches) <= bound["pod"]["bound_bytes"]
