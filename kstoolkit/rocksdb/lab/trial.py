"""One profile's trial, as the main module of a process of its own.

It reads one line of JSON from stdin: the workload, the profile, and where to put the store. It
answers on stdout with one object a line: ``opened``, some ``moment``s, ``written`` among them when
no more writes come, then ``end``, or ``error``.
A second line on stdin, or its end, stops the writes; the trial then ends as usual.
"""

from __future__ import annotations

import json
import select
import sys
from pathlib import Path
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any

from rocksdict import Rdict

from kstoolkit.errors import KstoolkitError
from kstoolkit.rocksdb.faults import translated
from kstoolkit.rocksdb.lab.askedkeys import AskedKeys
from kstoolkit.rocksdb.lab.figures import at_end, content, moment, peak_resident_bytes, resting
from kstoolkit.rocksdb.lab.meter import Meter
from kstoolkit.rocksdb.lab.spool import kept_rows
from kstoolkit.rocksdb.lab.workloads import Workload, generated
from kstoolkit.rocksdb.profiles.profile import Profile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kstoolkit.rocksdb.lab.workloads import Batch


_MOMENT_S, _LOOK_S = 0.25, 0.01
_AT_REST_S = 0.2
"""For how long a store has to be seen at rest: what ends may start a compaction."""
_GETS_AT_ONCE = 10_000

_NO_STALLS = {
    "level0_slowdown_writes_trigger": str(2**30),
    "level0_stop_writes_trigger": str(2**30),
    "soft_pending_compaction_bytes_limit": "0",
    "hard_pending_compaction_bytes_limit": "0",
}


class TriedStore:
    """A store that is written and asked, with somebody told how it goes."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.workload = Workload(**request["workload"], rows=() if request["rows"] else None)
        self.rows = request["rows"]
        self.profile = _profile(request["profile"])
        self.options = self.profile.to_rocksdict()
        self.store = Rdict(request["path"], self.options)
        self.store.set_read_options(self.profile.read_options())
        self.meter = Meter()
        self.began = self.told = perf_counter()

    def run(self) -> dict[str, Any]:
        """Write, wait for what RocksDB has yet to do, and return the figures."""
        tell({"opened": True})
        finished = self._write()
        tell({"written": True})
        self._tell_moment()
        settled, settle_s = self._settle() if finished else (False, 0.0)
        figures = at_end(self.store, self.options, self.meter)
        self._tell_moment()
        return (
            figures
            | content(self.store, self.profile.read_options())
            | {
                "finished": finished,
                "settled": settled,
                "settle_s": settle_s,
                "peak_resident_bytes": peak_resident_bytes(),
                "unset": self.profile.not_in_rocksdict(),
            }
        )

    def _write(self) -> bool:
        """Write the workload, with gets in between; return whether that came to its end."""
        asked = AskedKeys(seed=self.workload.seed, absent_share=self.workload.absent_share)
        options = self.profile.write_options()
        due = 0.0
        for batch in self._batches():
            if told_to_stop():
                return False
            self.meter.write(self.store, batch, options)
            asked.take_in(batch.keys)
            due += len(batch.keys) * self.workload.reads_per_write
            if not self._ask(asked, int(due)):
                return False
            due -= int(due)
            self._tell_if_due()
            self._keep_pace()
        return True

    def _ask(self, asked: AskedKeys, gets: int) -> bool:
        """Get that many keys, some at a time; return whether that came to its end."""
        for first in range(0, gets, _GETS_AT_ONCE):
            if first and told_to_stop():
                return False
            self.meter.ask(self.store, asked.draw(min(_GETS_AT_ONCE, gets - first)))
            self._tell_if_due()
        return True

    def _settle(self) -> tuple[bool, float]:
        """Flush, and wait until RocksDB rests; return whether it did in time, and how long."""
        began = perf_counter()
        # A flush waits until it would make no writer wait, which may be for ever; none writes now.
        self.store.set_options(_NO_STALLS)
        self.store.flush()
        busy = perf_counter()
        while perf_counter() - busy < _AT_REST_S:
            if told_to_stop():
                return False, perf_counter() - began
            if not resting(self.store):
                busy = perf_counter()
            sleep(_LOOK_S)
            self._tell_if_due()
        return True, busy - began

    def _batches(self) -> Iterator[Batch]:
        return kept_rows(Path(self.rows)) if self.rows else generated(self.workload)

    def _keep_pace(self) -> None:
        """Wait until the next batch is due, or the trial is to stop."""
        pace = self.workload.writes_per_second
        if pace is not None:
            told_to_stop(within_s=max(self.began + self.meter.writes / pace - perf_counter(), 0.0))

    def _tell_if_due(self) -> None:
        if perf_counter() - self.told >= _MOMENT_S:
            self._tell_moment()

    def _tell_moment(self) -> None:
        self.told = perf_counter()
        at_ms = round((self.told - self.began) * 1e3)
        figures = moment(self.store, self.options, self.meter)
        tell({"moment": {"at_ms": at_ms} | figures})


def main() -> None:
    """Run the trial that stdin asks for."""
    with open(0, "rb", buffering=0, closefd=False) as stdin:
        request = json.loads(stdin.readline())  # unbuffered: a later line stays to be seen
    try:
        with translated(request["path"]):
            tried = TriedStore(request)
            figures = tried.run()
            tried.store.close()
    except KstoolkitError as error:
        tell({"error": error.message, "hint": error.hint})
    else:
        tell({"end": figures})


def tell(message: dict[str, Any]) -> None:
    """Tell the parent something."""
    sys.stdout.write(f"{json.dumps(message)}\n")
    sys.stdout.flush()


def told_to_stop(*, within_s: float = 0.0) -> bool:
    """Return whether the parent wants no more writes, or is no more; wait so long to learn it."""
    return bool(select.select([0], [], [], within_s)[0])


def _profile(told: dict[str, Any]) -> Profile:
    options: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in told["options"].items()
    }
    options["statistics"] = True
    return Profile(name=told["name"], unknown=told["unknown"], **options)


if __name__ == "__main__":
    main()
