"""A run, to be asked: what was counted, who was found, what could not be counted.

All of it is read from the run's output folder, by whatever process; a live run also has its query,
by which it can be stopped. Of raw text no more is held than was asked for.
"""

from __future__ import annotations

import warnings
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from html import escape
from itertools import chain, zip_longest
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.changelog.changelog import MIRROR, BatchFolders, Changelog, asked, numbered_rows
from kstoolkit.counters.counters import Counters
from kstoolkit.errors import (
    ConfigurationError,
    FormatError,
    InputError,
    KafkaError,
    KstoolkitError,
    LimitedResultWarning,
    StaleResultWarning,
)
from kstoolkit.events.event import OF_FILES, SCHEMA, DeadLetters, count_reasons
from kstoolkit.events.ledger import Changes
from kstoolkit.findings.finding import CAMPAIGN, Choice, Findings, ends_ms, of_actions
from kstoolkit.findings.incidents import GAP, MERGED, incidents_of, states_of
from kstoolkit.findings.marks import add_mark, load_marks, mark_of, remove_marks
from kstoolkit.findings.ranking import rank_users
from kstoolkit.findings.rules import Exempt, exempted
from kstoolkit.findings.stories import fold_stories, merge_findings, with_levels
from kstoolkit.moments import moment_ms, moment_of
from kstoolkit.pipeline.batches import (
    FOR_SUMMARY,
    Batches,
    RunSummary,
    batches_of,
    keep_state_size,
    newest_batch,
)
from kstoolkit.pipeline.failure import JAVA_IS_GONE, RestartLog, java_ended, run_failed
from kstoolkit.pipeline.incidentrecords import told_findings
from kstoolkit.pipeline.runfolder import RunFolder, Settings, newest_commit, size_bytes
from kstoolkit.pipeline.story import in_utc, user_events, user_history, user_story
from kstoolkit.records import Viewed, counted
from kstoolkit.units import check_whole, format_count
from kstoolkit.windows import Window, as_window

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from kstoolkit.changelog.changelog import Batch
    from kstoolkit.findings.finding import Finding
    from kstoolkit.findings.incidents import Incident, Incidents
    from kstoolkit.findings.marks import Mark, Marks
    from kstoolkit.moments import Moment
    from kstoolkit.operations.metrics import MetricsServer
    from kstoolkit.pipeline.story import UserHistory, UserStory
    from kstoolkit.units import Duration

_DEAD_LETTERS = SCHEMA.append(pa.field("batch", pa.int64()))
_SHOWN_ROWS = 100_000
_Firsts: TypeAlias = "dict[tuple[str, tuple[str, ...] | None], pa.Table]"


def _tidy(counters: Counters, window: Window) -> pd.DataFrame:
    ends = counters.end_ms if len(counters) else None
    columns = {
        "window_start": in_utc(counters.start_ms),
        "window_end": in_utc(counters.start_ms + window.size_ms if ends is None else ends),
        "user": counters.to_batch().column("user").cast(pa.string()),
        **counters.columns(),
        "count": counters.count.astype(np.int64),
    }
    keys = ("window_start", "user", *counters.named)
    tidy = pa.table(columns).sort_by([(name, "ascending") for name in keys])
    return tidy.to_pandas()  # type: ignore[no-any-return]


def _read_dead_letters(out: Path, *, limit: int) -> DeadLetters:
    """Return a run's dead letters: the first ``limit``, and how many there are of each reason."""

    def reasons(batches: list[Batch]) -> pa.Table:
        empty = _DEAD_LETTERS.empty_table().select(["reason"])
        found = (pa.table(rows).select(["reason"]) for rows in numbered_rows(batches, ["reason"]))
        return pa.concat_tables([empty, *found])

    counted = Counter(count_reasons(asked(BatchFolders(out / "dead_letters").marked, reasons)))
    held, room = [_DEAD_LETTERS.empty_table()], limit
    for dead in iter_dead_letters(out):
        if not room:
            break
        taken = dead.slice(0, room)
        held.append(pa.table(taken).select(_DEAD_LETTERS.names))
        room -= taken.num_rows
    return DeadLetters(pa.concat_tables(held), counted)


def iter_dead_letters(out: Path, reason: str | None = None) -> Iterator[pa.RecordBatch]:
    """Yield a run's dead letters, or those of a reason, some at a time, with their ``batch``."""
    folders, done = BatchFolders(out / "dead_letters"), 0
    while True:
        known, seen = folders.marked(), 0
        try:
            for dead in numbered_rows(known):
                fresh = dead.slice(max(done - seen, 0))  # a fold has the same rows in their order
                seen += dead.num_rows
                done = max(done, seen)
                of_reason = reason is None or pc.equal(fresh.column("reason"), reason)
                yield fresh if of_reason is True else fresh.filter(of_reason)
        except FileNotFoundError:
            if known == folders.marked():
                raise
        else:
            return


def sampled_letters(
    out: Path, counts: Mapping[str, int], most: int
) -> list[dict[str, str | int | None]]:
    """Return some dead letters that differ, of each reason in turn, with their ``batch``.

    ``counts`` is how many there are of each reason to be told of; ``most`` are returned at most. Of
    millions, no more are read than it takes to find these, and no more than 100,000.
    """
    held: dict[str, dict[str, dict[str, str | int | None]]] = {reason: {} for reason in counts}
    seen: Counter[str] = Counter()
    for dead in iter_dead_letters(out):
        for row in dead.to_pylist():
            if (different := held.get(row["reason"])) is None:
                continue
            seen[row["reason"]] += 1
            if len(different) < most:  # of files, each is another one; of records, each text
                different.setdefault(row["raw"] or row["file"] or "", row)
        done = (len(held[each]) >= most or seen[each] >= counts[each] for each in counts)
        if all(done) or seen.total() >= _SHOWN_ROWS:
            break
    in_turn = chain.from_iterable(zip_longest(*(each.values() for each in held.values())))
    return [sample for sample in in_turn if sample is not None][:most]


def files_told(folder: RunFolder) -> Counter[str]:
    """Return how often each file is a dead letter as a whole, by the batches that Spark ended.

    One that was cut off is counted again, and may find the file mended.
    """
    told: Counter[str] = Counter()
    last = newest_commit(folder.checkpoint)
    for dead in () if last is None else iter_dead_letters(folder.path):
        of_files = pc.is_in(dead.column("reason"), pa.array(OF_FILES))
        ended = pc.less_equal(dead.column("batch"), last)
        told.update(dead.column("file").filter(pc.and_(of_files, ended)).to_pylist())
    return told


@dataclass(frozen=True, slots=True)
class Run(Viewed):
    """A run's results, read from its output folder; a live one can be stopped.

    Parameters
    ----------
    folder
        Where everything lies.
    query
        That of a live run; ``None`` for one that has ended.
    closes
        What ends with the run: the hold on its folder, and a server of its metrics, say.
    options
        Settings of the connection to its topics; ``None`` for those of the file that
        ``KSTOOLKIT_KAFKA_CONFIG`` names.
    """

    folder: RunFolder
    query: StreamingQuery | None = field(default=None, repr=False)
    closes: ExitStack = field(default_factory=ExitStack, repr=False, compare=False)
    options: Mapping[str, str] | None = field(default=None, repr=False, compare=False)

    @property
    def settings(self) -> Settings:
        """What the run was told to do."""
        settings = self.folder.settings()
        if settings is None:
            raise self.folder.holds_no_run()
        return settings

    @property
    def changelog(self) -> Changelog:
        """The latest counts, as a folder of Parquet files; where they are a topic, as of now.

        If no broker answers, they are as of when the topic was last read here: a warning says so.
        """
        topic = self.settings.changelog
        if topic is None:
            return Changelog(self.folder.path / "changelog")
        from kstoolkit.kafka.outputs import changelog_of_folder  # noqa: PLC0415 - if it is asked

        given = changelog_of_folder(self.folder.shown, topic, self.options)
        return given.latest_in(self.folder.path / MIRROR)

    @property
    def _counted(self) -> tuple[Settings, Changelog]:
        return self.settings, self.changelog

    def summary(self) -> RunSummary:
        """Return the run in figures."""
        state_bytes = size_bytes(self.folder.checkpoint / "state")
        self.folder.check()
        batches = batches_of(self.folder, self.query, FOR_SUMMARY)
        told = RunSummary.of(batches, state_bytes, Changes(self.folder.ledger).look())
        return replace(told, incidents=self._states(are_some=told.findings > 0))

    def _states(self, *, are_some: bool) -> dict[str, int] | None:
        """Return how many incidents there are by state; ``None`` if what was found can't be read.

        If findings ``are_some``, they can be gone too.
        """
        try:
            told, now = self._news()
        except (OSError, FormatError, InputError):
            return None
        return states_of(told, **now) if told or not are_some else None

    def batches(self) -> Batches:
        """Return the run batch by batch: how long each took, and what it came to."""
        self.folder.check()
        return batches_of(self.folder, self.query)

    def as_of(self) -> dict[str, datetime | None]:
        """Return up to when windows hold all that came in, of those that lack what waits.

        A live run flushes long windows less often than it counts; its end flushes all of them,
        unless it comes too suddenly.

        Returns
        -------
        dict
            By window, UTC; ``None`` of one that never held all. Windows that lack nothing of what
            the batches took in are not there.
        """
        self.folder.check()
        newest = newest_batch(self.folder)
        told = {} if newest is None else newest.as_of_ms
        return {each: None if ms is None else moment_of(ms) for each, ms in told.items()}

    def history(
        self, user: str, *, action: str | None = None, where: Mapping[str, str | None] | None = None
    ) -> UserHistory:
        """Return one user's counts over time at every level of the cascade.

        Parameters
        ----------
        user
            Who; without any counts, the levels are empty.
        action
            Only this action; by default all together. Of several parts, ``where`` says which.
        where
            Only actions with these values of their parts, as ``{"region": "eu-west"}``; ``None`` is
            none.

        Raises
        ------
        ColumnError
            If there is no such part.
        """
        wanted = dict(where or {}) | ({} if action is None else {"action": action})
        return user_history(self._counted, user, wanted, findings=self._reported())

    @overload
    def story(self, what: str, *, known: Findings | None = None) -> UserStory: ...
    @overload
    def story(self, what: Finding, *, known: Findings | None = None) -> UserHistory: ...
    def story(
        self, what: str | Finding, *, known: Findings | None = None
    ) -> UserStory | UserHistory:
        """Return all that is known of a user; of a finding, the counts around it.

        Parameters
        ----------
        what
            A user's name: its counts at every level, what it does by share, its incidents, what was
            said of it. Or a finding: its user's counts of its action, at every level.
        known
            What was found, if that was read already: ``incidents.evidence``.
        """
        reported = self._reported() if known is None else known.table
        if isinstance(what, str):
            return user_story(self._counted, what, reported, (self.incidents(), self.marks))
        return user_history(self._counted, what.user, what.parts, findings=reported, about=what)

    def events(
        self,
        user: str,
        *,
        since: Moment,
        until: Moment,
        limit: int = 100,
        within_seconds: float = 10,
    ) -> pd.DataFrame:
        """Return a user's events in a stretch of time, read once more from the files they came in.

        Parameters
        ----------
        user
            Who.
        since, until
            From when on, and before when.
        limit
            At most so many; files are read in the order in which the run took them in.
        within_seconds
            No further file is begun after so long.

        Returns
        -------
        pandas.DataFrame
            ``time`` (UTC), ``action``, ``file``; by time. What lies in a file that is damaged or
            gone, or that ``limit`` or the time leaves out, is not there: the counts have it all.

        Raises
        ------
        ConfigurationError
            If the run's events came from no files, or its columns are SQL expressions.
        """
        span_ms, of = (moment_ms(since), moment_ms(until)), (self.settings, self.folder.ledger)
        told = user_events(of, user, span_ms, most=limit, within_s=within_seconds)
        found: pd.DataFrame = told.to_pandas()
        return found

    def counts(
        self,
        window: Duration | Window,
        *,
        user: str | None = None,
        by: str | Sequence[str] | None = None,
        where: Mapping[str, str | None] | None = None,
        limit: int | None = _SHOWN_ROWS,
    ) -> pd.DataFrame:
        """Return the latest counts of a window, as a tidy DataFrame.

        Parameters
        ----------
        window
            One of the cascade's windows.
        user
            Only this user's.
        by
            Sums over actions with the same values of these parts; ``[]``: each user's sum. By
            default each action alone. What ``min_count`` left out is in no sum, as a warning says.
        where
            Only actions with these values of their parts, as ``{"region": "eu-west"}``; ``None`` is
            none. An action that is one column is called ``"action"``.
        limit
            At most so many rows, announced if there are more; ``None`` for all.

        Returns
        -------
        pandas.DataFrame
            ``window_start``, ``window_end`` (UTC), ``user``, ``action``, ``count``; sorted by
            start, user and action. For ``action`` stand its parts, if several, or those asked for.

        Raises
        ------
        ColumnError
            If there is no such part.
        """
        if limit is not None:
            check_whole("limit", limit, least=0, hint="Give 0 or more; None is all.")
        chosen = self.window(window)
        users = None if user is None else {user}
        counters = self.changelog.counters(chosen.size_ms, users=users)
        found = _tidy(self._asked_by(counters, chosen, by, where), chosen)
        if limit is None or len(found) <= limit:
            return found
        warnings.warn(
            f"{format_count(limit)} of {format_count(len(found))} rows are shown; "
            f"limit=None gives all.",
            LimitedResultWarning,
            stacklevel=2,
        )
        return found.head(limit)

    def _asked_by(
        self,
        counters: Counters,
        window: Window,
        by: str | Sequence[str] | None,
        where: Mapping[str, str | None] | None,
    ) -> Counters:
        """Return the counters of some actions alone, summed by some of their parts."""
        settings = self.settings
        if not len(counters):
            counters = Counters.empty(settings.parts)
        chosen = counters.where(where or {})
        if by is None:
            return chosen
        least = dict(zip(settings.windows, settings.min_count, strict=False)).get(window.label, 1)
        if least > 1:
            below = f"Counts below {format_count(least)} were left out"
            message = f"{below}, and are in none of these sums."
            warnings.warn(message, LimitedResultWarning, stacklevel=4)
        return chosen.by([by] if isinstance(by, str) else by)

    def to_spark(self, spark: SparkSession, window: Duration | Window) -> DataFrame:
        """Return the latest counts of a window as a Spark DataFrame.

        It is read as :func:`kstoolkit.read_counts` says.

        Parameters
        ----------
        spark
            The session that reads them, which may be one of Spark Connect; it has to see the run's
            folder. Where the counts are a topic, what is new there is read into that first.
        window
            One of the cascade's windows.

        Returns
        -------
        pyspark.sql.DataFrame
            ``window_start``, ``window_end`` (timestamps), ``user``, ``action``, ``count``.
        """
        from kstoolkit.pipeline.results import latest_counts  # noqa: PLC0415 - loads pyspark

        chosen = self.window(window)
        return latest_counts(spark, self.changelog, chosen.size_ms).drop("window_ms")

    def window(self, window: Duration | Window) -> Window:
        """Return one of the cascade's windows, or raise what there is."""
        cascade = self.settings.cascade
        return cascade.levels[cascade.index(as_window(window))]

    @property
    def findings(self) -> Findings:
        """What was found: each story once, with its newest count."""
        reported = self._reported()
        parts = self.settings.parts
        if not reported.num_rows:
            return Findings(of_actions(reported, parts))
        levels = self._levels_of(set(reported["user"].to_pylist()))
        return Findings(of_actions(with_levels(fold_stories(reported), levels), parts))

    def _levels_of(self, users: set[str]) -> dict[Window, pa.Table]:
        """Return some users' counts by window; none if no broker answers and none were read."""
        try:
            changelog = self.changelog
        except KafkaError as error:
            message = f"{error.message} Findings are told with the counts that they were made of."
            warnings.warn(message, StaleResultWarning, stacklevel=4)
            return {}
        return {
            window: changelog.counters(window.size_ms, users=users).to_table()
            for window in self.settings.cascade.levels
        }

    def incidents(self, gap: Duration = GAP) -> Incidents:
        """Return what was found as incidents: findings of one user that touch in time, told once.

        Parameters
        ----------
        gap
            How much time may lie between two findings that are one incident. Another gap gives
            other incidents, in part under other ids.

        Returns
        -------
        Incidents
            Open ones, those that are resolved, and those that were merged into another; the one
            that began last first. Marks are beside them: see :meth:`mark`.

        Raises
        ------
        ConfigurationError
            If the gap is no duration, or the file of marks makes no sense.
        """
        return self.complete(self._incidents(gap))

    def _incidents(self, gap: Duration = GAP) -> Incidents:
        self.folder.check()
        told, now = self._news()
        return incidents_of(told, gap=gap, parts=self.settings.parts, **now)

    def _news(self) -> tuple[list[pa.Table], dict[str, int]]:
        """Return what batches told of findings, and up to when events have come, and the clock."""
        told, newest = self._told(), newest_batch(self.folder)
        reached_ms = None if newest is None else newest.reached_ms
        if reached_ms is None:  # earlier versions did not keep it
            reached_ms = max((pc.max(ends_ms(each)).as_py() or 0 for each in told), default=0)
        return told, {"reached_ms": reached_ms, "clock_ms": newest.batch_ms if newest else 0}

    def complete(self, incidents: Incidents) -> Incidents:
        """Return incidents with what only a run knows: marks, and the newcomers of campaigns."""
        campaigns = np.flatnonzero(np.asarray(incidents.table["user"].is_null())).tolist()
        names: list[Sequence[str] | None] = [None] * len(incidents)
        with suppress(KafkaError):  # whose counts are in a topic that nobody answers for
            firsts: _Firsts = {}
            for place in campaigns:
                findings = [each for each in incidents[place].findings if each.kind == CAMPAIGN]
                new = (self._new_in(each, firsts) for each in findings)
                names[place] = sorted(set().union(*new))
        return self.marks.on(incidents.with_newcomers(names) if campaigns else incidents)

    def _new_in(self, campaign: Finding, firsts: _Firsts) -> set[str]:
        """Return who did something for the first time; ``firsts`` has when each did, once read."""
        view, has_by = (campaign.window, campaign.by), campaign.by is not None
        if view not in firsts:
            firsts[view] = pa.concat_tables(
                (counters.by(campaign.by or ()) if has_by and len(counters) else counters)
                .to_table()
                .group_by(["user", "action"])
                .aggregate([("window_start_ms", "min")])
                for (counters,) in self.changelog.in_pieces(as_window(campaign.window).size_ms)
            )
        first = firsts[view]
        is_new = pc.equal(first["window_start_ms_min"], campaign.window_start_ms)
        new = first.filter(pc.and_(is_new, pc.equal(first["action"], campaign.action)))
        return set(new["user"].cast(pa.string()).to_pylist())

    @property
    def marks(self) -> Marks:
        """What was said of users and incidents, from the run's file ``marks.toml``."""
        return load_marks(self.folder.marks)

    def mark(
        self,
        what: Incident | str,
        mark: str,
        *,
        until: Moment | None = None,
        rules: str | Iterable[str] | None = None,
        why: str | None = None,
    ) -> Mark:
        """Say of a user, or of one incident, that it is known, confirmed or muted.

        It is kept in the run's file ``marks.toml``, in the place of what was said of it before. A
        run that goes on takes it from there.

        Parameters
        ----------
        what
            An incident, its id, or a user's name.
        mark
            ``"known"``: a user that no rule need find, that teaches nothing of others; or an
            incident in order. ``"confirmed"``: abnormal. ``"muted"``: found, without an alert. What
            is known or confirmed is a label for :func:`kstoolkit.evaluate`.
        until
            It holds for windows that begin before then, and a mute for alerts before then.
        rules
            It holds for rules whose names begin so.
        why
            The reason, for whoever reads the file.

        Returns
        -------
        Mark
            What was written.

        Raises
        ------
        ConfigurationError
            If it makes no sense, or the file holds something else than marks.
        OutputError
            If the file can't be written.
        """
        self.folder.check()
        if isinstance(what, str):
            told_of = self.incidents()
            what = told_of.named(what) if what in told_of.table["id"].to_pylist() else what
        told = mark_of(what, mark, until=until, rules=rules, why=why)
        add_mark(self.folder.marks, told)
        return told

    def unmark(self, what: Incident | str) -> int:
        """Take back what was said of a user or an incident; return how many marks there were."""
        return remove_marks(self.folder.marks, what if isinstance(what, str) else what.id)

    def _reported(self) -> pa.Table:
        """Return every finding that was reported, each window of each level once."""
        self.folder.check()
        return merge_findings([each.drop_columns(["batch"]) for each in self._told()])

    def _told(self) -> list[pa.Table]:
        """Return what batches told of findings; where that is gone as a whole, nothing is known."""
        place = self.folder.path / "findings"
        if not any(place.glob("epoch=*")):  # as before the first batch
            found = sum(each.findings for each in batches_of(self.folder, None, FOR_SUMMARY))
            if found:
                message = f"{counted(found, 'findings')} of this run are gone: {place} has none."
                hint = "Restore the folder from a copy, or count into another one."
                raise InputError(message, hint=hint)
        return told_findings(self.folder.path)

    @property
    def dead_letters(self) -> DeadLetters:
        """Records that could not be counted: how many, and the first of them with their raw text.

        At most 100,000 are held, as is said. All lie as Parquet in the run's ``dead_letters``.
        """
        self.folder.check()
        found = _read_dead_letters(self.folder.path, limit=_SHOWN_ROWS)
        if found.table.num_rows < len(found):
            warnings.warn(
                f"The first {format_count(found.table.num_rows)} of {format_count(len(found))} "
                f"dead letters are held; {str(self.folder.path / 'dead_letters')!r} has all.",
                LimitedResultWarning,
                stacklevel=2,
            )
        return found

    def users(
        self,
        *,
        by: str | Sequence[str] | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        exempt: Iterable[str | Exempt] = (),
        group: str | None = None,
        most: int | None = None,
        also: Iterable[str] = (),
    ) -> pd.DataFrame:
        """Return users with a score over all windows and actions, most abnormal first.

        Parameters
        ----------
        by
            By which parts of an action a user's mix is told: by default all of them.
        since, until
            Only windows that begin from then on, and before then.
        exempt
            Names, or rules: these users are not ranked, and nobody is compared with them.
        group
            A regular expression (RE2): users in whose names it matches the same text are compared
            with each other alone, as ``"^(?:svc|bot)-"`` sets services apart from people.
        most
            So many are returned, by default all: the sentences of a million users are large.
        also
            Of the others, these are returned, too.

        Returns
        -------
        pandas.DataFrame
            By place, from 0 on, of as many as its ``attrs["users"]`` says: ``user``, ``score``,
            ``reason`` and the figures behind it, of which ``incidents`` is how many there are of
            this user. Of an action of several parts its main one stands in columns of their names,
            with ``main_`` in front.

        Raises
        ------
        ColumnError
            If there is no such part.
        ConfigurationError
            If a moment is none, since is not before until, or the group is no regular expression.
        """
        since_ms, until_ms = span = [None if t is None else moment_ms(t) for t in (since, until)]
        if since_ms is not None and until_ms is not None and since_ms >= until_ms:
            message = f"since={since!r} is not before until={until!r}."
            raise ConfigurationError(message, hint="Give an earlier since, or none.")
        windows = self.settings.cascade.windows
        tumbling = [window for window in windows if window.is_tumbling] or list(windows)
        # The coarsest windows of which each lies within the span, or else the finest there are.
        whole = [w for w in tumbling if all((each or 0) % w.size_ms == 0 for each in span)]
        coarse, finest = (whole or tumbling[:1])[-1], tumbling[0]
        rules = [each if isinstance(each, Exempt) else Exempt([each]) for each in exempt]
        totals, peaks = [], []
        for some in self.changelog.in_pieces(*dict.fromkeys([coarse.size_ms, finest.size_ms])):
            counters = [_ranked_counters(each, rules, span) for each in some]
            totals.append(self._asked_by(counters[0], coarse, by, None).over_time().to_table())
            peaks.append(counters[-1].peaks())
        choice = Choice(since_ms=since_ms, until_ms=until_ms)
        incidents = self._incidents().of(choice)
        found, told = choice.of(incidents.evidence).table, incidents.table
        told = told.filter(pc.and_(told["user"].is_valid(), pc.not_equal(told["state"], MERGED)))
        names: dict[str, Any] = {"window": finest, "group": group, "incidents": told}
        both = pa.concat_tables(totals), pa.concat_tables(peaks)
        places = rank_users(*both, found, **names, most=most, also=also).to_pandas()
        ranked: pd.DataFrame = places.set_index("place").rename_axis(index=None)
        ranked.attrs["users"] = len(pc.unique(both[0]["user"]))
        marks = self.marks.of_users()
        marked = ranked["user"].isin(marks.keys())
        mark = ranked.loc[marked, "user"].map(marks)
        ranked.loc[marked, "reason"] = (
            ranked.loc[marked, "reason"].str[:-1] + "; marked " + mark + "."
        )
        return ranked

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write a self-contained HTML report, and return where it is."""
        from kstoolkit.report.report import report_of  # noqa: PLC0415 - draws: only when asked

        return report_of(self).write(path)

    def serve_metrics(
        self, port: int = 0, *, host: str = "127.0.0.1", options: Mapping[str, str] | None = None
    ) -> MetricsServer:
        """Serve the run's figures to Prometheus: see :func:`kstoolkit.serve_metrics`."""
        from kstoolkit.operations.metrics import serve_metrics  # noqa: PLC0415 - only when asked

        return serve_metrics(
            self, port=port, host=host, restarts=lambda: self.restarts, options=options
        )

    @property
    def restarts(self) -> int:
        """How often its query died and was started again, in all its life."""
        return len(RestartLog(self.folder.restarts).read())

    @property
    def is_active(self) -> bool:
        """Whether the run is live, and still counting."""
        try:
            return self.query is not None and bool(self.query.isActive)
        except JAVA_IS_GONE:
            return False

    def failure(self) -> KstoolkitError | None:
        """Return why a live run ended by itself, as the error to raise; None if it did not."""
        try:
            why: object = None if self.query is None else self.query.exception()
        except JAVA_IS_GONE:
            return java_ended(self.folder)
        if why is None:
            return None
        return why if isinstance(why, KstoolkitError) else run_failed(why, self.folder)

    @property
    def rests(self) -> bool:
        """Whether a live run has counted what there is, and waits for its next trigger."""
        return self.query is not None and not self.query.status["isTriggerActive"]

    def stop(self) -> None:
        """End a live run after the batch at hand; started again, it goes on from there.

        What waits for a flush is flushed first, in a batch that takes nothing new in. A function of
        ``on_batch`` that calls it does not wait: the run ends after its batch.
        """
        # A query that metrics found by its name is Spark's own, and has no such method.
        if getattr(self.query, "ends_from_within", lambda: False)():
            Thread(target=self.stop, name="kstoolkit-stop").start()
            return
        try:
            with suppress(*JAVA_IS_GONE):  # who stops a service stops all its processes at once
                if self.query is not None:
                    self.query.stop()
                settings = self.folder.settings()
                if settings is not None:
                    keep_state_size(self.folder, settings.epoch, self.query)
        finally:
            self.closes.close()

    def __repr__(self) -> str:
        settings = self.settings
        state = "live, " if self.is_active else ""
        return f"Run({self.folder.shown!r}, {state}{', '.join(settings.windows)})"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.summary()._repr_html_()}"


def load_run(out: str | os.PathLike[str], *, options: Mapping[str, str] | None = None) -> Run:
    """Open an earlier run's output folder.

    Parameters
    ----------
    out
        The folder.
    options
        Settings of the connection to its topics; by default those of the file that
        ``KSTOOLKIT_KAFKA_CONFIG`` names. The servers that the folder names get them only if they
        stand in them as ``bootstrap.servers``: a folder may have come from anybody.

    Raises
    ------
    InputError
        If it holds no run.
    """
    run = Run(RunFolder.at(out), options=options)
    _ = run.settings
    return run


def _ranked_counters(
    counters: Counters, exempt: Sequence[Exempt], span: Sequence[int | None]
) -> Counters:
    """Return the counters of users that are ranked, of windows that begin in a span."""
    since_ms, until_ms = span
    chosen = ~np.asarray(exempted(exempt, counters.users), bool)[counters.user]
    if since_ms is not None:
        chosen &= counters.start_ms >= since_ms
    if until_ms is not None:
        chosen &= counters.start_ms < until_ms
    return counters if chosen.all() else counters.take(chosen)
