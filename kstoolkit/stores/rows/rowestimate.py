"""About how many rows a store has, without a look at them."""

from __future__ import annotations

from dataclasses import dataclass, field

from kstoolkit.records import Record, Source, of_source
from kstoolkit.units import format_count


@dataclass(frozen=True, slots=True, repr=False)
class RowEstimate(Record):
    """About how many rows there are on disk, where one may hold several versions or elements.

    Examples
    --------
    >>> RowEstimate(1_234)
    RowEstimate(about 1,234 rows: store on disk)
    >>> RowEstimate(None, {"num_rows": "nothing tells"})
    RowEstimate(unknown (nothing tells))
    """

    num_rows: int | None = of_source(Source.STORE)
    unknown: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        [figure] = self.figures()
        if figure.value is None:
            return f"RowEstimate({figure.text})"
        return f"RowEstimate(about {format_count(figure.value)} rows: {figure.source})"
