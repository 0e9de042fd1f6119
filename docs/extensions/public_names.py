"""The reference of every public name: one page a group, and the records that its names return.

A name without a group, or a group with a name that is gone, fails the build.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from written import write

import kstoolkit
from kstoolkit import errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sphinx.application import Sphinx


@dataclass(frozen=True, kw_only=True)
class Group:
    """A page of names: what it is about, and whatever of its names lives outside the package."""

    title: str
    text: str
    names: tuple[str, ...]
    elsewhere: tuple[str, ...] = ()


GROUPS = {
    "counting": Group(
        title="Count",
        text="A pipeline, what it reads, the windows it counts in, and the run that it leaves.",
        names=(
            *("Pipeline", "Run", "load_run", "Cascade", "Hop", "Session"),
            *("files", "frame", "simulate", "read_counts", "BatchOutput", "Restart", "doctor"),
        ),
    ),
    "finding": Group(
        title="Find",
        text="Rules, and what is done with what they find.",
        names=(
            *(
                "Ceiling",
                "Unusual",
                "Drift",
                "TooEven",
                "Campaign",
                "Distinct",
                "Longer",
                "Budget",
                "Exempt",
            ),
            "load_rules",
            "find",
            "what_if",
            "evaluate",
            "plot_users",
        ),
    ),
    "dataframes": Group(
        title="In your own Spark session",
        text="Functions of DataFrames, batch or streaming.",
        names=("count_windows", "count_sessions", "count_sliding", "ask_unless", "Lookup"),
        elsewhere=("kstoolkit.pipeline.session.spark_session",),
    ),
    "kafka": Group(
        title="Kafka",
        text="Topics as sources, as changelogs, and as stores.",
        names=(
            *("kafka_topic", "kafka_changelog", "kafka_findings", "produce", "ensure_topic"),
            "open_topic",
        ),
        elsewhere=("kstoolkit.kafka.broker.Broker", "kstoolkit.pipeline.topicfeed.with_connector"),
    ),
    "replicas": Group(
        title="Replicas",
        text="A changelog in RocksDB, for point queries without Spark.",
        names=("WindowStore", "RestoreHistory"),
    ),
    "stores": Group(
        title="Stores",
        text="Any store of Kafka Streams', Spark's or kstoolkit's: found, decoded, compared.",
        names=("discover", "open_store", "growth", "diff_stores", "export"),
    ),
    "rocksdb": Group(
        title="RocksDB",
        text="Logs, memory, options, and trying options on a workload.",
        names=(
            *("read_log", "plan_memory", "Profile", "ProfileMap", "profile_named"),
            *("bounded_memory", "Workload", "compare_profiles", "metric_names"),
        ),
    ),
    "operating": Group(
        title="Operate",
        text="How a run or a group stands, what it takes, and how it is set back.",
        names=(
            *("alertmanager", "webhook", "load_alerts"),
            *("assignment", "checkup", "lag", "reset", "serve_metrics", "spark_memory"),
            *("plan_capacity", "read_metrics", "read_progress"),
        ),
    ),
    "looking": Group(
        title="Panels and reports",
        text="What is looked at in JupyterLab, and what is handed on.",
        names=(
            *("explore", "FindingsPanel", "RunMonitor", "StorePanel", "MemoryPanel"),
            *("CompactionLab", "ProfilePanel", "Report"),
        ),
        elsewhere=("kstoolkit.magics.PanelMagics",),
    ),
}

NOT_SHOWN = ("kstoolkit.formats.spark", "kstoolkit.formats.columns")
"""Of what is returned, the parts that the page of formats tells of."""

WITHOUT_A_PAGE = {"__version__"}
FOLDER = Path(__file__).parents[1] / "reference" / "names"


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before any page is read."""
    app.connect("builder-inited", lambda _: write_pages(FOLDER))
    return {"parallel_read_safe": True}


def write_pages(folder: Path) -> None:
    """Write a page a group, and one of errors, where they are not the same already."""
    check_groups()
    for stem, text in [*group_pages(), ("errors", errors_page())]:
        write(folder / f"{stem}.rst", text)


def check_groups() -> None:
    """Raise if a public name has no group, or a group has a name that is not public."""
    grouped = {name for group in GROUPS.values() for name in group.names}
    if wrong := grouped ^ (set(kstoolkit.__all__) - WITHOUT_A_PAGE):
        message = f"In docs/extensions/public_names.py and kstoolkit alike should be {wrong}."
        raise ValueError(message)


def group_pages() -> Iterator[tuple[str, str]]:
    """Yield each group's page; a record stands where it is reached first."""
    shown = {id(getattr(kstoolkit, name)) for group in GROUPS.values() for name in group.names}
    for stem, group in GROUPS.items():
        records = reached([getattr(kstoolkit, name) for name in group.names], shown)
        places = [*(f"kstoolkit.{name}" for name in group.names), *group.elsewhere]
        yield stem, page(group.title, group.text, places, records)


def page(title: str, text: str, places: Iterable[str], records: Iterable[type]) -> str:
    """Return a page: the names, then the records."""
    parts = [heading(title, "="), text, *map(directive, places)]
    paths = sorted(f"{each.__module__}.{each.__qualname__}" for each in records)
    if paths:
        parts += [heading("What they return", "-"), "To be asked, not to be made by hand."]
        parts += map(directive, sorted(paths, key=lambda path: path.rpartition(".")[2].lower()))
    return "\n\n".join(parts) + "\n"


def errors_page() -> str:
    """Return the page of everything that is raised on purpose."""
    text = "Each message says what happened, with which value, and what to do."
    kinds = [each for each in vars(errors).values() if ours(each) and issubclass(each, Exception)]
    places = [f"kstoolkit.errors.{each.__name__}" for each in kinds]
    return page("Errors", text, places, [])


def heading(text: str, line: str) -> str:
    """Return a heading."""
    return f"{text}\n{line * len(text)}"


def directive(path: str) -> str:
    """Return what documents one name."""
    module, _, name = path.rpartition(".")
    value = getattr(import_module(module), name)
    if not inspect.isclass(value):
        return f".. autofunction:: {path}"
    bases = "" if value.__bases__ == (object,) else "\n   :show-inheritance:"
    return f".. autoclass:: {path}\n   :members:{bases}"


def reached(start: list[Any], shown: set[int]) -> list[type]:
    """Return the classes that can be reached from what is public, and mark them as shown."""
    found: list[type] = []
    waiting = list(start)
    while waiting:
        for each in told(waiting.pop(0)):
            if id(each) not in shown and not each.__module__.startswith(NOT_SHOWN):
                shown.add(id(each))
                found.append(each)
                waiting.append(each)
    return [each for each in found if not issubclass(each, Exception)]


def told(of: Any) -> Iterator[type]:
    """Yield the classes that a function returns, or that a class is made of and returns."""
    if not inspect.isclass(of):
        function = inspect.unwrap(getattr(of, "fget", None) or getattr(of, "__func__", of))
        if inspect.isfunction(function):
            yield from named_in(function.__annotations__.get("return"), function.__module__)
        return
    yield from filter(ours, of.__mro__[1:])
    for name, annotation in vars(of).get("__annotations__", {}).items():
        if not name.startswith("_"):
            yield from named_in(annotation, of.__module__)
    for name, member in vars(of).items():
        if not name.startswith("_") or name in {"__iter__", "__getitem__", "__enter__"}:
            yield from () if inspect.isclass(member) else told(member)


def named_in(annotation: Any, module: str) -> Iterator[type]:
    """Yield this package's public classes in an annotation, as the source writes it."""
    if not isinstance(annotation, str):
        return
    for node in ast.walk(ast.parse(annotation, mode="eval")):
        if isinstance(node, ast.Name):
            value = value_of(node.id, module)
            yield from filter(ours, [value] if inspect.isclass(value) else get_args(value))


def ours(value: Any) -> bool:
    """Return whether this is a public class of the package."""
    if not inspect.isclass(value) or value.__name__.startswith("_"):
        return False
    return value.__module__.startswith("kstoolkit")


def value_of(name: str, module: str) -> Any:
    """Return what a name means in a module, imports for types alone included."""
    here = vars(sys.modules[module])
    if name in here:
        return here[name]
    where = imports_of(module).get(name)
    return None if where is None else getattr(import_module(where[0]), where[1], None)


@functools.cache
def imports_of(module: str) -> dict[str, tuple[str, str]]:
    """Return where a module's names of this package come from."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    return {
        alias.asname or alias.name: (str(node.module), alias.name)
        for node in found
        for alias in node.names
        if str(node.module).startswith("kstoolkit")
    }
