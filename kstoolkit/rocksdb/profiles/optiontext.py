"""An option's value as people type it: ``32 MiB``, ``true``, ``lz4``, ``none, none, lz4``."""

from __future__ import annotations

import re
from typing import Any

from kstoolkit.errors import ConfigurationError
from kstoolkit.rocksdb.profiles.optioncheck import options_of
from kstoolkit.rocksdb.profiles.optionset import OptionSet
from kstoolkit.rocksdb.profiles.words import CHOICES

_NUMBER = re.compile(
    r"([+-]?[\d_,]+(?:\.\d+)?(?:e\d{1,2})?)\s*([kmgt]?)(?:i?b|ytes)?", re.IGNORECASE
)
_POWERS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_TRUTHS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def parse_option(name: str, text: str) -> Any:
    """Return the value of an option, of the type that the option has.

    Whether the value makes sense is for the profile to say.

    Parameters
    ----------
    name
        Of one of :class:`~kstoolkit.rocksdb.profiles.optionset.OptionSet`'s options.
    text
        A whole number with or without a unit of 1024 (``KiB``, ``MB``, ``g`` ...), ``true`` or
        ``false``, a word, or words with commas between them.

    Raises
    ------
    ConfigurationError
        If there is no such option, or the text is no value of its type.

    Examples
    --------
    >>> parse_option("write_buffer_size", "32 MiB"), parse_option("compression", " lz4 ")
    (33554432, 'lz4')
    >>> parse_option("cache_index_and_filter_blocks", "yes")
    True
    """
    option = options_of(OptionSet).get(name)
    if option is None:
        message = f"There is no option {name!r}."
        raise ConfigurationError(message, hint=f"There are: {', '.join(options_of(OptionSet))}.")
    if isinstance(option.default, tuple):
        return tuple(word for each in text.split(",") if (word := each.strip()))
    if name in CHOICES:
        return text.strip()
    if isinstance(option.default, bool):
        return _truth(name, text)
    return _number(name, text, option.default)


def _truth(name: str, text: str) -> bool:
    found = _TRUTHS.get(text.strip().lower())
    if found is None:
        message = f"{name} is either true or false, not {text!r}."
        raise ConfigurationError(message, hint="Type true or false.")
    return found


def _number(name: str, text: str, default: Any) -> float:
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        message = f"{name} is a number, not {text!r}."
        raise ConfigurationError(message, hint=f"Such as {default!r}, or 32 MiB for a size.")
    value = float(match[1].replace(",", "").replace("_", "")) * (1 << _POWERS[match[2].lower()])
    return value if isinstance(default, float) else int(value)
