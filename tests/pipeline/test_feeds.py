"""Files that the system lets nobody read: real limits, real rights, and a library below Arrow."""

from __future__ import annotations

import errno
import gzip
import json
import os
import shutil
import subprocess
import sys
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipeline.harness import ROOT, write_lines

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

EVENT = {"time": "2025-03-01T10:00:00Z", "user": "Ann", "action": "read"}

# Counts files, or gives their rows to Spark, as a task does, once a fault has come up, and prints
# what came of it: each case in a process of its own, forked off one that has imported all of it.
TASKS = """
    import json, os, resource, sys, threading, traceback
    from pathlib import Path
    from kstoolkit.errors import UnreadableFile
    from pyspark.sql.datasource import InputPartition
    from kstoolkit.events.event import Columns, Limits
    from kstoolkit.formats.countblock import decode
    from kstoolkit.pipeline.feeds import BROKEN, FileFeedPlan, _File
    from kstoolkit.pipeline.feeds import CountingReader, LineReader
    from kstoolkit.pipeline.shuffle import BLOCK, DEAD_LETTERS, Grain, from_ipc

    AT_ONCE = 8  # most of the time they wait
    columns, grain = Columns("time", "user", "action"), Grain(60_000, 1)
    row = {"name": "user", "type": "string", "nullable": True, "metadata": {}}
    rows = json.dumps({"type": "struct", "fields": [row]})

    def counted(paths, ledger):
        files = [_File(n, path, 2_000_000_000_000) for n, path in enumerate(paths)]
        as_rows = os.environ.get("AS_ROWS")
        kind = "json" if as_rows and ".json" in paths[0] else None
        plan = FileFeedPlan("", kind, columns, Limits(), ledger, grain, 1, 9, 9, rows)
        reader = (LineReader if as_rows else CountingReader)(plan)
        return list(reader.read(InputPartition(files)))

    def told(first, *rest, fault):
        told = {"events": 0, "letters": [], "fault": None}
        ledger = str(Path(first).with_name("files.jsonl"))
        counted([first], ledger)  # whatever is loaded when a file is read is loaded by now
        exec(fault, globals())
        try:
            for batch in counted(rest, ledger):
                for row in batch.to_pylist():
                    if BROKEN in row:
                        told["letters"] += filter(None, [row[BROKEN]])
                        told["events"] += row[BROKEN] is None
                    elif row["kind"] == DEAD_LETTERS:
                        told["letters"] += from_ipc(row["payload"])["reason"].to_pylist()
                    elif row["kind"] == BLOCK:
                        told["events"] += sum(decode(row["payload"])["count"].to_pylist())
        except UnreadableFile as error:
            told["fault"] = error.message
        return told

    def tell(number, case):
        try:
            os.environ.update(case["environment"])  # the library below is told as well
            line = json.dumps([number, told(*case["paths"], fault=case["fault"])])
            os.write(1, f"{line}\\n".encode())  # at once, so that lines do not mix
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    running = failed = 0
    for number, case in enumerate(json.loads(sys.argv[1])):
        if running == AT_ONCE:
            failed, running = failed | os.wait()[1], running - 1
        if os.fork() == 0:
            tell(number, case)
        running += 1
    for _ in range(running):
        failed |= os.wait()[1]
    sys.exit(failed != 0)
"""

NO_DESCRIPTORS = """
    most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) - 1, most[1]))
"""
FOR_A_MOMENT = """
    threading.Timer(0.5, resource.setrlimit, (resource.RLIMIT_NOFILE, most)).start()
"""
NO_MEMORY = """
    pages = int(open("/proc/self/statm").read().split()[0])
    room = pages * resource.getpagesize() + (40 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (room, room))
"""

# After SKIP reads of files whose paths have ".slow", READS fail, as those of a share that is away.
BELOW = """
    #define _GNU_SOURCE
    #include <dlfcn.h>
    #include <errno.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <unistd.h>

    static int skipped = 0, failed = 0;

    static int fails(int file) {
        char link[64], name[4096];
        snprintf(link, sizeof link, "/proc/self/fd/%d", file);
        ssize_t length = readlink(link, name, sizeof name - 1);
        if (length < 0) return 0;
        name[length] = 0;
        if (!strstr(name, ".slow") || failed >= atoi(getenv("READS"))) return 0;
        if (getenv("SKIP") && skipped < atoi(getenv("SKIP"))) { skipped++; return 0; }
        failed++;
        errno = atoi(getenv("ERRNO"));
        return 1;
    }

    ssize_t read(int file, void *to, size_t size) {
        static ssize_t (*real)(int, void *, size_t);
        if (!real) real = dlsym(RTLD_NEXT, "read");
        return fails(file) ? -1 : real(file, to, size);
    }

    ssize_t pread64(int file, void *to, size_t size, off_t at) {
        static ssize_t (*real)(int, void *, size_t, off_t);
        if (!real) real = dlsym(RTLD_NEXT, "pread64");
        return fails(file) ? -1 : real(file, to, size, at);
    }

    ssize_t pread(int file, void *to, size_t size, off_t at) { return pread64(file, to, size, at); }
"""


def case(*paths: Path, fault: str = "", **environment: str) -> dict[str, Any]:
    """Return what is to be counted while something is amiss; a file without it comes first."""
    texts = [str(path) for path in paths]
    return {"paths": texts, "fault": dedent(fault), "environment": environment}


def told(
    *cases: dict[str, Any], within: Sequence[str] = (), below: Path | None = None
) -> list[dict[str, Any]]:
    """Return what processes tell that count files: one for each case."""
    preloaded = {} if below is None else {"LD_PRELOAD": str(below)}
    done = subprocess.run(
        [*within, sys.executable, "-c", dedent(TASKS), json.dumps(cases)],
        env=os.environ | {"PYTHONPATH": str(ROOT)} | preloaded,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    by_number = dict(json.loads(line) for line in done.stdout.splitlines())
    return [by_number[number] for number in range(len(cases))]


def written(folder: Path, name: str, number: int = 3) -> Path:
    """Write events in the format that a name says."""
    path = folder / name
    folder.mkdir(exist_ok=True)
    if ".json" in name:
        write_lines(path, [EVENT] * number)
        if name.endswith(".gz"):
            path.write_bytes(gzip.compress(path.read_bytes()))
    elif ".csv" in name:
        path.write_text("time,user,action\n" + f"{','.join(EVENT.values())}\n" * number)
    else:
        pq.write_table(pa.table({name: [value] * number for name, value in EVENT.items()}), path)
    return path


NAMES = ("b.json", "b.json.gz", "b.csv", "b.parquet")


ALL = {"events": 3, "letters": [], "fault": None}
NONE = ALL | {"events": 0}


def of_each(folder: Path) -> list[tuple[Path, Path]]:
    """Write two files of each format, the second where reads may be made to fail."""
    return [(written(folder, f"a{name[1:]}"), written(folder / "in.slow", name)) for name in NAMES]


def test_descriptors_that_run_out_for_a_moment_lose_nothing(tmp_path: Path) -> None:
    fault = NO_DESCRIPTORS + FOR_A_MOMENT
    said = told(*(case(*pair, fault=fault) for pair in of_each(tmp_path)))
    assert said == [ALL] * len(NAMES)


def test_descriptors_that_stay_away_are_told_with_the_path(tmp_path: Path) -> None:
    first, path = written(tmp_path, "a.json"), written(tmp_path, "b.json")
    fault = f"'{path}' can't be read: Too many open files."
    assert told(case(first, path, fault=NO_DESCRIPTORS)) == [NONE | {"fault": fault}]


def test_a_file_that_one_may_not_read_is_no_damaged_one(tmp_path: Path) -> None:
    # Root may read all, unless that right is taken away.
    right = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
    pairs = of_each(tmp_path)
    for _, path in pairs:
        path.chmod(0)
    said = told(*(case(*pair) for pair in pairs), within=[] if os.geteuid() else right)
    faults = [f"'{path}' can't be read: Permission denied." for _, path in pairs]
    assert said == [NONE | {"fault": fault} for fault in faults]


def test_memory_that_runs_out_is_no_damage(tmp_path: Path) -> None:
    first, path = written(tmp_path, "a.parquet"), tmp_path / "b.parquet"
    users = pa.array(["x" * 1_000_000 + str(number) for number in range(60)])
    times, actions = pa.repeat(EVENT["time"], 60), pa.repeat("read", 60)
    table = pa.table({"time": times, "user": users, "action": actions})
    pq.write_table(table, path, use_dictionary=False)
    fault = f"'{path}' can't be read: there is not enough memory."
    with_little, with_enough = told(case(first, path, fault=NO_MEMORY), case(first, path))
    assert with_little == NONE | {"fault": fault}
    assert with_enough["letters"] == ["long_user"] * 60


@pytest.fixture(scope="module")
def below(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library whose reads fail, to be loaded before the system's."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder: Path = tmp_path_factory.mktemp("below")
    (folder / "below.c").write_text(dedent(BELOW))
    command = [compiler, "-shared", "-fPIC", "-o", "below.so", "below.c", "-ldl"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "below.so"


def test_a_share_whose_server_comes_back_loses_nothing(tmp_path: Path, below: Path) -> None:
    stale = {"ERRNO": str(errno.ESTALE), "READS": "2"}
    said = told(*(case(*pair, **stale) for pair in of_each(tmp_path)), below=below)
    assert said == [ALL] * len(NAMES)


def test_a_disk_that_fails_is_told_with_the_path(tmp_path: Path, below: Path) -> None:
    broken = {"ERRNO": str(errno.EIO), "READS": "1000000"}
    pairs = of_each(tmp_path)
    said = told(*(case(*pair, **broken) for pair in pairs), below=below)
    faults = [f"'{path}' can't be read: Input/output error." for _, path in pairs]
    assert said == [NONE | {"fault": fault} for fault in faults]


@pytest.mark.parametrize(
    "as_rows",
    [pytest.param("", id="counted", marks=pytest.mark.long), pytest.param("1", id="as rows")],
)
def test_a_fault_amid_a_file_loses_nothing_and_doubles_nothing(
    tmp_path: Path, below: Path, as_rows: str
) -> None:
    """As rows, a file is read through once before any goes out: later faults meet it halfway."""
    first = written(tmp_path, "a.json")
    paths = [written(tmp_path / "in.slow", name, number=100_000) for name in NAMES]
    places = [(path, str(skip)) for path in paths for skip in (2, 9)]

    def failing(reads: str) -> list[dict[str, Any]]:
        amid = {"ERRNO": str(errno.ESTALE), "AS_ROWS": as_rows, "READS": reads}
        return [case(first, path, SKIP=skip, **amid) for path, skip in places]

    said = told(*failing("1000000"), *failing("2"), below=below)
    stayed_away, came_back = said[: len(places)], said[len(places) :]
    whole = ALL | {"events": 100_000}
    assert came_back == [whole] * len(places)
    for each, (path, _) in zip(stayed_away, places, strict=True):
        fault = NONE | {"fault": f"'{path}' can't be read: Stale file handle."}
        assert each in (fault, whole)  # it may have fewer reads
    assert sum(each["fault"] is not None for each in stayed_away) >= 5


def test_of_several_files_a_fault_in_one_changes_no_count_of_the_others(
    tmp_path: Path, below: Path
) -> None:
    first = written(tmp_path, "a.json")
    paths = [written(tmp_path, "b.json"), written(tmp_path / "in.slow", "c.json", number=50_000)]
    said = told(case(first, *paths, ERRNO="5", READS="3"), below=below)
    assert said == [ALL | {"events": 50_003}]
