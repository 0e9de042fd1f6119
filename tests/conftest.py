"""What every test may use, and which skips continuous integration puts up with."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from kstoolkit.environment import CALM_NUMPY
from tests import quickjava
from tests.kafka import brokers
from tests.kafka.brokers import broker, own_broker, secured

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

__all__ = ["broker", "own_broker", "secured", "spark", "wikiticker"]

ALLOWED_SKIPS = (
    "real data not present",  # the sample is not ours to bundle: kstoolkit data fetch wikiticker
    "real stores not present",  # made by engines that are not ours to bundle
    "no disk of one's own",  # filling a disk up takes one, and the right to mount it
    "no C compiler",  # of a library whose reads fail
)
"""Beginnings of the reasons for which a test may be skipped when ``CI`` is set."""

SLOWER = ("spark", "kafka", "slow", "connect", "cluster", "kill", "browser")
"""Markers of tests that take their time: the more of them, the later a test runs."""

LONGEST = (
    "tests/browser/test_notebooks.py",
    "tests/test_pages.py",
    "tests/pipeline/test_topic_failures.py",
    "tests/pipeline/test_kills.py",
    "tests/pipeline/test_topic_kills.py",
    "tests/kafka/test_producing.py",
    "tests/pipeline/test_exactness.py",
    "tests/operations/test_topicstore.py",
    "tests/pipeline/test_live.py",
    "tests/pipeline/test_topics.py",
    "tests/pipeline/test_inputs.py",
    "tests/cli/test_follow.py",
    "tests/pipeline/test_frame.py",
)
"""Files that take minutes come first of what is slow: else one process ends all alone with one."""

# How long an example takes says more about the machine than about the code.
# `make test-long` tries properties on more examples.
settings.register_profile("kstoolkit", deadline=None, max_examples=30)
settings.register_profile("thorough", deadline=None, max_examples=300)
settings.load_profile("kstoolkit")

# Going through all that thousands of tests leave behind takes a twentieth of their time.
gc.set_threshold(100_000, 50, 100)

quickjava.use()
for name, value in CALM_NUMPY.items():  # also in the Pythons that tests start by themselves
    os.environ.setdefault(name, value)

DATA_FOLDER = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One session for all: starting Spark costs more than most of what is tested with it."""
    from kstoolkit.pipeline.session import spark_session

    session = spark_session(
        "local[2]", app_name="kstoolkit tests", extra={"spark.sql.shuffle.partitions": "2"}
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def wikiticker() -> Path:
    """The real sample: 39,244 edits of Wikipedia."""
    folder = Path(os.environ.get("KSTOOLKIT_DATA_DIR", DATA_FOLDER)) / "wikiticker"
    path = folder / "wikiticker-2015-09-12-sampled.json.gz"
    if not path.is_file():
        pytest.skip(f"real data not present: {path}")
    return path


def pytest_configure(config: pytest.Config) -> None:
    """Let tests interrupt what they start, also below a shell's background job, which can't be."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):  # not one of several processes that test
        brokers.begin()
        config.add_cleanup(brokers.end)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run what is fast first, so that a mistake is told soon; give real processes a second try.

    Java, clusters and killed processes share two cores with the test: one that fails runs once
    more, and the summary names it even if it passes then.
    """
    items.sort(key=_turn)
    for item in items:
        if _slowness(item):
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run under CI that skipped something for a reason nobody agreed to."""
    if _unexpected_skips(session.config) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say which skips made the run fail."""
    for reason in _unexpected_skips(config):
        terminalreporter.write_line(f"Skipped under CI, and not allowed to be: {reason}", red=True)


def _turn(item: pytest.Item) -> tuple[int, int]:
    """Return when a test runs: in which of three parts, and when in that."""
    file, slowness = item.nodeid.partition("::")[0], _slowness(item)
    if file in LONGEST:
        return 1, LONGEST.index(file)
    return 2 if slowness else 0, slowness


def _slowness(item: pytest.Item) -> int:
    return sum(item.get_closest_marker(name) is not None for name in SLOWER)


def _unexpected_skips(config: pytest.Config) -> list[str]:
    if not os.environ.get("CI"):
        return []
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:  # of several processes, the one that reports sees all skips
        return []
    reasons = [report.longrepr[2] for report in reporter.stats.get("skipped", [])]
    stated = [reason.removeprefix("Skipped: ") for reason in reasons]
    return [reason for reason in stated if not reason.startswith(ALLOWED_SKIPS)]
