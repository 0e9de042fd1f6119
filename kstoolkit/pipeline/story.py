"""One user's story: what it did at every level, what was found of it, and what was said of it."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.errors import ConfigurationError, InputError
from kstoolkit.events.event import Columns, Limits, is_plain, storable
from kstoolkit.events.files import read_events
from kstoolkit.events.ledger import Ledger
from kstoolkit.findings.finding import DISTINCT, Choice, Findings, expected, of_actions
from kstoolkit.findings.marks import Marks
from kstoolkit.formats.actions import checked, in_words, values_in_words
from kstoolkit.markup import plain
from kstoolkit.moments import moment_text
from kstoolkit.records import (
    Record,
    Records,
    Source,
    Viewed,
    counted,
    facts_html,
    of_source,
    rows_html,
)
from kstoolkit.units import format_count
from kstoolkit.windows import Session

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pandas as pd
    from numpy.typing import NDArray

    from kstoolkit.changelog.changelog import Changelog
    from kstoolkit.counters.counters import Counters
    from kstoolkit.events.ledger import Admitted
    from kstoolkit.findings.finding import Finding
    from kstoolkit.findings.incidents import Incidents
    from kstoolkit.pipeline.runfolder import Settings
    from kstoolkit.windows import Window

_EXPECTED = ("expected_low", "expected_high", "ceiling")
_Where: TypeAlias = "Mapping[str, str | None]"
_MOST_SHARES, _MOST_EXPECTED = 10, 2
_NO_FILES = "they came from no plain files, or are counted by when they came"
_EVENTS = pa.schema(
    [("time", pa.timestamp("ms", "UTC")), ("action", pa.string()), ("file", pa.string())]
)


def in_utc(epoch_ms: NDArray[np.int64]) -> pa.Array:
    """Return epoch ms as a column of timestamps, UTC."""
    return pa.array(epoch_ms).cast(_EVENTS.types[0])


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
    expected_at_ms
        Of which window that was so, its start and its end; of others it may not have been.
    min_count
        The smallest count that is recorded.
    ends_ms
        Of sessions, the time of each one's last event; ``None`` of windows.
    """

    window: Window
    times_ms: NDArray[np.int64]
    counts: NDArray[np.int64]
    flagged_ms: NDArray[np.int64]
    expected_low: int | None = None
    expected_high: int | None = None
    ceiling: int | None = None
    expected_at_ms: tuple[int, int] | None = None
    min_count: int = 1
    ends_ms: NDArray[np.int64] | None = None

    @property
    def window_ends_ms(self) -> NDArray[np.int64]:
        """When each window, or session, ends, epoch ms UTC."""
        return self.times_ms + self.window.size_ms if self.ends_ms is None else self.ends_ms

    def where(self, chosen: NDArray[np.bool_]) -> LevelCounts:
        """Return it with some of its windows alone."""
        names = ("times_ms", "counts", *([] if self.ends_ms is None else ["ends_ms"]))
        return replace(self, **{name: getattr(self, name)[chosen] for name in names})

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

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        times, ends = self.times_ms.tolist(), self.window_ends_ms.tolist()
        flagged = np.isin(self.times_ms, self.flagged_ms).tolist()
        rows = zip(times, ends, self.counts.tolist(), flagged, strict=True)
        names = ("window_start_ms", "window_end_ms", "count", "flagged")
        return {
            "window": self.window.label,
            **{name: getattr(self, name) for name in (*_EXPECTED, "min_count")},
            "counts": [dict(zip(names, row, strict=True)) for row in rows],
        }

    def __repr__(self) -> str:
        facts = ", ".join(f"{what} {figure}" for what, figure in self.rows())
        return f"LevelCounts({self.window.label}: {facts})"

    def to_pandas(self) -> pd.DataFrame:
        """Return ``window``, ``window_start``, ``window_end`` (UTC), ``count``, ``flagged``."""
        columns = {
            "window": pa.repeat(self.window.label, len(self.counts)),
            "window_start": in_utc(self.times_ms),
            "window_end": in_utc(self.window_ends_ms),
            "count": self.counts,
            "flagged": np.isin(self.times_ms, self.flagged_ms),
        }
        return pa.table(columns).to_pandas()  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class UserHistory(Viewed):
    """One user's counts over time at every level of the cascade; made by a run.

    Parameters
    ----------
    user
        Who.
    action
        What, its parts one behind the other if it has several; ``None`` is all actions together.
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
        told = [(("window", level.window.label), *level.rows()) for level in self.levels]
        heads = [what for what, _ in told[0]] if told else ["window"]
        return rows_html(self._facts(), heads, [[figure for _, figure in row] for row in told])

    def _facts(self) -> str:
        what = "all actions" if self.action is None else repr(self.action)
        flagged = sum(level.flagged_ms.size for level in self.levels)
        labels = ", ".join(level.window.label for level in self.levels)
        return f"{self.user!r}, {what}: {labels}; {counted(flagged, 'flagged windows')}"


class Counted(Protocol):
    """What tells counts: a changelog, or what was read of one."""

    def counters(self, window_ms: int, *, users: set[str]) -> Counters:
        """Return the latest counts of one window length, of some users."""


def user_history(
    of: tuple[Settings, Counted],
    user: str,
    where: _Where,
    *,
    findings: pa.Table,
    about: Finding | None = None,
) -> UserHistory:
    """Return a user's counts at every level; ``findings`` are of all users.

    The range and ceiling of ``about`` count at its level, by default those of the top finding.
    """
    of_user = Findings(findings.filter(pc.equal(findings["user"], user)))
    settings, changelog = of
    checked(settings.named, list(where), what="where")
    told = [_is_told(each, where, about) for each in of_user]
    found = Findings(of_actions(of_user.table.filter(pa.array(told, pa.bool_())), settings.parts))
    least = (*settings.min_count, *([1] * len(settings.windows)))
    levels = tuple(
        _level(changelog, window, user, where, found, min_count=min_count, about=about)
        for window, min_count in zip(settings.cascade.levels, least, strict=False)
    )
    what = ", ".join(values_in_words(where.values())) if where else None
    return UserHistory(user=user, action=what, levels=levels, findings=found)


def _is_told(finding: Finding, where: _Where, about: Finding | None) -> bool:
    """Whether a finding is of what a history shows: the same sums, if it is about one."""
    if about is not None and finding.by != about.by:
        return False
    if about is not None and DISTINCT in {finding.kind, about.kind}:  # of items, not of events
        return (finding.kind, finding.action) == (about.kind, about.action)
    return where.items() <= finding.parts.items()


def _level(
    changelog: Counted,
    window: Window,
    user: str,
    where: _Where,
    found: Findings,
    *,
    min_count: int,
    about: Finding | None,
) -> LevelCounts:
    counters = changelog.counters(window.size_ms, users={user})
    counters = counters.where(where) if len(counters) else counters
    times, place = np.unique(counters.start_ms, return_inverse=True)
    counts = np.zeros(times.size, np.int64)
    np.add.at(counts, place, counters.count.astype(np.int64))
    ends = times.copy() if isinstance(window, Session) else None
    if ends is not None and counters.end_ms is not None:
        np.maximum.at(ends, place, counters.end_ms)
    here = Findings(found.table.filter(pc.equal(found.table["window"], window.label)))
    of_events = Findings(here.table.filter(pc.not_equal(here.table["kind"], DISTINCT)))
    expecting = next(iter(of_events.top(1)), None)
    if about and about.window == window.label and about.kind != DISTINCT:
        expecting = about
        if (start := about.window_start_ms) not in times:  # a count too small to be recorded
            at = np.searchsorted(times, start)
            times, counts = np.insert(times, at, start), np.insert(counts, at, about.count)
            ends = None if ends is None else np.insert(ends, at, about.window_end_ms)
    # A range is of what its rule looks at: beside the sum of several actions it would mislead.
    is_of_one = len(np.unique(counters.action)) <= 1
    if expecting is not None and not is_of_one and set(expecting.parts) != set(where):
        expecting = None
    return LevelCounts(
        window=window,
        times_ms=times,
        counts=counts,
        ends_ms=ends,
        flagged_ms=np.unique(here.table["window_start_ms"].to_numpy()),
        min_count=min_count,
        expected_at_ms=None
        if expecting is None
        else (expecting.window_start_ms, expecting.window_end_ms),
        **{name: getattr(expecting, name, None) for name in _EXPECTED},
    )


def user_events(
    of: tuple[Settings, Path], user: str, span_ms: tuple[int, int], *, most: int, within_s: float
) -> pa.Table:
    """Return a user's events in a stretch of time, as the files in the ledger have them now."""
    settings, ledger = of
    columns = Columns.of(**settings.columns)
    read, is_plain_feed = settings.reading, settings.feed == "files" and is_plain(columns)
    if read is None or not is_plain_feed or settings.time != "event":
        why = "how they were read was not kept" if is_plain_feed and not read else _NO_FILES
        message = f"Events of {settings.source} can't be read once more: {why}."
        raise ConfigurationError(message, hint="Counts and findings are kept; events are not.")
    how = {"limits": Limits(**read["limits"]), "file_format": read["file_format"]}
    found, until = [_EVENTS.empty_table()], time.monotonic() + within_s
    for each in Ledger(ledger):
        with suppress(OSError, InputError):  # damaged, gone, or another one by now
            found += _events_of(each, columns, user, span_ms, how)
        if sum(map(len, found)) >= most or time.monotonic() > until:
            break
    return pa.concat_tables(found).slice(0, most).sort_by("time")


def _events_of(
    file: Admitted, columns: Columns, user: str, span_ms: tuple[int, int], how: dict[str, Any]
) -> list[pa.Table]:
    found = []
    for good, _ in read_events(file.path, columns, now_ms=file.admitted_ms, **how):
        is_then = (good.time_ms >= span_ms[0]) & (good.time_ms < span_ms[1])
        rows = pa.array(np.flatnonzero(np.asarray(pc.equal(good.users, user)) & is_then))
        actions = good.actions.take(rows).cast(pa.string())
        told = actions if columns.parts is None else in_words(actions, len(columns.parts))
        times = in_utc(good.time_ms).take(rows)
        files = pa.array([storable(file.path)] * len(rows), pa.string())
        found.append(pa.table([times, told, files], schema=_EVENTS))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionShare(Record):
    """How often a user did one thing, and which share of all it did that is."""

    action: str
    count: int = of_source(Source.STORE)
    share: float = of_source(Source.FORMULA)


@dataclass(frozen=True, slots=True)
class ExpectedOf(Record):
    """What was expected of an action in a window, or its ceiling, as the newest finding tells."""

    window: str
    action: str
    expected_low: int | None = of_source(Source.FORMULA)
    expected_high: int | None = of_source(Source.FORMULA)
    ceiling: int | None = of_source(Source.GIVEN)

    @property
    def in_words(self) -> str:
        """It for people: ``"expected 0-2 of “edit”"``, with a dash."""
        limit = "" if self.ceiling is None else f", ceiling {format_count(self.ceiling)}"
        usual = expected(self.expected_low, self.expected_high) or "unknown"
        return f"expected {usual} of “{self.action}”{limit}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class UserStory(Viewed):
    """All that a run knows of one user; made by :meth:`kstoolkit.Run.story`.

    Parameters
    ----------
    history
        Its counts over time at every level, with what was expected, and what was found.
    actions
        What it did, by how often; of an action of several parts, these one behind the other.
    incidents
        What was found of it, the one that began last first.
    marks
        What was said of it, and of its incidents.
    """

    history: UserHistory
    actions: Records[ActionShare]
    incidents: Incidents
    marks: Marks

    @property
    def user(self) -> str:
        """Who."""
        return self.history.user

    @property
    def expected(self) -> list[ExpectedOf]:
        """What was expected in each kind of window, of each action that something was found of."""
        told = (
            ExpectedOf(each.window, each.what, each.expected_low, each.expected_high, each.ceiling)
            for each in self.history.findings
        )  # in the order of time: the newest stays
        return list({(each.window, each.action): each for each in told}.values())

    @property
    def events(self) -> int:
        """How many events there are of it, where windows do not hop."""
        return sum(each.count for each in self.actions)

    def rows(self) -> list[tuple[str, str]]:
        """Return (what, figure) for people, in the order of the text."""
        shares = [f"{each.action} {100 * each.share:.1f} %" for each in self.actions]
        more = len(shares) - _MOST_SHARES
        others = [f"{more:,} others"] if more > 0 else []
        told = [("events", format_count(self.events))]
        told += [("actions", ", ".join(shares[:_MOST_SHARES] + others) or "none")]
        told += [(level.window.label, self._at(level)) for level in self.history.levels]
        said = "; ".join(mark.sentence for mark in self.marks)
        return [*told, ("marked", said or "no"), ("incidents", self.incidents.facts())]

    def _at(self, level: LevelCounts) -> str:
        if not level.counts.size:
            return "no counts"
        place, number = int(level.counts.argmax()), level.counts.size
        when = moment_text(int(level.times_ms[place]))
        windows = counted(number, "windows" if level.ends_ms is None else "sessions")
        most = format_count(level.counts[place])
        told = [f"{windows} with counts, at most {most} ({when})"]
        told += [f"{level.flagged_ms.size:,} flagged"] if level.flagged_ms.size else []
        expected = [e.in_words for e in self.expected if e.window == level.window.label]
        more = len(expected) - _MOST_EXPECTED
        others = [f"{counted(more, 'actions')} more"] if more > 0 else []
        return "; ".join([*told, *expected[:_MOST_EXPECTED], *others])

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, as ``--json`` prints them."""
        return {
            "user": self.user,
            "events": self.events,
            "actions": [each.to_dict() for each in self.actions],
            "levels": [level.to_dict() for level in self.history.levels],
            "expected": [each.to_dict() for each in self.expected],
            "incidents": list(self.incidents.to_dicts()),
            "marks": [each.to_dict() for each in self.marks],
        }

    def to_pandas(self) -> pd.DataFrame:
        """Return one row a window: see :meth:`UserHistory.to_pandas`."""
        return self.history.to_pandas()

    def __str__(self) -> str:
        rows = self.rows()
        width = max(len(what) for what, _ in rows)
        lines = [self.user, *(f"{what:<{width}}  {told}" for what, told in rows)]
        for each in self.incidents:
            lines += [f"  {each.heading}", f"    {each.sentence}"]
        return "\n".join(map(plain, lines))  # no name makes lines of its own

    def __repr__(self) -> str:
        told = f"{self.events:,} events, {counted(len(self.incidents), 'incidents')}"
        return f"UserStory({self.user!r}: {told})"

    def _repr_html_(self) -> str:
        return facts_html(self.rows(), self.user)


def user_story(
    of: tuple[Settings, Changelog], user: str, findings: pa.Table, known: tuple[Incidents, Marks]
) -> UserStory:
    """Return all that a run knows of a user: findings, incidents and marks are of all users."""
    settings, changelog = of
    incidents = known[0].of(Choice(user=user, whole=True))
    ids = incidents.table["id"].to_pylist()
    marks = [each for each in known[1].newest() if each.user == user or each.incident in ids]
    tumbling = [window for window in settings.cascade.windows if window.is_tumbling]
    window = max(tumbling or settings.cascade.levels, key=lambda each: each.size_ms)
    return UserStory(
        history=user_history(of, user, {}, findings=findings),
        actions=_shares(changelog.counters(window.size_ms, users={user})),
        incidents=incidents,
        marks=Marks(marks),
    )


def _shares(counters: Counters) -> Records[ActionShare]:
    parts = 1 if counters.parts is None else len(counters.parts)
    actions = in_words(counters.to_batch().column("action").cast(pa.string()), parts)
    told = pa.table({"action": actions, "count": counters.count.astype(np.int64)})
    summed = told.group_by("action").aggregate([("count", "sum")])
    summed = summed.sort_by([("count_sum", "descending"), ("action", "ascending")])
    total = max(pc.sum(summed["count_sum"]).as_py() or 0, 1)
    rows = zip(summed["action"].to_pylist(), summed["count_sum"].to_pylist(), strict=True)
    shares = [ActionShare(action=what, count=n, share=n / total) for what, n in rows]
    return Records(shares, "actions")
