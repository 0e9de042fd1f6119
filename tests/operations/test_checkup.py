"""What is told of a whole application's state, by files that were counted and broken by hand."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from kstoolkit.errors import ConfigurationError, InputError
from kstoolkit.operations.checkup import checkup
from kstoolkit.units import parse_bytes
from tests.cli.commands import given

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


def test_more_than_the_bound_is_urgent_and_what_fits_is_not() -> None:
    needed = checkup(SAMPLE).memory_bytes
    assert needed is not None
    tight = checkup(SAMPLE, bound_bytes=needed - 1)
    assert [each.rule for each in tight.steps if each.is_urgent] == ["memory over the bound"]
    assert "bounded_memory" in tight.steps[0].change
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


@pytest.mark.parametrize("text", ["", "0", "MiB", "-1GiB", "1zB", "1.2.3", "1 XiB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(f"{text!r} is no size")):
        parse_bytes(text)
