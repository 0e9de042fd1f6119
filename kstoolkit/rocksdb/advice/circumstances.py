"""What whoever asks for advice may know, and a store's folder doesn't tell."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, TypedDict

from kstoolkit.errors import ConfigurationError
from kstoolkit.rocksdb.memory.numbers import check_whole

if TYPE_CHECKING:
    from kstoolkit.rocksdb.profiles.profile import Profile


_LEAST_ONE = {
    "bound_bytes": "Give what RocksDB may take on the host, in bytes: 1 << 30.",
    "instances": "Give how many stores like this one are open at once: 1 or more.",
    "pid": "Give the number of a process that runs.",
    "open_files_limit": "Give how many files the writer may open, as ulimit -n says it.",
}
_COUNTERS = "Give RocksDB's own names and counts: {'rocksdb.bloom.filter.useful': 12}."


class Circumstances(TypedDict, total=False):
    """What a store's folder doesn't tell, and whoever asks for advice may know.

    Parameters
    ----------
    bound_bytes
        What RocksDB may take on the host.
    instances
        How many stores like this one are open there at once.
    profile
        What the writer opens the store with, or the name of that; None: what the OPTIONS file
        tells, and for the block cache the log.
    tickers
        The writer's counters by RocksDB's names (``"rocksdb.bloom.filter.useful"``), from its
        metrics; None: those of the last dump of statistics in its log. Its sizes may be among
        them, such as ``"rocksdb.block-cache-usage"``: sums over all that is under the bound.
    pid
        The writer's process, on this machine.
    open_files_limit
        How many files the writer may open; None: as many as this process.
    """

    bound_bytes: int | None
    instances: int
    profile: Profile | str | None
    tickers: Mapping[str, int] | None
    pid: int | None
    open_files_limit: int | None


def check_circumstances(given: Circumstances) -> None:
    """Refuse what makes no sense.

    Raises
    ------
    ConfigurationError
        If there is no such circumstance, a number is none or too small, or counters are none.

    Examples
    --------
    >>> check_circumstances({"bound_bytes": "1G"})
    Traceback (most recent call last):
    kstoolkit.errors.ConfigurationError: bound_bytes is '1G', which is no whole number.
    Hint: Give what RocksDB may take on the host, in bytes: 1 << 30.
    """
    _check_names(given)
    for name, value in given.items():
        if name in _LEAST_ONE and value is not None:
            check_whole(name, value, least=1, hint=_LEAST_ONE[name])
    _check_tickers(given.get("tickers"))


def _check_tickers(tickers: object) -> None:
    if tickers is None:
        return
    if not isinstance(tickers, Mapping):
        message = f"tickers is {tickers!r}, which is no mapping of names to counts."
        raise ConfigurationError(message, hint=_COUNTERS)
    for name, count in tickers.items():
        check_whole(f"tickers[{name!r}]", count, least=0, hint=_COUNTERS)


def _check_names(given: Circumstances) -> None:
    known = list(Circumstances.__annotations__)
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            guess = f"Did you mean {near[0]}? " if near else ""
            message = f"advice() takes no {name}."
            raise ConfigurationError(message, hint=f"{guess}It takes: {', '.join(known)}.")
