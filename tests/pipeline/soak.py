"""A soak: two live runs of one session, while files, clocks and kills misbehave.

``make soak`` goes on until the first run has made 200 micro-batches, and
``make soak SOAK="--batches 2000 --kills 50"`` as many as that. Beside them, again and again:

- its processes are killed, and started again;
- the machine's clock, as they see it, is a day ahead, a day behind, and right again;
- files are rotated, moved, copied, touched, damaged and repaired, and written on after they were
  counted; two feeds of the same users are four minutes apart, and some lines are no records.

Then the counts of every level are those that DuckDB makes of what was admitted, which is all that
was written but for the dead letters; and these are just those that there had to be.
"""

from __future__ import annotations

import argparse
import gzip
import json
import mmap
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import kstoolkit as kst
from tests.pipeline.harness import (
    DAY,
    differences,
    finish,
    kill_group,
    newest,
    oracle,
    spawn,
    until,
    write_lines,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kstoolkit.pipeline.run import Run

CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static long ahead(void) {
    static volatile long *place = 0;
    if (!place) {
        int file = open(getenv("CLOCK_AHEAD"), O_RDONLY);
        place = mmap(0, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    }
    return *place;
}

int clock_gettime(clockid_t clock, struct timespec *told) {
    static int (*real)(clockid_t, struct timespec *) = 0;
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int done = real(clock, told);
    if (clock == CLOCK_REALTIME) told->tv_sec += ahead();
    return done;
}

int gettimeofday(struct timeval *told, void *zone) {
    static int (*real)(struct timeval *, void *) = 0;
    if (!real) real = dlsym(RTLD_NEXT, "gettimeofday");
    int done = real(told, zone);
    told->tv_sec += ahead();
    return done;
}

time_t time(time_t *told) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (told) *told = now.tv_sec;
    return now.tv_sec;
}
"""

PROGRAM = """
    import sys, time
    from pathlib import Path
    import kstoolkit as kst
    from kstoolkit.pipeline.session import spark_session
    from tests.pipeline.harness import source
    place = Path(sys.argv[1])
    spark_session("local[2]")
    plain = kst.Pipeline(
        source=source(place / "in"),
        cascade=kst.Cascade("1 minute", "1 hour", "1 day", flush={"1 hour": "5 s", "1 day": "9 s"}),
        rules=[kst.Ceiling("1 hour", 1_000)],
        buckets=2,
    )
    beside = kst.Pipeline(
        source=source(place / "beside", max_future="3 days"),
        cascade=kst.Cascade("1 minute", kst.Hop("10 minutes", every="5 minutes"), "1 hour"),
        rules=[],
        buckets=3,
    )
    runs = [
        plain.start(place / "out", trigger="100 ms"),
        beside.start(place / "out beside", trigger="700 ms"),
    ]
    print("started", flush=True)
    while not (place / "stop").exists():
        for run in runs:
            if not run.is_active:
                raise run.failure() or SystemExit("a run has ended")
        time.sleep(0.1)
    for run in runs:
        run.stop()
"""

LEVELS = {"out": ("1 minute", "1 hour", "1 day"), "out beside": ("1 minute", "1 hour")}
USERS = 40


@dataclass(slots=True)
class Written:
    """What a run was given: all lines, each as often as it should count."""

    lines: Counter[str] = field(default_factory=Counter)
    broken_files: int = 0

    @property
    def total(self) -> int:
        return self.lines.total() + self.broken_files


@dataclass(slots=True)
class Soak:
    """The world around the two runs."""

    place: Path
    batches: int
    kills: int
    every: int = 10
    """After so many rounds, something goes wrong."""
    draw: random.Random = field(default_factory=lambda: random.Random(13))
    written: dict[str, Written] = field(
        default_factory=lambda: {"out": Written(), "out beside": Written()}
    )
    did: Counter[str] = field(default_factory=Counter)
    process: subprocess.Popen[str] | None = None
    began: datetime = field(init=False)
    rounds: int = 0
    grown: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Begin so long ago that what happens last, two minutes a round, is not yet to come."""
        self.began = datetime.now(UTC) - timedelta(minutes=max(4 * self.batches, 720))

    def run(self) -> None:
        """Go on until there are as many batches, and see what was counted."""
        for folder in ("in", "beside"):
            (self.place / folder).mkdir(parents=True)
        try:
            self._go_on(self._library())
        finally:
            if self.process is not None and self.process.poll() is None:
                kill_group(self.process)
        for name in self.written:
            self._check(name)

    def _go_on(self, library: Path) -> None:
        self._start(library)
        while (made := self._made()) < self.batches:
            self._round()
            if made * (self.kills + 1) // self.batches > self.did["killed"]:
                self._kill(library)
            if not self.rounds % self.every:
                self._all_taken()
                self._mischief()
        self._set_clock(0)
        self._all_taken()
        (self.place / "stop").touch()
        assert self.process is not None
        code, _, errors = finish(self.process)
        assert code == 0, errors

    def report(self) -> str:
        """Return what it came to, for people."""
        run = self._of("out")
        summary, beside = run.summary(), self._of("out beside").summary()
        did = ", ".join(f"{number} {what}" for what, number in sorted(self.did.items()))
        return (
            f"{summary.batches:,} micro-batches and {beside.batches:,} beside them; {did}.\n"
            f"{summary.events:,} and {beside.events:,} events, each counted once in every level; "
            f"late {summary.late or 'none'}; "
            f"dead letters {summary.dead_letters} and {beside.dead_letters}."
        )

    def _made(self) -> int:
        return newest(self.place / "out" / "checkpoint" / "commits") + 1

    def _of(self, name: str) -> Run:
        return kst.load_run(self.place / name)

    # What goes on in an hour

    def _round(self) -> None:
        """Write what happened in two minutes, and wait until some of it is taken."""
        before = self._made()
        now = self.began + timedelta(minutes=2) * self.rounds
        late = now - timedelta(minutes=4)
        self._write("in", f"here-{self.rounds:05d}", [*self._lines(now, 40), "no record"])
        self._write("in", f"there-{self.rounds:05d}", self._lines(late, 40))
        self._write("beside", f"here-{self.rounds:05d}", self._lines(now, 20))
        self.rounds += 1
        end = time.monotonic() + 1.5
        while self._made() == before and time.monotonic() < end:
            time.sleep(0.02)

    def _lines(self, begin: datetime, number: int) -> list[str]:
        return [
            json.dumps(
                {
                    "time": (begin + timedelta(seconds=self.draw.randrange(120))).isoformat(),
                    "user": f"user {self.draw.randrange(USERS)}",
                    "action": self.draw.choice(("read", "write")),
                }
            )
            for _ in range(number)
        ]

    def _write(self, folder: str, name: str, lines: list[str]) -> Path:
        self._count(folder, lines)
        return write_lines(self.place / folder / f"{name}.json", lines)

    def _count(self, folder: str, lines: list[str]) -> None:
        self.written["out" if folder == "in" else "out beside"].lines.update(lines)

    def _all_taken(self) -> None:
        """Wait until all is counted, or a dead letter."""
        for name, written in self.written.items():
            until(
                lambda: self._taken(name) >= written.total,  # noqa: B023
                f"{written.total} lines and files of {name!r}, after {dict(self.did)}",
                seconds=120,
            )
            taken = self._taken(name)
            assert taken == written.total, (name, taken, written.total, self.rounds, self.did)

    def _taken(self, name: str) -> int:
        summary = self._of(name).summary()
        return summary.events + sum(summary.dead_letters.values())

    # What goes wrong

    def _library(self) -> Path:
        """Make a clock that can be set for what is started below it."""
        source, library = self.place / "clock.c", self.place / "clock.so"
        source.write_text(CLOCK)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        (self.place / "ahead").write_bytes(struct.pack("q", 0))
        return library

    def _set_clock(self, days: int) -> None:
        with (self.place / "ahead").open("r+b") as file, mmap.mmap(file.fileno(), 8) as place:
            place[:] = struct.pack("q", days * DAY // 1_000)

    def _start(self, library: Path) -> None:
        before = os.environ.copy()
        os.environ |= {"LD_PRELOAD": str(library), "CLOCK_AHEAD": str(self.place / "ahead")}
        try:
            self.process = spawn(PROGRAM, self.place)
        finally:
            os.environ.clear()
            os.environ.update(before)
        assert self.process.stdout is not None
        if self.process.stdout.readline() != "started\n":
            _, errors = self.process.communicate()
            raise AssertionError(errors)

    def _kill(self, library: Path) -> None:
        assert self.process is not None
        kill_group(self.process)
        self.did["killed"] += 1
        for _ in range(3):
            self._round()
        self._start(library)

    def _mischief(self) -> None:
        """Do one thing after the other that happens to files and clocks."""
        kinds: dict[str, Callable[[], None]] = {
            "rotated": self._rotate,
            "clock stepped": self._step_clock,
            "moved": self._move,
            "damaged": self._damage,
            "clock stepped again": self._step_clock,
            "repaired": self._repair,
            "grown": self._grow,
            "copied": self._copy,
            "touched": self._touch,
        }
        kind = list(kinds)[self.rounds // self.every % len(kinds)]
        kinds[kind]()
        self.did[kind] += 1

    def _step_clock(self) -> None:
        steps = self.did["clock stepped"] + self.did["clock stepped again"]
        self._set_clock((1, 0, -1, 0)[steps % 4])

    def _any_file(self) -> Path:
        files = sorted((self.place / "in").glob("here-*.json"))
        return files[self.draw.randrange(len(files))]

    def _rotate(self) -> None:
        """Have a log take the place of the one before, which gets a number."""
        log = self.place / "in" / "log.json"
        if log.exists():
            log.replace(log.with_name(f"log-{self.rounds:05d}.json"))
        self._write("in", "log", self._lines(self.began + timedelta(minutes=2) * self.rounds, 15))

    def _move(self) -> None:
        chosen = self._any_file()
        place = chosen.parent / "archive" / chosen.name
        place.parent.mkdir(exist_ok=True)
        chosen.replace(place)

    def _copy(self) -> None:
        chosen = self.place / "in" / f"here-{self.rounds - 1:05d}.json"  # so that it isn't late
        shutil.copy2(chosen, chosen.with_name(f"copy-{self.rounds:05d}.json"))
        self._count("in", chosen.read_text().splitlines())

    def _touch(self) -> None:
        self._any_file().touch()

    def _grow(self) -> None:
        chosen = self._any_file()
        with chosen.open("a") as file:
            file.write("\n".join(self._lines(self.began, 3)) + "\n")
        self.grown.add(str(chosen))

    def _damage(self) -> None:
        whole = gzip.compress("\n".join(self._lines(self.began, 5)).encode())
        (self.place / ".broken").write_bytes(whole[: len(whole) // 2])
        (self.place / ".broken").replace(self.place / "in" / "mended.json.gz")
        self.written["out"].broken_files += 1

    def _repair(self) -> None:
        lines = self._lines(self.began + timedelta(minutes=2) * self.rounds, 5)
        (self.place / ".whole").write_bytes(
            gzip.compress("".join(f"{x}\n" for x in lines).encode())
        )
        (self.place / ".whole").replace(self.place / "in" / "mended.json.gz")
        self._count("in", lines)

    # What came of it

    def _check(self, name: str) -> None:
        """See that all levels have what was admitted, and that the rest is told with its reason."""
        run, written = self._of(name), self.written[name]
        assert run.as_of() == {}
        assert run.summary().late == {}
        dead = run.dead_letters.table.to_pylist()
        reasons = Counter(row["reason"] for row in dead)
        assert reasons.keys() <= {"unparseable", "future_time", "broken_file"}, reasons
        assert reasons["broken_file"] == written.broken_files
        refused = Counter(row["raw"] for row in dead if row["reason"] != "broken_file")
        assert refused <= written.lines
        admitted = self.place / f"admitted {name}.json"
        write_lines(admitted, (written.lines - refused).elements())
        for window in LEVELS[name]:
            assert differences(run, window, oracle([admitted], window)) == [], (name, window)


def main() -> None:
    """Run it, and print what it came to."""
    told = argparse.ArgumentParser(description=__doc__)
    told.add_argument("--batches", type=int, default=200, help="How many micro-batches to make.")
    told.add_argument("--kills", type=int, default=5, help="How often to kill what counts.")
    told.add_argument("--place", type=Path, help="A new folder to do it in, and to keep.")
    given = told.parse_args()
    with tempfile.TemporaryDirectory() as place:
        soak = Soak(given.place or Path(place), given.batches, given.kills)
        soak.run()
        sys.stdout.write(f"{soak.report()}\n")


if __name__ == "__main__":
    main()
