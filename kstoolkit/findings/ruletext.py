"""Rules and texts as TOML writes them, for files that people go on editing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kstoolkit.errors import ConfigurationError
from kstoolkit.findings.rulefile import rule_table
from kstoolkit.markup import plain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kstoolkit.findings.rules import Rule


_LAST_SHORT = 0xFFFF


def rules_to_toml(rules: Iterable[Rule]) -> str:
    """Return rules as :func:`~kstoolkit.load_rules` reads them.

    Examples
    --------
    >>> from kstoolkit.findings.rules import Ceiling
    >>> print(rules_to_toml([Ceiling("1 minute", 100, actions=["log in"])]))
    [[rule]]
    kind = "Ceiling"
    window = "1 minute"
    count = 100
    actions = ["log in"]
    <BLANKLINE>
    """
    return "\n".join(_table(rule_table(rule)) for rule in rules)


def _table(fields: dict[str, Any]) -> str:
    lines = [f"{name} = {_value(value)}\n" for name, value in fields.items()]
    return "".join(["[[rule]]\n", *lines])


def _value(value: object) -> str:
    if isinstance(value, str):
        return toml_text(value)
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, value))}]"
    return repr(value)


def toml_text(value: str) -> str:
    r"""Return a text as TOML writes it, on one line; what is unseen stands as its code point.

    Raises
    ------
    ConfigurationError
        If it has half of a surrogate pair, which no file in UTF-8 can hold.

    Examples
    --------
    >>> print(toml_text('a "b"\\c\n'))
    "a \"b\"\\c\u000A"
    """
    if any("\ud800" <= char <= "\udfff" for char in value):
        message = f"The name {value!r} is no text that a file can hold: it has half a character."
        raise ConfigurationError(message, hint="Exempt it by a pattern: Exempt(pattern='…').")
    return f'"{"".join(map(_escaped, value))}"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    if plain(char) == char:
        return char
    return f"\\u{ord(char):04X}" if ord(char) <= _LAST_SHORT else f"\\U{ord(char):08X}"
