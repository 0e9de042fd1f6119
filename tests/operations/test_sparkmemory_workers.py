"""Workers found below a process, and sums that don't claim more than was told."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kstoolkit.operations.sparkmemory import _python_workers, _summed_memory, _workers_memory
from kstoolkit.rocksdb.memory.measured import ProcessMemory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PARENT = """
import subprocess, sys
command = [sys.executable, "-m", sys.argv[1]]
child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
print(child.pid, child.stdout.readline(), flush=True)
sys.stdin.read()
child.communicate()
"""
CHILD = "import sys; print('up', flush=True); sys.stdin.read()"


@pytest.fixture
def started(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[int, int]]:
    """A process, and a Python below it that runs a module of the given name."""
    package, _, name = request.param.rpartition(".")
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").touch()
    (tmp_path / package / f"{name}.py").write_text(CHILD)
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, request.param],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        yield parent.pid, int(parent.stdout.readline().split()[0])
        parent.stdin.close()


@pytest.mark.parametrize("started", ["pyspark.daemon"], indirect=True)
def test_a_worker_is_found_and_measured_below_its_java_alone(started: tuple[int, int]) -> None:
    parent, child = started
    assert _python_workers(parent) == [child]
    found = _workers_memory(parent)
    assert found.num_workers == 1
    assert found.rss_bytes is not None
    assert found.pss_bytes is not None
    assert 1 << 20 < found.pss_bytes <= found.rss_bytes
    assert _python_workers(child) == []


@pytest.mark.parametrize("started", ["other.daemon"], indirect=True)
def test_another_program_of_python_is_no_worker(started: tuple[int, int]) -> None:
    assert _python_workers(started[0]) == []


@pytest.mark.parametrize("started", ["pyspark.daemon"], indirect=True)
def test_below_this_process_are_its_own_children_and_no_workers_of_a_java_above(
    started: tuple[int, int],
) -> None:
    # As under spark-submit, where Java is started first and this process by it.
    found = _python_workers(os.getppid())
    assert found is not None
    assert started[1] not in found


def test_without_each_ones_share_there_is_no_sum_of_shares() -> None:
    hidden = ProcessMemory(8, 5 << 20, None, {"pss_bytes": "it is another user's"})
    found = _summed_memory([ProcessMemory(7, 3 << 20, 2 << 20), hidden])
    assert (found.num_workers, found.rss_bytes, found.pss_bytes) == (2, 8 << 20, None)
    assert found.unknown["pss_bytes"] == "of process 8: it is another user's"
    assert "PSS unknown" in repr(found)
