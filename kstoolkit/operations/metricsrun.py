"""What a run's folder tells Prometheus: events, lateness, dead letters, findings, lag, disk.

These survive a restart of the run, as they are read from what it wrote.
"""

from __future__ import annotations

from shutil import disk_usage
from typing import TYPE_CHECKING

from kstoolkit.operations.metricsrecord import counter, gauge, labelled
from kstoolkit.pipeline.status import RunState, size_bytes, with_all_reasons

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kstoolkit.operations.metricsrecord import Metric
    from kstoolkit.pipeline.runfolder import Settings
    from kstoolkit.pipeline.status import BatchTimes, RunStatus


_SECOND_MS = 1_000
_NO_BATCH = "no batch has ended yet"


def run_metrics(status: RunStatus, settings: Settings | None) -> list[Metric]:
    """Return the figures of a run as it stands.

    Parameters
    ----------
    status
        What :meth:`kstoolkit.pipeline.status.RunWatch.look` returned.
    settings
        The run's, which say what windows there are; ``None`` before it has begun.

    Examples
    --------
    >>> from kstoolkit.pipeline.status import RunState, RunStatus
    >>> status = RunStatus(state=RunState.COUNTING, at_ms=0, events=7)
    >>> {each.name: each.samples for each in run_metrics(status, None)}["kstoolkit_events"]
    (((), 7),)
    """
    windows = () if settings is None else settings.windows
    states = {state.name.lower(): float(state is status.state) for state in RunState}
    return [
        gauge("run_state", "1 for the state that the run is in.", labelled("state", states)),
        counter("events", "Events that came in, late ones too.", status.events),
        counter("batches", "Micro-batches that ended.", status.num_batches),
        counter(
            "late_events",
            "Events that were too late for a window; they still count in longer ones.",
            labelled("window", status.late, windows),
        ),
        counter(
            "dead_letters",
            "Records that could not be counted.",
            labelled("reason", with_all_reasons(status.dead_letters)),
        ),
        *_behind(status),
        *_last_batch(status.newest),
    ]


def _behind(status: RunStatus) -> list[Metric]:
    why = status.unknown
    lag_s = None if status.lag_ms is None else status.lag_ms / _SECOND_MS
    return [
        gauge(
            "event_time_lag_seconds",
            "How far event time is behind the clock at least: to the end of the newest window.",
            lag_s,
            why.get("newest_event_ms", _NO_BATCH),
        ),
        gauge(
            "lag_files",
            "Files that were taken in and are not counted yet.",
            status.waiting_files,
            why.get("waiting_files", _NO_BATCH),
        ),
        gauge(
            "lag_bytes",
            "Size of the files that were taken in and are not counted yet.",
            status.waiting_bytes,
            why.get("waiting_files", _NO_BATCH),
        ),
        gauge(
            "state_disk_bytes",
            "Size of the state in the checkpoint.",
            status.state_bytes,
            why.get("state_bytes", _NO_BATCH),
        ),
    ]


def _last_batch(newest: BatchTimes | None) -> list[Metric]:
    return [
        gauge(
            "last_batch_timestamp_seconds",
            "The clock of the newest micro-batch, epoch seconds.",
            None if newest is None else newest.clock_ms / _SECOND_MS,
            _NO_BATCH,
        ),
        gauge(
            "last_batch_events",
            "Events that came in with the newest micro-batch.",
            None if newest is None else newest.events,
            _NO_BATCH,
        ),
        gauge(
            "last_batch_duration_seconds",
            "How long the newest micro-batch took: all of it in the process that counts, else "
            "what its sink took.",
            None if newest is None else newest.seconds,
            _NO_BATCH,
        ),
    ]


def finding_metrics(tally: Mapping[str, int]) -> list[Metric]:
    """Return how many findings were reported.

    Parameters
    ----------
    tally
        How often each rule's, as :meth:`kstoolkit.pipeline.status.FindingTally.look` has it.

    Examples
    --------
    >>> finding_metrics({"Ceiling 100 per 1 hour": 2})[0].samples
    (((('rule', 'Ceiling 100 per 1 hour'),), 2),)
    """
    about = "Findings that were reported; one whose count grows is reported again."
    return [counter("findings", about, labelled("rule", tally))]


def disk_metrics(folder: Path) -> list[Metric]:
    """Return what a run's folder takes, and what is free where it lies or is going to.

    Examples
    --------
    >>> from pathlib import Path
    >>> [each.name for each in disk_metrics(Path())][1:]
    ['kstoolkit_disk_free_bytes', 'kstoolkit_disk_size_bytes']
    """
    disk = disk_usage(next(each for each in (folder, *folder.absolute().parents) if each.exists()))
    return [
        gauge(
            "run_folder_bytes",
            "Size of all files in the run's folder.",
            size_bytes(folder),
            "it is not there yet",
        ),
        gauge("disk_free_bytes", "Bytes that are free on the run folder's disk.", disk.free),
        gauge("disk_size_bytes", "Size of the run folder's disk.", disk.total),
    ]
