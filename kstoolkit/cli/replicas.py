"""Commands that keep a replica of a run's counts, and ask it."""

from __future__ import annotations

import typer

from kstoolkit.cli.options import AS_JSON_OBJECT
from kstoolkit.cli.terminal import note, print_json, print_table, say
from kstoolkit.units import format_bytes, format_count

__all__ = ["get", "restore"]

STORE = typer.Argument(..., metavar="STORE", help="The folder of a replica.", show_default=False)


def restore(
    changelog: str = typer.Argument(
        ..., metavar="CHANGELOG", help="A changelog, or a run's output folder.", show_default=False
    ),
    store: str = typer.Argument(
        ..., metavar="STORE", help="Where the replica is, or shall be.", show_default=False
    ),
    profile: str | None = typer.Option(
        None,
        metavar="NAME",
        help="A profile of RocksDB options, such as point_lookup; by default the replica's own.",
        show_default=False,
    ),
    as_json: bool = AS_JSON_OBJECT,
) -> None:
    """Bring a replica up to its changelog.

    Makes the replica, or goes on where the last restore ended. A damaged segment is set aside and
    rebuilt alone. The fields of --json: path, windows, segments, bundles, disk_bytes, epoch, batch.
    """
    from kstoolkit.stores.windowstore import WindowStore  # noqa: PLC0415 - loads RocksDB

    with WindowStore.restore(changelog, path=store, profile=profile) as replica:
        segments = replica.segments()
        windows = replica.windows
    bundles = sum(each.bundles or 0 for each in segments)
    disk_bytes = sum(each.disk_bytes or 0 for each in segments)
    newest = max(((each.epoch or 0, each.batch or 0) for each in segments), default=(None, None))
    if as_json:
        figures = {
            "path": store,
            "windows": list(windows),
            "segments": len(segments),
            "bundles": bundles,
            "disk_bytes": disk_bytes,
            "epoch": newest[0],
            "batch": newest[1],
        }
        print_json([figures])
    else:
        say(
            f"The replica is in {store}: {format_count(len(segments))} segments, "
            f"{format_bytes(disk_bytes)}, windows of {', '.join(windows) or 'no length yet'}."
        )


def get(
    store: str = STORE,
    *,
    user: str = typer.Option(..., metavar="USER", help="Whose counts.", show_default=False),
    window: str = typer.Option(
        ...,
        metavar="WINDOW",
        help="Which window: '1 hour', or '5 minutes every 1 minute'.",
        show_default=False,
    ),
    at: str = typer.Option(
        ...,
        metavar="TIME",
        help="A moment in the window: 2015-09-12T10:00Z.",
        show_default=False,
    ),
    as_json: bool = AS_JSON_OBJECT,
) -> None:
    """Print a user's counts in one window of a replica.

    The fields of --json: user, window_start_ms, window_end_ms, counts (by action), updated_at_ms,
    unknown.
    """
    from kstoolkit.stores.windowstore import WindowStore  # noqa: PLC0415 - loads RocksDB

    with WindowStore.open(store) as replica:
        answer = replica.get(user, window=window, at=at)
    if as_json:
        print_json([answer.to_dict()])
    elif not answer.counts:
        note(f"No counts of {user!r} in the window from {answer.window_start.isoformat()}.")
    else:
        cells = [[action, format_count(count)] for action, count in answer.counts.items()]
        print_table(["action", "count"], cells, right="count")
