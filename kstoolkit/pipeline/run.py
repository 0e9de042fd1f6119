"""A run, to be asked: what was counted, who was found, what could not be counted."""

from __future__ import annotations

import warnings
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from kstoolkit.changelog.changelog import MIRROR, BatchFolders, Changelog
from kstoolkit.errors import ConfigurationError, KstoolkitError, LimitedResultWarning
from kstoolkit.findings.finding import FINDINGS_SCHEMA, Findings
from kstoolkit.findings.ranking import rank_users
from kstoolkit.findings.stories import fold_stories, merge_findings, with_other_levels
from kstoolkit.kafka.outputs import kafka_changelog
from kstoolkit.pipeline.batchhistory import Batches, batches_of, size_bytes
from kstoolkit.pipeline.failure import JAVA_IS_GONE, java_ended, run_failed
from kstoolkit.pipeline.letters import read_letters
from kstoolkit.pipeline.restarts import RestartLog
from kstoolkit.pipeline.runfolder import Hold, RunFolder, Settings
from kstoolkit.pipeline.statesizes import StateSizes, told_sizes
from kstoolkit.pipeline.summary import Summary
from kstoolkit.pipeline.tidycounts import tidy
from kstoolkit.pipeline.userhistory import UserHistory, user_history
from kstoolkit.records import Viewed
from kstoolkit.units import format_count
from kstoolkit.windows import Window, as_window

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    import pandas as pd
    from pyspark.sql.streaming.query import StreamingQuery

    from kstoolkit.events.event import DeadLetters
    from kstoolkit.findings.finding import Finding
    from kstoolkit.operations.metrics import MetricsServer
    from kstoolkit.pipeline.progress import Progress
    from kstoolkit.units import Duration


SHOWN_ROWS = 100_000


@dataclass(frozen=True, slots=True)
class Run(Viewed):
    """A run's results, read from its output folder; a live one can be stopped.

    Parameters
    ----------
    folder
        Where everything lies.
    query, hold, progress
        What a live run needs to be stopped; ``None`` for one that has ended.
    closes
        What ends with the run, as a server of its metrics does.
    options
        Settings of the connection to its topics; ``None`` for those of the file that
        ``KSTOOLKIT_KAFKA_CONFIG`` names.
    """

    folder: RunFolder
    query: StreamingQuery | None = field(default=None, repr=False)
    hold: Hold | None = field(default=None, repr=False)
    progress: Progress | None = field(default=None, repr=False)
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
        """The latest counts, as a folder of Parquet files; where they are a topic, as of now."""
        topic = self.settings.changelog
        if topic is None:
            return Changelog(self.folder.path / "changelog")
        mirror = kafka_changelog(topic, options=self.options).mirrored_in(self.folder.path / MIRROR)
        mirror.refresh()
        return mirror

    def summary(self) -> Summary:
        """Return the run in figures."""
        batches = self.batches()
        size = batches.state[-1] if len(batches) else None
        return Summary.of(batches, size_bytes(self.folder.checkpoint / "state"), size)

    def batches(self) -> Batches:
        """Return the run batch by batch: how long each took, and what it came to."""
        self.folder.check()
        return batches_of(self.folder, told_sizes(self.query))

    def history(self, user: str, *, action: str | None = None) -> UserHistory:
        """Return one user's counts over time at every level of the cascade.

        Parameters
        ----------
        user
            Who; without any counts, the levels are empty.
        action
            Only this action; by default all of them together.
        """
        return user_history(self, user, action, findings=self._told())

    def story(self, finding: Finding) -> UserHistory:
        """Return the counts around a finding: its user's of its action, at every level."""
        told = self._told()
        return user_history(self, finding.user, finding.action, findings=told, about=finding)

    def counts(
        self,
        window: Duration | Window,
        *,
        user: str | None = None,
        limit: int | None = SHOWN_ROWS,
    ) -> pd.DataFrame:
        """Return the latest counts of a window, as a tidy DataFrame.

        Parameters
        ----------
        window
            One of the cascade's windows.
        user
            Only this user's.
        limit
            At most so many rows, announced if there are more; ``None`` for all.

        Returns
        -------
        pandas.DataFrame
            ``window_start``, ``window_end`` (UTC), ``user``, ``action``, ``count``; sorted by
            start, user and action.
        """
        if limit is not None and limit < 0:
            message = f"limit is {limit}: there are no fewer rows than none."
            raise ConfigurationError(message, hint="Give 0 or more; None is all.")
        chosen = self.window(window)
        users = None if user is None else {user}
        found = tidy(self.changelog.counters(chosen.size_ms, users=users), chosen)
        if limit is None or len(found) <= limit:
            return found
        warnings.warn(
            f"{format_count(limit)} of {format_count(len(found))} rows are shown; "
            f"limit=None gives all.",
            LimitedResultWarning,
            stacklevel=2,
        )
        return found.head(limit)

    def window(self, window: Duration | Window) -> Window:
        """Return one of the cascade's windows, or raise what there is."""
        cascade = self.settings.cascade
        return cascade.windows[cascade.index(as_window(window))]

    @property
    def findings(self) -> Findings:
        """What was found: each story once, with its newest count."""
        told = self._told()
        if not told.num_rows:
            return Findings(told)
        users = set(told["user"].to_pylist())
        levels = {
            window: self.changelog.counters(window.size_ms, users=users).to_table()
            for window in self.settings.cascade.windows
        }
        return Findings(with_other_levels(fold_stories(told), levels))

    def _told(self) -> pa.Table:
        """Return every finding that was reported, each window of each level once."""
        self.folder.check()
        folders = BatchFolders(self.folder.path / "findings").marked()
        tables = [pq.read_table(path) for batch in folders for path in batch.files(".parquet")]
        return merge_findings([table.cast(FINDINGS_SCHEMA) for table in tables])

    @property
    def dead_letters(self) -> DeadLetters:
        """Records that could not be counted: how many, and the first of them with their raw text.

        At most 100,000 are held, which is announced. All of them lie as Parquet files in the run's
        folder ``dead_letters``.
        """
        self.folder.check()
        found = read_letters(self.folder.path, limit=SHOWN_ROWS)
        if found.table.num_rows < len(found):
            warnings.warn(
                f"The first {format_count(found.table.num_rows)} of {format_count(len(found))} "
                f"dead letters are held; {str(self.folder.path / 'dead_letters')!r} has all.",
                LimitedResultWarning,
                stacklevel=2,
            )
        return found

    def users(self) -> pd.DataFrame:
        """Return every user with a score over all windows and actions, most abnormal first.

        Returns
        -------
        pandas.DataFrame
            ``user``, ``score``, ``reason`` and the figures behind it.
        """
        windows = self.settings.cascade.windows
        tumbling = [window for window in windows if window.is_tumbling] or list(windows)
        totals = self.changelog.counters(tumbling[-1].size_ms)
        finest = self.changelog.counters(tumbling[0].size_ms)
        ranked: pd.DataFrame = rank_users(totals.over_time().to_table(), finest.peaks()).to_pandas()
        return ranked

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write a self-contained HTML report, and return where it is."""
        from kstoolkit.pipeline.reporting import report_of  # noqa: PLC0415 - draws: only when asked
        from kstoolkit.report import write_report  # noqa: PLC0415

        return write_report(Path(path), report_of(self))

    def serve_metrics(
        self,
        port: int = 0,
        *,
        host: str = "127.0.0.1",
        options: Mapping[str, str] | None = None,
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

    def failure(self) -> KstoolkitError:
        """Return why a live run ended by itself, as the error to raise."""
        try:
            why: object = None if self.query is None else self.query.exception()
        except JAVA_IS_GONE:
            return java_ended(self.folder)
        return why if isinstance(why, KstoolkitError) else run_failed(why, self.folder)

    def stop(self) -> None:
        """End a live run after the batch at hand; started again, it goes on from there."""
        try:
            with suppress(*JAVA_IS_GONE):  # who stops a service stops all its processes at once
                if self.query is not None:
                    self.query.stop()
                settings = self.folder.settings()
                if settings is not None:
                    StateSizes(self.folder.path, settings.epoch, self.query).keep()
        finally:
            self.closes.close()
            if self.progress is not None:
                self.progress.close()
            if self.hold is not None:
                self.hold.release()

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
        ``KSTOOLKIT_KAFKA_CONFIG`` names.

    Raises
    ------
    InputError
        If it holds no run.
    """
    run = Run(RunFolder(Path(out).absolute()), options=options)
    _ = run.settings
    return run
