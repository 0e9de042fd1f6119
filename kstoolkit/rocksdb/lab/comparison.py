"""What came of a comparison: a row a profile, and what belongs to all of them."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from kstoolkit.errors import ConfigurationError
from kstoolkit.records import Records, counted
from kstoolkit.rocksdb.lab.results import LevelWork, Moment, Trial

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kstoolkit.rocksdb.lab.workloads import Workload


class Comparison(Records[Trial]):
    """A row a profile.

    Parameters
    ----------
    workload
        What each of them wrote.
    trials
        In the order of the profiles.
    series
        Each trial at some moments, four times a second.
    levels
        What was flushed and compacted into each level.
    """

    def __init__(
        self,
        workload: Workload,
        trials: Sequence[Trial],
        series: Records[Moment],
        levels: Records[LevelWork],
    ) -> None:
        super().__init__(trials, "trials")
        self.workload = workload
        self.series = series
        self.levels = levels

    def of(self, profile: str) -> Trial:
        """Return the trial of a profile.

        Raises
        ------
        ConfigurationError
            If there is none of this name.
        """
        for each in self:
            if each.profile == profile:
                return each
        message = f"There is no trial of a profile {profile!r}."
        raise ConfigurationError(
            message, hint=f"There are {', '.join(each.profile for each in self)}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values: workload, trials, series, levels."""
        return {
            "workload": self.workload.to_dict(),
            "trials": self.to_dicts(),
            "series": self.series.to_dicts(),
            "levels": self.levels.to_dicts(),
        }

    def __repr__(self) -> str:
        names = ", ".join(each.profile for each in self)
        return f"Comparison({counted(len(self), 'trials')} of {self.workload!r}: {names})"

    def _repr_html_(self) -> str:
        shown = self.to_pandas().drop(columns="tickers")  # some two hundred
        table = shown.set_index("profile").T.to_html(escape=True)
        sources = sorted({str(figure.source) for row in self for figure in row.figures()})
        return f"<p>{escape(repr(self))}; source: {escape(', '.join(sources) or 'none')}</p>{table}"
