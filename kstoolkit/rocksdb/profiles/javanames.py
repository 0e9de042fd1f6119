"""What a class of Java may be called."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kstoolkit.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Collection


_CLASS_NAME = re.compile(r"(?:[a-z_]\w*\.)*[A-Za-z_]\w*", re.ASCII)
_RESERVED = """
_ abstract assert boolean break byte case catch char class const continue default do double else
enum extends false final finally float for goto if implements import instanceof int interface long
native new null package private protected public return short static strictfp super switch
synchronized this throw throws transient true try void volatile while
"""
"""Keywords and literals: The Java Language Specification 21, sections 3.9 and 3.10."""
_NO_TYPES = {"permits", "record", "sealed", "var", "yield"}
"""Names that a type may not have, though packages may (3.9)."""
_HINT = "Give one such as 'com.example.BoundedMemory'."


def check_class_name(class_name: str, *, used: Collection[str]) -> None:
    """Check that Java takes a name for a class, with or without a package.

    Parameters
    ----------
    class_name
        The name.
    used
        Names of the classes that its source uses: one of its own would hide them.

    Raises
    ------
    ConfigurationError
        If it does not.

    Examples
    --------
    >>> check_class_name("com.example.Fast", used={"List"})
    >>> check_class_name("class", used={"List"})
    Traceback (most recent call last):
        ...
    kstoolkit.errors.ConfigurationError: 'class' is no name of a Java class.
    Hint: Give one such as 'com.example.BoundedMemory'.
    """
    if not _is_name(class_name):
        message = f"{class_name!r} is no name of a Java class."
        raise ConfigurationError(message, hint=_HINT)
    if class_name.rpartition(".")[2] in used:
        message = f"A class can't be called {class_name!r}: it uses one of this name itself."
        raise ConfigurationError(message, hint=_HINT)


def _is_name(text: object) -> bool:
    if not isinstance(text, str):
        return False
    parts = text.split(".")
    reserved = not set(_RESERVED.split()).isdisjoint(parts) or parts[-1] in _NO_TYPES
    return _CLASS_NAME.fullmatch(text) is not None and not reserved
