"""A run batch by batch: how long each took, how much came in, what it wrote, what state it held."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

from kstoolkit.changelog.changelog import BatchFolders
from kstoolkit.pipeline.statesizes import StateSize
from kstoolkit.pipeline.statistics import BatchStatistics
from kstoolkit.records import Viewed
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import pandas as pd

    from kstoolkit.pipeline.runfolder import RunFolder


_VERSION = re.compile(r"(\d+)(?:_[\w-]+)?\.(changelog|delta|snapshot|zip)")
_SHOWN = 20


@dataclass(frozen=True, slots=True, repr=False)
class Batches(Viewed, Sequence[BatchStatistics]):
    """A run's micro-batches, the oldest first; made by :meth:`kstoolkit.Run.batches`.

    Parameters
    ----------
    told
        What each came to.
    state_bytes
        What each wrote into the checkpoint's state as changelogs, deltas and snapshots, without
        the SST files that snapshots share; ``None`` where Spark has removed that since.
    state
        What the state stores held after each, by Spark's figures; ``None`` where they were not
        kept.

    Examples
    --------
    >>> told = (BatchStatistics(0, 0, 2.0, events=500),)
    >>> batches = Batches(told, (1024,), (StateSize(rows=448, memory_bytes=2048),))
    >>> batches
    Batches(1 batch, 500 events in 2.0 s)
    >>> batches.to_pandas()["events_per_second"].tolist()
    [250.0]
    """

    told: tuple[BatchStatistics, ...]
    state_bytes: tuple[int | None, ...]
    state: tuple[StateSize | None, ...]

    def __len__(self) -> int:
        return len(self.told)

    @overload
    def __getitem__(self, index: int) -> BatchStatistics: ...
    @overload
    def __getitem__(self, index: slice) -> Batches: ...
    def __getitem__(self, index: int | slice) -> BatchStatistics | Batches:
        if isinstance(index, slice):
            return Batches(self.told[index], self.state_bytes[index], self.state[index])
        return self.told[index]

    def __iter__(self) -> Iterator[BatchStatistics]:
        return iter(self.told)

    def to_pandas(self) -> pd.DataFrame:
        """Return one row a batch; of what is told by window or by reason, the sums."""
        import pandas as pd  # noqa: PLC0415 - only for whoever asks for a table

        rows = [
            {
                "batch": each.batch,
                "clock": pd.Timestamp(each.batch_ms, unit="ms", tz="UTC"),
                "seconds": each.seconds,
                "events": each.events,
                "events_per_second": each.events / each.seconds if each.seconds else None,
                "counters_in": each.counters_in,
                "late": sum(each.late.values()),
                "dead_letters": sum(each.dead_letters.values()),
                "backlog": sum(each.backlog.values()),
                "changelog_records": each.changelog_records,
                "changelog_bytes": each.changelog_bytes,
                "findings": each.findings,
                "state_bytes": written,
                "state_rows": None if held is None else held.rows,
                "state_memory_bytes": None if held is None else held.memory_bytes,
            }
            for each, written, held in self._each()
        ]
        columns = list(rows[0]) if rows else ["batch", "seconds", "events", *_OF_STATE]
        return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(_OF_STATE, "Int64"))

    def __repr__(self) -> str:
        return f"Batches({self._facts()})"

    def _repr_html_(self) -> str:
        head = "".join(f"<th scope='col'>{name}</th>" for name in _COLUMNS)
        last = list(self._each())[-_SHOWN:]
        body = "".join(f"<tr>{_html_cells(*each)}</tr>" for each in last)
        note = f"; the last {len(last)} are shown" if len(last) < len(self) else ""
        return (
            f"<table><caption>{self._facts()}{note}</caption>"
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )

    def _each(self) -> Iterator[tuple[BatchStatistics, int | None, StateSize | None]]:
        return zip(self.told, self.state_bytes, self.state, strict=True)

    def _facts(self) -> str:
        plural = "" if len(self) == 1 else "es"
        events = format_count(sum(each.events for each in self.told))
        seconds = sum(each.seconds for each in self.told)
        return f"{format_count(len(self))} batch{plural}, {events} events in {seconds:,.1f} s"


_COLUMNS = (
    "batch",
    "seconds",
    "events",
    "events/s",
    "findings",
    "state written",
    "state rows",
    "state memory",
)
_OF_STATE = ("state_bytes", "state_rows", "state_memory_bytes")


def _html_cells(each: BatchStatistics, written: int | None, held: StateSize | None) -> str:
    rate = format_count(each.events / each.seconds) if each.seconds else "unknown"
    state = (
        "unknown (removed since)" if written is None else format_bytes(written),
        "unknown (not kept)" if held is None else format_count(held.rows),
        "unknown (not kept)" if held is None else format_bytes(held.memory_bytes),
    )
    told = (str(each.batch), f"{each.seconds:,.2f}", format_count(each.events), rate)
    return "".join(f"<td>{text}</td>" for text in (*told, format_count(each.findings), *state))


def batches_of(folder: RunFolder, sizes: Mapping[int, StateSize]) -> Batches:
    """Return a run's batches, read from its folder.

    Parameters
    ----------
    folder
        The run's.
    sizes
        What a query of this process tells of its batches' state beside, which need not be kept yet.
    """
    marked = BatchFolders(folder.path / "statistics").marked()
    told = tuple(BatchStatistics.load(batch.folder) for batch in marked)
    newest = marked[-1].epoch if marked else 0
    written = _written_bytes(folder.checkpoint / "state")
    # The checkpoint is of the newest epoch; a batch writes the version after its own number.
    state = (written.get(each.number + 1) if each.epoch == newest else None for each in marked)
    held = tuple(
        (sizes.get(each.number) if each.epoch == newest else None) or StateSize.load(each.folder)
        for each in marked
    )
    return Batches(told, tuple(state), held)


def _written_bytes(state: Path) -> Counter[int]:
    """Return what the files of each version of the state take; files that vanish are left out."""
    written: Counter[int] = Counter()
    for path in state.rglob("*") if state.is_dir() else ():
        version = _VERSION.fullmatch(path.name)
        try:
            if version is not None:
                written[int(version[1])] += path.stat().st_size
        except FileNotFoundError:
            continue
    return written


def size_bytes(folder: Path) -> int | None:
    """Return what the files of a folder take; files that vanish meanwhile are left out."""
    if not folder.is_dir():
        return None
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            continue
    return total
