"""How ordinary users act in a simulated world: by the simulator's own law, and by other ones.

The own law: a user's rate falls with its rank (Zipf). Hour by hour it follows the user's own daily
rhythm, times a mood: a gamma factor of variance 1/2 that makes busy and idle hours. Actions follow
a mix of the user's own. The number of all events is given: they are shared out by these weights,
which is what a Poisson process is once its total is known.

Who judges a detector in the world that it assumes has judged nothing. In the named worlds rates are
lognormal, days begin at midnight UTC and have no rhythm unless one is named, and moods follow the
law that is named, gamma if none is: :data:`WORLDS` says what each is like.

Draws are alike on every machine, to the last bit. Numpy promises a generator's stable raw bits, not
what distributions make of them, and ``log`` and ``exp`` differ in the last digit between
processors. So all draws are raw bits with ``+ - * /`` and square roots alone, which IEEE 754 fixes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kstoolkit.errors import ConfigurationError, check_known

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

_LN_2 = 0.6931471805599453
_SERIES_TERMS = 15  # the series' argument is at most 1/3, so that these reach double precision


class Draws:
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

    def normal(self, size: int) -> Floats:
        """Return ``size`` normal numbers: Marsaglia's polar method, 1964."""
        found, have = [], 0
        while have < size:
            x, y = 2 * self.uniform(2 * (size - have) + 16).reshape(2, -1) - 1
            square = x * x + y * y
            inside = (square < 1) & (square > 0)
            x, square = x[inside], square[inside]
            found.append(x * np.sqrt(-2 * _log(square) / square))
            have += len(x)
        return np.concatenate([np.empty(0), *found])[:size]

    def any_gamma(self, shape: float, size: int) -> Floats:
        """Return :meth:`gamma` of a shape below 1: Marsaglia and Tsang, 2000, and their boost."""
        d = shape + 1 - 1 / 3
        found, have = [], 0
        while have < size:
            x = self.normal(2 * (size - have) + 16)
            u, cube = 1 - self.uniform(len(x)), (1 + x / np.sqrt(9 * d)) ** 3
            kept = np.flatnonzero(cube > 0)
            x, u, cube = x[kept], u[kept], cube[kept]
            kept = np.flatnonzero(_log(u) < x * x / 2 + d * (1 - cube + _log(cube)))
            found.append(d * cube[kept])
            have += len(kept)
        drawn = np.concatenate([np.empty(0), *found])[:size]
        return drawn * _exp(_log(1 - self.uniform(size)) / shape) / shape

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


def _exp(values: Floats) -> Floats:
    """Return the exponential of numbers, alike on every machine.

    ``exp(k ln 2 + r) = 2ᵏ exp(r)``, with the series of exp, as r is at most 0.35.
    """
    power = np.floor(values / _LN_2 + 0.5)
    rest = values - power * _LN_2
    series = np.ones_like(rest)
    for term in range(_SERIES_TERMS, 0, -1):
        series = 1.0 + series * rest / term
    return np.asarray(np.ldexp(series, power.astype(np.int64)), np.float64)


def power(base: float, exponents: Floats) -> Floats:
    """Return a positive number raised to each exponent, alike on every machine."""
    return _exp(exponents * _log(np.array([base])))


def pick(weights: Floats, rows: Ints, uniform: Floats) -> Ints:
    """Return a column for each of ``rows``, by that row's weights and a draw in [0, 1)."""
    columns = weights.shape[1]
    # One running sum over all rows makes the choices of all rows a single search. np.sum would
    # add in an order that depends on the processor; a running sum does not.
    reached = np.concatenate([[0.0], np.cumsum(weights)])
    low, high = reached[rows * columns], reached[(rows + 1) * columns]
    found = np.searchsorted(reached, low + uniform * (high - low), side="right") - 1
    return np.asarray(np.clip(found - rows * columns, 0, columns - 1))


HOUR_MS = 3_600_000

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

_MOODS_SPREAD = 0.6367614216550941
"""Of the logarithm of lognormal moods: the root of ln 1.5, for a variance of 1/2."""

_PARETO = 2.732050807568877  # Pareto's exponent for a variance of 1/2: 1 + √3
_LASTS = 0.9
_RATES_SPREAD, _BUSIEST = 1.08, 50.0
"""Of the logarithm of lognormal rates, and the largest, in medians."""

_DAYS_SINCE_A_MONDAY, _WORKDAYS, _WEEKEND = 3, 5, 0.3  # 1 January 1970 was a Thursday
_SURGE, _SURGE_WITHIN = 3.0, (0.6, 0.9)
_NEWCOMERS = 0.2
_A_SITTING = 5

_USERS_AT_A_TIME = 65_536  # bounds the memory for weights of (user, hour) cells


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time, from ``start_ms`` on and before ``end_ms``, cut into hours."""

    start_ms: int
    end_ms: int

    @property
    def length_ms(self) -> int:
        """From the first moment to the last."""
        return self.end_ms - self.start_ms

    @property
    def hour_starts_ms(self) -> Ints:
        """Where its hours begin, counted from its own start."""
        return np.arange(self.start_ms, self.end_ms, HOUR_MS, dtype=np.int64)

    @property
    def widths_ms(self) -> Ints:
        """How long its hours are: the last one may be cut short."""
        return np.minimum(HOUR_MS, self.end_ms - self.hour_starts_ms)


@dataclass(frozen=True, slots=True)
class Acts:
    """Events as columns: number of the user, time in epoch ms, number of the action."""

    user: Ints
    time_ms: Ints
    action: Ints

    @classmethod
    def joined(cls, parts: Iterable[Acts]) -> Acts:
        """Return the events of all ``parts``, in order of time; ties as they come."""
        columns = zip(*((part.user, part.time_ms, part.action) for part in parts), strict=True)
        users, times, actions = (np.concatenate(column) for column in columns)
        order = np.argsort(times, kind="stable")
        return cls(users[order], times[order], actions[order])


@dataclass(frozen=True, slots=True)
class Habits:
    """How users spend their days: hours that a day is ahead of UTC, and actions' weights."""

    phase: Ints
    mix: Floats


MOODS = {
    "gamma": "moods are gamma-distributed, of variance 1/2",
    "lognormal": "moods are lognormal, of variance 1/2",
    "pareto": "moods have a heavy tail (Pareto), of variance 1/2",
    "mixed": "two users in five have no moods, two of variance 1/2, one of variance 3",
    "lasting": "moods are lognormal, and last: from hour to hour their correlation is 0.9",
    "sittings": "events come in sittings of half an hour, of five events on average",
}
"""Of these a world has one."""

WORLDS = MOODS | {
    "week": "days have a rhythm, and weekends are quiet",
    "surge": "in one hour everybody does three times as much",
    "newcomers": "a fifth of the users begin at some later hour",
    "jobs": "one account in fifty is a job that does 100 to 300 things in one hour of each night",
    "service": "one account in two thousand is a service that does 1,000 things an hour",
}
"""What a world may be like, and any of these together; without a name it is as by the own law."""


def checked_world(world: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return the names of laws, each once, in their order; raise where two would give moods."""
    if world is None:
        return ()
    names = (world,) if isinstance(world, str) else tuple(world)
    for name in names:
        check_known("world", name, WORLDS)
    moods = [name for name in MOODS if name in names]
    if len(moods) > 1:
        message = f"In one world moods can't be both {moods[0]} and {moods[1]}."
        raise ConfigurationError(message, hint=f"Name one of: {', '.join(MOODS)}.")
    return tuple(name for name in WORLDS if name in names)


@dataclass(frozen=True, slots=True)
class Laws:
    """The laws that ordinary users act by: names of :data:`WORLDS`, of moods at most one."""

    names: tuple[str, ...]
    seed: int

    @property
    def mood(self) -> str:
        """What moods are like."""
        return next((name for name in self.names if name in MOODS), "gamma")

    def rates(self, users: int) -> Floats:
        """Return each user's share of all events, the busiest user first."""
        weights = 1.0 / np.arange(_FLATTENING_RANKS, users + _FLATTENING_RANKS)
        if self.names:
            drawn = Draws(self.seed, "rates").normal(users)
            weights = np.sort(np.minimum(_exp(_RATES_SPREAD * drawn), _BUSIEST))[::-1]
        return np.asarray(weights / np.cumsum(weights)[-1])

    def first_hours(self, users: int, span: Span) -> Ints:
        """Return the hour of the span that each user begins in."""
        hours, draws = len(span.hour_starts_ms), Draws(self.seed, "newcomers")
        is_new = draws.uniform(users) < _NEWCOMERS * ("newcomers" in self.names)
        return np.where(is_new, draws.integers(0, max(hours * 9 // 10, 1), users), 0)

    def usual(self, phase: Ints, span: Span) -> Floats:
        """Return how busy each hour of the span is for each user, whatever its moods."""
        hours = span.hour_starts_ms // HOUR_MS
        if self.names and "week" not in self.names:
            weights = np.ones((len(phase), len(hours)))
        else:
            weights = _DAILY_RHYTHM[(hours + phase[:, np.newaxis]) % len(_DAILY_RHYTHM)]
        if "week" in self.names:
            is_weekend = (hours // 24 + _DAYS_SINCE_A_MONDAY) % 7 >= _WORKDAYS
            weights = weights * np.where(is_weekend, _WEEKEND, 1.0)
        if "surge" in self.names:
            place = Draws(self.seed, "surge").between(*_SURGE_WITHIN, 1)[0]
            weights[:, int(place * len(hours))] *= _SURGE
        return weights

    def moods(self, draws: Draws, users: int, hours: int) -> Floats:
        """Return a factor of mean 1 for each user and hour."""
        size, shape = users * hours, (users, hours)
        if self.mood == "lasting":
            return _lasting(draws, users, hours)
        if self.mood == "lognormal":
            return _exp(_MOODS_SPREAD * draws.normal(size) - _MOODS_SPREAD**2 / 2).reshape(shape)
        if self.mood == "pareto":
            drawn = _exp(-_log(1 - draws.uniform(size)) / _PARETO) * (_PARETO - 1) / _PARETO
            return drawn.reshape(shape)
        if self.mood == "sittings":
            return np.ones(shape)
        moods = draws.gamma(_BURSTINESS_SHAPE, size).reshape(shape)
        if self.mood == "mixed":
            kind = draws.uniform(users)[:, np.newaxis]
            wild = draws.any_gamma(1 / 3, size).reshape(shape)
            moods = np.where(kind < 2 / 5, 1.0, np.where(kind < 4 / 5, moods, wild))
        return moods


def _lasting(draws: Draws, users: int, hours: int) -> Floats:
    fresh = draws.normal(users * hours).reshape(users, hours)
    for hour in range(1, hours):
        fresh[:, hour] = _LASTS * fresh[:, hour - 1] + np.sqrt(1 - _LASTS**2) * fresh[:, hour]
    return _exp(_MOODS_SPREAD * fresh - _MOODS_SPREAD**2 / 2)


def share_out(draws: Draws, number: int, shares: Floats) -> Ints:
    """Return how many of ``number`` events each user makes, at random by its share."""
    owners = pick(shares[np.newaxis, :], np.zeros(number, np.int64), draws.uniform(number))
    return np.bincount(owners, minlength=len(shares)).astype(np.int64)


def habits_of(draws: Draws, users: int, actions: int) -> Habits:
    """Return habits for ``users``; the k-th action is done 1/k as often as the first."""
    home = _HOME_PHASES[draws.integers(0, len(_HOME_PHASES), users)]
    taste = draws.gamma(_TASTE_SHAPE, users * actions).reshape(users, actions)
    return Habits((home + draws.integers(0, 2, users)) % 24, taste / np.arange(1, actions + 1))


def act(
    draws: Draws, counts: Ints, habits: Habits, span: Span, laws: Laws, *, first_hours: Ints
) -> Acts:
    """Return the events of users who do as many things as ``counts`` says, by their habits.

    Each starts in the hour of the span that ``first_hours`` says.
    """
    blocks = []
    for low in range(0, len(counts), _USERS_AT_A_TIME):
        some = slice(low, low + _USERS_AT_A_TIME)
        weights = laws.usual(habits.phase[some], span)
        weights = weights * laws.moods(draws, *weights.shape) * span.widths_ms
        weights[np.arange(weights.shape[1]) < first_hours[some, np.newaxis]] = 0.0
        placed = _in_sittings if laws.mood == "sittings" else _placed
        rows = np.repeat(np.arange(len(weights)), counts[some])
        times = placed(draws, rows, weights, span)
        actions = pick(habits.mix[some], rows, draws.uniform(len(rows)))
        blocks.append(Acts(rows + low, times, actions))
    return Acts.joined(blocks)


def _placed(draws: Draws, rows: Ints, weights: Floats, span: Span) -> Ints:
    """Return a time for each row: in an hour by its user's weights."""
    hours = pick(weights, rows, draws.uniform(len(rows)))
    within = np.floor(draws.uniform(len(rows)) * span.widths_ms[hours]).astype(np.int64)
    return np.asarray(span.hour_starts_ms[hours] + within)


def _in_sittings(draws: Draws, rows: Ints, weights: Floats, span: Span) -> Ints:
    """Return a time for each row: in some sitting of its user's, which lies by the weights."""
    sittings = -(-np.bincount(rows, minlength=len(weights)) // _A_SITTING)
    began = _placed(draws, np.repeat(np.arange(len(weights)), sittings), weights, span)
    chosen = (np.cumsum(sittings) - sittings)[rows] + draws.integers(0, sittings[rows], len(rows))
    after = draws.integers(0, HOUR_MS // 2, len(rows))
    return np.asarray(np.minimum(began[chosen] + after, span.end_ms - 1))
