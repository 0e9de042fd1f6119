"""What a report is made of, as plain records: they can be filled without Spark.

Times are epoch milliseconds, UTC. What can't be known is said by whoever fills the record, as in
``"unknown (no history yet)"``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kstoolkit.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from kstoolkit.pipeline.run import LevelCounts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReportFinding:
    """One finding: its sentence, its evidence, and the counts around it.

    Parameters
    ----------
    sentence
        The finding in words.
    rule, user, action, window
        Names, as people write them; the window is a label such as ``"1 hour"``.
    window_start_ms, window_end_ms
        The window at fault.
    count
        Events in it.
    expected, probability
        In few words: ``"2 to 14"``, ``"3 in 10⁹"``, ``"unknown (no history yet)"``.
    first_seen_ms
        When the finding first appeared; ``None`` if that was not kept.
    other_levels
        The counts of the cascade's other windows at that time: label and count.
    series
        The counts to plot; ``None`` if they were not kept.
    """

    sentence: str
    rule: str
    user: str
    action: str
    window: str
    window_start_ms: int
    window_end_ms: int
    count: int
    expected: str
    probability: str
    first_seen_ms: int | None = None
    other_levels: Sequence[tuple[str, int]] = ()
    series: LevelCounts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportUser:
    """A user with a score, and the reason for it in words."""

    user: str
    score: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterSample:
    """One record that was not counted: why, where it came from, and its raw text."""

    reason: str
    raw: str
    file: str | None = None
    batch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetters:
    """How many records were not counted, by reason code, and some of them."""

    counts: Sequence[tuple[str, int]] = ()
    samples: Sequence[DeadLetterSample] = ()

    @property
    def total(self) -> int:
        """The dead letters of all reasons."""
        return sum(count for _, count in self.counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a report comes from: the versions, the command, the time covered, when it was made.

    Parameters
    ----------
    generated_at
        When; aware of its zone.
    versions
        Name and version of what took part.
    command
        What makes this run again.
    first_event_ms, last_event_ms
        The time that the events cover; ``None`` without events.

    Raises
    ------
    ConfigurationError
        If ``generated_at`` has no zone.
    """

    generated_at: datetime
    versions: Sequence[tuple[str, str]] = ()
    command: str | None = None
    first_event_ms: int | None = None
    last_event_ms: int | None = None

    def __post_init__(self) -> None:
        if self.generated_at.utcoffset() is None:
            message = f"The time {self.generated_at} has no zone."
            raise ConfigurationError(message, hint="Give datetime.now(UTC).")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReportContent:
    """Everything that a report says.

    Parameters
    ----------
    title
        Of the whole report.
    summary
        Label and value, in the order to be read.
    findings, users
        Most abnormal first.
    num_findings, num_users
        How many there are altogether, if only the first of them are given.
    dead_letters, origin
        See there.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> origin = Origin(generated_at=datetime(2015, 9, 13, tzinfo=UTC))
    >>> ReportContent(title="Edits", origin=origin).total_findings
    0
    """

    title: str
    origin: Origin
    summary: Sequence[tuple[str, str]] = ()
    findings: Sequence[ReportFinding] = ()
    num_findings: int | None = None
    users: Sequence[ReportUser] = ()
    num_users: int | None = None
    dead_letters: DeadLetters = field(default_factory=DeadLetters)

    @property
    def total_findings(self) -> int:
        """All findings, those included that are not given."""
        return len(self.findings) if self.num_findings is None else self.num_findings

    @property
    def total_users(self) -> int:
        """All users with a score, those included that are not given."""
        return len(self.users) if self.num_users is None else self.num_users
