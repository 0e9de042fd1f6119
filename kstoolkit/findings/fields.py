"""What a rule is given, checked field by field: each mistake names the field and its value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.errors import ConfigurationError

_LARGEST = (1 << 63) - 1


def whole_match(pattern: str) -> str:
    """Return the regular expression that the whole of a text must match."""
    return rf"\A(?:{pattern})\z"


def whole(field: str, value: Any, *, least: int) -> int:
    """Return a whole number that is at least so large, and that 64 bits hold."""
    is_whole = type(value) is int
    if not is_whole or not least <= value <= _LARGEST:
        message = f"{field} = {value!r} is no whole number from {least} to {_LARGEST}."
        raise ConfigurationError(message, hint=f"Write for instance {field}={max(least, 100)}.")
    return int(value)


def positive(field: str, value: Any) -> float:
    """Return a number above zero."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 < value < float("inf"):
        message = f"{field} = {value!r} is no positive number."
        raise ConfigurationError(message, hint=f"Write for instance {field}=5.")
    return float(value)


def names(field: str, values: Any) -> tuple[str, ...]:
    """Return one name or more."""
    hint = f"Write a list of names: {field}=['one', 'two']."
    if isinstance(values, str):
        message = f"{field} = {values!r} is one text, not a list of names."
        raise ConfigurationError(message, hint=hint)
    given = tuple(values) if isinstance(values, Iterable) else (values,)
    if not given or not all(isinstance(name, str) for name in given):
        message = f"{field} = {list(given)!r} is no list of names."
        raise ConfigurationError(message, hint=hint)
    return given


def regular(pattern: Any) -> str:
    """Return a regular expression of RE2, which any input matches in linear time."""
    hint = "Write a regular expression of RE2's syntax, such as 'bot-[0-9]+'."
    if not isinstance(pattern, str):
        message = f"pattern = {pattern!r} is no text."
        raise ConfigurationError(message, hint=hint)
    try:
        pc.match_substring_regex(pa.array([""]), whole_match(pattern))
        pc.match_substring_regex(pa.array([""]), pattern)
    except pa.ArrowInvalid as error:
        message = f"The pattern {pattern!r} is no regular expression: {error}."
        raise ConfigurationError(message, hint=hint) from error
    return pattern
