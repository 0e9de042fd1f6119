"""RocksDB's statistics out of the text in which it tells them."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TICKER = re.compile(r"^(rocksdb\.\S+) COUNT : (\d+)$", re.MULTILINE)
_HISTOGRAM = re.compile(
    r"^(rocksdb\.\S+) P50 : \S+ P95 : \S+ P99 : \S+ P100 : (\S+) COUNT : (\d+) SUM : (\d+)$",
    re.MULTILINE,
)
_STALL = re.compile(r"([\w-]+): (\d+)")


@dataclass(frozen=True, slots=True)
class Histogram:
    """What RocksDB keeps of many lengths: how many, their sum, and the longest."""

    count: int
    total: int
    most: float


@dataclass(frozen=True, slots=True)
class Tickers:
    r"""Counts since the store was opened, by RocksDB's names without ``rocksdb.``.

    Examples
    --------
    >>> text = "rocksdb.stall.micros COUNT : 12\nrocksdb.db.write.stall P50 : 1.0 P95 : 5.0 "
    >>> text += "P99 : 5.0 P100 : 7.0 COUNT : 2 SUM : 12"
    >>> found = Tickers.of_text(text)
    >>> found.count("stall.micros"), found.histogram("db.write.stall")
    (12, Histogram(count=2, total=12, most=7.0))
    """

    counts: dict[str, int]
    histograms: dict[str, Histogram]

    @classmethod
    def of_text(cls, text: str) -> Tickers:
        """Read what ``Options.get_statistics`` returns."""
        counts = {name.removeprefix("rocksdb."): int(n) for name, n in _TICKER.findall(text)}
        histograms = {
            name.removeprefix("rocksdb."): Histogram(int(count), int(total), float(most))
            for name, most, count, total in _HISTOGRAM.findall(text)
        }
        return cls(counts, histograms)

    def count(self, *names: str) -> int:
        """Return the sum of some counts."""
        return sum(self.counts[name] for name in names)

    def histogram(self, name: str) -> Histogram:
        """Return a histogram."""
        return self.histograms[name]


def stall_counts(*texts: str) -> dict[str, int]:
    """Return how often each condition for a stall came about, as properties of a store tell it.

    Examples
    --------
    >>> stall_counts("Write Stall (count): memtable-limit-stops: 3, total-stops: 3")
    {'memtable_limit_stops': 3, 'total_stops': 3}
    """
    found = [pair for text in texts for pair in _STALL.findall(text.partition("(count):")[2])]
    return {name.replace("-", "_"): int(number) for name, number in found}
