"""What is told of a whole application's state, by files that were counted and broken by hand."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from rocksdict import Options, Rdict

import kstoolkit as kst
from kstoolkit.errors import ConfigurationError, InputError
from kstoolkit.operations.checkup import checkup
from kstoolkit.units import parse_bytes
from tests.cli.commands import given
from tests.kafka.clients import make_topic
from tests.operations import livestreams

if TYPE_CHECKING:
    from kstoolkit.kafka.broker import Broker

SAMPLE = Path("data/stores/kafka-streams/small-main-4_3_1")
FIXTURES = Path(__file__).parents[3] / "shared" / "fixtures"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Return a copy of the sample's state directory, to be broken."""
    return Path(shutil.copytree(SAMPLE, tmp_path / "state"))


@pytest.fixture(scope="session")
def real_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a real state directory of 69 RocksDB."""
    archive = Path(os.environ.get("KSTOOLKIT_FIXTURES_DIR", FIXTURES)) / "kafka_streams"
    if not archive.is_dir():
        pytest.skip(f"real stores not present: {archive}")
    folder = tmp_path_factory.mktemp("real")
    with tarfile.open(archive / "4.3.1.tar.gz") as packed:
        wanted = [each for each in packed if each.name.split("/")[1:2] == ["clean"]]
        packed.extractall(folder, wanted, filter="data")
    return folder / "4.3.1" / "clean"


def by_name(found: Any) -> dict[str, Any]:
    return {each.store: each for each in found.stores}


def test_a_sound_application_has_nothing_urgent_and_each_store_is_told_of() -> None:
    found = checkup(SAMPLE, restore_bytes_per_second=1_000)
    stores = by_name(found)
    assert stores.keys() == {"actions-1m", "user-count"}
    assert (stores["actions-1m"].kind, stores["actions-1m"].task) == ("timestamped-window", "0_0")
    assert stores["actions-1m"].oldest_ms == 1_699_999_200_000
    files = [each.stat().st_size for each in SAMPLE.rglob("*") if each.is_file()]
    assert 0 < found.size_bytes <= sum(files)
    assert not found.is_urgent
    assert stores["user-count"].closed == "cleanly"
    assert "key-value store has no retention" in stores["user-count"].growth
    assert "Not judged" in str(found)


def test_a_restore_takes_as_long_as_its_bytes_at_the_rate() -> None:
    slow = by_name(checkup(SAMPLE, restore_bytes_per_second=1_000))
    fast = by_name(checkup(SAMPLE, restore_bytes_per_second=2_000))
    for name, store in slow.items():
        assert store.restore_ms == pytest.approx(2 * fast[name].restore_ms, abs=2)
        assert store.restore_ms > 0
    assert "was given" in checkup(SAMPLE, restore_bytes_per_second=1_000).restore_rate_is
    assert "measured in" in checkup(SAMPLE).restore_rate_is


def test_a_missing_file_is_urgent(state: Path) -> None:
    lost = next((state / "0_0" / "rocksdb" / "user-count").glob("*.sst"))
    lost.unlink()
    found = checkup(state)
    step = found.steps[0]
    assert (found.is_urgent, step.rule, step.is_urgent) == (True, "damaged", True)
    assert step.stores == ("0_0/user-count",)
    assert lost.name.removesuffix(".sst").lstrip("0") in step.evidence[0]


def test_a_store_that_lost_its_current_is_found_and_urgent(state: Path) -> None:
    (state / "0_0" / "rocksdb" / "user-count" / "CURRENT").unlink()
    found = checkup(state)
    assert "CURRENT, which names its MANIFEST, is missing" in found.steps[0].evidence[0]
    assert (found.steps[0].rule, found.is_urgent) == ("damaged", True)
    assert by_name(found).keys() == {"actions-1m", "user-count"}


def test_what_can_t_be_looked_into_is_not_called_damaged(state: Path) -> None:
    """Whoever removed a store for it would lose one that is sound."""
    (state / "0_0" / "rocksdb" / "user-count" / "CURRENT").write_bytes(bytes(range(128, 255)))
    found = checkup(state)
    (step,) = (each for each in found.steps if each.rule == "not readable")
    assert "encrypted" in step.evidence[0]
    assert "damaged" not in {each.rule for each in found.steps}


def test_more_than_the_bound_is_urgent_and_what_fits_is_not() -> None:
    needed = checkup(SAMPLE).memory_bytes
    assert needed is not None
    tight = checkup(SAMPLE, bound_bytes=needed - 1)
    assert [each.rule for each in tight.steps if each.is_urgent] == ["memory over the bound"]
    command = shlex.split(tight.steps[0].command)
    setter = given(*command[1:])
    assert (command[0], setter.code) == ("kstoolkit", 0)
    assert "implements RocksDBConfigSetter" in setter.out
    assert not checkup(SAMPLE, bound_bytes=needed).is_urgent


def test_a_folder_without_stores_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="There is no store under"):
        checkup(tmp_path)


def test_the_command_ends_with_3_if_something_is_urgent(state: Path, tmp_path: Path) -> None:
    sound = given("checkup", str(SAMPLE))
    assert (sound.code, "Nothing to do" in sound.out) == (0, True)
    page = tmp_path / "checkup.html"
    told = given("checkup", str(state), "--bound", "1MiB", "--html", str(page), "--json")
    assert told.code == 3
    found = json.loads(told.out)
    assert (found["is_urgent"], found["bound_bytes"]) == (True, 1 << 20)
    assert found["steps"][0]["rule"] == "memory over the bound"
    assert "memory over the bound" in page.read_text()
    assert "--bound 1MiB --html" in page.read_text()
    assert given("checkup", str(state), "--bound", "1zB").code == 2
    assert given("checkup", str(state / "nowhere")).code == 2


def test_an_application_of_69_rocksdb_takes_little_memory(real_state: Path) -> None:
    program = f"""
from pathlib import Path
from kstoolkit.operations.checkup import checkup
found = checkup({str(real_state)!r})
print(len(found.stores), found.plan.instances, found.is_urgent)
# Not ru_maxrss, which is at least what the process took that began this one.
print(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
"""
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=200, check=True
    ).stdout.split()
    assert told[:3] == ["36", "69", "False"]
    assert int(told[3]) * 1024 < 300 << 20


@pytest.fixture(scope="module")
def leaking(
    broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> tuple[livestreams.Live, list[Path]]:
    """An application that takes 160 MiB outside of its heap while its metrics are scraped."""
    options = ["-Xms64m", "-Xmx96m", "-XX:MaxDirectMemorySize=300m", f"-Dleak={160 << 20}"]
    folder = tmp_path_factory.mktemp("leaking")
    return livestreams.scraped(broker, folder, "leaking", java_options=options)


@pytest.mark.kafka
@pytest.mark.slow
def test_native_memory_that_grows_is_told_and_what_rests_is_not(
    leaking: tuple[livestreams.Live, list[Path]],
) -> None:
    live, scrapes = leaking
    first, before_leak, last = (kst.read_metrics(scrapes[at]) for at in (0, 1, -1))
    rests = checkup(live.folder, metrics=before_leak, metrics_before=first)
    grown = checkup(live.folder, metrics=last, metrics_before=first)
    assert rests.native_growth_bytes is not None
    assert grown.native_growth_bytes is not None
    assert rests.native_growth_bytes < 64 << 20
    # Of a process this young, its heap may have taken up to 96 MiB of what it grew by.
    assert (160 - 96) << 20 <= grown.native_growth_bytes < 200 << 20
    assert "native memory grows" not in {each.rule for each in rests.steps}
    assert "native memory grows" in {each.rule for each in grown.steps}
    assert checkup(live.folder, metrics=last).unknown.keys() >= {"native_growth_bytes"}


@pytest.mark.kafka
@pytest.mark.slow
def test_stores_are_held_against_the_ends_of_their_topics(
    broker: Broker, leaking: tuple[livestreams.Live, list[Path]]
) -> None:
    """A client that is not ours tells the ends; after a clean end nothing waits."""
    live, _ = leaking
    found = checkup(live.folder, bootstrap=broker.bootstrap)
    reader = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "ends"})
    kept = [each for each in found.stores if each.end_offset is not None]
    assert {each.store for each in kept} >= {"counts", "minutes", "sessions"}
    for each in kept:
        place = TopicPartition(
            f"{live.application}-{each.store}-changelog", int(each.task.rpartition("_")[2])
        )
        assert each.end_offset == reader.get_watermark_offsets(place, timeout=30)[1]
        assert (each.behind_records, each.closed) == (0, "cleanly")
    reader.close()
    topic = f"{live.application}-counts-changelog"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics([topic])[topic].result(60)
    gone = {each.store: each for each in checkup(live.folder, bootstrap=broker.bootstrap).stores}
    assert "there is no topic" in gone["counts"].unknown["behind_records"]
    make_topic(broker, topic, livestreams.PARTITIONS)
    again = checkup(live.folder, bootstrap=broker.bootstrap)
    (step,) = (each for each in again.steps if each.rule == "ahead of its changelog")
    assert set(step.stores) <= {"0_0/counts", "0_1/counts"}
    assert "the topic ends at 0" in step.evidence[0]


def test_a_disk_that_is_full_within_a_day_is_urgent(state: Path, tmp_path: Path) -> None:
    """Two moments an hour apart, between which the files grew by a tenth of what is free."""
    grown = shutil.disk_usage(state).free // 10
    told = [
        f'kafka_streams_stream_state_metrics_total_sst_files_size{{task_id="0_0",'
        f'rocksdb_state_id="user-count"}} {size}.0\n'
        for size in (1_000, 1_000 + grown)
    ]
    for at, (name, text) in enumerate(zip(("then", "now"), told, strict=True)):
        (tmp_path / name).write_text(text)
        os.utime(tmp_path / name, (1_700_000_000 + 3_600 * at,) * 2)
    now = given("checkup", state, "--metrics", tmp_path / "now")
    assert (now.code, "disk full within a day" in now.out) == (0, False)
    both = ("--metrics", tmp_path / "now", "--metrics-before", tmp_path / "then", "--json")
    full = given("checkup", state, *both)
    assert full.code == 3
    found = json.loads(full.out)
    assert found["disk_full_ms"] == pytest.approx(10 * 3_600_000, rel=0.05)
    assert found["steps"][0]["rule"] == "disk full within a day"
    turned = ("--metrics", tmp_path / "then", "--metrics-before", tmp_path / "now")
    assert "--metrics-before is not from before" in given("checkup", state, *turned).out


def test_a_disk_without_room_for_the_largest_compaction_is_urgent() -> None:
    """A real file system that is nearly full: one in memory of a process's own."""
    program = f"""
import shutil, sys
from kstoolkit.operations.checkup import checkup
shutil.copytree({str(SAMPLE)!r}, "/mnt/state")
found = checkup("/mnt/state", scratch="/dev/shm", restore_bytes_per_second=1000)
before = [each.rule for each in found.steps if each.is_urgent]
with open("/mnt/ballast", "wb") as file:
    file.write(b"x" * (shutil.disk_usage("/mnt").free - 8192))
found = checkup("/mnt/state", scratch="/dev/shm", restore_bytes_per_second=1000)
print(before, [each.rule for each in found.steps if each.is_urgent])
"""
    alone = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    mounted = 'mount -t tmpfs -o size=1m none /mnt && exec "$0" -c "$1"'
    done = subprocess.run(
        [*alone, mounted, sys.executable, program], capture_output=True, text=True, check=False
    )
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"no disk of one's own: {done.stderr.strip()}")
    assert (done.stdout, done.stderr) == ("[] ['disk nearly full']\n", "")


def test_a_partition_that_is_far_larger_than_the_others_is_told(tmp_path: Path) -> None:
    """RocksDB's own files, of as many bytes as were put in."""
    state = tmp_path / "state"
    for partition, size_mib in enumerate((3, 3, 3, 90)):
        folder = state / "app" / f"0_{partition}" / "rocksdb" / "counts"
        store = Rdict(str(folder), Options(raw_mode=True))
        for at in range(size_mib):
            store[b"%05d" % at] = os.urandom(1 << 20)
        store.close()
    found = checkup(state, restore_bytes_per_second=1 << 20)
    (step,) = (each for each in found.steps if each.rule == "uneven partitions")
    assert (step.stores, step.is_urgent) == (("0_3/counts",), False)
    assert "holds 90.0 MiB, most 3.0 MiB" in step.symptom
    shutil.rmtree(state / "app" / "0_3")
    even = checkup(state, restore_bytes_per_second=1 << 20)
    assert "uneven partitions" not in {each.rule for each in even.steps}


@pytest.mark.parametrize("text", ["", "0", "MiB", "-1GiB", "1zB", "1.2.3", "1 XiB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(f"{text!r} is no size")):
        parse_bytes(text)
