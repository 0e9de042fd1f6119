"""Ours beside every rival, in one run: the same events, each in turn, each in processes of its own.

python -m tests.benchmarks.peers [--events 2000000] [--out peers.json] [--plot peers.png]

Who keeps state is run twice: to its end, and once more with a ``kill -9`` of all its processes
midway and a start after it. What comes out is held against DuckDB's group-by, both times.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.benchmarks import javapeer
from tests.benchmarks.broker import keyed_events_in_a_topic
from tests.benchmarks.events import Events
from tests.benchmarks.measuring import Beside, ContestantFailed, Measured, bytes_in, measure
from tests.benchmarks.standing import Standing, Totals, markdown
from tests.benchmarks.table import Row, machine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kstoolkit.kafka.broker import Broker

ROOT = Path(__file__).resolve().parents[2]
_AMID_SECONDS = 0.5
_SPARKS = "local"  # where Spark keeps its stores and what it shuffles: below a contestant's folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A contestant: its module and options, and below its folder where its state is, if any.

    The first batch is the warm-up, and as many events are of those who know no batches; but not
    of those who are ``is_warm`` when they begin to count. ``java`` is what is compiled for it:
    such a one knows no batches.
    """

    command: tuple[str, ...]
    state: tuple[str, ...] = ()
    java: Any = None
    is_warm: bool = False

    @property
    def reads_topic(self) -> bool:
        return self.java is not None or "--topic" in self.command


PEERS: dict[str, Peer] = {
    "kstoolkit, files": Peer(command=("ours",), state=("out/checkpoint", _SPARKS)),
    "kstoolkit, Kafka to a compacted topic": Peer(
        command=("ours", "--topic", "--changelog", "bundles"), state=("out/checkpoint", _SPARKS)
    ),
    "Kafka Streams": Peer(
        command=("kafka_streams",), state=("state",), java=javapeer.KAFKA_STREAMS
    ),
    "Kafka Streams, 512 MiB of cache": Peer(
        command=("kafka_streams", "--large-cache"), state=("state",), java=javapeer.KAFKA_STREAMS
    ),
    "Flink SQL, cascaded TUMBLE": Peer(
        command=("flink_sql",), state=("state",), java=javapeer.FLINK
    ),
    "Spark streaming, files": Peer(command=("spark_streaming",), state=("checkpoint", _SPARKS)),
    "Spark batch": Peer(command=("spark_batch",), is_warm=True),
    "DuckDB": Peer(command=("duckdb_groupby",), is_warm=True),
}
JUDGE = "DuckDB"


@dataclass(slots=True)
class Contest:
    """Where it takes place: the events, the folder to work in, the broker, and how far it is."""

    events: Path
    number: int
    files_per_batch: int
    files: int
    work: Path
    broker: Broker
    runs: int = field(default=0, init=False)

    @property
    def warm_up(self) -> int:
        return self.number * self.files_per_batch // self.files

    def place(self) -> Path:
        """Return a folder for one run; its name is the run's in topics, too."""
        self.runs += 1
        folder = self.work / f"run{self.runs:02d}"
        (folder / _SPARKS).mkdir(parents=True)
        return folder

    def measured(self, peer: Peer, place: Path, *, kill_at: int | None = None) -> Measured:
        """Run a contestant in a folder, from its begin or from where it was killed."""
        module, *options = peer.command
        command = [sys.executable, "-m", f"tests.benchmarks.{module}"]
        command += [str(self.events), str(place), *options]
        command += ["--files-per-batch", str(self.files_per_batch)]
        beside = Beside(
            folders=tuple(place / each for each in peer.state),
            server=self.broker.status().pid,
            environment=os.environ | {"TMPDIR": str(place / _SPARKS)},
        )
        log = place / "stderr.log"
        # Who tells of a batch when it is over is killed amid the next one.
        late = 0.0 if peer.java else _AMID_SECONDS
        return measure(
            command, log, cwd=ROOT, beside=beside, kill_at=kill_at, kill_after_seconds=late
        )

    def topic_bytes(self, place: Path) -> int:
        """Return what the topics take that were written by a run."""
        logs = self.broker.status().folder / "data"
        return sum(bytes_in(each) for each in logs.iterdir() if place.name in each.name)


def stood(name: str, contest: Contest) -> Standing:
    """Run a contestant, and return how it did."""
    peer, place = PEERS[name], contest.place()
    if peer.java:
        javapeer.classpath(peer.java, contest.work / "classes")
    began = time.monotonic(), _busy_seconds()
    measured = contest.measured(peer, place)
    wall, busy = time.monotonic() - began[0], _busy_seconds() - began[1]
    served = measured.marked("counted")[-1].server_cpu_seconds / contest.number * 1e6
    own = measured.marks[-1].cpu_seconds + measured.marks[-1].server_cpu_seconds
    return Standing(
        row=Row.of(name, measured, warm_up=0 if peer.is_warm else contest.warm_up),
        totals=Totals.of(measured),
        broker_cpu_seconds_per_million=served if peer.reads_topic else None,
        disk_bytes=measured.disk_bytes if peer.state else None,
        topic_bytes=contest.topic_bytes(place),
        others_cores=max(busy - own, 0) / wall,
    )


def killed(standing: Standing, contest: Contest) -> Standing:
    """Run it again, kill it midway, start it again, and return how it did with how that went."""
    peer, place = PEERS[standing.row.name], contest.place()
    # A little less than half: two batches of four of a topic fall short of it by a few events.
    before = contest.measured(peer, place, kill_at=contest.number * 49 // 100)
    reached = before.marked("counted")[-1].facts["events"]
    if reached >= contest.number:
        message = f"{standing.row.name} was through before it was killed: more events are needed"
        raise ContestantFailed(message)
    began, waited, is_lost = time.monotonic(), 0.0, False
    try:
        after = contest.measured(peer, place)
    except ContestantFailed as error:
        if peer.java is not javapeer.KAFKA_STREAMS:
            raise
        print(f"{error}\nIts state is deleted: it has another in its changelog.", flush=True)
        for each in peer.state:
            shutil.rmtree(place / each)
        waited, is_lost = time.monotonic() - began, True
        after = contest.measured(peer, place)
    back = next(each for each in after.marked("counted") if each.facts["events"] > reached)
    return replace(
        standing,
        killed_at=reached,
        back_seconds=waited + back.seconds,
        after_kill=Totals.of(after),
        is_lost=is_lost,
    )


def main() -> int:
    asked = _asked()
    events = Events(events=asked.events, users=max(asked.events // 10, 1), files=asked.files)
    folder = events.write(asked.cache)
    chosen = [name for name in PEERS if name in (asked.only or PEERS) or name == JUDGE]
    found: dict[str, Standing] = {}
    about = machine("tests.benchmarks.peers")
    with tempfile.TemporaryDirectory(prefix="kst-") as work:
        batch = asked.events * asked.files_per_batch // asked.files
        with keyed_events_in_a_topic(folder, Path(work) / "broker", batch) as broker:
            contest = Contest(
                folder, asked.events, asked.files_per_batch, asked.files, Path(work), broker
            )
            for name in sorted(chosen, key=lambda each: each != JUDGE):
                found[name] = stood(name, contest)
                if PEERS[name].state and not asked.no_kill:
                    found[name] = killed(found[name], contest)
                print(f"{name}: {found[name].row.wall_seconds:.1f} s", flush=True)
    standings = [found[name] for name in chosen]
    return _tell(standings, found[JUDGE].totals, about, asked)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.peers")
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--files-per-batch", type=int, default=2)
    parser.add_argument("--only", action="append", choices=PEERS, help="just these, and DuckDB")
    parser.add_argument("--no-kill", action="store_true", help="leave out what is killed")
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    parser.add_argument("--plot", type=Path, help="write a plot as PNG")
    cache = Path(tempfile.gettempdir()) / "kstoolkit-benchmark-events"
    parser.add_argument("--cache", type=Path, default=cache, help="where events are kept")
    return parser.parse_args()


def _tell(
    standings: Sequence[Standing], truth: Totals, about: dict[str, Any], asked: argparse.Namespace
) -> int:
    print(f"\n{markdown(standings, truth)}\n")
    print("  ".join(f"{name}={value}" for name, value in about.items()))
    if asked.out:
        told = {"machine": about, "rows": [each.to_dict(truth) for each in standings]}
        asked.out.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    if asked.plot:
        from tests.benchmarks.peersplot import draw

        draw(standings, asked.events, asked.plot)
    whole = dict.fromkeys(truth.events, asked.events)
    wrong = [each.row.name for each in standings if each.totals != truth]
    if truth.events != whole:
        wrong.append("the judge")
    print(f"Other totals than {JUDGE}'s: {', '.join(wrong) or 'none'}.")
    ours = [name for name in wrong if name.startswith("kstoolkit")]
    return 1 if ours or truth.events != whole else 0


def _busy_seconds() -> float:
    """Return what all processes of the machine used since it was started."""
    fields = Path("/proc/stat").read_text(encoding="utf-8").split("\n", 1)[0].split()[1:]
    user, nice, system, _, _, *interrupts = map(int, fields[:8])
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
