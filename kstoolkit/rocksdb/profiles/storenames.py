"""Which stores a pattern of names means."""

from __future__ import annotations

import re

EVERY_STORE = "*"
"""The pattern that every name matches."""


def pattern_expression(pattern: str) -> str:
    r"""Return a regular expression, of Python's and Java's kind, for a whole name.

    Parameters
    ----------
    pattern
        A name in which ``*`` is any text and ``?`` any one character.

    Examples
    --------
    >>> pattern_expression("counts-*")
    'counts\\-.*'
    """
    anything = {"*": ".*", "?": "."}
    return "".join(anything.get(character) or re.escape(character) for character in pattern)
