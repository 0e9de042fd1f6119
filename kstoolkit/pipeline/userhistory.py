"""One user over time: the counts of every level of the cascade, and what was found in them."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.findings.finding import Findings, expected
from kstoolkit.pipeline.tidycounts import utc_times
from kstoolkit.records import Viewed
from kstoolkit.units import format_count

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from kstoolkit.findings.finding import Finding
    from kstoolkit.pipeline.run import Run
    from kstoolkit.windows import Window


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class LevelCounts:
    """One user's counts in one kind of window, and what was expected of them.

    Parameters
    ----------
    window
        Which kind of window.
    times_ms, counts
        Starts of windows (epoch ms UTC, in order) and the events in each; windows that are not
        there count as 0, or have fewer than ``min_count``.
    flagged_ms
        Starts of the windows with a finding.
    expected_low, expected_high, ceiling
        Of the finding that most deserves a look, in events a window; ``None`` where there is none.
    min_count
        The smallest count that is recorded.
    """

    window: Window
    times_ms: NDArray[np.int64]
    counts: NDArray[np.int64]
    flagged_ms: NDArray[np.int64]
    expected_low: int | None = None
    expected_high: int | None = None
    ceiling: int | None = None
    min_count: int = 1

    @property
    def expected(self) -> str:
        """The expected range for people, or that it is unknown."""
        return expected(self.expected_low, self.expected_high) or "unknown (no finding tells)"

    def rows(self) -> list[tuple[str, str]]:
        """Return (what, figure) for people."""
        return [
            ("windows with counts", format_count(self.counts.size)),
            ("highest count", format_count(self.counts.max(initial=0))),
            ("flagged windows", format_count(self.flagged_ms.size)),
            ("expected", self.expected),
            ("ceiling", "none" if self.ceiling is None else format_count(self.ceiling)),
        ]

    def __repr__(self) -> str:
        told = ", ".join(f"{what} {figure}" for what, figure in self.rows())
        return f"LevelCounts({self.window.label}: {told})"

    def to_pandas(self) -> pd.DataFrame:
        """Return ``window``, ``window_start``, ``window_end`` (UTC), ``count``, ``flagged``."""
        import pandas as pd  # noqa: PLC0415 - only for whoever asks for a table

        return pd.DataFrame(
            {
                "window": self.window.label,
                "window_start": utc_times(self.times_ms),
                "window_end": utc_times(self.times_ms + self.window.size_ms),
                "count": self.counts,
                "flagged": np.isin(self.times_ms, self.flagged_ms),
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class UserHistory(Viewed):
    """One user's counts over time at every level of the cascade; made by a run.

    Parameters
    ----------
    user
        Who.
    action
        What; ``None`` is all actions together.
    levels
        One for each kind of window, the shortest first.
    findings
        What was found of them, each window of each level.
    """

    user: str
    action: str | None
    levels: tuple[LevelCounts, ...]
    findings: Findings

    def to_pandas(self) -> pd.DataFrame:
        """Return one row a window, the levels one below the other.

        Columns are ``window``, ``window_start``, ``window_end`` (UTC), ``count``, ``flagged``.
        """
        import pandas as pd  # noqa: PLC0415 - only for whoever asks for a table

        return pd.concat([level.to_pandas() for level in self.levels], ignore_index=True)

    def __repr__(self) -> str:
        return f"UserHistory({self._facts()})"

    def _repr_html_(self) -> str:
        heads = [what for what, _ in self.levels[0].rows()] if self.levels else []
        head = "".join(f"<th scope='col'>{escape(each)}</th>" for each in ("window", *heads))
        body = "".join(
            f"<tr><td>{escape(level.window.label)}</td>"
            + "".join(f"<td>{escape(figure)}</td>" for _, figure in level.rows())
            + "</tr>"
            for level in self.levels
        )
        return (
            f"<table><caption>{escape(self._facts())}</caption>"
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )

    def _facts(self) -> str:
        what = "all actions" if self.action is None else repr(self.action)
        flagged = sum(level.flagged_ms.size for level in self.levels)
        labels = ", ".join(level.window.label for level in self.levels)
        plural = "" if flagged == 1 else "s"
        return f"{self.user!r}, {what}: {labels}; {format_count(flagged)} flagged window{plural}"


def user_history(
    run: Run, user: str, action: str | None, *, findings: pa.Table, about: Finding | None = None
) -> UserHistory:
    """Return a user's counts at every level of a run's cascade.

    Parameters
    ----------
    run
        The run.
    user, action
        Whose, and of what; all actions together if ``action`` is ``None``.
    findings
        What was found, of all users; of :data:`~kstoolkit.findings.finding.FINDINGS_SCHEMA`.
    about
        The finding whose expected range and ceiling count at its level; by default the one that
        most deserves a look.
    """
    wanted = pc.equal(findings["user"], user)
    if action is not None:
        wanted = pc.and_(wanted, pc.equal(findings["action"], action))
    found = Findings(findings.filter(wanted))
    settings = run.settings
    least = (*settings.min_count, *([1] * len(settings.windows)))
    levels = tuple(
        _level(run, window, (user, action), found, min_count=min_count, about=about)
        for window, min_count in zip(settings.cascade.windows, least, strict=False)
    )
    return UserHistory(user=user, action=action, levels=levels, findings=found)


def _level(
    run: Run,
    window: Window,
    whose: tuple[str, str | None],
    found: Findings,
    *,
    min_count: int,
    about: Finding | None,
) -> LevelCounts:
    user, action = whose
    table = run.changelog.counters(window.size_ms, users={user}).to_table()
    comparable = action is not None or len(table["action"].unique()) == 1
    if action is not None:
        table = table.filter(pc.equal(table["action"], action))
    times, place = np.unique(table["window_start_ms"].to_numpy(), return_inverse=True)
    counts = np.zeros(times.size, np.int64)
    np.add.at(counts, place, table["count"].to_numpy().astype(np.int64))
    here = Findings(found.table.filter(pc.equal(found.table["window"], window.label)))
    told = _told(here, about if about and about.window == window.label else None)
    # A range is of one action: beside the sum of several it would mislead.
    if not comparable:
        told = None
    return LevelCounts(
        window=window,
        times_ms=times,
        counts=counts,
        flagged_ms=np.unique(here.table["window_start_ms"].to_numpy()),
        expected_low=told.expected_low if told else None,
        expected_high=told.expected_high if told else None,
        ceiling=told.ceiling if told else None,
        min_count=min_count,
    )


def _told(here: Findings, about: Finding | None) -> Finding | None:
    return about or next(iter(here.top(1)), None)
