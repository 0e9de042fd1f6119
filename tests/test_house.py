"""The house's plan: how large it may be, which room may know which, where large packages live.

A ceiling may be raised by a figure, with its reason beside it.
"""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(__file__).parents[1] / "kstoolkit"

MOST_MODULES = 284
"""They were 240. By which laws simulated users act, what findings are worth by labels, what no
single count shows, how many different items there were, whether a cell has a rhythm of the day, and
how rules stand in files, are questions of their own; so is how an application is in all. What is
one incident, what people say of it, a user's story, what goes out of it, what other rules would
have told, by which rules a run judges as they change, and what a topic is told of incidents, are
eight; how many machines, what traffic comes to, their plots, and what a log tells again, four. What
panels show is a room of seven, with the panels of any record and of capacity; what fits a limit of
memory, and what figures are called, are two; what a report says of a user, and how
it draws time, are two; how Java starts sooner, and what is leant on inside Spark, are two;
with what local workers start is one, and what Spark's planners load of feeds; which files were
taken in, and what cells with an event or two add, are two. Two that few had asked for stand with
their neighbours."""
MOST_LINES = 87_149
MOST_LINES_OF_CODE = 52_796
"""They were 75,000 and 40,000. Counts that hold whatever files, clocks and neighbours do took 400
lines more than were saved: what tells a fault from damage and what a file held, reads logs' times,
folds batches in tiers, and has counts come out as DataFrames. Actions of several parts took 1,500:
a room's module of their own, and in each room the edge at which parts are columns. That findings
are the same whatever way events take, and hold their budget in worlds of other laws, took 800:
windows are closed, sums of all users are told, and it is counted what surprise is worth. What
lasts, crowds of newcomers, one budget for all rules, and users ranked among the nearest others took
500 lines of code; 1,650 lines of words that said a thing twice went. How many different items a
user touched, and peers of one kind alone, took 350. A rhythm of the day took 130 lines of code, for
which more lines of words went. That a profile tells what was set, and why, apart from what is left,
took 200. How an application is in all, what its engine tells of it, memory by column family and for
a pod, errors in logs, who reads what in a group, and files that are held open took 2,600, and lines
of words in the other rooms went for them. From findings to incidents, their marks, alerts, stories,
rules that change, what other rules would have told, what recurs, and what a topic is told, it is
3,030, for which 1,400 went in all rooms. How many machines a stream of events takes, what its
counters come to by a law of users or a run, and what a store's log tells again to the lab, it is
1,475; what it tells of values, commits and options beside, 62, and 170 of words went; that reports
tell advice first and whole, 26. Scripts and styles count since then: the reports' style is 129
lines. What draws tables and strips in a browser took 864 lines, what they are made of 430, any
record as such 200, a run as tiles 140, that focus, choice and course outlast its ticks 80; for them
the controls that stood there before went, panel by panel, and the plots that reports no longer
draw. A tree, forms, tabs, bars against a limit, courses with one line through them, and texts to
copy took 430 in the browser, stores as views of them 440, the effects of options 52, what fits a
limit 110; 524 that were there twice went in all rooms. That Java starts from an archive of its
classes took 175 lines, that a little is laid beside large segments, and many segments of little
share blocks, 120, what is leant on inside Spark and done without it 180, that large files are read
in parts 160. That Java is asked for no block twice took 70, that baselines are written where they
changed 90, that what all users told is added up and judged in tasks 60, for which as many words
went that told lists of what only kstoolkit calls; with what local workers start 35; blocks of
narrow integers, and that older ones are read, 70, what is alike summed as one 20; what was asked
once stands where it was asked, which took 400 away; that files which were all counted need no Java
took 40, that Spark's planners load little 40, and 290 went, most of them blank, or one name each;
980 more in all rooms but two: what always got one value, what was there already, what was asked
once, options of one command behind its name, and lists of names that were imported one a line;
two for findings that are as they are stored, which were cast to what they are 17 times a choice;
three that the panel of findings appears before Arrow makes its first array, which loads pandas;
forty that a panel appears before what it reads with is loaded and its picture waits for what it
read, and that rows of a table stay where only which is chosen changes; 30 that tables keep their
figures where there is little room, and that what was asked of a panel waits for what it reads; 85
that tables say which of how many rows they hold and where from, fold what is unknown of all, that
time has seconds, what expired in a kept segment a colour, and small screens pictures of their own;
100 that weeks of windows teach together, and no rhythm is looked for where there can be none; 50
that the column which names a row gives way last, and a row is told whole where there is no room;
190 that files are looked up on disk and listed one by one, and no memory grows with them; 140 that
cells with an event or two are looked at as a histogram; 80 that days of few counters close
together, and looks at few cells are added up so; 65 that no listing goes on for ever, no file is
lost where the system fails for a moment, and what was given up or has moved is looked up, however
much; eight that what workers hold lies in large pages.
Code was less by some 2,070 lines as long as a blank line in a docstring counted twice."""
MOST_IMPORTS = 1_477
"""Between modules, as a module is imported: types alone and imports inside functions apart. It was
1,100; three new rooms for what a file held, what comes out, and what is tidied, have 16 doors, and
what was written out in several places is now imported from one. Actions of several parts have one
room's module with 20 doors; the laws of worlds, and labels, have 13, what lasts 11; sketches of
items and rules in files have 14, rhythms three, what engines leave two, names in a story one, plans
of capacity and replays 22, the parts of views, and any record as
such, 50; the ledger of files, apart from what they hold, and the histogram of cells, 10."""

FLOOR = {"errors", "markup", "moments", "records", "units", "windows"}
WORK = {"environment", "formats", "counters", "changelog", "findings", "events", "pipeline"}
WORK |= {"rocksdb", "replica", "stores", "kafka", "operations"}

MAY_IMPORT = {
    "errors": set[str](),
    "markup": set[str](),
    "units": {"errors"},
    "moments": {"errors"},
    "records": {"markup", "moments", "units"},
    "environment": {"errors", "units"},
    "windows": {"errors", "units"},
    "formats": {"errors", "moments", "units"},
    "counters": FLOOR | {"formats"},
    "changelog": FLOOR | {"formats", "counters"},
    "findings": FLOOR | {"formats"},
    "events": FLOOR | {"formats"},
    "pipeline": FLOOR
    | {"environment", "formats", "counters", "changelog", "findings", "events", "kafka"},
    "rocksdb": FLOOR - {"windows"},
    "replica": FLOOR | {"formats", "counters", "changelog", "rocksdb"},
    "stores": FLOOR | {"formats", "counters", "changelog", "rocksdb", "replica"},
    "kafka": FLOOR | {"environment", "formats", "counters", "changelog", "events"},
    "operations": FLOOR | WORK,
    "plots": FLOOR | WORK,
    "views": FLOOR | WORK,
    "report": FLOOR | WORK | {"plots", "views"},
    "widgets": FLOOR | WORK | {"plots", "views"},
    "magics": FLOOR | WORK | {"plots", "report", "widgets"},
    "cli": FLOOR | WORK | {"plots", "report", "widgets"},
    "__main__": {"cli"},
}
"""Which rooms each room may import from, beside itself."""

READS = {"faults", "files"}

MAY_IMPORT_IN_ROCKSDB = {
    "faults": set[str](),
    "metricnames": set[str](),
    "files": {"faults"},
    "log": READS,
    "profiles": READS,
    "memory": READS | {"profiles"},
    "advice": READS | {"log", "profiles", "memory"},
    "lab": READS | {"log", "profiles"},
    "store": READS | {"log", "profiles", "memory", "advice"},
    "opening": READS | {"store"},
}
"""The same for the rooms inside the largest of them; what is imported for types alone is free."""

JOINS = {
    ("kstoolkit.records", "plots"),  # record.plot() draws any record that there is a plot of
    ("kstoolkit.pipeline.run", "report"),  # run.report(path) writes what the run found
    ("kstoolkit.pipeline.run", "operations"),  # run.serve_metrics(port) serves how it stands
}
"""Public verbs that reach further; never at import, and the other room knows nothing of theirs."""

SHIPS_THE_PACKAGE = {"kstoolkit.pipeline.stream"}
"""Who needs the package as a whole: to send it by value to nodes that have not installed it."""

ONLY_IN = {
    "anywidget": {"widgets"},
    "confluent_kafka": {"kafka"},
    "ipywidgets": {"widgets"},
    "matplotlib": {"plots", "report"},
    "prometheus_client": {"operations"},
    "py4j": {"operations", "pipeline"},
    "pyspark": {"events", "operations", "pipeline"},
    "rocksdict": {"replica", "rocksdb", "stores"},
    "typer": {"cli"},
}
"""Where a package that is large, or that talks to something, may be imported."""

FREE_FOR_TYPES = {"matplotlib"}
"""Whose types anyone may name: Axes are how a figure is asked for."""

HEAVY = {*ONLY_IN, "IPython", "cryptography", "google", "numpy", "pandas", "pyarrow"}
"""What an import inside a function may spare whoever does not need it."""

SPARED = {
    ("kstoolkit.cli.kafka", "kstoolkit.kafka.broker"),  # servers and sockets, for three commands
    ("kstoolkit.cli.lab", "kstoolkit.rocksdb.lab.results"),  # readers of logs, for one command
    ("kstoolkit.cli.rocksdb", "kstoolkit.rocksdb.log.storelog"),  # and for another one
    ("kstoolkit.widgets.stores", "kstoolkit.operations.checkup"),  # of a panel that is to appear
    ("kstoolkit.widgets.stores", "kstoolkit.stores.growth.growth"),  # within a second
}
"""Other imports inside functions: what they spare is not heavy, but slow."""

TEST_PACKAGES = {"duckdb", "hypothesis", "psutil", "pytest", "scipy"}

SAYS_NOTHING = {"common", "engine", "helper", "helpers", "manager", "misc", "util", "utils"}


@dataclass(frozen=True, slots=True)
class Import:
    """One import: what is imported, by whom, and when."""

    module: str
    target: str
    at_import: bool
    for_types: bool

    @property
    def room(self) -> str:
        return room_of(self.module)

    @property
    def later(self) -> bool:
        """Whether importing the module itself does not bring the target along."""
        return self.for_types or not self.at_import

    def __str__(self) -> str:
        return f"{self.module} imports {self.target}"


def room_of(module: str) -> str:
    """Return the room of a module; the package's own table of names is in none."""
    return module.split(".")[1] if "." in module else ""


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = sorted(PACKAGE.rglob("*.py"))
MODULES = {module_name(path) for path in PATHS}


def imports_of(path: Path) -> Iterator[Import]:
    yield from walk(ast.parse(path.read_text()), module_name(path), at_import=True, for_types=False)


def walk(node: ast.AST, module: str, *, at_import: bool, for_types: bool) -> Iterator[Import]:
    for name in imported_names(node):
        yield Import(module, name, at_import, for_types)
    for_types |= isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    at_import &= not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
    for child in ast.iter_child_nodes(node):
        yield from walk(child, module, at_import=at_import, for_types=for_types)


def imported_names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    if isinstance(node, ast.ImportFrom) and node.module:
        for alias in node.names:
            whole = f"{node.module}.{alias.name}"
            yield whole if whole in MODULES else node.module
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
        first = node.args[0]
        if isinstance(first, ast.Constant):
            yield str(first.value)


@cache
def imports() -> tuple[Import, ...]:
    """Return all imports; not before a test asks, as whoever runs any test collects this module."""
    return tuple(found for path in PATHS for found in imports_of(path))


@cache
def at_import() -> dict[str, list[Import]]:
    """Return by module what importing it brings along."""
    found: dict[str, list[Import]] = {}
    for each in imports():
        if not each.later:
            found.setdefault(each.module, []).append(each)
    return found


def test_every_room_is_on_the_plan() -> None:
    rooms = {room_of(module) for module in MODULES} - {""}
    assert rooms <= MAY_IMPORT.keys()


def test_rooms_import_only_along_the_arrows() -> None:
    wrong = [
        str(found)
        for found in imports()
        if found.room
        and found.target.startswith("kstoolkit.")
        and room_of(found.target) not in MAY_IMPORT[found.room] | {found.room}
        and not (found.later and (found.module, room_of(found.target)) in JOINS)
    ]
    assert not wrong


def test_the_rooms_of_rocksdb_import_only_along_their_own_arrows() -> None:
    inside = "kstoolkit.rocksdb."
    wrong = []
    for found in imports():
        if found.module.startswith(inside) and found.target.startswith(inside):
            room, target = found.module.split(".")[2], found.target.split(".")[2]
            allowed = MAY_IMPORT_IN_ROCKSDB[room] | {room}
            wrong += [str(found)] * (target not in allowed and not found.for_types)
    assert not wrong


@pytest.mark.parametrize("package", sorted(ONLY_IN))
def test_a_large_package_is_imported_only_where_it_lives(package: str) -> None:
    wrong = [
        str(found)
        for found in imports()
        if found.target.split(".")[0] == package
        and found.room not in ONLY_IN[package]
        and not (found.for_types and package in FREE_FOR_TYPES)
    ]
    assert not wrong


def test_nothing_imports_what_only_the_tests_install() -> None:
    assert not [str(found) for found in imports() if found.target.split(".")[0] in TEST_PACKAGES]


def test_nothing_imports_the_package_itself_for_its_lazy_names() -> None:
    importers = {found.module for found in imports() if found.target == "kstoolkit"}
    assert importers <= SHIPS_THE_PACKAGE


def test_no_imports_go_in_a_circle() -> None:
    graph: dict[str, set[str]] = {module: set() for module in MODULES}
    for found in imports():
        if found.target in MODULES and found.module != "kstoolkit" and not is_join(found):
            graph[found.module].add(found.target)
    assert len(list(TopologicalSorter(graph).static_order())) == len(MODULES)


def is_join(found: Import) -> bool:
    return found.later and (found.module, room_of(found.target)) in JOINS


def test_what_is_imported_inside_a_function_is_heavy() -> None:
    wrong = [
        str(found)
        for found in imports()
        if found.target in MODULES
        and found.module != "kstoolkit"
        and not (found.at_import or found.for_types or is_join(found))
        and (found.module, found.target) not in SPARED
        and not heavy_of(found.target) - heavy_of(found.module)
    ]
    assert not wrong


@cache
def heavy_of(module: str) -> frozenset[str]:
    """Return the heavy packages that importing a module brings along."""
    seen, due = set[str](), [module]
    while due:
        each = due.pop()
        if each not in seen:
            seen.add(each)
            due += [found.target for found in at_import().get(each, ())]
            due += [each.rpartition(".")[0]] * ("." in each)
    return frozenset(each.split(".")[0] for each in seen) & HEAVY


def test_the_house_has_not_grown() -> None:
    scripts = [path for path in PACKAGE.rglob("*") if path.suffix in {".css", ".js"}]
    lines = sum((lines_of(path) for path in PATHS), Counter[str]())
    lines += sum((drawn_by(path) for path in scripts), Counter[str]())
    edges = {(f.module, f.target) for f in imports() if f.target in MODULES and not f.later}
    assert len(PATHS) <= MOST_MODULES
    assert lines["lines"] <= MOST_LINES
    assert lines["code"] <= MOST_LINES_OF_CODE
    assert len([edge for edge in edges if edge[0] != edge[1]]) <= MOST_IMPORTS


DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def lines_of(path: Path) -> Counter[str]:
    """Count lines; code is what is neither blank, comment, docstring nor import."""
    rows = path.read_text(encoding="utf-8").splitlines()
    is_code = [bool(row.strip()) and not row.lstrip().startswith("#") for row in rows]
    for node in ast.walk(ast.parse("\n".join(rows))):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            is_code[lines_in(node)] = [False] * length(node)
        elif isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            is_code[lines_in(node.body[0])] = [False] * length(node.body[0])
    return Counter(lines=len(rows), code=sum(is_code))


def drawn_by(path: Path) -> Counter[str]:
    """Count the lines of a script or a style; comments of scripts stand in lines of their own."""
    rows = path.read_text(encoding="utf-8").splitlines()
    code = [row for row in rows if row.strip() and not row.lstrip().startswith(("//", "/*"))]
    return Counter(lines=len(rows), code=len(code))


def length(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def lines_in(node: ast.stmt) -> slice:
    return slice(node.lineno - 1, node.end_lineno)


def test_no_module_has_a_name_that_says_nothing() -> None:
    words = {module: set(module.rpartition(".")[2].split("_")) for module in MODULES}
    assert not [module for module in MODULES if words[module] & SAYS_NOTHING]


def test_imports_inside_functions_and_for_types_are_seen_for_what_they_are() -> None:
    source = """
if TYPE_CHECKING:
    from kstoolkit.units import Duration
def late():
    import kstoolkit.errors
    import_module("pyspark.sql")
"""
    found = list(walk(ast.parse(source), "kstoolkit.x", at_import=True, for_types=False))
    assert found == [
        Import("kstoolkit.x", "kstoolkit.units", at_import=True, for_types=True),
        Import("kstoolkit.x", "kstoolkit.errors", at_import=False, for_types=False),
        Import("kstoolkit.x", "pyspark.sql", at_import=False, for_types=False),
    ]
