"""A figure as Prometheus takes it: a name, what it says, and a value for each set of labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


_PREFIX = "kstoolkit_"

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure under a name, with one value for each set of labels.

    Parameters
    ----------
    kind
        ``"counter"``, which only grows, or ``"gauge"``.
    name
        Its name; a counter's without the ``_total`` that it is served with.
    about
        What it says, in a sentence or two.
    samples
        (labels, value) of each; none at all of a figure that is not known, whose ``about`` says
        why.
    """

    kind: Literal["counter", "gauge"]
    name: str
    about: str
    samples: tuple[tuple[Labels, float], ...]


def counter(name: str, about: str, value: float | Mapping[Labels, float]) -> Metric:
    """Return a figure that only grows.

    Examples
    --------
    >>> counter("events", "Events that came in.", 7).name
    'kstoolkit_events'
    """
    return Metric("counter", _PREFIX + name, about, _samples(value))


def gauge(
    name: str, about: str, value: float | Mapping[Labels, float] | None, why: str = "not told"
) -> Metric:
    """Return a figure that goes up and down; of one that is ``None``, that it is unknown and why.

    Examples
    --------
    >>> gauge("lag_bytes", "Bytes that wait.", None, "a DataFrame does not say").about
    'Bytes that wait. Unknown: a DataFrame does not say.'
    """
    if value is None:
        return Metric("gauge", _PREFIX + name, f"{about} Unknown: {why}.", ())
    return Metric("gauge", _PREFIX + name, about, _samples(value))


def labelled(
    label: str, values: Mapping[str, float], known: Iterable[str] = ()
) -> dict[Labels, float]:
    """Return values under one label; 0 for what is known to exist and has none.

    Examples
    --------
    >>> labelled("reason", {"no_user": 2}, known=["no_time"])
    {(('reason', 'no_time'),): 0.0, (('reason', 'no_user'),): 2}
    """
    told = dict.fromkeys(known, 0.0) | dict(values)
    return {((label, name),): number for name, number in told.items()}


def _samples(value: float | Mapping[Labels, float]) -> tuple[tuple[Labels, float], ...]:
    return (((), value),) if isinstance(value, int | float) else tuple(value.items())
