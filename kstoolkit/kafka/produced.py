"""What came of producing, as a record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kstoolkit.markup import element, joined
from kstoolkit.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kstoolkit.events.topics import Address


@dataclass(frozen=True, slots=True, repr=False)
class Produced:
    """What came of producing records to a topic.

    Parameters
    ----------
    address
        The topic.
    records
        How many records it has acknowledged.
    size_bytes
        How much their values are.
    seconds
        How long that took, from the first one sent to the last acknowledgement.
    partitions
        How many of them went to each partition.
    failures
        How many records were refused, by the reason; the other ones are there all the same.
    maybe_twice
        Whether some of the last records before an outage may be there twice: a broker that comes
        back knows no more who sent records whose own time is more than a day ago.

    Examples
    --------
    >>> from kstoolkit.events.topics import Address
    >>> Produced(Address("127.0.0.1:9092", "edits"), 3000, 6 << 20, 0.5, {0: 2000, 2: 1000}, {})
    3,000 records (6.0 MiB) to 2 partitions of kafka://127.0.0.1:9092/edits in 0.5 s: 6,000 a second
    """

    address: Address
    records: int
    size_bytes: int
    seconds: float
    partitions: Mapping[int, int]
    failures: Mapping[str, int]
    maybe_twice: bool = False

    @property
    def rate(self) -> float | None:
        """Records a second; ``None`` if there were none."""
        return self.records / self.seconds if self.records and self.seconds else None

    @property
    def failed(self) -> int:
        """How many records were refused."""
        return sum(self.failures.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the same as plain values, as ``kstoolkit produce --json`` prints them."""
        return {
            "topic": str(self.address),
            "records": self.records,
            "bytes": self.size_bytes,
            "seconds": round(self.seconds, 6),
            "rate": None if self.rate is None else round(self.rate, 1),
            "partitions": {str(number): self.partitions[number] for number in self._numbers},
            "failures": dict(self.failures),
            "maybe_twice": self.maybe_twice,
        }

    @property
    def _numbers(self) -> list[int]:
        return sorted(self.partitions)

    def __repr__(self) -> str:
        number = len(self.partitions)
        where = f"{format_count(number)} partition{'s' * (number != 1)} of {self.address}"
        what = f"{_counted(self.records)} ({format_bytes(self.size_bytes)})"
        rate = "" if self.rate is None else f": {format_count(self.rate)} a second"
        refused = f"; {_counted(self.failed)} refused" if self.failures else ""
        twice = "; some may be there twice" if self.maybe_twice else ""
        return f"{what} to {where} in {self.seconds:,.1f} s{rate}{refused}{twice}"

    def _repr_html_(self) -> str:
        rows = [
            *((f"partition {each}", self.partitions[each]) for each in self._numbers),
            *((f"refused: {why}", number) for why, number in self.failures.items()),
        ]
        cells = (
            element("tr", element("th", name), element("td", format_count(number)))
            for name, number in rows
        )
        return element("p", repr(self)) + element("table", joined(*cells))


def _counted(number: int) -> str:
    return f"{format_count(number)} record{'s' * (number != 1)}"
