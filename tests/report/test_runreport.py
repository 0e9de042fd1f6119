from __future__ import annotations

import json
import shlex
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kstoolkit.changelog.changelog import BatchFolders
from kstoolkit.events.event import REASONS, letters
from kstoolkit.findings.finding import FINDINGS_SCHEMA
from kstoolkit.findings.rules import DEFAULT_RULES, Ceiling, Unusual, rules_to_json
from kstoolkit.pipeline.batches import MicroBatch
from kstoolkit.pipeline.run import Run
from kstoolkit.pipeline.runfolder import RunFolder, Settings
from kstoolkit.report.runreport import _command_of, report_of
from tests.changelog.changelogs import HOUR, MINUTE, Rows, write

if TYPE_CHECKING:
    from collections.abc import Sequence

TEN = 1_442_052_000_000  # 10:00 on 12 September 2015
SETTINGS = Settings(
    windows=("1 minute", "1 hour"),
    buckets=4,
    columns={"event_time": "time", "user": "user", "action": "action"},
    time="event",
    feed="files",
    partitions=2,
    rules=rules_to_json(DEFAULT_RULES),
    source="data/edits.json.gz",
)
HOURS: Rows = {
    **{(TEN + n * HOUR, "Anna", "read"): n + 1 for n in range(5)},
    (TEN + 5 * HOUR, "Anna", "read"): 61,
    (TEN + 6 * HOUR, "Anna", "read"): 55,
    (TEN, "Anna", "write"): 7,
    (TEN, "Bo", "read"): 3,
}
MINUTES: Rows = {(TEN + 59 * MINUTE, "Anna", "read"): 4, (TEN, "Bo", "read"): 3}


def unusual(user: str, log10_probability: float, **changes: Any) -> dict[str, Any]:
    found = {
        "rule": "Unusual 1 hour, 5 false alarms a day",
        "kind": "Unusual",
        "user": user,
        "action": "read",
        "window": "1 hour",
        "window_ms": HOUR,
        "window_start_ms": TEN + 5 * HOUR,
        "count": 61,
        "expected_low": 2,
        "expected_high": 14,
        "baseline_windows": 19,
        "peers": 4112,
        "log10_probability": log10_probability,
        "first_seen_ms": TEN + 6 * HOUR + 1_234,
    }
    return found | changes


def over(user: str, count: int, **changes: Any) -> dict[str, Any]:
    found = {
        "rule": "Ceiling 10 per 1 minute",
        "kind": "Ceiling",
        "user": user,
        "action": "read",
        "window": "1 minute",
        "window_ms": MINUTE,
        "window_start_ms": TEN,
        "count": count,
        "ceiling": 10,
        "first_seen_ms": TEN,
    }
    return found | changes


class Made:
    """A run's folder, filled without Spark."""

    def __init__(self, out: Path, settings: Settings = SETTINGS) -> None:
        out.mkdir(parents=True)
        self.run = Run(RunFolder(out))
        self.out = out
        self.run.folder.save(settings)

    def counts(self, told: dict[int, Rows]) -> None:
        write(self.out / "changelog", 0, told)

    def findings(self, found: Sequence[dict[str, Any]]) -> None:
        path = self._batch("findings") / "part-00000-3600000.parquet"
        pq.write_table(pa.Table.from_pylist(list(found), FINDINGS_SCHEMA), path)
        BatchFolders(self.out / "findings").mark(0, 0)

    def letters(self, reasons: Sequence[str], number: int = 0) -> None:
        raws = [f"{reason} {n}" for n, reason in enumerate(reasons)]
        batch = letters(reasons, raws, file=str(Path.cwd() / "data" / "a.json"), details=None)
        path = self._batch("dead_letters", number) / "part-00000.parquet"
        pq.write_table(pa.Table.from_batches([batch]), path)
        BatchFolders(self.out / "dead_letters").mark(0, number)

    def statistics(self, **told: Any) -> None:
        MicroBatch(0, TEN, 1.5, **told).save(self._batch("statistics"))
        BatchFolders(self.out / "statistics").mark(0, 0)

    def _batch(self, kind: str, number: int = 0) -> Path:
        return BatchFolders(self.out / kind).begin(0, number)


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """A run with counts."""
    made = Made(tmp_path / "out")
    made.counts({HOUR: HOURS, MINUTE: MINUTES})
    made.statistics(events=126, findings=5, dead_letters={"no_user": 2})
    return made


def test_kinds_of_rules_take_turns_each_from_its_most_abnormal_on(made: Made) -> None:
    found = [unusual("Bo", -3), unusual("Anna", -9), over("Bo", 20), over("Anna", 90)]
    made.findings(found)
    content = report_of(made.run)
    told = [(each.rule.split()[0], each.user) for each in content.findings]
    assert told == [("Ceiling", "Anna"), ("Unusual", "Anna"), ("Ceiling", "Bo"), ("Unusual", "Bo")]


def test_of_many_findings_the_first_are_described_and_all_are_counted(made: Made) -> None:
    made.findings([unusual(f"user {n}", -n) for n in range(30)])
    content = report_of(made.run)
    assert [each.user for each in content.findings] == [f"user {n}" for n in range(29, 9, -1)]
    assert content.total_findings == 30
    assert len(report_of(made.run, top=3).findings) == 3


def test_a_finding_is_told_with_its_evidence(made: Made) -> None:
    made.findings([unusual("Anna", -8.5)])
    (finding,) = report_of(made.run).findings
    assert finding.sentence.startswith("Anna did “read” 61 times between 15:00 and 16:00 UTC")
    assert (finding.expected, finding.probability) == ("2\N{EN DASH}14", "3 in 10⁹")
    assert (finding.count, finding.window) == (61, "1 hour")
    assert (finding.window_start_ms, finding.window_end_ms) == (TEN + 5 * HOUR, TEN + 6 * HOUR)
    assert finding.first_seen_ms == TEN + 6 * HOUR + 1_000  # a second is fine enough to be read


def test_what_other_levels_counted_is_told(made: Made) -> None:
    made.findings([unusual("Anna", -8.5, window_start_ms=TEN, count=1)])
    (finding,) = report_of(made.run).findings
    assert finding.other_levels == (("1 minute", 4),)


def test_of_one_story_the_most_abnormal_window_is_told_and_the_others_are_counted(
    made: Made,
) -> None:
    starts = [TEN + 4 * HOUR, TEN + 5 * HOUR, TEN + 6 * HOUR]
    found = [unusual("Anna", -p, window_start_ms=s) for p, s in zip((3, 9, 5), starts, strict=True)]
    made.findings([*found, unusual("Anna", -4, action="write"), unusual("Bo", -2)])
    content = report_of(made.run)
    assert [(each.user, each.action) for each in content.findings] == [
        *(("Anna", "read"), ("Anna", "write"), ("Bo", "read"))
    ]
    first, second, _ = content.findings
    assert first.window_start_ms == TEN + 5 * HOUR
    assert first.sentence.endswith("Also found: 2 other windows of 1 hour, marked in the plot.")
    assert "Also found" not in second.sentence
    assert content.total_findings == 5


def test_the_plot_has_the_counts_of_this_user_and_action_and_all_flagged_windows(
    made: Made,
) -> None:
    starts = [TEN + 5 * HOUR, TEN + 6 * HOUR]
    made.findings([unusual("Anna", -9 + n, window_start_ms=s) for n, s in enumerate(starts)])
    (finding,) = report_of(made.run).findings
    assert finding.series is not None
    times, counts = (np.asarray(c) for c in (finding.series.times_ms, finding.series.counts))
    assert dict(zip(times.tolist(), counts.tolist(), strict=True)) == {
        start: n for (start, user, action), n in HOURS.items() if (user, action) == ("Anna", "read")
    }
    assert sorted(np.asarray(finding.series.flagged_ms).tolist()) == starts
    assert (finding.series.expected_low, finding.series.expected_high) == (2, 14)
    assert (finding.series.window.size_ms, finding.series.ceiling) == (HOUR, None)
    assert finding.series.min_count == 1


def test_the_plot_says_which_counts_were_not_kept(tmp_path: Path) -> None:
    made = Made(tmp_path / "out", replace(SETTINGS, min_count=(3, 5)))
    made.counts({HOUR: {(TEN + 5 * HOUR, "Anna", "read"): 61}})
    made.findings([unusual("Anna", -9)])
    (finding,) = report_of(made.run).findings
    assert finding.series is not None
    assert finding.series.min_count == 5


def test_what_a_ceiling_does_not_know_is_said_to_be_unknown_and_why(made: Made) -> None:
    made.findings([over("Bo", 20)])
    (finding,) = report_of(made.run).findings
    assert finding.series is not None
    assert finding.series.ceiling == 10
    assert finding.expected == "unknown (no baseline)"
    assert finding.probability == "unknown (ceiling 10)"


def test_the_most_abnormal_users_come_first_and_all_are_counted(made: Made) -> None:
    content = report_of(made.run, top=1)
    ranked = made.run.users()
    (user,) = content.users
    assert (user.user, user.score) == (ranked["user"][0], ranked["score"][0])
    assert user.reason == ranked["reason"][0]
    assert content.total_users == 2


def test_the_summary_says_what_was_looked_for(made: Made) -> None:
    rows = dict(report_of(made.run).summary)
    assert rows["events"] == "126"
    assert rows["windows"] == "1 minute, 1 hour"
    assert rows["rules"] == "Unusual 1 hour, 5 false alarms a day"


def test_the_summary_leaves_out_what_the_page_counts_itself(made: Made) -> None:
    told = {label for label, _ in report_of(made.run).summary}
    counted = {label for label, _ in made.run.summary().rows()} - told
    assert counted == {"findings reported", "dead letters: it has no user"}


def test_dead_letters_are_counted_with_what_their_reason_means(made: Made) -> None:
    made.statistics(dead_letters={"no_user": 1, "bad_time": 2})
    made.letters(["bad_time", "no_user", "bad_time"])
    found = report_of(made.run).dead_letters
    assert found.counts == [
        (f"bad_time: {REASONS['bad_time']}", 2),
        (f"no_user: {REASONS['no_user']}", 1),
    ]
    assert [(each.reason, each.raw) for each in found.samples] == [
        *(("bad_time", "bad_time 0"), ("no_user", "no_user 1"), ("bad_time", "bad_time 2"))
    ]


def test_dead_letters_say_where_they_came_from_as_a_reader_elsewhere_may_see_it(
    made: Made,
) -> None:
    made.statistics(dead_letters={"no_user": 1})
    made.letters(["no_user"], number=7)
    (sample,) = report_of(made.run).dead_letters.samples
    assert (sample.file, sample.batch) == ("data/a.json", 7)


def test_ten_dead_letters_are_shown_at_most_and_each_reason_is_among_them(made: Made) -> None:
    made.statistics(dead_letters={"no_user": 3_000, "bad_time": 1})
    made.letters(["no_user"] * 3_000 + ["bad_time"])
    samples = report_of(made.run).dead_letters.samples
    assert len(samples) == 10
    assert [each.reason for each in samples[:3]] == ["no_user", "bad_time", "no_user"]


def test_no_more_dead_letters_are_read_than_it_takes(made: Made) -> None:
    made.statistics(dead_letters={"no_user": 5_000})
    made.letters(["no_user"] * 20, number=0)
    made.letters(["no_user"], number=1)
    (made.out / "dead_letters" / "epoch=0" / "batch=1" / "part-00000.parquet").write_bytes(b"")
    assert len(report_of(made.run).dead_letters.samples) == 10


def test_the_time_covered_is_that_of_the_shortest_windows(made: Made) -> None:
    origin = report_of(made.run).origin
    assert (origin.first_event_ms, origin.last_event_ms) == (TEN, TEN + 60 * MINUTE)
    assert datetime.now(UTC) - origin.generated_at < timedelta(minutes=5)


def test_the_versions_are_told_and_that_of_the_run_if_it_is_another(tmp_path: Path) -> None:
    made = Made(tmp_path / "out", replace(SETTINGS, written_by="0.0.7"))
    versions = dict(report_of(made.run).origin.versions)
    assert versions.keys() == {"kstoolkit", "PySpark", "Python"}
    assert versions["kstoolkit"].endswith("(the run: 0.0.7)")


def command(**changes: Any) -> list[str]:
    told = _command_of(replace(SETTINGS, **changes), Path.cwd() / "out" / "it's")
    assert told is not None
    return shlex.split(told, comments=True)


def test_the_command_makes_the_run_and_its_report_again() -> None:
    columns = {"event_time": "time", "user": "concat(a, ' ', b)", "action": "ns"}
    given = command(columns=columns, windows=("1 minute", "5 minutes every 1 minute"))
    assert given == [
        *("kstoolkit", "run", "data/edits.json.gz", "--event-time", "time"),
        *("--user", "concat(a, ' ', b)", "--action", "ns"),
        *("--windows", "1 minute,5 minutes every 1 minute", "--buckets", "4"),
        *("--out", "out/it's", "&&", "kstoolkit", "report", "out/it's"),
    ]


def test_the_command_names_options_that_are_not_the_default_ones() -> None:
    given = command(
        rules=rules_to_json([Ceiling("1 minute", 10)]), time="processing", min_count=(3, 3)
    )
    assert given[given.index("--rules") + 1] == "rules.toml"
    assert given[given.index("--min-count") + 1] == "3"
    assert "--processing-time" in given
    usual = command(rules=rules_to_json([Unusual("1 hour", 5)]), min_count=(1, 1))
    assert not {"--rules", "--min-count", "--processing-time"} & set(usual)


def test_the_command_does_not_tell_whose_home_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/maria")
    told = _command_of(replace(SETTINGS, source="/home/maria/my events/*.json"), Path("o"))
    assert told is not None
    assert told.startswith("kstoolkit run ~/'my events/*.json' ")
    assert "maria" not in told


@pytest.mark.parametrize("feed", ["frame", "staged"])
def test_a_run_on_a_dataframe_has_no_command(tmp_path: Path, feed: str) -> None:
    made = Made(tmp_path / "out", replace(SETTINGS, feed=feed, source="a DataFrame"))
    content = report_of(made.run)
    assert (content.origin.command, content.title) == (None, "Abnormal users")


def test_the_title_names_the_source_without_its_folder(made: Made) -> None:
    assert report_of(made.run).title == "Abnormal users in edits.json.gz"


def test_a_run_without_any_batch_is_reported_as_empty(tmp_path: Path) -> None:
    made = Made(tmp_path / "out")
    content = report_of(made.run)
    assert (content.total_findings, content.total_users, content.dead_letters.total) == (0, 0, 0)
    assert (content.origin.first_event_ms, content.origin.last_event_ms) == (None, None)
    assert "No findings" in made.run.report(tmp_path / "report.html").read_text()


def test_the_report_is_written_whole(made: Made, tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>"
    made.findings([unusual(hostile, -9), over("Anna", 20)])
    made.letters(["no_user"] * 2)
    page = made.run.report(tmp_path / "report.html").read_text()
    assert hostile not in page
    for said in (
        "Abnormal users in edits.json.gz",
        "2 findings",
        "no_user 1",
        "<svg",
        "kstoolkit run",
    ):
        assert said in page


def test_a_compacted_run_is_reported_alike(made: Made) -> None:
    from kstoolkit.changelog.compaction import compact

    write(made.out / "changelog", 1, {HOUR: {(TEN, "Bo", "read"): 4}})
    write(made.out / "changelog", 2, {HOUR: {(TEN, "Bo", "read"): 5}})
    made.findings([unusual("Bo", -9)])
    before = report_of(made.run)
    assert compact(made.out).batches_folded == 2
    after = report_of(made.run)
    assert json.dumps([vars_of(each) for each in after.findings]) == json.dumps(
        [vars_of(each) for each in before.findings]
    )


def vars_of(finding: Any) -> dict[str, Any]:
    series = finding.series
    plain = {name: getattr(finding, name) for name in finding.__slots__ if name != "series"}
    return plain | {"counts": np.asarray(series.counts).tolist()}
