"""``kstoolkit restore`` and ``get``: a replica of a run's counts, kept up with it, and asked."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from kstoolkit.cli import options
from kstoolkit.cli.options import argument, optional, required, switch
from kstoolkit.cli.stores import changelog_source
from kstoolkit.cli.terminal import Outage, asked_to_stop, note, print_json, print_table, say
from kstoolkit.errors import ConfigurationError, KafkaError
from kstoolkit.records import counted
from kstoolkit.units import format_bytes, format_count
from kstoolkit.windows import as_window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kstoolkit.operations.metrics import ReplicaCollector
    from kstoolkit.replica.records import Lag
    from kstoolkit.replica.windowstore import Standby, WindowStore


def _keep_up(
    standby: Standby, *, quiet: bool, told: Callable[[Lag, int], None] | None = None
) -> int:
    """Follow until SIGINT or SIGTERM comes, and return how many segments were dropped.

    Brokers that do not answer are waited for, with growing pauses, ten minutes at most. Each time
    that it is looked at, ``told`` is given the lag, and how many records were followed.
    """
    dropped, expired_at = 0, 0
    outage: Outage | None = None
    with asked_to_stop() as asked, _line(quiet=quiet) as line:
        if not quiet:
            note("Following. Ctrl-C ends it; the same command goes on from there.")
        while not asked.is_set():
            try:
                lag = standby.start().lag
            except KafkaError as error:
                outage = outage or Outage("The changelog")
                asked.wait(outage.next_pause(error))
                continue
            outage = None
            behind = "an unknown time" if lag.seconds is None else f"{lag.seconds:,.1f} s"
            followed = counted(standby.records, "records")
            left = f"{counted(lag.records, 'records')} and {behind} behind"
            line.set_description_str(f"{left}; {followed} followed")
            if told is not None:
                told(lag, standby.records)
            if standby.records > expired_at:
                expired_at = standby.records
                dropped += standby.expire()
            asked.wait(0.5)
    return dropped


def _line(*, quiet: bool) -> tqdm:
    """Return a line on stderr that is written over and over, if that is a terminal."""
    hidden = True if quiet else None
    return tqdm(
        disable=hidden, file=sys.stderr, bar_format="{desc}", dynamic_ncols=True, leave=False
    )


_LOOK = "1 second"


def restore(
    changelog: str = argument(
        "CHANGELOG",
        "A changelog: a folder, a run's output folder, or a topic, kafka://host:port/topic.",
    ),
    store: str = argument("STORE", "Where the replica is, or shall be."),
    *,
    profile: str | None = optional(
        "NAME", "A profile of RocksDB options, such as point_lookup; by default the replica's own."
    ),
    retention: str | None = optional(
        "WINDOW=DURATION,...",
        "How long after their end windows are kept, for each kind that is not kept for ever: '1 "
        "minute=2 days,1 hour=30 days'. Segments of an hour or more go as a whole, by the time "
        "that the data has come to.",
        "as was said the last time",
    ),
    follow: bool = switch(
        "--follow", "Keep up with the changelog, until Ctrl-C.  [default: to its end]"
    ),
    every: str | None = optional(
        "DURATION", "With --follow: how often to look for what is new.", _LOOK
    ),
    metrics_port: int | None = options.metrics_port("replica", "restores and follows"),
    quiet: bool = options.QUIET,
    kafka_config: str | None = options.KAFKA_CONFIG,
    as_json: bool = options.AS_JSON_OBJECT,
) -> None:
    """Bring a replica up to its changelog.

    Makes the replica, or goes on where the last restore ended. A damaged segment is set aside and
    rebuilt alone. Readers may ask it meanwhile. All windows go to disk: windows in memory
    (memory_windows in Python) can be asked only by the process that keeps them, and would be gone
    with this one. The fields of --json: path, windows, segments, bundles, sst_bytes (of the files
    that hold the counts), disk_bytes (all that the segments take, as du counts), epoch, batch,
    dropped.
    """
    if every is not None and not follow:
        message = "--every says how often to look for what is new, but --follow is missing."
        raise ConfigurationError(message, hint="Add --follow, or leave --every out.")
    keep = options.lengths_given("--retention", retention)
    from kstoolkit.replica.windowstore import WindowStore  # noqa: PLC0415 - loads RocksDB

    source = changelog_source(changelog, kafka_config)
    with _serving(metrics_port, quiet=quiet) as served:
        if not isinstance(source, str):  # a topic, whose broker may be down just now
            source.cluster.wait(source.patience_ms, (lambda _: None) if quiet else note)
        listener = None if served is None else served.restores
        with WindowStore.restore(
            source,
            path=store,
            profile=profile,
            listener=listener,
            retention=keep,
            progress=False if quiet else None,
        ) as replica:
            dropped = replica.expire()
            if follow:
                told = None if served is None else served.tell
                with replica.follow(source, every=every or _LOOK, listener=listener) as standby:
                    dropped += _keep_up(standby, quiet=quiet, told=told)
            known = {as_window(each).size_ms for each in replica.windows}
            for window in keep or ():
                if as_window(window).size_ms not in known:
                    note(f"Note: the changelog has no windows of {window} so far.")
            figures = _figures(replica, dropped)
    if as_json:
        print_json([figures])
    elif not quiet:
        say(_in_words(figures))


@contextmanager
def _serving(port: int | None, *, quiet: bool) -> Iterator[ReplicaCollector | None]:
    """Serve the replica's figures meanwhile, if that is asked for, and say where."""
    if port is None:
        yield None
        return
    from kstoolkit.operations.metrics import MetricsServer, ReplicaCollector  # noqa: PLC0415

    collector = ReplicaCollector()
    with MetricsServer(collector, port) as server:
        if not quiet or not port:  # nobody else could say which port was free
            note(f"Metrics: {server.url}")
        yield collector


def _figures(replica: WindowStore, dropped: int) -> dict[str, Any]:
    segments = replica.segments()
    newest = max(((each.epoch or 0, each.batch or 0) for each in segments), default=(None, None))
    return {
        "path": str(replica.path),
        "windows": list(replica.windows),
        "segments": len(segments),
        "bundles": sum(each.bundles or 0 for each in segments),
        "sst_bytes": sum(each.sst_bytes or 0 for each in segments),
        "disk_bytes": sum(each.disk_bytes or 0 for each in segments),
        "epoch": newest[0],
        "batch": newest[1],
        "dropped": dropped,
    }


def _in_words(figures: dict[str, Any]) -> str:
    dropped = figures["dropped"]
    were = "was kept long enough and is" if dropped == 1 else "were kept long enough and are"
    gone = f"; {format_count(dropped)} {were} dropped" if dropped else ""
    return (
        f"The replica is in {figures['path']}: {counted(figures['segments'], 'segments')}, "
        f"{format_bytes(figures['disk_bytes'])} on disk, "
        f"windows of {', '.join(figures['windows']) or 'no length yet'}{gone}."
    )


def get(
    store: str = argument("STORE", "The folder of a replica."),
    *,
    user: str = required("USER", "Whose counts."),
    window: str = required(
        "WINDOW", "Which window: '1 hour', '5 minutes every 1 minute', or 'session 30 minutes'."
    ),
    at: str = required(
        "TIME", "A moment in the window: 2015-09-12T10:00Z. Without a zone it is UTC."
    ),
    by: list[str] | None = options.BY,
    total: bool = options.SUMS,
    _scratch: str | None = options.SCRATCH,
    as_json: bool = options.AS_JSON_OBJECT,
) -> None:
    """Print a user's counts in one window of a replica.

    The fields of --json: user, window_start_ms, window_end_ms, counts (by action), updated_at_ms,
    unknown. Where an action has several parts, and with --by or --total, counts is a list of
    objects: each part under its name, and count.
    """
    from kstoolkit.formats.actions import action_in_words  # noqa: PLC0415 - loads Arrow
    from kstoolkit.replica.windowstore import WindowStore  # noqa: PLC0415 - loads RocksDB

    with WindowStore.open(store) as replica:
        chosen = options.by_given(by, total=total)
        answer = replica.get(user, window=window, at=at, by=chosen)
        names = list(replica.parts or ["action"])
    is_session = window.startswith("session ")
    told = sorted(set(chosen), key=names.index) if chosen is not None else names
    if as_json and (replica.parts is None and chosen is None):
        print_json([answer.to_dict()])
    elif as_json:
        counts = [
            dict(zip(told, values, strict=True)) | {"count": count}
            for values, count in answer.counts.items()
        ]
        print_json([answer.to_dict() | {"counts": counts}])
    elif not answer.counts:
        moment = answer.window_start.isoformat()
        place = f"a session at {moment}" if is_session else f"the window from {moment}"
        note(f"No counts of {user!r} in {place}.")
    else:
        if is_session:
            note(f"From {answer.window_start.isoformat()} to {answer.window_end.isoformat()}.")
        cells = [
            [action_in_words(action), format_count(count)]
            for action, count in answer.counts.items()
        ]
        print_table([", ".join(told) or "action", "count"], cells, right="count")
