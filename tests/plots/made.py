"""What the tests of plots share: runs without Spark, what an Axes holds, names that do harm."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from kstoolkit.changelog.changelog import BatchFolders
from kstoolkit.events.event import letters
from kstoolkit.findings.finding import FINDINGS_SCHEMA
from kstoolkit.findings.rulefiles import rules_to_json
from kstoolkit.findings.rules import DEFAULT_RULES
from kstoolkit.pipeline.run import Run
from kstoolkit.pipeline.runfolder import RunFolder, Settings
from tests.changelog.changelogs import HOUR, MINUTE, Rows, write

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kstoolkit.pipeline.batches import MicroBatch

DAY = 24 * HOUR
MORNING = 1_442_016_000_000  # 12 September 2015, 00:00 UTC
TEN = MORNING + 10 * HOUR
HOSTILE = (
    r"$\frac{",
    "<script>alert(1)</script>",
    "\u202etfel ot thgir\u2066",
    "a\x00b\x1b[31m\n",
    "名前😀",
    "x" * 10_000,
)

COUNTS: dict[int, Rows] = {
    MINUTE: {(TEN + n * MINUTE, "Anna", "read"): n + 1 for n in range(10)},
    HOUR: {
        **{(MORNING + n * HOUR, "Anna", "read"): 3 for n in range(10)},
        (TEN, "Anna", "read"): 55,
        (TEN, "Anna", "write"): 4,
        (TEN, "Bo", "read"): 7,
    },
    DAY: {(MORNING, "Anna", "read"): 85, (MORNING, "Anna", "write"): 4, (MORNING, "Bo", "read"): 7},
}


def found(**changes: Any) -> dict[str, Any]:
    """Return a finding as a row of a run's files."""
    return {
        "rule": "Unusual 1 hour, 5 false alarms a day",
        "kind": "Unusual",
        "user": "Anna",
        "action": "read",
        "window": "1 hour",
        "window_ms": HOUR,
        "window_start_ms": TEN,
        "count": 55,
        "expected_low": 2,
        "expected_high": 14,
        "baseline_windows": 10,
        "peers": 400,
        "log10_probability": -8.5,
        "first_seen_ms": TEN + HOUR,
    } | changes


OVER = {
    "rule": "Ceiling 8 per 1 minute",
    "kind": "Ceiling",
    "window": "1 minute",
    "window_ms": MINUTE,
    "ceiling": 8,
    "log10_probability": None,
    "expected_low": None,
    "expected_high": None,
}


def made_run(
    out: Path,
    *,
    counts: Mapping[int, Rows] = COUNTS,
    findings: Sequence[dict[str, Any]] = (),
    batches: Sequence[MicroBatch] = (),
    reasons: Sequence[str] = (),
) -> Run:
    """Return a run whose folder is filled without Spark."""
    out.mkdir(parents=True)
    run = Run(RunFolder(out))
    run.folder.save(
        Settings(
            windows=("1 minute", "1 hour", "1 day"),
            buckets=4,
            columns={"event_time": "time", "user": "user", "action": "action"},
            time="event",
            feed="files",
            partitions=2,
            rules=rules_to_json(DEFAULT_RULES),
            source="data/edits.json.gz",
            reading={"limits": {}, "file_format": None},
        )
    )
    write(out / "changelog", 0, counts)
    if findings:
        add_findings(out, findings)
    if reasons:
        add_letters(out, reasons, reasons)
    for each in batches:
        add_batch(out, each)
    return run


def add_findings(out: Path, findings: Sequence[dict[str, Any]], number: int = 0) -> None:
    """Have a batch of a made run report findings."""
    table = pa.Table.from_pylist(list(findings), FINDINGS_SCHEMA)
    pq.write_table(table, _batch(out, "findings", number) / "part-00000-3600000.parquet")
    BatchFolders(out / "findings").mark(0, number)


def add_letters(out: Path, reasons: Sequence[str], raws: Sequence[str]) -> None:
    """Have the first batch of a made run keep dead letters."""
    table = pa.Table.from_batches([letters(reasons, raws)])
    pq.write_table(table, _batch(out, "dead_letters") / "part-00000.parquet")
    BatchFolders(out / "dead_letters").mark(0, 0)


def add_batch(out: Path, batch: MicroBatch) -> None:
    """Have a batch of a made run end."""
    batch.save(_batch(out, "statistics", batch.batch))
    BatchFolders(out / "statistics").mark(0, batch.batch)


def _batch(out: Path, kind: str, number: int = 0) -> Path:
    return BatchFolders(out / kind).begin(0, number)


def drawn(axes: Any) -> Any:
    """Draw, let each warning be an error, and return the Axes."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        axes.figure.canvas.draw()
    return axes


def seen(axes: Any) -> str:
    """Return the title, in one line."""
    return " ".join(axes.get_title(loc="left").split())


def legend(axes: Any) -> list[str]:
    """Return the legend's names."""
    box = axes.get_legend()
    return [] if box is None else [text.get_text() for text in box.get_texts()]


def row_names(axes: Any) -> list[str]:
    """Return what stands at the y axis."""
    return [text.get_text() for text in axes.get_yticklabels()]


def texts(axes: Any) -> list[str]:
    """Return the texts in the Axes."""
    return [text.get_text() for text in axes.texts]


def stays_inside(axes: Any) -> bool:
    """Return whether title, names, texts and legend are inside the figure, and apart."""
    drawn(axes)
    figure = axes.figure.bbox
    title = axes._left_title.get_window_extent()
    boxes = [title, axes.xaxis.label.get_window_extent()]
    low, high = sorted(axes.get_ylim())
    ticks = [each for each in axes.get_yticklabels() if low <= each.get_position()[1] <= high]
    boxes += [each.get_window_extent() for each in (*ticks, *axes.texts)]
    inside = all(
        box.x0 >= figure.x0 - 1 and box.x1 <= figure.x1 + 1 and box.y1 <= figure.y1 + 1
        for box in boxes
    )
    box = axes.get_legend()
    above = box is None or (
        box.get_window_extent().y0 >= axes.get_window_extent().y1 - 1
        and box.get_window_extent().y1 <= title.y0 + 1
    )
    return inside and above
