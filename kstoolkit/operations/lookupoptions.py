"""How a look-up goes about it: checked once, and sent to every process that looks up."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from kstoolkit.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    Ask = Callable[[list[Any]], Mapping[Any, Any] | Awaitable[Mapping[Any, Any]]]


OnError = Literal["dead_letter", "skip", "default"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupOptions:
    """What a look-up is made of; see :class:`~kstoolkit.operations.lookup.Lookup`.

    Raises
    ------
    ConfigurationError
        If something is out of range, or the parts don't go together.
    """

    ask: Ask
    batch_size: int
    pool: int
    timeout_ms: int
    cache_ms: int
    cache_unknown_ms: int
    cache_keys: int
    retries: int
    backoff_ms: int
    max_backoff_ms: int
    pause_after: int
    pause_ms: int
    on_error: OnError
    default: Any
    identity: str = field(default_factory=lambda: uuid.uuid4().hex)
    """By which copies of one look-up, in several tasks of a process, know that they are one."""

    def __post_init__(self) -> None:
        _check_callable(self.ask)
        for name in ("batch_size", "pool", "cache_keys", "pause_after"):
            self._check_at_least(1, name)
        self._check_at_least(0, "retries")
        self._check_on_error()

    def _check_at_least(self, least: int, name: str) -> None:
        number = getattr(self, name)
        if not isinstance(number, int) or number < least:
            message = f"{name}={number!r} is no whole number from {least} up."
            raise ConfigurationError(message, hint=f"Give {least} or more.")

    def _check_on_error(self) -> None:
        if self.on_error not in get_args(OnError):
            message = f"on_error={self.on_error!r} is unknown."
            known = ", ".join(map(repr, get_args(OnError)))
            raise ConfigurationError(
                message,
                hint=f"Known are {known}; the last with default=…, the value to go on with.",
            )
        if (self.on_error == "default") != (self.default is not None):
            message = f"on_error={self.on_error!r} and default={self.default!r} don't go together."
            raise ConfigurationError(message, hint="Give both on_error='default' and default=….")


def _check_callable(ask: object) -> None:
    if not callable(ask):
        message = f"A look-up needs something to call, not {ask!r}."
        raise ConfigurationError(message, hint="Give a function of a list of keys.")
