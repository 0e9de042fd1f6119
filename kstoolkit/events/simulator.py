"""Which events to try things on, made by nobody: seeded, with abnormal users among the ordinary.

Labels tell who is abnormal, how, when, and by how much: the answers to the exercise.

Ordinary users: a user's rate falls with its rank (Zipf). Hour by hour it follows the user's own
daily rhythm, times a gamma factor of variance 1/2 that makes busy and idle hours. Actions follow a
mix of the user's own. The number of all events is given: they are shared out by these weights,
which is what a Poisson process is once its total is known. Names say nothing about who is abnormal.

Draws come out alike on every machine, to the last bit. Numpy promises stable raw bits of a
generator, but not what its distributions make of them, and ``log`` and ``exp`` differ in the last
digit between processors. So all draws here are made of raw bits with ``+ - * /`` alone, which
IEEE 754 fixes.

Examples
--------
>>> from datetime import UTC, datetime
>>> simulation = simulate(event_count=1000, users=50, start=datetime(2026, 3, 2, tzinfo=UTC))
>>> simulation.events().column_names
['time', 'user', 'action']
>>> for name, kind in _KINDS.items():
...     print(f"{name}: {kind.description}")
burst: a user does one thing very often for some minutes
ramp: a user does one thing more and more often over hours, then stops
low-and-slow: an account does one thing at even distances, day and night, never often
new-user-flood: accounts that were never seen before each do one thing often, at about one time
shared-account: from some hour on, a second person with other habits uses the account too
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.errors import ConfigurationError, guessed
from kstoolkit.events.records import replacing, write_events
from kstoolkit.moments import moment_ms
from kstoolkit.units import Duration, format_duration, parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from os import PathLike

    from numpy.typing import ArrayLike, NDArray

    from kstoolkit.events.opening import FileFormat
    from kstoolkit.events.records import Compression

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]


_LN_2 = 0.6931471805599453
_SERIES_TERMS = 15
"""The series' argument is at most 1/3, so that these reach double precision."""


class _Draws:
    """A stream of random draws by seed and name; streams of one seed are independent."""

    __slots__ = ("_bits",)

    def __init__(self, seed: int, stream: str) -> None:
        self._bits = np.random.PCG64(np.random.SeedSequence([seed, *stream.encode()]))

    def uniform(self, size: int) -> Floats:
        """Return ``size`` numbers in [0, 1), each a multiple of 2⁻⁵³."""
        top = self._bits.random_raw(size) >> np.uint64(11)
        return np.asarray(top * 2.0**-53, np.float64)

    def between(self, low: ArrayLike, high: ArrayLike, size: int) -> Floats:
        """Return ``size`` numbers in [low, high)."""
        least = np.asarray(low, np.float64)
        width: Floats = np.asarray(high, np.float64) - least
        return least + self.uniform(size) * width

    def integers(self, low: ArrayLike, high: ArrayLike, size: int) -> Ints:
        """Return ``size`` whole numbers from ``low`` on and below ``high``."""
        return np.floor(self.between(low, high, size)).astype(np.int64)

    def gamma(self, shape: int, size: int) -> Floats:
        """Return ``size`` gamma-distributed numbers with mean 1 and variance ``1 / shape``.

        They are means of ``shape`` exponentials (an Erlang distribution), so never 0.
        """
        total = np.zeros(size)
        for _ in range(shape):
            total -= _log(1.0 - self.uniform(size))
        return total / shape + 2.0**-53

    def order(self, size: int) -> Ints:
        """Return the numbers below ``size`` in random order."""
        return np.argsort(self._bits.random_raw(size), kind="stable").astype(np.int64)


def _log(values: Floats) -> Floats:
    """Return the natural logarithm of positive numbers, alike on every machine.

    ``ln(m · 2ᵉ) = e ln 2 + 2 artanh((m - 1) / (m + 1))``, with the series of artanh.
    """
    mantissa, exponent = np.frexp(values)
    ratio = (mantissa - 1.0) / (mantissa + 1.0)
    square = ratio * ratio
    series = np.zeros_like(ratio)
    for term in range(_SERIES_TERMS, -1, -1):
        series = series * square + 1.0 / (2 * term + 1)
    return 2.0 * ratio * series + exponent * _LN_2


def _pick(weights: Floats, rows: Ints, uniform: Floats) -> Ints:
    """Return a column for each of ``rows``, by that row's weights and a draw in [0, 1)."""
    columns = weights.shape[1]
    # One running sum over all rows makes the choices of all rows a single search. np.sum would
    # add in an order that depends on the processor; a running sum does not.
    reached = np.concatenate([[0.0], np.cumsum(weights)])
    low, high = reached[rows * columns], reached[(rows + 1) * columns]
    found = np.searchsorted(reached, low + uniform * (high - low), side="right") - 1
    chosen: Ints = np.clip(found - rows * columns, 0, columns - 1)
    return chosen


_HOUR_MS = 3_600_000

_DAILY_RHYTHM = np.array(
    [3, 2, 1, 1, 1, 2, 4, 8, 14, 18, 20, 19, 16, 18, 20, 19, 17, 14, 12, 13, 14, 12, 8, 5], float
)
"""How busy the hours of a user's day are; a user's phase says when that day begins."""

_HOME_PHASES = np.array([0, 0, 0, 1, 1, 2, 23, 5, 16, 18])
"""Hours that a user's day is ahead of UTC: most live near it, some far away."""

_FLATTENING_RANKS = 10
"""Rates fall as 1 / (rank + this), so that the busiest few do not make most of the events."""

_BURSTINESS_SHAPE = 2
_TASTE_SHAPE = 3
"""How much users differ in what they prefer: a gamma factor of variance 1/3 for each action."""

_USERS_AT_A_TIME = 65_536
"""Bounds the memory for weights of (user, hour) cells."""


@dataclass(frozen=True, slots=True)
class _Span:
    """A stretch of time, from ``start_ms`` on and before ``end_ms``, cut into hours."""

    start_ms: int
    end_ms: int

    @property
    def length_ms(self) -> int:
        return self.end_ms - self.start_ms

    @property
    def hour_starts_ms(self) -> Ints:
        """Where its hours begin, counted from its own start."""
        return np.arange(self.start_ms, self.end_ms, _HOUR_MS, dtype=np.int64)

    @property
    def widths_ms(self) -> Ints:
        """How long its hours are: the last one may be cut short."""
        return np.minimum(_HOUR_MS, self.end_ms - self.hour_starts_ms)


@dataclass(frozen=True, slots=True)
class _Acts:
    """Events as columns: number of the user, time in epoch ms, number of the action."""

    user: Ints
    time_ms: Ints
    action: Ints

    @classmethod
    def joined(cls, parts: Iterable[_Acts]) -> _Acts:
        """Return the events of all ``parts``, in order of time; ties as they come."""
        parts = list(parts)
        times = np.concatenate([part.time_ms for part in parts])
        order = np.argsort(times, kind="stable")
        users = np.concatenate([part.user for part in parts])
        actions = np.concatenate([part.action for part in parts])
        return cls(users[order], times[order], actions[order])


@dataclass(frozen=True, slots=True)
class _Habits:
    """How users spend their days: hours that a day is ahead of UTC, and actions' weights."""

    phase: Ints
    mix: Floats


def _rates(users: int) -> Floats:
    """Return each user's share of all events, the busiest user first."""
    weights = 1.0 / np.arange(_FLATTENING_RANKS, users + _FLATTENING_RANKS)
    shares: Floats = weights / np.cumsum(weights)[-1]
    return shares


def _share_out(draws: _Draws, number: int, shares: Floats) -> Ints:
    """Return how many of ``number`` events each user makes, at random by its share."""
    owners = _pick(shares[np.newaxis, :], np.zeros(number, np.int64), draws.uniform(number))
    return np.bincount(owners, minlength=len(shares)).astype(np.int64)


def _habits(draws: _Draws, users: int, actions: int) -> _Habits:
    """Return habits for ``users``; the k-th action is done 1/k as often as the first."""
    home = _HOME_PHASES[draws.integers(0, len(_HOME_PHASES), users)]
    taste = draws.gamma(_TASTE_SHAPE, users * actions).reshape(users, actions)
    return _Habits(
        phase=(home + draws.integers(0, 2, users)) % 24, mix=taste / np.arange(1, actions + 1)
    )


def _act(
    draws: _Draws, counts: Ints, habits: _Habits, span: _Span, *, first_hours: Ints | None = None
) -> _Acts:
    """Return the events of users who do as many things as ``counts`` says, by their habits.

    Each starts in the hour of the span that ``first_hours`` says; by default in the first.
    """
    first = np.zeros(len(counts), np.int64) if first_hours is None else first_hours
    blocks = []
    for low in range(0, len(counts), _USERS_AT_A_TIME):
        some = slice(low, low + _USERS_AT_A_TIME)
        own = _Habits(habits.phase[some], habits.mix[some])
        block = _act_some(draws, counts[some], own, span, first[some])
        blocks.append(replace(block, user=block.user + low))
    return _Acts.joined(blocks)


def _act_some(
    draws: _Draws, counts: Ints, habits: _Habits, span: _Span, first_hours: Ints
) -> _Acts:
    rows = np.repeat(np.arange(len(counts)), counts)
    weights = _hour_weights(draws, habits.phase, span)
    weights[np.arange(weights.shape[1]) < first_hours[:, np.newaxis]] = 0.0
    hours = _pick(weights, rows, draws.uniform(len(rows)))
    within = np.floor(draws.uniform(len(rows)) * span.widths_ms[hours]).astype(np.int64)
    actions = _pick(habits.mix, rows, draws.uniform(len(rows)))
    return _Acts(rows, span.hour_starts_ms[hours] + within, actions)


def _hour_weights(draws: _Draws, phase: Ints, span: _Span) -> Floats:
    of_day = span.hour_starts_ms // _HOUR_MS
    rhythm = _DAILY_RHYTHM[(of_day + phase[:, np.newaxis]) % len(_DAILY_RHYTHM)]
    mood = draws.gamma(_BURSTINESS_SHAPE, rhythm.size).reshape(rhythm.shape)
    weights: Floats = rhythm * mood * span.widths_ms
    return weights


_MINUTE_MS = 60_000
_NO_ACTION = -1
"""Stands for "several actions" among numbers of actions."""


@dataclass(frozen=True, slots=True)
class _Stage:
    """What abnormal users of one kind meet.

    ``hourly`` are the events per hour that each of them makes anyway, on average; of an ordinary
    user for those that make none. ``phase`` are the hours that each one's day is ahead of UTC.
    """

    draws: _Draws
    span: _Span
    actions: int
    hourly: Floats
    phase: Ints

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


@dataclass(frozen=True, slots=True)
class _Trouble:
    """What abnormal users of one kind add: a label's columns, and the events.

    Users are numbered by their place; ``action`` is ``_NO_ACTION`` where there are several.
    """

    since_ms: Ints
    until_ms: Ints
    action: Ints
    acts: _Acts

    @property
    def extra_events(self) -> Ints:
        return np.bincount(self.acts.user, minlength=len(self.since_ms)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of abnormal user: an account of its own, or an ordinary user that goes astray."""

    description: str
    make: Callable[[_Stage], _Trouble]
    is_account: bool = False


def _burst(stage: _Stage) -> _Trouble:
    since = stage.moments(0.6, 0.9)
    until = since + stage.lengths(2 * _MINUTE_MS, 5 * _MINUTE_MS, 1 / 20)
    counts = 240 + _times(stage.hourly, 15) + stage.draws.integers(0, 160, stage.number)
    return _one_action(stage, since, until, counts, place=_evenly_at_random)


def _ramp(stage: _Stage) -> _Trouble:
    since = stage.moments(0.6, 0.75)
    until = since + stage.lengths(6 * _HOUR_MS, 8 * _HOUR_MS, 1 / 5)
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
    since = campaign + stage.lengths(0, _HOUR_MS, 1 / 40)
    until = since + stage.lengths(10 * _MINUTE_MS, 20 * _MINUTE_MS, 1 / 20)
    counts = 80 + _times(stage.hourly, 10) + stage.draws.integers(0, 80, stage.number)
    actions = np.repeat(stage.rare_actions()[:1], stage.number)
    return _one_action(stage, since, until, counts, place=_evenly_at_random, actions=actions)


def _shared_account(stage: _Stage) -> _Trouble:
    """Add a second person: another mix, and a day that begins half a day later."""
    own_start = stage.moments(0.5, 0.7)
    first_hours = (own_start - stage.span.start_ms) // _HOUR_MS
    since = stage.span.hour_starts_ms[first_hours]
    hours_left = (stage.span.end_ms - since) / _HOUR_MS
    counts = 300 + _times(stage.hourly * hours_left, 10)
    fresh = _habits(stage.draws, stage.number, stage.actions)
    second = _Habits((stage.phase + 12) % 24, fresh.mix)
    acts = _act(stage.draws, counts, second, stage.span, first_hours=first_hours)
    until = np.full(stage.number, stage.span.end_ms)
    return _Trouble(since, until, np.full(stage.number, _NO_ACTION), acts)


def _times(hourly: Floats, factor: int) -> Ints:
    return np.floor(hourly * factor).astype(np.int64)


def _one_action(
    stage: _Stage,
    since_ms: Ints,
    until_ms: Ints,
    counts: Ints,
    *,
    place: Callable[[_Draws, Ints], Floats],
    actions: Ints | None = None,
) -> _Trouble:
    actions = stage.rare_actions() if actions is None else actions
    users = np.repeat(np.arange(stage.number), counts)
    offsets = place(stage.draws, counts) * (until_ms - since_ms)[users]
    times = since_ms[users] + np.floor(offsets).astype(np.int64)
    return _Trouble(since_ms, until_ms, actions, _Acts(users, times, actions[users]))


def _evenly_at_random(draws: _Draws, counts: Ints) -> Floats:
    return draws.uniform(int(counts.sum()))


def _more_and_more(draws: _Draws, counts: Ints) -> Floats:
    # The root of a uniform draw has a density that grows from nothing in a straight line.
    return np.sqrt(draws.uniform(int(counts.sum())))


def _at_even_distances(draws: _Draws, counts: Ints) -> Floats:
    """Put each event in its own slot, at most a tenth of a slot away from the middle."""
    total = int(counts.sum())
    slot = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    jitter = draws.between(0.4, 0.6, total)
    return (slot + jitter) / np.repeat(counts, counts)


_KINDS = {
    "burst": _Kind("a user does one thing very often for some minutes", _burst),
    "ramp": _Kind("a user does one thing more and more often over hours, then stops", _ramp),
    "low-and-slow": _Kind(
        "an account does one thing at even distances, day and night, never often",
        _low_and_slow,
        is_account=True,
    ),
    "new-user-flood": _Kind(
        "accounts that were never seen before each do one thing often, at about one time",
        _new_user_flood,
        is_account=True,
    ),
    "shared-account": _Kind(
        "from some hour on, a second person with other habits uses the account too",
        _shared_account,
    ),
}
"""All kinds by name."""


_MIDDLE = (20, 2)
"""Users who go astray are among the busier half, but not among the busiest twentieth."""


@dataclass(frozen=True, slots=True)
class _AbnormalUsers:
    """The abnormal users of one kind: their numbers, and the trouble that they make."""

    kind: str
    users: Ints
    trouble: _Trouble

    @property
    def acts(self) -> _Acts:
        """What they do beyond the ordinary."""
        own = self.trouble.acts
        return _Acts(self.users[own.user], own.time_ms, own.action)


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
    """Yield labels as JSON lines, with times in ISO 8601."""
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


def _user_names(draws: _Draws, number: int) -> pa.Array:
    """Return ``number`` different names in random order, such as ``"zoë.kim"``.

    Once all pairs of names are used up, they carry a number: ``"zoë.kim.2"``. None of them needs
    escaping in JSON or CSV.
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
        acts = self._acts()
        columns = [
            pa.array(acts.time_ms).cast(_TIME),
            self._names().take(pa.array(acts.user)),
            pa.array(self.actions, pa.string()).take(pa.array(acts.action)),
        ]
        return pa.Table.from_arrays(columns, schema=_EVENTS_SCHEMA)

    def labels(self) -> pa.Table:
        """Return who is abnormal, how, when and by how much: one row an abnormal user.

        Returns
        -------
        pyarrow.Table
            Columns user, kind, since and until (timestamp[ms, UTC]; until is outside), action
            (null where there are several) and extra_events: how many of the user's events
            between since and until an ordinary user would not have made.
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
        folder = Path(path).resolve()
        written = write_events(
            self.events(), folder, file_format=format, compression=compression, files=files
        )
        labels = folder.parent / "labels.json"
        with replacing(labels) as out:
            out.writelines(_label_lines(self.labels()))
        return [*written, labels]

    # Users are numbered: ordinary ones first, the busiest at 0, then the abnormal accounts, kind by
    # kind. Each purpose has its own stream of draws, so that another number of bursts, say, leaves
    # ordinary users as they are.

    @property
    def _span(self) -> _Span:
        start_ms = moment_ms(self.start)
        return _Span(start_ms, start_ms + self.duration_ms)

    @property
    def _all_users(self) -> int:
        return self.users + self._number(*_kinds(accounts=True))

    def _number(self, *kinds: str) -> int:
        """Return how many abnormal users of some kinds there are."""
        return sum(self.abnormal.get(kind, 0) for kind in kinds)

    def _names(self) -> pa.Array:
        return _user_names(_Draws(self.seed, "names"), self._all_users)

    def _habits(self) -> _Habits:
        return _habits(_Draws(self.seed, "habits"), self.users, len(self.actions))

    def _acts(self) -> _Acts:
        """Return all events, in order of time."""
        counts = _share_out(_Draws(self.seed, "shares"), self.event_count, _rates(self.users))
        ordinary = _act(_Draws(self.seed, "ordinary"), counts, self._habits(), self._span)
        return _Acts.joined([ordinary, *(part.acts for part in self._parts())])

    def _parts(self) -> list[_AbnormalUsers]:
        """Return what is abnormal, kind by kind."""
        return [self._part(kind, self._who(kind)) for kind in _KINDS if self._number(kind)]

    def _part(self, kind: str, users: Ints) -> _AbnormalUsers:
        span = self._span
        hours = span.length_ms / _HOUR_MS
        if _KINDS[kind].is_account:
            hourly = np.full(len(users), 1 / self.users * self.event_count / hours)
            phase = np.zeros(len(users), np.int64)
        else:
            hourly = (_rates(self.users) * self.event_count / hours)[users]
            phase = self._habits().phase[users]
        stage = _Stage(_Draws(self.seed, kind), span, len(self.actions), hourly, phase)
        return _AbnormalUsers(kind, users, _KINDS[kind].make(stage))

    def _who(self, kind: str) -> Ints:
        is_account = _KINDS[kind].is_account
        alike = _kinds(accounts=is_account)
        first = self._number(*alike[: alike.index(kind)])
        users = np.arange(self.users, self._all_users) if is_account else self._astray()
        return users[first : first + self._number(kind)]

    def _astray(self) -> Ints:
        """Return ordinary users in the order in which they go astray."""
        first, last = (self.users // share for share in _MIDDLE)
        wanted = self._number(*_kinds(accounts=False))
        pool = np.arange(first, last) if last - first >= wanted else np.arange(self.users)
        return pool[_Draws(self.seed, "astray").order(len(pool))]


def simulate(
    *,
    event_count: int = 100_000,
    users: int = 1_000,
    duration: Duration = "2 days",
    start: datetime = _START,
    actions: Sequence[str] = _ACTIONS,
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
        abnormal=dict(_ABNORMAL if abnormal is None else abnormal),
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
        if kind not in _KINDS:
            message = f"There is no kind {kind!r} of abnormal user."
            hint = f"{guessed(kind, _KINDS)}There are: {', '.join(_KINDS)}."
            raise ConfigurationError(message, hint=hint)
        _check_number(f"The number of {kind!r}", number, 0)
    astray = sum(number for kind, number in abnormal.items() if not _KINDS[kind].is_account)
    if astray > users:
        message = f"{astray:,} of {users:,} ordinary users can't go astray."
        raise ConfigurationError(message, hint="Give more users, or fewer abnormal ones.")
