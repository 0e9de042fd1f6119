"""How busy the hours of a cell's day are: a rhythm of its own, where it is shown to have one.

Who sleeps at night is no bursty user. A cell's rhythm is one wave a day, over windows that begin
at t, of which whole numbers make a day and four at least:

    busy(t) = max(1 + Re(a* e^iθ), 0.1),   θ = 2π t / day

For each cell the sums Z = Σ learnt(t) e^iθ are kept, of even and of odd days since 1970 apart.
Windows without events add nothing. With the mean x̄ of all n windows and W = Σ e^iθ over those of
the even days, which is not zero where the first or the last of them is no whole day,

    a_even = 2 (Z_even - x̄ W_even) / (n_even x̄),   and a_odd likewise.

Each half of the days is *held out* from the other: what odd days say of even ones is better than
the mean alone, by squares, where this is more than 0:

    Σ (x - x̄)² - (x - x̄ busy)² = x̄² n_even (d - |a_odd|² / 2),   d = Re(a_even a_odd*)

A rhythm is taken for one from two days on, where both halves are better together, by three units of
log likelihood, times as many if windows overlap:

    x̄² (n d - (n_even |a_odd|² + n_odd |a_even|²) / 2) / (2 s²) ≥ 3

It is as large as it is reliable, Spearman & Brown's formula (1910) from halves to the whole:

    a = 2ρ / (1 + ρ) · (n_even a_even + n_odd a_odd) / n,   ρ = min(2d / (|a_even|² + |a_odd|²), 1)

A cell with a rhythm has the mean m busy(t), and of its variance s² the part ``x̄² |a|² / 2`` is
rhythm and no burst. How busy all are, g, is for such cells what they did over what they do then.
"""

# ruff: noqa: RUF002 - theta and rho are the letters of the formulas

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kstoolkit.findings.peers import Flags, Floats, Integers, Waves

_DAY_MS = 86_400_000
_FEWEST_DAYS, _FEWEST_A_DAY = 2, 4
_ROUNDED = 1e-6  # by so much, at most, sums differ that are added up in another order
_LEAST_GAIN, TOO_FEW = 3, 2
"""A cell with so few events gains less, whenever they came: it needn't be looked at."""

LEAST_BUSY = 0.1
"""No hour of a day is less busy than so many times the mean one."""


def has_rhythm(every_ms: int) -> bool:
    """Return whether a day is made of windows, four or more.

    >>> [has_rhythm(hours * 3_600_000) for hours in (1, 6, 7, 24)]
    [True, True, False, False]
    """
    return every_ms > 0 and _DAY_MS % every_ms == 0 and _DAY_MS // every_ms >= _FEWEST_A_DAY


def is_odd(at_ms: Integers) -> Flags:
    """Return of which half of the days times are."""
    return np.asarray(at_ms // _DAY_MS % 2 == 1)


def wave_at(at_ms: int | Integers) -> Waves:
    """Return e^iθ at some times: where in the day they are."""
    return np.asarray(np.exp(2j * np.pi * (np.asarray(at_ms) % _DAY_MS) / _DAY_MS))


def busy_at(at_ms: Integers, rhythm: Waves) -> Floats:
    """Return how busy windows are that begin then, over the mean one; 1 where there is no rhythm.

    >>> busy_at(np.array([0, 43_200_000]), np.array([0.5, 0.5])).tolist()  # midnight and noon
    [1.5, 0.5]
    """
    return np.maximum(1 + (rhythm.conj() * wave_at(at_ms)).real, LEAST_BUSY)


def rhythm_of(
    halves: tuple[Waves, Waves],
    history: tuple[Integers, Integers, Floats],
    first_ms: Integers,
    every_ms: int,
    overlap: float = 1,
) -> Waves:
    """Return a of each cell, 0 where it is not shown to have a rhythm.

    ``halves`` are Z of even and of odd days; ``history`` are each cell's windows, n, and the sum of
    their counts and of their squares, the first of which begins at ``first_ms``. Each moment is in
    ``overlap`` windows: so many say what one does.
    """
    n, total, squares = history
    found = np.zeros(len(n), complex)
    if not has_rhythm(every_ms):
        return found
    some = np.flatnonzero(n * every_ms >= _FEWEST_DAYS * _DAY_MS)
    if not len(some):
        return found
    n, total, first_ms = n[some], total[some], first_ms[some]
    mean = total / n
    even, odd, n_even = _halves([half[some] for half in halves], n, mean, first_ms, every_ms)
    both = even[0] * odd[0] + even[1] * odd[1]
    of_even, of_odd = (each[0] * each[0] + each[1] * each[1] for each in (even, odd))
    n_odd = n - n_even
    spread = np.maximum((squares[some] - total * mean) / (n - 1), mean)
    gain = mean * mean * (n * both - (n_even * of_odd + n_odd * of_even) / 2) / (2 * spread)
    shown = np.flatnonzero(gain >= _LEAST_GAIN * overlap)
    alike = np.minimum(2 * both[shown] / (of_even + of_odd)[shown], 1)
    whole = (n_even * (even[0] + 1j * even[1]) + n_odd * (odd[0] + 1j * odd[1]))[shown] / n[shown]
    found[some[shown]] = 2 * alike / (1 + alike) * whole
    return found


def is_shown_none(
    halves: Sequence[Waves], history: tuple[Integers, Integers], every_ms: int, overlap: float = 1
) -> Flags:
    """Return which cells are shown no rhythm until something is added to them, however long.

    With D = Re(Z_even Z_odd*), and x = x̄ / sin(π / windows a day), which no x̄ |W| exceeds, three
    units of log likelihood are more than what they can be better by,

        8 / (n x̄) ((D + x (|Z_even| + |Z_odd|) + x²) n² / (n² - (windows a day)²)
                   - (|Z_even| - x) (|Z_odd| - x) / 2),

    none of the four brackets below 0; and that falls as n grows, and x with it.
    """
    (even, odd), (n, total) = (np.asarray(each, complex) for each in halves), history
    slots = _DAY_MS // every_ms
    a, b, x = np.abs(even), np.abs(odd), total / n / np.sin(np.pi / slots)
    most = (even * odd.conj()).real + x * (a + b) + x * x
    most = np.maximum(most, most * n * n / np.maximum(n * n - slots * slots, 1))
    least = np.maximum(a - x, 0) * np.maximum(b - x, 0) / 2
    is_whole = n >= _FEWEST_DAYS * slots
    return np.asarray(
        is_whole & (8 * (most - least) < (1 - _ROUNDED) * _LEAST_GAIN * overlap * total)
    )


_Parts = tuple[Any, Any]
"""Real and imaginary parts, which are worked on apart: most cells are shown no rhythm."""


def _halves(
    sums: Sequence[Waves], n: Integers, mean: Floats, first_ms: Integers, every_ms: int
) -> tuple[_Parts, _Parts, Integers]:
    """Return a of even days and of odd ones, and how many windows of even days there were."""
    until_ms = first_ms + n * every_ms
    if until_ms.min() == until_ms.max():  # as a rule all are looked at at one time
        until_ms = until_ms[:1]
    (n_begun, *begun), (n_ended, *ended) = (_passed(at, every_ms) for at in (first_ms, until_ms))
    n_even = n_ended - n_begun
    waves = [end - begin for begin, end in zip(begun, ended, strict=True)]
    found = []
    for z, real, imag, number in zip(
        sums, waves[::2], waves[1::2], (n_even, n - n_even), strict=True
    ):
        by = 2 / (number * mean)
        found.append(((z.real - mean * real) * by, (z.imag - mean * imag) * by))
    return found[0], found[1], n_even


def _passed(at_ms: Integers, every_ms: int) -> tuple[Integers, Floats, Floats, Floats, Floats]:
    """Return how many windows of even days began before some times, and W of even and odd ones."""
    slots = _DAY_MS // every_ms
    waves = np.append(0, np.cumsum(wave_at(np.arange(slots) * every_ms)))
    day = at_ms // _DAY_MS
    slot, is_even = (at_ms - day * _DAY_MS) // every_ms, day % 2 == 0
    real, imag = waves.real[slot], waves.imag[slot]
    n_even = slots * ((day + 1) // 2) + slot * is_even
    return n_even, real * is_even, imag * is_even, real * ~is_even, imag * ~is_even
