"""Events that nobody made: seeded, with abnormal users among the ordinary, and labels that tell.

Examples
--------
>>> from datetime import UTC, datetime
>>> simulation = simulate(event_count=1000, users=50, start=datetime(2026, 3, 2, tzinfo=UTC))
>>> simulation.events().column_names
['time', 'user', 'action']
>>> simulation.labels()["kind"].unique().to_pylist()
['burst', 'low-and-slow', 'new-user-flood', 'ramp', 'shared-account']
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from kstoolkit.errors import ConfigurationError
from kstoolkit.events.abnormal import KINDS
from kstoolkit.events.draws import Draws
from kstoolkit.events.event_files import replacing, write_events
from kstoolkit.events.labels import label_lines, label_table
from kstoolkit.events.names import user_names
from kstoolkit.events.ordinary import Span
from kstoolkit.events.scenario import Scenario
from kstoolkit.units import Duration, format_duration, parse_duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike

    from kstoolkit.events.event_files import Compression, FileFormat


EVENTS_SCHEMA = pa.schema(
    {"time": pa.timestamp("ms", tz="UTC"), "user": pa.string(), "action": pa.string()}
)

ACTIONS = ("view", "search", "edit", "comment", "download", "share")

ABNORMAL = {"burst": 3, "ramp": 3, "low-and-slow": 2, "new-user-flood": 6, "shared-account": 3}
"""How many abnormal users of each kind there are unless told otherwise."""

START = datetime(2026, 3, 2, 9, tzinfo=UTC)
"""A Monday morning: users are awake, so that history does not begin with its quietest hours."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHORTEST_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Simulation:
    """What to simulate; the same record gives the same events, on any machine.

    Made by :func:`simulate`, which says what the fields mean. As a source of a pipeline it names
    its own columns: ``event_time``, ``user`` and ``action``.

    Examples
    --------
    >>> simulate(event_count=1000, users=50, abnormal={"burst": 1})
    Simulation(event_count=1000, users=50, duration='2 days', start='2026-03-02T09:00:00+00:00', \
actions=('view', 'search', 'edit', 'comment', 'download', 'share'), seed=0, abnormal={'burst': 1})
    """

    event_count: int
    users: int
    duration_ms: int
    start: datetime
    actions: tuple[str, ...]
    seed: int
    abnormal: Mapping[str, int] = field(hash=False)

    event_time: ClassVar[str] = "time"
    user: ClassVar[str] = "user"
    action: ClassVar[str] = "action"

    def __post_init__(self) -> None:
        _check_number("event_count", self.event_count, 1)
        _check_number("users", self.users, 1)
        _check_number("duration_ms", self.duration_ms, _SHORTEST_MS)
        _check_number("seed", self.seed, 0)
        _check_start(self.start)
        _check_actions(self.actions)
        _check_abnormal(self.abnormal, self.users)

    def __repr__(self) -> str:
        return (
            f"Simulation(event_count={self.event_count}, users={self.users}, "
            f"duration={format_duration(self.duration_ms)!r}, start={self.start.isoformat()!r}, "
            f"actions={self.actions!r}, seed={self.seed}, abnormal={dict(self.abnormal)!r})"
        )

    def events(self) -> pa.Table:
        """Return all events, in order of time.

        Returns
        -------
        pyarrow.Table
            Columns time (timestamp[ms, UTC]), user and action (string).
        """
        acts = self._scenario().acts()
        columns = [
            pa.array(acts.time_ms).cast(EVENTS_SCHEMA.field("time").type),
            self._names().take(pa.array(acts.user)),
            pa.array(self.actions, pa.string()).take(pa.array(acts.action)),
        ]
        return pa.Table.from_arrays(columns, schema=EVENTS_SCHEMA)

    def labels(self) -> pa.Table:
        """Return who is abnormal, how, when and by how much: one row an abnormal user.

        Returns
        -------
        pyarrow.Table
            Columns user, kind, since and until (timestamp[ms, UTC]; until is outside), action
            (null where there are several) and extra_events: how many of the user's events
            between since and until an ordinary user would not have made.
        """
        return label_table(self._scenario().parts(), self._names(), self.actions)

    def write(
        self,
        path: str | PathLike[str],
        *,
        format: FileFormat = "json",  # noqa: A002 - what Spark and pandas call it, too
        compression: Compression | None = "gzip",
        files: int = 1,
    ) -> list[Path]:
        """Write the events as files to the folder ``path``, and ``labels.json`` beside it.

        Parameters
        ----------
        path
            The folder of events; it holds nothing else, so that it can be read as a whole.
        format, compression
            JSON lines, CSV or Parquet; with ``"gzip"``, ``"zstd"`` or without (``None``).
        files
            How many files, each a stretch of time with about the same number of events.

        Returns
        -------
        list of Path
            The files of events in order of time; the labels last.

        Raises
        ------
        ConfigurationError
            If there is no such format or compression, or there are fewer events than files.
        OutputError
            If the folder can't be written, or holds other files of events.

        Notes
        -----
        The bytes of JSON and CSV are the same each time, those of gzip for one kind of zlib, those
        of Parquet and zstd for one version of pyarrow.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     written = simulate(event_count=500, users=50).write(f"{folder}/events", files=2)
        >>> [path.name for path in written]
        ['events-001.json.gz', 'events-002.json.gz', 'labels.json']
        """
        folder = Path(path).resolve()
        written = write_events(
            self.events(), folder, file_format=format, compression=compression, files=files
        )
        labels = folder.parent / "labels.json"
        with replacing(labels) as out:
            out.writelines(label_lines(self.labels()))
        return [*written, labels]

    def _scenario(self) -> Scenario:
        start_ms = (self.start - _EPOCH) // timedelta(milliseconds=1)
        return Scenario(
            event_count=self.event_count,
            users=self.users,
            actions=len(self.actions),
            span=Span(start_ms, start_ms + self.duration_ms),
            seed=self.seed,
            abnormal=self.abnormal,
        )

    def _names(self) -> pa.Array:
        return user_names(Draws(self.seed, "names"), self._scenario().all_users)


def simulate(
    *,
    event_count: int = 100_000,
    users: int = 1_000,
    duration: Duration = "2 days",
    start: datetime = START,
    actions: Sequence[str] = ACTIONS,
    seed: int = 0,
    abnormal: Mapping[str, int] | None = None,
) -> Simulation:
    """Return a simulation of what users do: nothing is made until its events are asked for.

    Parameters
    ----------
    event_count
        How many events ordinary users make in all; what is abnormal comes on top.
    users
        How many ordinary users there are. Some of them go astray at some time; the abnormal
        accounts ("low-and-slow" and "new-user-flood") come on top.
    duration
        How long, at least a minute. Shares of it, not fixed times, say when users go astray, so
        that there is a history before; a day or more leaves enough of it for hourly windows.
    start
        The first moment, with a time zone.
    actions
        What users do, the most frequent first; the k-th is done 1/k as often as the first.
    seed
        From 0 on; another seed gives other events.
    abnormal
        How many abnormal users of each kind: burst, ramp, low-and-slow, new-user-flood,
        shared-account. ``{}`` for none.

    Raises
    ------
    ConfigurationError
        If a number is too small, the start has no time zone, an action is empty or twice there,
        a kind is unknown, or more users should go astray than there are.

    Examples
    --------
    >>> simulate(event_count=200, users=20, abnormal={"burst": 1}).labels()["kind"].to_pylist()
    ['burst']
    """
    return Simulation(
        event_count=event_count,
        users=users,
        duration_ms=parse_duration(duration),
        start=start,
        actions=tuple(actions),
        seed=seed,
        abnormal=dict(ABNORMAL if abnormal is None else abnormal),
    )


def _check_number(name: str, value: int, least: int) -> None:
    if value < least:
        message = f"{name} is {value!r}."
        raise ConfigurationError(message, hint=f"Give a whole number from {least:,} on.")


def _check_start(start: datetime) -> None:
    if start.utcoffset() is None:
        message = f"The start {start.isoformat()} has no time zone."
        raise ConfigurationError(message, hint="Write datetime(2026, 3, 2, tzinfo=UTC).")


def _check_actions(actions: Sequence[str]) -> None:
    if not actions or "" in actions or len(set(actions)) < len(actions):
        message = f"{list(actions)!r} are no actions to choose from."
        raise ConfigurationError(message, hint="Give one or more different names, none empty.")


def _check_abnormal(abnormal: Mapping[str, int], users: int) -> None:
    for kind, number in abnormal.items():
        if kind not in KINDS:
            near = get_close_matches(kind, KINDS, n=1)
            guess = f"Did you mean {near[0]!r}? " if near else ""
            message = f"There is no kind {kind!r} of abnormal user."
            raise ConfigurationError(message, hint=f"{guess}There are: {', '.join(KINDS)}.")
        _check_number(f"The number of {kind!r}", number, 0)
    astray = sum(number for kind, number in abnormal.items() if not KINDS[kind].is_account)
    if astray > users:
        message = f"{astray:,} of {users:,} ordinary users can't go astray."
        raise ConfigurationError(message, hint="Give more users, or fewer abnormal ones.")
