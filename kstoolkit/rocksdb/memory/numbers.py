"""Whether what was given for a number is a whole one, and large enough."""

from __future__ import annotations

from kstoolkit.errors import ConfigurationError


def check_whole(name: str, value: object, *, least: int, hint: str) -> None:
    """Refuse what is no whole number, or less than it may be.

    Raises
    ------
    ConfigurationError
        If ``value`` makes no sense; ``hint`` says what to give.

    Examples
    --------
    >>> check_whole("stores", 2, least=1, hint="Give how many.")
    >>> check_whole("stores", "2", least=1, hint="Give how many.")
    Traceback (most recent call last):
    kstoolkit.errors.ConfigurationError: stores is '2', which is no whole number.
    Hint: Give how many.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        message = f"{name} is {value!r}, which is no whole number."
        raise ConfigurationError(message, hint=hint)
    if value < least:
        message = f"{name} is {value}: it has to be {least} or more."
        raise ConfigurationError(message, hint=hint)
