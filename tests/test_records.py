"""Every record that people look at can be read, shown as HTML, tabulated and drawn, and agrees."""

from __future__ import annotations

import dataclasses
import pkgutil
import re
import warnings
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import unescape
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pytest
from matplotlib import pyplot as plt
from matplotlib_inline.backend_inline import _fetch_figure_metadata

import kstoolkit
from kstoolkit.errors import ConfigurationError
from kstoolkit.operations.lag import LagOfPartition, TopicLag
from kstoolkit.pipeline.batches import MicroBatch
from kstoolkit.plots.axes import beside_pyplot
from kstoolkit.plots.drawing import _DRAWN_BY, drawer
from kstoolkit.records import Figure, Record, Records, Source, Viewed, of_source
from kstoolkit.replica.windowstore import WindowStore
from kstoolkit.rocksdb.opening import open_store
from kstoolkit.views.records import label_of, printed
from kstoolkit.widgets.records import RecordPanel
from tests.plots.made import found as finding
from tests.plots.made import made_run
from tests.plots.realstores import compared, log_named, tight_store
from tests.stores.kafkastreams.archives import states

if TYPE_CHECKING:
    from collections.abc import Iterator


NO_PLOT = {
    **dict.fromkeys(
        ("OptionsSection", "LoggedOption", "SparkConf", "MetricName", "Advice", "AdviceList"),
        "words, not quantities",
    ),
    **dict.fromkeys(
        ("Level", "Sst", "HotPrefix", "MemoryTerm", "Flush", "Compaction", "Stall", "LevelStats"),
        "one row of several that are drawn together",
    ),
    **dict.fromkeys(
        (
            "LevelWork",
            "ExecutorMemory",
            "OptionDifference",
            "SegmentState",
            "FoundSegment",
            "Point",
        ),
        "one row of several that are drawn together",
    ),
    **dict.fromkeys(
        ("KeyUse", "PrefixUse", "WindowUse", "SegmentUse", "Age", "LevelUse"),
        "part of what growth draws",
    ),
    **dict.fromkeys(
        ("Horizon", "Expired", "Versions", "Deletions", "KeyCount", "RowEstimate", "CheckpointUse"),
        "one figure says it",
    ),
    "Mark": "what somebody said; a sentence says it",
    "Marks": "what people said; sentences say it",
    "ActionShare": "a share; the story's text says it",
    "ExpectedOf": "a range; the story's plot has it",
    "KindRecall": "a share of a few; the table says it",
    "Point": "one row of several that are drawn together",
    "MemoryInAll": "its plan is drawn, as that of one store is",
    **dict.fromkeys(
        ("CheckedStore", "Step", "Assignment", "Instance", "StateFolder"),
        "a table and sentences say it",
    ),
    "LoggedError": "its text says it",
    **dict.fromkeys(("EngineMetrics", "StoreMetrics"), "advice tells what of it matters"),
    "CapacityTerm": "one figure of a plan, which is drawn",
    "LoggedWork": "what trials are held against; its sentence says it",
    "Saving": "one step of a plan, which is drawn",
    "MemoryChange": "one option, of which the plan that it makes is drawn",
    "PodMemory": "its plan is drawn; what is beside that, a few lines say",
    "StoreRecords": "those of each store are drawn",
    "BackgroundJob": "what flushes and compactions share",
    "LogFile": "what is in the files is drawn, not how long they are",
    "LookupStatistics": "counts of one look-up; the table says them",
    "RestoreStep": "part of a history, which is drawn",
}
"""Records without a plot of their own, and why."""

LISTED = {"Rows", "StoreDiff"}
"""Views whose text goes on after its first line: with the first of their rows."""

BASES = {"Record", "Records"}


def classes() -> list[type[Viewed]]:
    for module in pkgutil.walk_packages(kstoolkit.__path__, "kstoolkit."):
        if not module.name.endswith(("__main__", "_pb2")):
            import_module(module.name)
    found: dict[str, type[Viewed]] = {}
    waiting: list[type[Viewed]] = [Viewed]
    while waiting:
        below = waiting.pop().__subclasses__()
        waiting += below
        found |= {f"{each.__module__}.{each.__qualname__}": each for each in below}
    return [found[name] for name in sorted(found) if name.startswith("kstoolkit.")]


def is_drawn(kind: type[Viewed]) -> bool:
    names = {each.__name__ for each in kind.__mro__}
    qualified = {name for name in _DRAWN_BY if f"{kind.__module__}.{kind.__name__}".endswith(name)}
    return bool(qualified or names & _DRAWN_BY.keys())


def is_drawn_together(thing: object) -> bool:
    try:
        return drawer(thing) is not None
    except ConfigurationError:
        return False


@pytest.mark.parametrize("kind", classes(), ids=lambda kind: kind.__name__)
def test_every_record_is_drawn_or_says_why_not(kind: type[Viewed]) -> None:
    exempt = BASES | NO_PLOT.keys()
    assert is_drawn(kind) != (kind.__name__ in exempt)
    assert hasattr(kind, "_repr_html_")
    assert hasattr(kind, "to_pandas") or kind.__name__ == "Run"


def test_no_plot_stands_for_a_class_that_is_gone() -> None:
    names = {each.__name__ for each in classes()}
    named = {re.sub(r"Records\[(\w+)\]", r"\1", each).rpartition(".")[2] for each in _DRAWN_BY}
    assert named <= names | {"Records"}
    assert NO_PLOT.keys() <= names


@pytest.fixture(scope="module")
def looked_at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Any]]:
    """What people look at: of a run, its replica, a store, its log, the lab, Kafka Streams."""
    folder = tmp_path_factory.mktemp("views")
    told = [MicroBatch(n, 0, 2.0, events=100 * n) for n in range(3)]
    run = made_run(
        folder / "out", findings=[finding()], batches=told, reasons=["no_time", "not_parsed"]
    )
    state = next(each for each in states("4.3.1") if str(each) == "own-4.3.1-clean")
    stores = kstoolkit.discover(state.directory(tmp_path_factory), look=True)
    window = next(each for each in stores if each.kind == "timestamped-window")
    history = kstoolkit.RestoreHistory()
    changelog, path = run.folder.path / "changelog", folder / "replica"
    WindowStore.restore(changelog, path=path, listener=history, progress=False).close()
    plan = kstoolkit.plan_memory(memtable_bytes=1 << 20, memtables=2, block_cache_bytes=8 << 20)
    capacity = kstoolkit.plan_capacity(rate=1e6)
    found: list[Any] = [
        plan,
        capacity,
        capacity.sweep("rate", [1e5, 1e6]),
        run,
        run.summary(),
        run.findings,
        run.findings[0],
        run.dead_letters,
    ]
    found += [run.batches(), run.history("Anna"), stores, kstoolkit.growth(window.path), history]
    read = LagOfPartition(topic="t", partition=7, end_offset=64, position=22, lag_records=42)
    found += [TopicLag(reader="group 'g9'", state="stable", at_ms=0, partitions=(read,))]
    found += [kstoolkit.evaluate(run.findings, pa.table({"user": [run.findings[0].user]}))]
    found += [compared(), log_named("rocksdb-10.1.3.log"), kstoolkit.profile_named("spark")]
    with (
        open_store(tight_store()) as store,
        kstoolkit.open_store(window.path) as opened,
        WindowStore.open(path) as replica,
    ):
        found += [store.levels(), store.ssts(), store.memory(), store.advice(), store.log()]
        found += [store.summary(), store.key_stats(), store.profile()]
        found += [opened.rows(), replica, replica.segments(), kstoolkit.metric_names()]
        yield [each for each in found if each is not None]


def with_inner(thing: Any) -> Iterator[Any]:
    """Yield a record, and the records in its fields and rows."""
    yield thing
    inner: list[Any] = []
    if isinstance(thing, Records):
        inner = list(thing)[:3]
    elif dataclasses.is_dataclass(thing):
        inner = [getattr(thing, each.name) for each in dataclasses.fields(thing)]
    for each in inner:
        if isinstance(each, Viewed):
            yield from with_inner(each)


def plain(html: str) -> str:
    """Return what a reader sees of HTML, in one line."""
    return " ".join(
        unescape(re.sub(r"<style>.*?</style>|<[^>]+>", " ", html, flags=re.DOTALL)).split()
    )


def facts(text: str) -> set[str]:
    """Return the numbers of a text, with what is written together with them."""
    return {word for word in re.findall(r"[\w.,%]*\w", text) if re.search(r"\d", word)}


def test_text_and_html_state_the_same_facts(looked_at: list[Any]) -> None:
    seen = [each for thing in looked_at for each in with_inner(thing)]
    assert len({type(each) for each in seen}) > 30
    for each in seen:
        text = repr(each)
        assert "\n" not in text or type(each).__name__ in LISTED
        shown = plain(each._repr_html_())
        assert facts(text.partition("(")[2]) <= facts(shown), (text, shown[:600])
        for figure in each.figures() if isinstance(each, Record) else ():
            assert facts(figure.text) <= facts(shown)


def test_each_can_be_tabulated_and_drawn(looked_at: list[Any]) -> None:
    for each in (inner for thing in looked_at for inner in with_inner(thing)):
        if type(each).__name__ != "Run":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # tables that are cut say so
                assert isinstance(each.to_pandas(), pd.DataFrame)
        of = each[0] if isinstance(each, Records) and len(each) else each
        if type(of).__name__ in NO_PLOT and not is_drawn_together(each):
            continue
        with beside_pyplot():
            axes = drawer(each)(each, ax=None)
        assert axes.get_title(loc="left")
        axes.figure.canvas.draw()
        told = _fetch_figure_metadata(axes.figure)  # type: ignore[no-untyped-call]
        assert told is None  # no card is laid beneath it on a dark page
    assert not plt.get_fignums()


def test_each_has_a_panel_with_its_figures_in_words_of_people(looked_at: list[Any]) -> None:
    for each in (inner for thing in looked_at for inner in with_inner(thing)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # tables that are cut say so
            with RecordPanel(each) as panel:
                shown = plain(panel.static_html())
        assert not re.search(r"\b[A-Z][a-z]\w+\([a-z_]*[=']", shown), shown[:600]
        assert not re.search(r"\bb'|\bNone\b|\bnan\b|\bNaT\b", shown), shown[:600]
        for figure in each.figures() if isinstance(each, Record) else ():
            if isinstance(figure.value, int | float) and not isinstance(figure.value, bool):
                assert printed(figure.value, figure.name) in shown, figure
            if figure.value is None:
                assert label_of(figure.name) in shown
                assert figure.text in shown


@dataclass(frozen=True, slots=True)
class Part(Record):
    name: str
    size_bytes: int | None = of_source(Source.STORE)
    stalls: int | None = of_source(Source.LOG, None)
    at: datetime | None = None
    unknown: dict[str, str] = field(default_factory=dict)


PART = Part("<b>", 2048, None, datetime(2026, 3, 1, tzinfo=UTC), {"stalls": "level ERROR"})


def test_figures_tell_value_source_and_why_they_are_unknown() -> None:
    assert [str(each) for each in PART.figures()] == [
        "size_bytes: 2.0 KiB (store on disk)",
        "stalls: unknown (level ERROR)",
    ]
    rows = PART.to_pandas().to_dict("records")
    assert rows[0] == {
        "figure": "size_bytes",
        "value": 2048,
        "source": "store on disk",
        "why_unknown": None,
    }
    assert rows[1]["why_unknown"] == "level ERROR"


def test_plain_values_are_what_json_takes() -> None:
    assert PART.to_dict() == {
        "name": "<b>",
        "size_bytes": 2048,
        "stalls": None,
        "at": "2026-03-01T00:00:00+00:00",
        "unknown": {"stalls": "level ERROR"},
    }


def test_html_says_the_same_and_escapes() -> None:
    page = PART._repr_html_()
    assert "2.0 KiB" in page
    assert "unknown (level ERROR)" in page
    assert "store on disk" in page
    assert "<b>" not in page


def test_records_are_a_sequence_and_a_table() -> None:
    parts = Records([PART, Part("b", 1)], "parts")
    assert (len(parts), parts[1].name, [each.name for each in parts[:1]]) == (2, "b", ["<b>"])
    assert repr(parts) == "Records(2 parts)"
    assert parts.to_pandas()["size_bytes"].tolist() == [2048, 1]
    assert "store on disk" in parts._repr_html_()
    assert "<b>" not in parts._repr_html_()


def test_one_record_is_named_in_the_singular() -> None:
    assert repr(Records([PART], "SST files")) == "Records(1 SST file)"
    assert repr(Records([], "prefixes")) == "Records(0 prefixes)"


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("start_ms", 1_700_005_380_000, "2023-11-14 23:43:00 UTC"),
        ("updated_at_ms", 1_500, "1970-01-01 00:00:01.500 UTC"),
        ("end_ms", -1_000, "1969-12-31 23:59:59 UTC"),
        ("stream_time_ms", 2**63 - 1, "9,223,372,036,854,775,807"),
        ("retention_ms", 86_400_000, "86,400,000"),
        ("duration_ms", 1_700, "1,700"),
    ],
)
def test_moments_are_shown_as_times_and_lengths_of_time_are_not(
    name: str, value: int, text: str
) -> None:
    assert Figure(name, value, Source.STORE).text == text
