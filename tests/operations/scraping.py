"""Scrapes as Prometheus makes them, and what they told."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.request import Request, urlopen

from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)
from prometheus_client.parser import text_string_to_metric_families as plain_families

from tests.pipeline.harness import until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from prometheus_client.metrics_core import Metric

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


class Scrape:
    """What one scrape told: the samples, and what is said of each family."""

    def __init__(self, url: str, accept: str = "text/plain") -> None:
        with urlopen(Request(url, headers={"Accept": accept}), timeout=30) as answer:  # noqa: S310 - our own address
            self.text = answer.read().decode()
        parse = openmetrics_families if accept == OPENMETRICS else plain_families
        families = list(parse(self.text))
        self.about = {family.name: family.documentation for family in families}
        self.samples = [sample for family in families for sample in family.samples]

    def by(self, label: str, name: str) -> dict[str, float]:
        """Return a family's values by one of its labels."""
        return {each.labels[label]: each.value for each in self.samples if each.name == name}

    def of(self, name: str, labels: Mapping[str, str] | None = None) -> float | None:
        """Return the value of one sample; ``None`` if there is none."""
        found = [e.value for e in self.samples if e.name == name and e.labels == (labels or {})]
        assert len(found) <= 1
        return found[0] if found else None


def values_of(family: Metric) -> dict[tuple[tuple[str, str], ...], float]:
    """Return the value of each set of labels."""
    return {tuple(each.labels.items()): each.value for each in family.samples}


def scrape_until(url: str, true: Callable[[Scrape], object], *, seconds: float = 60) -> Scrape:
    """Scrape until something is true of it: figures rest for as long as their cost asks."""
    told = [Scrape(url)]

    def look() -> object:
        told[0] = Scrape(url)
        return true(told[0])

    until(look, "a scrape that tells it", seconds=seconds)
    return told[0]
