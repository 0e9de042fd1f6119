"""Which events to try things on, made by nobody: seeded, with abnormal users among the ordinary.

Labels tell who is abnormal, how, when, and by how much: the answers to the exercise.

Ordinary users act by laws of :mod:`~kstoolkit.events.worlds`, which also says how draws come out
alike on every machine. Names say nothing about who is abnormal.

>>> from datetime import UTC, datetime
>>> simulation = simulate(event_count=1000, users=50, start=datetime(2026, 3, 2, tzinfo=UTC))
>>> simulation.events().column_names
['time', 'user', 'action']
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.errors import ConfigurationError, check_known, local_folder
from kstoolkit.events.records import replacing, write_events
from kstoolkit.events.worlds import (
    HOUR_MS,
    Acts,
    Draws,
    Habits,
    Laws,
    Span,
    act,
    checked_world,
    habits_of,
    pick,
    power,
    share_out,
)
from kstoolkit.moments import moment_ms
from kstoolkit.units import Duration, check_whole, format_duration, parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from os import PathLike
    from pathlib import Path

    from numpy.typing import NDArray

    from kstoolkit.events.opening import FileFormat
    from kstoolkit.events.records import Compression

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

_MINUTE_MS, _DAY_MS = 60_000, 86_400_000
_A_DAY_MORE = 1.1
_OF_A_SERVICE = 1000  # events an hour
_NO_ACTION = -1  # stands for "several actions" among numbers of actions


@dataclass(frozen=True, slots=True)
class _Stage:
    """What abnormal users of one kind meet.

    ``hourly`` are the events per hour that each of them makes anyway, on average; of an ordinary
    user for those that make none. ``phase`` are the hours that each one's day is ahead of UTC, and
    ``mix`` are the weights of actions; of accounts of their own there are none.
    """

    draws: Draws
    span: Span
    laws: Laws
    actions: int
    hourly: Floats
    phase: Ints
    mix: Floats

    @property
    def number(self) -> int:
        return len(self.hourly)

    def moments(self, low: float, high: float) -> Ints:
        """Return a time for each user, between two shares of the span."""
        shares = self.draws.between(low, high, self.number)
        return self.span.start_ms + np.floor(shares * self.span.length_ms).astype(np.int64)

    def lengths(self, low_ms: int, high_ms: int, at_most: float) -> Ints:
        """Return a length for each user, no more than a share of the span."""
        limit = int(self.span.length_ms * at_most)
        return self.draws.integers(min(low_ms, limit), min(high_ms, limit) + 1, self.number)

    def rare_actions(self) -> Ints:
        """Return an action for each user: any but the most frequent one, if there are more."""
        return self.draws.integers(min(1, self.actions - 1), self.actions, self.number)

    def usual_actions(self) -> tuple[Ints, Floats]:
        """Return each user's most frequent action, and how often an hour it does that."""
        shares = self.mix / np.cumsum(self.mix, axis=1)[:, -1:]
        usual = np.argmax(shares, axis=1).astype(np.int64)
        return usual, self.hourly * shares[np.arange(self.number), usual]

    def at_random(self, expected: Floats) -> Ints:
        """Return whole numbers of these means, but at least 1: one of the two beside each."""
        drawn = np.floor(expected + self.draws.uniform(len(expected)))
        return np.maximum(drawn, 1).astype(np.int64)


@dataclass(frozen=True, slots=True)
class _Trouble:
    """What abnormal users of one kind add: a label's columns, and the events.

    Users are numbered by their place; ``action`` is ``_NO_ACTION`` where there are several.
    """

    since_ms: Ints
    until_ms: Ints
    action: Ints
    acts: Acts

    @property
    def extra_events(self) -> Ints:
        return np.bincount(self.acts.user, minlength=len(self.since_ms)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of abnormal user: an account of its own, or an ordinary user that goes astray."""

    make: Callable[[_Stage], _Trouble]
    is_account: bool = False


def _burst(stage: _Stage) -> _Trouble:
    since = stage.moments(0.6, 0.9)
    until = since + stage.lengths(2 * _MINUTE_MS, 5 * _MINUTE_MS, 1 / 20)
    counts = 240 + _times(stage.hourly, 15) + stage.draws.integers(0, 160, stage.number)
    return _one_action(stage, since, until, counts, place=_evenly_at_random)


def _ramp(stage: _Stage) -> _Trouble:
    since = stage.moments(0.6, 0.75)
    until = since + stage.lengths(6 * HOUR_MS, 8 * HOUR_MS, 1 / 5)
    counts = 300 + _times(stage.hourly, 40) + stage.draws.integers(0, 100, stage.number)
    return _one_action(stage, since, until, counts, place=_more_and_more)


def _low_and_slow(stage: _Stage) -> _Trouble:
    since = np.full(stage.number, stage.span.start_ms)
    until = np.full(stage.number, stage.span.end_ms)
    distance = stage.draws.integers(4 * _MINUTE_MS, 8 * _MINUTE_MS, stage.number)
    counts = np.maximum(24, stage.span.length_ms // distance)
    return _one_action(stage, since, until, counts, place=_at_even_distances)


def _new_user_flood(stage: _Stage) -> _Trouble:
    """Make one campaign: all accounts begin within an hour, and do the same thing."""
    campaign = stage.moments(0.6, 0.9)[:1]
    since = campaign + stage.lengths(0, HOUR_MS, 1 / 40)
    until = since + stage.lengths(10 * _MINUTE_MS, 20 * _MINUTE_MS, 1 / 20)
    counts = 80 + _times(stage.hourly, 10) + stage.draws.integers(0, 80, stage.number)
    actions = np.repeat(stage.rare_actions()[:1], stage.number)
    return _one_action(stage, since, until, counts, place=_evenly_at_random, actions=actions)


def _shared_account(stage: _Stage) -> _Trouble:
    """Add a second person: another mix, and a day that begins half a day later."""
    own_start = stage.moments(0.5, 0.7)
    first_hours = (own_start - stage.span.start_ms) // HOUR_MS
    since = stage.span.hour_starts_ms[first_hours]
    hours_left = (stage.span.end_ms - since) / HOUR_MS
    counts = 300 + _times(stage.hourly * hours_left, 10)
    fresh = habits_of(stage.draws, stage.number, stage.actions)
    second = Habits((stage.phase + 12) % 24, fresh.mix)
    acts = act(stage.draws, counts, second, stage.span, stage.laws, first_hours=first_hours)
    until = np.full(stage.number, stage.span.end_ms)
    return _Trouble(since, until, np.full(stage.number, _NO_ACTION), acts)


def _busy_hour(stage: _Stage, *, times: int) -> _Trouble:
    hours = (stage.moments(0.4, 0.9) - stage.span.start_ms) // HOUR_MS
    since = stage.span.hour_starts_ms[hours]
    usual, often = stage.usual_actions()
    counts = stage.at_random((times - 1) * often)
    until = since + stage.span.widths_ms[hours]
    return _one_action(stage, since, until, counts, place=_evenly_at_random, actions=usual)


def _doubled(stage: _Stage) -> _Trouble:
    first_hours = (stage.moments(0.5, 0.6) - stage.span.start_ms) // HOUR_MS
    since = stage.span.hour_starts_ms[first_hours]
    counts = stage.at_random(stage.hourly * ((stage.span.end_ms - since) / HOUR_MS))
    habits = Habits(stage.phase, stage.mix)
    acts = act(stage.draws, counts, habits, stage.span, stage.laws, first_hours=first_hours)
    until = np.full(stage.number, stage.span.end_ms)
    return _Trouble(since, until, np.full(stage.number, _NO_ACTION), acts)


def _slow_ramp(stage: _Stage) -> _Trouble:
    """Begin after a sixth of the span, so that there is something usual before."""
    first_hours = (stage.moments(0.15, 0.2) - stage.span.start_ms) // HOUR_MS
    since, until = stage.span.hour_starts_ms[first_hours], np.full(stage.number, stage.span.end_ms)
    usual, often = stage.usual_actions()
    hours = np.arange(len(stage.span.hour_starts_ms)) - first_hours[:, np.newaxis]
    more = np.where(hours > 0, np.minimum(power(_A_DAY_MORE, np.maximum(hours, 0) / 24), 5) - 1, 0)
    counts = stage.at_random(often * np.cumsum(more, axis=1)[:, -1])
    users = np.repeat(np.arange(stage.number), counts)
    hour = pick(more * stage.span.widths_ms, users, stage.draws.uniform(len(users)))
    within = np.floor(stage.draws.uniform(len(users)) * stage.span.widths_ms[hour])
    times = stage.span.hour_starts_ms[hour] + within.astype(np.int64)
    return _Trouble(since, until, usual, Acts(users, times, usual[users]))


def _campaign(stage: _Stage) -> _Trouble:
    hour = (stage.moments(0.6, 0.9)[:1] - stage.span.start_ms) // HOUR_MS
    since = np.repeat(stage.span.hour_starts_ms[hour], stage.number)
    until = since + stage.span.widths_ms[hour]
    counts = stage.draws.integers(1, 4, stage.number)
    actions = np.repeat(stage.rare_actions()[:1], stage.number)
    return _one_action(stage, since, until, counts, place=_evenly_at_random, actions=actions)


def _nightly_job(stage: _Stage) -> _Trouble:
    """Make each night, in the same hour of it, about as many events as in the others."""
    midnights = np.arange(-(-stage.span.start_ms // _DAY_MS) * _DAY_MS, stage.span.end_ms, _DAY_MS)
    hour_ms = stage.draws.integers(0, 6, stage.number) * HOUR_MS
    size = stage.draws.between(100, 300, stage.number)
    spread = stage.draws.between(0.9, 1.1, stage.number * len(midnights))
    counts = np.floor(spread * np.repeat(size, len(midnights))).astype(np.int64)
    starts = (hour_ms[:, np.newaxis] + midnights).ravel()
    counts[starts + HOUR_MS > stage.span.end_ms] = 0
    users = np.repeat(np.repeat(np.arange(stage.number), len(midnights)), counts)
    within = stage.draws.integers(0, HOUR_MS, len(users))
    return _always(stage, Acts(users, np.repeat(starts, counts) + within, np.zeros_like(users)))


def _service(stage: _Stage) -> _Trouble:
    hours = stage.span.length_ms / HOUR_MS
    users = np.repeat(np.arange(stage.number), int(_OF_A_SERVICE * hours))
    within = stage.draws.integers(0, stage.span.length_ms, len(users))
    return _always(stage, Acts(users, stage.span.start_ms + within, np.zeros_like(users)))


def _always(stage: _Stage, acts: Acts) -> _Trouble:
    since, until = (np.full(stage.number, at) for at in (stage.span.start_ms, stage.span.end_ms))
    return _Trouble(since, until, np.zeros(stage.number, np.int64), acts)


def _times(hourly: Floats, factor: int) -> Ints:
    return np.floor(hourly * factor).astype(np.int64)


def _one_action(
    stage: _Stage,
    since_ms: Ints,
    until_ms: Ints,
    counts: Ints,
    *,
    place: Callable[[Draws, Ints], Floats],
    actions: Ints | None = None,
) -> _Trouble:
    actions = stage.rare_actions() if actions is None else actions
    users = np.repeat(np.arange(stage.number), counts)
    offsets = place(stage.draws, counts) * (until_ms - since_ms)[users]
    times = since_ms[users] + np.floor(offsets).astype(np.int64)
    return _Trouble(since_ms, until_ms, actions, Acts(users, times, actions[users]))


def _evenly_at_random(draws: Draws, counts: Ints) -> Floats:
    return draws.uniform(int(counts.sum()))


def _more_and_more(draws: Draws, counts: Ints) -> Floats:
    # The root of a uniform draw has a density that grows from nothing in a straight line.
    return np.sqrt(draws.uniform(int(counts.sum())))


def _at_even_distances(draws: Draws, counts: Ints) -> Floats:
    """Put each event in its own slot, at most a tenth of a slot away from the middle."""
    total = int(counts.sum())
    slot = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    jitter = draws.between(0.4, 0.6, total)
    return (slot + jitter) / np.repeat(counts, counts)


_KINDS = {
    # A user does one thing very often for some minutes.
    "burst": _Kind(_burst),
    # A user does one thing more and more often over hours, then stops.
    "ramp": _Kind(_ramp),
    # An account does one thing at even distances, day and night, never often.
    "low-and-slow": _Kind(_low_and_slow, is_account=True),
    # Accounts that were never seen before each do one thing often, at about one time.
    "new-user-flood": _Kind(_new_user_flood, is_account=True),
    # From some hour on, a second person with other habits uses the account too.
    "shared-account": _Kind(_shared_account),
    # For an hour, a user does its usual thing so many times as often as on average.
    "eightfold-hour": _Kind(partial(_busy_hour, times=8)),
    "25-fold-hour": _Kind(partial(_busy_hour, times=25)),
    # From some hour on, a user does everything twice as often.
    "doubled": _Kind(_doubled),
    # A user does its usual thing a tenth more often each day, up to five times as often.
    "slow-ramp": _Kind(_slow_ramp),
    # Hundreds of accounts that were never seen before do one thing a few times in one hour.
    "campaign": _Kind(_campaign, is_account=True),
}
"""All kinds by name."""

MACHINES = {
    "nightly-job": ("jobs", 50, _Kind(_nightly_job, is_account=True)),
    "service": ("service", 2000, _Kind(_service, is_account=True)),
}
"""Labelled accounts that are not abnormal: in which world, one for how many users, and how."""

_MIDDLE = (20, 2)
"""Users who go astray are among the busier half, but not among the busiest twentieth."""


@dataclass(frozen=True, slots=True)
class _AbnormalUsers:
    """The abnormal users of one kind: their numbers, and the trouble that they make."""

    kind: str
    users: Ints
    trouble: _Trouble

    @property
    def acts(self) -> Acts:
        """What they do beyond the ordinary."""
        own = self.trouble.acts
        return Acts(self.users[own.user], own.time_ms, own.action)


def _kinds(*, accounts: bool) -> list[str]:
    return [name for name, kind in _KINDS.items() if kind.is_account == accounts]


_TIME = pa.timestamp("ms", tz="UTC")
_EVENTS_SCHEMA = pa.schema({"time": _TIME, "user": pa.string(), "action": pa.string()})
_LABELS_SCHEMA = pa.schema(
    dict.fromkeys(("user", "kind"), pa.string())
    | dict.fromkeys(("since", "until"), _TIME)
    | {"action": pa.string(), "extra_events": pa.int64()}
)


def _labels(part: _AbnormalUsers, names: pa.Array, actions: Sequence[str]) -> pa.Table:
    trouble = part.trouble
    action = pa.array(trouble.action, mask=trouble.action == _NO_ACTION)
    columns = [
        names.take(pa.array(part.users)),
        pa.array(np.full(len(part.users), part.kind)),
        pa.array(trouble.since_ms).cast(_TIME),
        pa.array(trouble.until_ms).cast(_TIME),
        pa.array(actions, pa.string()).take(action),
        pa.array(trouble.extra_events),
    ]
    return pa.Table.from_arrays(columns, schema=_LABELS_SCHEMA)


def _label_lines(labels: pa.Table) -> Iterator[bytes]:
    for label in labels.to_pylist():
        text = json.dumps(label, ensure_ascii=False, separators=(",", ":"), default=_iso)
        yield f"{text}\n".encode()


def _iso(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"


_GIVEN = """
ada alan amina anna björn carlos chen chloé dana david elena emil fatima felix grace hana
hugo ines ivan jana joão juan kaito karim lars leila lena liam lina luca lucía malik
mara maria mei mila nadia nils noor olga omar paul pedro priya rosa ruth sami
sara søren tala tariq theo uma vera victor wanda wei yara yuki yusuf zara zoë łukasz
"""
_FAMILY = """
abe ali bauer berg blanc bose brown castro chan costa cruz diaz dubois eriksen fischer
gomez grant gupta haas hansen hoang hughes ito jensen jones kaya khan kim klein kovač
lang lee li lopez mallik martin meyer moreau mori nagy nkosi novak okafor olsen park patel
pereira petrov ramos reyes rossi sato shah silva singh smith stein suzuki tanaka
torres wang weber yilmaz zhang
"""


def _user_names(draws: Draws, number: int) -> pa.Array:
    """Return ``number`` different names in random order, such as ``"zoë.kim"``.

    Once used up, pairs of names get a number: ``"zoë.kim.2"``. None needs escaping in JSON or CSV.
    """
    all_given, all_family = _GIVEN.split(), _FAMILY.split()
    pairs = len(all_given) * len(all_family)
    rounds = -(-number // pairs)
    round_, place = np.divmod(draws.order(rounds * pairs)[:number], pairs)
    given = pa.array(all_given).take(pa.array(place % len(all_given)))
    family = pa.array(all_family).take(pa.array(place // len(all_given)))
    suffix = pc.binary_join_element_wise("", pa.array(round_ + 1).cast(pa.string()), ".")
    suffix = pc.if_else(pa.array(round_ == 0), "", suffix)
    return pc.binary_join_element_wise(pc.binary_join_element_wise(given, family, "."), suffix, "")


_ACTIONS = ("view", "search", "edit", "comment", "download", "share")

_ABNORMAL = {"burst": 3, "ramp": 3, "low-and-slow": 2, "new-user-flood": 6, "shared-account": 3}
"""How many abnormal users of each kind there are unless told otherwise."""

_START = datetime(2026, 3, 2, 9, tzinfo=UTC)
"""A Monday morning: users are awake, so that history does not begin with its quietest hours."""

_WORLD_START = datetime(2026, 3, 2, tzinfo=UTC)

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
    world: tuple[str, ...] = ()

    event_time: ClassVar[str] = "time"
    user: ClassVar[str] = "user"
    action: ClassVar[str] = "action"

    def __post_init__(self) -> None:
        least = {"event_count": 1, "users": 1, "duration_ms": _SHORTEST_MS, "seed": 0}
        for name, number in least.items():
            check_whole(name, getattr(self, name), least=number, hint="Give a larger number.")
        if self.start.utcoffset() is None:
            message = f"The start {self.start.isoformat()} has no time zone."
            raise ConfigurationError(message, hint="Write datetime(2026, 3, 2, tzinfo=UTC).")
        if not self.actions or "" in self.actions or len(set(self.actions)) < len(self.actions):
            message = f"{list(self.actions)!r} are no actions to choose from."
            raise ConfigurationError(message, hint="Give one or more different names, none empty.")
        _check_abnormal(self.abnormal, self.users)

    def __repr__(self) -> str:
        return (
            f"Simulation(event_count={self.event_count}, users={self.users}, "
            f"duration={format_duration(self.duration_ms)!r}, start={self.start.isoformat()!r}, "
            f"actions={self.actions!r}, seed={self.seed}, abnormal={dict(self.abnormal)!r}"
            + (f", world={self.world!r})" if self.world else ")")
        )

    def events(self) -> pa.Table:
        """Return all events, in order of time.

        Returns
        -------
        pyarrow.Table
            Columns time (timestamp[ms, UTC]), user and action (string).
        """
        acts = self._acts()
        times, users = pa.array(acts.time_ms).cast(_TIME), self._names().take(pa.array(acts.user))
        actions = pa.array(self.actions, pa.string()).take(pa.array(acts.action))
        return pa.Table.from_arrays([times, users, actions], schema=_EVENTS_SCHEMA)

    def labels(self) -> pa.Table:
        """Return who is abnormal, how, when and by how much: one row an abnormal user.

        Returns
        -------
        pyarrow.Table
            Columns user, kind, since and until (timestamp[ms, UTC]; until is outside), action
            (null where there are several) and extra_events: how many of the user's events
            between since and until an ordinary user would not have made. Jobs and services of a
            world are there as well, as kinds "nightly-job" and "service": they are ordinary.
        """
        names = self._names()
        tables = [_labels(part, names, self.actions) for part in self._parts()]
        labels = pa.concat_tables([_LABELS_SCHEMA.empty_table(), *tables])
        return labels.sort_by([("kind", "ascending"), ("user", "ascending")])

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
        folder = local_folder(path).resolve()
        written = write_events(
            self.events(), folder, file_format=format, compression=compression, files=files
        )
        labels = folder.parent / "labels.json"
        with replacing(labels) as out:
            out.writelines(_label_lines(self.labels()))
        return [*written, labels]

    # Users are numbered: ordinary ones first, the busiest at 0, then the abnormal accounts, kind by
    # kind, then machines. Each purpose has its own stream of draws, so that another number of
    # bursts, say, leaves ordinary users as they are.

    @property
    def _span(self) -> Span:
        start_ms = moment_ms(self.start)
        return Span(start_ms, start_ms + self.duration_ms)

    @property
    def _people(self) -> int:
        return self.users + self._number(*_kinds(accounts=True))

    @property
    def _laws(self) -> Laws:
        return Laws(self.world, self.seed)

    def _number_of_machines(self, kind: str) -> int:
        world, users_for_one, _ = MACHINES[kind]
        return -(-self.users // users_for_one) if world in self.world else 0

    def _number(self, *kinds: str) -> int:
        return sum(self.abnormal.get(kind, 0) for kind in kinds)

    def _names(self) -> pa.Array:
        machines = sum(self._number_of_machines(kind) for kind in MACHINES)
        return _user_names(Draws(self.seed, "names"), self._people + machines)

    def _habits(self) -> Habits:
        return habits_of(Draws(self.seed, "habits"), self.users, len(self.actions))

    def _acts(self) -> Acts:
        shares = self._laws.rates(self.users)
        counts = share_out(Draws(self.seed, "shares"), self.event_count, shares)
        draws, first = Draws(self.seed, "ordinary"), self._laws.first_hours(self.users, self._span)
        ordinary = act(draws, counts, self._habits(), self._span, self._laws, first_hours=first)
        return Acts.joined([ordinary, *(part.acts for part in self._parts())])

    def _parts(self) -> list[_AbnormalUsers]:
        kinds = [kind for kind in _KINDS if self._number(kind)]
        parts = [self._part(kind, _KINDS[kind], self._who(kind)) for kind in kinds]
        first = self._people
        for kind, (_, _, how) in MACHINES.items():
            number = self._number_of_machines(kind)
            parts += [self._part(kind, how, np.arange(first, first + number))] * bool(number)
            first += number
        return parts

    def _part(self, name: str, kind: _Kind, users: Ints) -> _AbnormalUsers:
        span, mix = self._span, np.empty((len(users), 0))
        hours = span.length_ms / HOUR_MS
        if kind.is_account:
            hourly = np.full(len(users), 1 / self.users * self.event_count / hours)
            phase = np.zeros(len(users), np.int64)
        else:
            hourly = (self._laws.rates(self.users) * self.event_count / hours)[users]
            habits = self._habits()
            phase, mix = habits.phase[users], habits.mix[users]
        draws = Draws(self.seed, name)
        stage = _Stage(draws, span, self._laws, len(self.actions), hourly, phase, mix)
        return _AbnormalUsers(name, users, kind.make(stage))

    def _who(self, kind: str) -> Ints:
        is_account = _KINDS[kind].is_account
        alike = _kinds(accounts=is_account)
        first = self._number(*alike[: alike.index(kind)])
        users = np.arange(self.users, self._people) if is_account else self._astray()
        return users[first : first + self._number(kind)]

    def _astray(self) -> Ints:
        """Return ordinary users in the order in which they go astray."""
        first, last = (self.users // share for share in _MIDDLE)
        wanted = self._number(*_kinds(accounts=False))
        pool = np.arange(first, last) if last - first >= wanted else np.arange(self.users)
        return pool[Draws(self.seed, "astray").order(len(pool))]


def simulate(
    *,
    event_count: int = 100_000,
    users: int = 1_000,
    duration: Duration = "2 days",
    start: datetime | None = None,
    actions: Sequence[str] = _ACTIONS,
    seed: int = 0,
    abnormal: Mapping[str, int] | None = None,
    world: str | Iterable[str] | None = None,
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
        The first moment, with a time zone: by default Monday, 2 March 2026, at 9:00 UTC, and at
        midnight in a named world.
    actions
        What users do, the most frequent first; the k-th is done 1/k as often as the first.
    seed
        From 0 on; another seed gives other events.
    abnormal
        How many abnormal users of each kind: burst, ramp, low-and-slow, new-user-flood,
        shared-account, eightfold-hour, 25-fold-hour, doubled, slow-ramp, campaign. ``{}`` for none.
    world
        By which laws ordinary users act, in place of the simulator's own: one of gamma, lognormal,
        pareto, mixed, lasting or sittings, and any of week, surge, newcomers, jobs and service. See
        :data:`~kstoolkit.events.worlds.WORLDS`.

    Raises
    ------
    ConfigurationError
        If a number is too small, the start has no time zone, an action is empty or twice there,
        a kind or a world is unknown, or more users should go astray than there are.

    Examples
    --------
    >>> simulate(event_count=200, users=20, abnormal={"burst": 1}).labels()["kind"].to_pylist()
    ['burst']
    >>> simulate(event_count=200, users=20, world=["mixed", "service"]).start.hour
    0
    """
    laws = checked_world(world)
    return Simulation(
        event_count=event_count,
        users=users,
        duration_ms=parse_duration(duration),
        start=start or (_WORLD_START if laws else _START),
        actions=tuple(actions),
        seed=seed,
        abnormal=dict(_ABNORMAL if abnormal is None else abnormal),
        world=laws,
    )


def _check_abnormal(abnormal: Mapping[str, int], users: int) -> None:
    for kind, number in abnormal.items():
        check_known("kind of abnormal user", kind, _KINDS)
        check_whole(f"The number of {kind!r}", number, least=0, hint="Give 0 for none.")
    astray = sum(number for kind, number in abnormal.items() if not _KINDS[kind].is_account)
    if astray > users:
        message = f"{astray:,} of {users:,} ordinary users can't go astray."
        raise ConfigurationError(message, hint="Give more users, or fewer abnormal ones.")
