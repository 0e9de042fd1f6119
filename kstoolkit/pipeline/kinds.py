"""Whether what a pipeline is given is of the right kind: said before Spark is started."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kstoolkit.errors import ConfigurationError
from kstoolkit.events.simulator import Simulation
from kstoolkit.events.sources import Files, Frame
from kstoolkit.events.topics import Topic
from kstoolkit.findings.rules import Ceiling, Exempt, Unusual
from kstoolkit.kafka.outputs import KafkaChangelog, KafkaFindings
from kstoolkit.windows import Cascade

if TYPE_CHECKING:
    from kstoolkit.pipeline.pipeline import Pipeline


def check_kinds(pipeline: Pipeline) -> None:
    """Raise if something of a pipeline was given for something else.

    Raises
    ------
    ConfigurationError
        What it is, and what it should be.
    """
    checks = {
        "source": (_is_source, "kst.files(…), kst.kafka_topic(…), kst.frame(…) or kst.simulate(…)"),
        "cascade": (lambda given: isinstance(given, Cascade), "kst.Cascade('1 minute', '1 hour')"),
        "rules": (_are_rules, "a list of rules; kst.load_rules('rules.toml') reads a file"),
        "changelog": (_is_changelog, "kst.kafka_changelog(…), or None for the run's folder"),
        "findings_to": (_is_findings_topic, "kst.kafka_findings(…), or None"),
        "buckets": (lambda given: type(given) is int, "a whole number"),
        "time": (lambda given: given in {"event", "processing"}, "'event' or 'processing'"),
    }
    for name, (is_right, wanted) in checks.items():
        if not is_right(getattr(pipeline, name)):
            message = f"{name} is {getattr(pipeline, name)!r}."
            raise ConfigurationError(message, hint=f"Give {wanted}.")


def _is_source(given: object) -> bool:
    if isinstance(given, Frame):
        return hasattr(given.df, "sparkSession")
    return isinstance(given, Files | Simulation | Topic)


def _is_findings_topic(given: object) -> bool:
    return given is None or isinstance(given, KafkaFindings)


def _is_changelog(given: object) -> bool:
    return given is None or isinstance(given, KafkaChangelog)


def _are_rules(given: object) -> bool:
    if not isinstance(given, Iterable):
        return given is None
    return all(isinstance(each, Ceiling | Unusual | Exempt) for each in given)
