"""Where a reset goes: what is asked for, as an offset of each partition."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from kstoolkit.errors import ConfigurationError
from kstoolkit.events.topics import in_utc

if TYPE_CHECKING:
    from kstoolkit.kafka.cluster import Cluster, Reach


To = str | datetime | Mapping[int, int]
"""``"earliest"``, ``"latest"``, a time (an aware datetime or ISO 8601), or offsets by partition."""

_HINT = "Give 'earliest', 'latest', a time such as 2026-01-31T08:00Z, or {partition: offset}."


def checked_to(to: object) -> str | datetime | dict[int, int]:
    """Return where to go: one of two words, a time in UTC, or offsets.

    Raises
    ------
    ConfigurationError
        If it is none of these.

    Examples
    --------
    >>> checked_to("2026-01-31T08:00+01:00").isoformat()
    '2026-01-31T07:00:00+00:00'
    """
    if isinstance(to, Mapping) and to:
        return _offsets(to)
    if isinstance(to, str) and to in {"earliest", "latest"}:
        return to
    moment = _moment(to)
    if moment is None:
        message = f"to is {to!r}."
        raise ConfigurationError(message, hint=_HINT)
    if moment.tzinfo is None:
        message = f"to is {moment.isoformat()}, a time without a zone."
        raise ConfigurationError(message, hint="Add one: 2026-01-31T08:00Z.")
    return in_utc(moment, "to")


def targets_of(
    to: str | datetime | dict[int, int],
    cluster: Cluster,
    topic: str,
    reach: Mapping[int, Reach],
    positions: Mapping[int, int],
) -> dict[int, int]:
    """Return the offset that each partition goes to.

    Parameters
    ----------
    to
        What :func:`checked_to` returned. Of partitions that offsets do not name, those that have a
        position keep it, as long as it is there; the others go to their beginning.
    cluster, topic, reach
        What there is.
    positions
        Where each partition is, as far as is known.

    Raises
    ------
    ConfigurationError
        If an offset is named that is not there, or a partition.
    KafkaError
        If no broker answers.
    """
    if to == "earliest":
        return {each: at.first for each, at in reach.items()}
    if to == "latest":
        return {each: at.end for each, at in reach.items()}
    if isinstance(to, datetime):
        moment_ms = round(to.timestamp() * 1_000)
        return cluster.offsets_at(topic, sorted(reach), moment_ms)
    named = {} if isinstance(to, str) else to
    _check_there(named, topic, reach)
    return {each: named.get(each, _kept(at, positions.get(each))) for each, at in reach.items()}


def to_in_words(to: str | datetime | Mapping[int, int]) -> str:
    """Return where to go, as people would write it.

    Examples
    --------
    >>> to_in_words({1: 20, 0: 500})
    'offset 500 of partition 0, 20 of 1'
    """
    if isinstance(to, datetime):
        return to.isoformat()
    if isinstance(to, str):
        return to
    (first, at), *others = sorted(to.items())
    more = "".join(f", {offset} of {each}" for each, offset in others)
    return f"offset {at} of partition {first}{more}"


def _kept(reach: Reach, position: int | None) -> int:
    if position is None:
        return reach.first
    return min(max(position, reach.first), reach.end)


def _check_there(named: Mapping[int, int], topic: str, reach: Mapping[int, Reach]) -> None:
    for partition, at in named.items():
        there = reach.get(partition)
        if there is None or not there.first <= at <= there.end:
            message = f"to has offset {at} of partition {partition}, which is not there."
            held = "; ".join(f"{each}: {r.first} to {r.end}" for each, r in sorted(reach.items()))
            raise ConfigurationError(message, hint=f"{topic!r} has {held}.")


def _offsets(to: Mapping[object, object]) -> dict[int, int]:
    found: dict[int, int] = {}
    for partition, at in to.items():
        if type(partition) is not int or type(at) is not int or min(partition, at) < 0:
            message = f"to has {partition!r}: {at!r}."
            raise ConfigurationError(message, hint="Give {partition: offset}, whole numbers.")
        found[partition] = at
    return found


def _moment(to: object) -> datetime | None:
    if isinstance(to, datetime):
        return to
    try:
        return datetime.fromisoformat(to) if isinstance(to, str) else None
    except ValueError:
        return None
