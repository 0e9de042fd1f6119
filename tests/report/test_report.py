from __future__ import annotations

import platform
import re
import warnings
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from rocksdict import Options, Rdict

import kstoolkit as kst
from kstoolkit.errors import ConfigurationError, LargeReportWarning, OutputError
from kstoolkit.pipeline.batches import Batches, RunSummary
from kstoolkit.records import Record, Records, Source, of_source
from kstoolkit.report.report import Report
from kstoolkit.rocksdb.memory.planning import plan_memory
from kstoolkit.rocksdb.profiles.named import profile_named
from kstoolkit.views.parts import source
from kstoolkit.views.records import label_of, printed, told_of
from tests.findings.made import CEILING, HOUR, START, UNKNOWN, finding, findings
from tests.report.made import made_run
from tests.report.pages import HOSTILE, Page, check_harmless

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kstoolkit.pipeline.run import Run


@dataclass(frozen=True, slots=True)
class Size(Record):
    """A record as others are."""

    path: str
    disk_bytes: int | None = of_source(Source.STORE)
    start_ms: int = of_source(Source.STORE, START)
    unknown: dict[str, str] = field(default_factory=dict)


GONE = Size("a", None, unknown={"disk_bytes": "the folder is gone"})
THREE_MIB = Size("b", 3 << 20, START + HOUR)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run with a bit of everything."""
    return made_run(tmp_path / "out")


def page_of(thing: Any, **options: Any) -> Page:
    page = Page(Report("Told").add(thing, **options).html())
    check_harmless(page)
    return page


def drawn(title: str = "Two points", **options: Any) -> Figure:
    figure = Figure(figsize=(4, 2), **options)
    figure.add_subplot().plot([1, 2], label="a line")
    figure.axes[0].set_title(title)
    return figure


def test_the_package_has_it_at_hand() -> None:
    assert kst.Report is Report


def test_things_are_added_in_a_chain_and_shown_in_order(tmp_path: Path) -> None:
    report = Report("Edits").add("First.").add(THREE_MIB, title="Second").add(drawn("Third"))
    path = report.write(tmp_path / "report.html")
    page = Page(path.read_text(encoding="utf-8"))
    places = [page.text.index(each) for each in ("First.", "3.0 MiB", "Data from2015")]
    assert path == tmp_path / "report.html"
    assert places == sorted(places)
    assert re.findall('href="#([^"]*)"', page.html)[:3] == ["size", "plot", "origin"]


def test_text_becomes_paragraphs_and_no_entry_of_the_contents() -> None:
    page = page_of("One < two.\n\nAnd\nmore.")
    assert "<p><bdi>One &lt; two.</bdi></p><p><bdi>And more.</bdi></p>" in page.html
    assert [tag for tag, _ in page.elements].count("li") == 1


@pytest.mark.parametrize("record", [GONE, THREE_MIB])
def test_a_record_states_the_facts_of_its_text(record: Size) -> None:
    page = page_of(record)
    assert "unknown={" not in page.text
    for figure in record.figures():
        why = figure.text.removeprefix("unknown (").removesuffix(")")
        name, known = label_of(figure.name), f"{label_of(figure.name)}{figure.text}"
        assert (f"{name}: {why}" if figure.value is None else known) in page.text
    assert "Source: store on disk, where no other is named." in page.text
    assert f"Path{record.path}" in page.text


@pytest.mark.parametrize(
    "record", [plan_memory("kafka_streams", stores=3), profile_named("kafka_streams")]
)
def test_real_records_state_the_facts_of_their_text(record: Any) -> None:
    page = page_of(record)
    figures = record.figures() if isinstance(record, Record) else []
    assert "block_cache_bytes=" not in page.text
    told = [
        printed(each.value, each.name) if each.why_unknown is None else each.why_unknown
        for each in figures
    ]
    assert [each for each in told if each not in page.text] == []


def test_what_a_record_holds_several_of_has_tables_of_its_own() -> None:
    plan = plan_memory("kafka_streams", stores=3)
    page = page_of(plan)
    ids = page.values("id")
    assert "terms" in ids
    assert all(term.term in page.text for term in plan.terms)


def test_several_records_are_a_table_with_why_a_figure_is_unknown() -> None:
    page = page_of(Records([GONE, THREE_MIB], "sizes"))
    assert "2 sizes." in page.text
    assert "aunknown" in page.text
    assert "1 figure unknown, and whyDisk: the folder is gone" in page.text
    assert "3.0 MiB" in page.text
    assert "Source: store on disk." in page.text


def test_no_records_say_that_there_are_none() -> None:
    assert "No sizes." in page_of(Records((), "sizes")).text


def test_of_many_rows_the_first_are_shown_and_all_are_counted() -> None:
    many = Records([THREE_MIB] * 60, "sizes")
    frame = pd.DataFrame({"n": range(60)})
    for thing, kind in ((many, "sizes"), (frame, "rows"), (pa.table({"n": range(60)}), "rows")):
        page = page_of(thing)
        assert f"First 50 of 60 {kind} shown." in page.text
        assert [tag for tag, _ in page.elements].count("tr") == 51
        assert f"First 7 of 60 {kind} shown." in page_of(thing, limit=7).text
        assert f"60 {kind}." in page_of(thing, limit=60).text


def test_findings_are_told_with_their_sentences_and_their_time() -> None:
    found = findings(finding(), finding(**CEILING | UNKNOWN, user="Anna", count=500))
    page = page_of(found)
    assert told_of(found) in page.text
    for each in found:
        assert each.sentence in page.text
    assert "unknown (ceiling 100)" in page.text
    assert "Data from 2015-09-12 10:00 to 11:00 UTC" in page.text
    assert "2 findings, most abnormal first." in page.text
    assert "Top 1 of 2 findings shown" in page_of(found, limit=1).text


def test_no_findings_say_so() -> None:
    assert "No findings: no count crossed the line of any rule." in page_of(findings()).text


def test_one_finding_is_its_sentence_and_its_evidence() -> None:
    page = page_of(finding(other_levels={"1 day": 900}))
    for said in (finding().sentence, "3 in 10⁹", "1 day 900", "ruleUnusual 1 hour"):
        assert said in page.text


def test_a_summary_states_its_rows() -> None:
    summary = RunSummary.of(Batches.of([]), None)
    page = page_of(summary)
    assert told_of(summary) in page.text
    assert [what for what, figure in summary.rows() if f"{what}{figure}" not in page.text] == []


def test_a_table_shows_values_as_people_write_them() -> None:
    moments = pd.to_datetime(np.array([START, np.nan]), unit="ms", utc=True)
    frame = pd.DataFrame(
        {
            "window_start": moments,
            "size_bytes": [1536, 2048],
            "share": [0.123456, np.nan],
            "raw": [b"\x00a", None],
            "tags": [["a", "b"], []],
            "is_late": [True, False],
        },
        index=pd.Index(["anna", "bo"], name="user"),
    )
    page = page_of(frame)
    said = ("anna", "2015-09-12 10:00:00 UTC", "1.5 KiB", "12 %", "0061", "a, b", "yes")
    assert "".join(said) in page.text
    assert "bonone2.0 KiBnonenonenoneno" in page.text
    assert "Data from 2015-09-12 10:00 UTC" not in page.text
    assert "Data from2015-09-12 10:00 UTC" in page.text


def test_a_table_that_nobody_named_is_called_by_its_columns() -> None:
    frame = pd.DataFrame([range(5)], columns=["user", "<b>", "x" * 99, "d", "e"])
    report = Report("Told").add(frame).add(frame, title="Counts")
    first, second = (part.title for part in report._parts)
    assert second == "Counts"
    assert first.startswith("Table of user, <b>, xxxx")
    assert first.endswith(" and 2 more")
    assert len(first) < 100
    assert "&lt;b&gt;" in report.html()
    check_harmless(Page(report.html()))


def test_an_arrow_table_is_shown_alike_even_where_pandas_has_no_such_year() -> None:
    far = pa.array([-62_135_596_800_000, 0], pa.timestamp("ms", tz="UTC"))
    page = page_of(pa.table({"at": far, "user": ["anna", None]}))
    assert "0001-01-01 00:00:00 UTCanna" in page.text
    assert "1970-01-01 00:00:00 UTCnone" in page.text


def test_moments_of_years_without_a_date_are_shown_as_numbers() -> None:
    far = pa.array([2**60], pa.timestamp("ms", tz="UTC"))
    assert f"{2**60} ms" in page_of(pa.table({"at": far})).text


def test_the_call_does_not_tell_whose_home_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    store = Rdict(str(tmp_path / "counts"), Options(raw_mode=True))
    store.close()
    page = page_of(tmp_path / "counts")
    assert "kst.Report('Told').add(Path('~/counts'))" in page.text


def test_a_wide_table_is_shown_in_blocks_that_fit_a_sheet() -> None:
    frame = pd.DataFrame({f"a column of number {n}": [f"cell {n}"] for n in range(12)})
    page = page_of(frame)
    captions = re.findall("<caption>(.*?)</caption>", page.html)
    assert len(captions) > 1
    assert captions[0].startswith("1 row; columns 1 to ")
    assert captions[-1].endswith(" to 12 of 12.")
    assert all(f"cell {n}" in page.text for n in range(12))


def test_columns_with_nothing_in_them_are_named_and_not_drawn() -> None:
    page = page_of(pd.DataFrame({"user": ["anna", "bo"], "detail": [None, None]}))
    assert "useranna" in page.text
    assert "The same in all these rows: detail none." in page.text


def test_of_very_many_columns_the_rest_is_announced() -> None:
    page = page_of(pd.DataFrame([range(300)]))
    assert "of 300, 180 more left out" in page.text


@pytest.mark.parametrize(
    "frame", [pd.DataFrame(), pd.DataFrame({"a": []}), pa.table({}), pa.table({"a": []})]
)
def test_an_empty_table_is_shown_as_empty(frame: Any) -> None:
    text = page_of(frame).text
    assert "A table without columns." in text or "0 rows." in text


def test_columns_of_one_name_and_of_several_levels_are_all_shown() -> None:
    frame = pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "x"), ("a", "x")]))
    assert page_of(frame, title="Levels").text.count("a x") == 2


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text_in_every_kind_of_thing(text: str) -> None:
    record = Size(text, None, unknown={"disk_bytes": text})
    frame = pd.DataFrame({text: [text]}, index=pd.Index([text], name=text))
    utf8 = text.encode("utf-8", "replace").decode()
    shown = utf8.replace("$", "\\$")
    report = Report(text, command=text)
    report.add(text).add(record).add(Records([record], text)).add(frame).add(drawn(shown))
    report.add(pa.table({utf8: [utf8]})).add(findings(finding(user=utf8, action=utf8, rule=utf8)))
    report.add(finding(user=text, action=text)).add(THREE_MIB, title=text, text=text)
    html = report.html()
    page = Page(html)
    check_harmless(page)
    html.encode()
    assert not set("\x00\x07\x1b\u202e\u2066") & set(html)
    for markup in ("<script", "<img", "]]>", "<!--"):
        assert markup not in html
    assert "<script" not in report._repr_html_()


def test_a_very_long_text_loses_its_middle_and_says_so() -> None:
    page = page_of(pd.DataFrame({"user": ["x" * 10_000]}))
    assert "9,700 characters left out" in page.text
    assert len(page.text) < 5_000


def test_each_id_is_given_once(run: Run) -> None:
    report = Report("Twice")
    for _ in range(2):
        report.add(run).add(drawn()).add(THREE_MIB)
    page = Page(report.html())
    check_harmless(page)
    assert {"summary", "summary-2", "user-1", "user-1-2"} <= set(page.values("id"))


def test_a_run_beside_other_things_keeps_its_sections_below_its_title(run: Run) -> None:
    page = Page(Report("Both").add(run).add(THREE_MIB).html())
    check_harmless(page)
    levels = [(tag, attrs.get("id")) for tag, attrs in page.elements if tag in {"h2", "h3", "h4"}]
    assert levels[:3] == [("h2", "run-title"), ("h3", "incidents-title"), ("h3", "users-title")]
    assert ("h4", "user-1-title") in levels
    assert "1 incident · 2 users scored" in page.text


def test_the_time_is_that_of_all_things_together() -> None:
    page = Page(Report("Both").add(findings(finding())).add(THREE_MIB).add("text").html())
    assert "Data from 2015-09-12 10:00 to 11:00 UTC" in page.text
    assert "Data to2015-09-12 11:00 UTC" in page.text


def test_without_a_time_the_page_says_when_it_was_made() -> None:
    page = Page(Report("Now").add("text").html())
    assert f"Made {datetime.now(UTC):%Y-%m-%d}" in page.text
    assert "Data from" not in page.text


def test_versions_and_the_call_are_told_and_those_of_a_run_if_there_is_one(run: Run) -> None:
    page = Page(Report("It's").add("some text").add(THREE_MIB).html())
    assert f"kstoolkit{kst.__version__}" in page.text
    assert f"Python{platform.python_version()}" in page.text
    assert "Spark" not in page.text
    assert """kst.Report("It's").add('some text').add(Size)""" in page.text
    both = Page(Report("x", command="make it").add(run).add("more").html())
    assert "PySpark" in both.text
    assert "Made by make it" in both.text


def test_the_line_names_the_parts_and_html_states_the_same() -> None:
    report = Report("Edits").add("text").add(findings())
    assert repr(report) == "Report('Edits', 2 parts: Text, Findings)"
    page = Page(report._repr_html_())
    assert repr(report) in page.text
    assert repr(Report("None")) == "Report('None', 0 parts)"
    assert repr(Report("a\nb").add(THREE_MIB, title="c\nd")).count("\n") == 0


def test_a_title_is_that_of_what_it_holds_if_none_is_given(run: Run) -> None:
    report = Report().add(run)
    assert "<h1><bdi>Abnormal users in edits.json.gz</bdi></h1>" in report.html()
    assert (
        "<h1><bdi>Abnormal users in edits.json.gz, Size</bdi></h1>" in report.add(THREE_MIB).html()
    )
    assert "<h1><bdi>Report</bdi></h1>" in Report().html()


def test_a_thing_is_shown_as_it_was_when_it_was_added() -> None:
    frame = pd.DataFrame({"user": ["anna"]})
    report = Report("Then").add(frame)
    frame.loc[0, "user"] = "bo"
    assert "anna" in report.html()


def test_a_large_report_is_announced_with_its_largest_part(tmp_path: Path) -> None:
    frame = pd.DataFrame({"user": ["x" * 30] * 70_000})
    report = Report("Large").add("small").add(frame, title="All users", limit=70_000)
    with pytest.warns(LargeReportWarning, match="takes .* MB; its largest part, 'All users'"):
        path = report.write(tmp_path / "report.html")
    assert path.stat().st_size > 5_000_000
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report.write(path, max_bytes=None)
        Report("Small").add(frame).write(path)


def test_a_path_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="missing"):
        Report("x").write(tmp_path / "missing" / "report.html")


def spark_like() -> Any:
    kind = type("DataFrame", (), {"__module__": "pyspark.sql.dataframe"})
    return kind()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: Report("x").add(object()), "can't show a object of builtins"),
        (lambda: Report("x").add(None), "can't show a NoneType"),
        (lambda: Report("x").add(spark_like()), r"limit\(1_000\)\.toPandas\(\)"),
        (lambda: Report("x").add(kst.Cascade("1 hour")), "can't show a Cascade"),
        (lambda: Report("x").add("text", limit=0), "limit is 0"),
        (lambda: Report("x").add("text", title=3), "title .* is 3"),  # type: ignore[arg-type] # the point
        (lambda: Report(b"x"), "which is no text"),  # type: ignore[arg-type] # the point
    ],
)
def test_what_makes_no_sense_is_said(wrong: Callable[[], Report], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        wrong()


def test_a_page_has_rules_for_paper_and_for_the_dark() -> None:
    html = Report("x").add(THREE_MIB).html()
    style = html[html.index("<style>") : html.index("</style>")]
    assert "@page" in style
    assert "size: A4" in style
    assert re.search(r"@media screen and \(prefers-color-scheme: dark\)\s*{\s*:root", style)
    assert 'name="color-scheme" content="light dark"' in html


def test_every_variable_has_a_value_in_the_light_and_in_the_dark(run: Run) -> None:
    html = Report("x").add(run).html()
    style = html[html.index("<style>") : html.index("</style>")]
    light = "".join(re.findall(r"(?:^|>):root {([^}]*)}", style, re.MULTILINE))
    dark = "".join(re.findall(r"dark\)\s*{\s*:root {([^}]*)}", style))
    view = source("view.css")  # whose variables it sets itself, wherever it is
    used = set(re.findall(r"var\((--\w+)\)", html.replace(view, ""))) - {"--width"}
    assert {name for name in used if f"{name}:" not in light} == set()
    assert {name for name in used if f"{name}:" not in dark} == set()


def test_no_figure_of_a_report_stays_with_pyplot() -> None:
    before = plt.get_fignums()
    Report("x").add(findings(finding())).add(plan_memory("spark", stores=2))
    assert plt.get_fignums() == before
