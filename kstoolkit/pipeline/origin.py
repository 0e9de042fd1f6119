"""Where a report comes from: what took part, what makes it again, and the time that it covers."""

from __future__ import annotations

import platform
import shlex
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from kstoolkit.findings.rules import DEFAULT_RULES, rules_from_json
from kstoolkit.report.content import Origin
from kstoolkit.report.paths import quoted_path

if TYPE_CHECKING:
    from kstoolkit.pipeline.run import Run
    from kstoolkit.pipeline.runfolder import Settings


_FRAMES = {"frame", "staged"}


def origin_of(run: Run) -> Origin:
    """Return where a run's report comes from, with the time that its counts cover.

    The time goes from the start of the first window to the end of the last one, of the shortest
    windows that there are.
    """
    settings = run.settings
    finest = min(settings.cascade.windows, key=lambda window: window.size_ms)
    span = run.changelog.span_ms(finest.size_ms)
    first_ms, last_ms = span or (None, None)
    return Origin(
        generated_at=datetime.now(UTC),
        versions=_versions(settings),
        command=command_of(settings, run.folder.path),
        first_event_ms=first_ms,
        last_event_ms=None if last_ms is None else last_ms + finest.size_ms,
    )


def from_files(settings: Settings) -> bool:
    """Return whether the events came from files, rather than from a DataFrame."""
    return settings.feed not in _FRAMES


def command_of(settings: Settings, out: Path) -> str | None:
    """Return what makes a run and its report again; ``None`` for one on a DataFrame.

    Rules other than the default ones are in a file of the user's; the command can but name one.
    """
    if not from_files(settings):
        return None
    columns = settings.columns
    options = {
        "--event-time": columns["event_time"],
        "--user": columns["user"],
        "--action": columns["action"],
        "--windows": ",".join(settings.windows),
        "--buckets": str(settings.buckets),
    }
    least = set(settings.min_count)
    if len(least) == 1 and least != {1}:
        options["--min-count"] = str(*least)
    own_rules = rules_from_json(settings.rules) != DEFAULT_RULES
    if own_rules:
        options["--rules"] = "rules.toml"
    words = [f"{name} {shlex.quote(value)}" for name, value in options.items()]
    if settings.time == "processing":
        words.append("--processing-time")
    folder = quoted_path(out)
    run = f"kstoolkit run {quoted_path(Path(settings.source))} {' '.join(words)} --out {folder}"
    note = "  # rules.toml: the rules named above" if own_rules else ""
    return f"{run} && kstoolkit report {folder}{note}"


def _versions(settings: Settings) -> list[tuple[str, str]]:
    mine = version("kstoolkit")
    if settings.written_by != mine:
        mine = f"{mine} (the run: {settings.written_by})"
    return [
        ("kstoolkit", mine),
        ("PySpark", version("pyspark")),
        ("Python", platform.python_version()),
    ]
