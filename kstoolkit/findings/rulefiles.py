"""Rules in files: people write TOML, a run keeps JSON beside its results.

A rule is a table, its fields what the rule is given::

    [[rule]]
    kind = "Ceiling"
    window = "1 minute"
    count = 100

Users marked as known are exemptions that are added to such a file, which stays as it was.
"""

from __future__ import annotations

import fcntl
import json
import os
import tomllib
from contextlib import contextmanager
from dataclasses import fields
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kstoolkit.errors import ConfigurationError, OutputError, guessed
from kstoolkit.findings.rules import (
    Budget,
    Campaign,
    Ceiling,
    Distinct,
    Drift,
    Exempt,
    Longer,
    Rule,
    TooEven,
    Unusual,
    exempted,
)
from kstoolkit.markup import plain, shortened
from kstoolkit.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_KINDS: Mapping[str, type[Rule]] = {
    kind.__name__: kind
    for kind in (Budget, Campaign, Ceiling, Distinct, Drift, Exempt, Longer, TooEven, Unusual)
}


def load_rules(path: str | Path) -> tuple[Rule, ...]:
    """Return the rules of a TOML file, in its order.

    Parameters
    ----------
    path
        A file of ``[[rule]]`` tables: ``kind`` is the rule's name, the rest its arguments.

    Raises
    ------
    ConfigurationError
        If the file is missing or no TOML, or a rule in it makes no sense.
    """
    where = str(path)
    try:
        text = Path(path).read_text(encoding="utf-8-sig")  # some editors mark it so
    except OSError as error:
        message = f"No rules can be read from {where}: {error.strerror}."
        raise ConfigurationError(message, hint="Give the path of a TOML file.") from error
    except UnicodeDecodeError as error:
        message = f"{where} is no UTF-8 from byte {error.start} on, and so no TOML."
        raise ConfigurationError(message, hint="Save it as UTF-8.") from error
    return _rules_from_toml(text, where)


def _rules_from_toml(text: str, where: str = "TOML") -> tuple[Rule, ...]:
    """Return the rules of a TOML document, in its order; errors call it ``where``."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = f"{where} is no TOML: {error}."
        raise ConfigurationError(message, hint=_EXAMPLE) from error
    tables = document.pop("rule", None)
    if document:
        raise _unknown(where, "table", next(iter(document)), ["rule"])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        message = f"{where} has no [[rule]] table."
        raise ConfigurationError(message, hint=_EXAMPLE)
    return tuple(
        _rule(table, f"{where}, rule {number}") for number, table in enumerate(tables, start=1)
    )


_EXAMPLE = "A rule reads: [[rule]], kind = 'Ceiling', window = '1 minute', count = 100."


def rules_to_json(rules: Iterable[Rule]) -> str:
    """Return rules as one line of JSON.

    Examples
    --------
    >>> rules_to_json([Ceiling("1 minute", 100)])
    '[{"kind": "Ceiling", "window": "1 minute", "count": 100}]'
    """
    return json.dumps([_rule_table(rule) for rule in rules], ensure_ascii=False)


def rules_from_json(text: str) -> tuple[Rule, ...]:
    """Read what :func:`rules_to_json` wrote.

    Examples
    --------
    >>> rules_from_json('[{"kind": "Unusual", "window": "1 hour"}]')[0].name
    'Unusual 1 hour, 5 false alarms a day'
    """
    return tuple(
        _rule(table, f"JSON, rule {number}")
        for number, table in enumerate(json.loads(text), start=1)
    )


def _rule_table(rule: Rule) -> dict[str, Any]:
    """Return a rule as the table that a file has of it: its kind, and what was given."""
    given = {field.name: getattr(rule, field.name) for field in fields(rule)}
    if not isinstance(rule, Exempt | Budget):
        given["window"] = rule.window.label
    if isinstance(rule, Longer):  # which its window says
        given = {"window": rule.window.label, "duration": format_duration(rule.duration_ms)}
    return {"kind": type(rule).__name__} | {k: v for k, v in given.items() if v is not None}


def _rule(table: Mapping[str, Any], where: str) -> Rule:
    kind = table.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise _unknown(where, "kind", kind, list(_KINDS))
    given = {name: value for name, value in table.items() if name != "kind"}
    parameters = signature(_KINDS[kind]).parameters
    for name in given:
        if name not in parameters:
            place = f"{where} ({kind})"
            raise _unknown(place, "field", name, ["kind", *parameters])
    missing = [name for name, p in parameters.items() if p.default is p.empty and name not in given]
    if missing:
        message = f"{where}: {kind} lacks {missing[0]!r}."
        raise ConfigurationError(message, hint=f"It takes: {', '.join(parameters)}.")
    _check_window(given, where)
    try:
        return _KINDS[kind](**given)
    except ConfigurationError as error:
        message = f"{where}: {error.message}"
        raise ConfigurationError(message, hint=error.hint) from error


def _check_window(given: Mapping[str, Any], where: str) -> None:
    for name in ("window", "duration"):
        if not isinstance(given.get(name, ""), str):
            message = f"{where}: {name} = {given[name]!r} is no text."
            raise ConfigurationError(message, hint=f"Write a length of time: {name} = '1 hour'.")


def _unknown(where: str, what: str, found: object, allowed: list[str]) -> ConfigurationError:
    guess = guessed(str(found), allowed, cutoff=0.5)
    shown = f"no {what}" if found is None else f"an unknown {what} {found!r}"
    message = f"{where} has {shown}."
    return ConfigurationError(message, hint=f"{guess}Allowed: {', '.join(allowed)}.")


_LAST_SHORT = 0xFFFF


def _rules_to_toml(rules: Iterable[Rule]) -> str:
    """Return rules as :func:`~kstoolkit.load_rules` reads them."""
    return "\n".join(_table(_rule_table(rule)) for rule in rules)


def _table(fields: dict[str, Any]) -> str:
    lines = [f"{name} = {_value(value)}\n" for name, value in fields.items()]
    return "".join(["[[rule]]\n", *lines])


def _value(value: object) -> str:
    if isinstance(value, str):
        return _toml_text(value)
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, value))}]"
    return repr(value)


def _toml_text(value: str) -> str:
    """Return a text as TOML writes it, on one line; what is unseen stands as its code point."""
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


_LONGEST_NOTE = 400
_ONE_LIST = "Write its rules as [[rule]] tables: then one can be added."


def exempt_user(
    path: str | os.PathLike[str], user: str, *, note: str = "", begin_with: Iterable[Rule] = ()
) -> bool:
    r"""Add a rule that exempts a user to a file of rules; return whether it had to be added.

    What is in the file stays as it is, byte for byte. The file is replaced as a whole, so that
    whoever reads it finds all of it or what was there before; a link to it stays a link. It is made
    if it is not there, and begins with ``begin_with``: a run that is given nothing but exemptions
    looks for nothing. The ``note`` is a comment above the rule.

    A file that holds something else than rules is a ConfigurationError; one that can't be written,
    an OutputError. It stays as it was.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "rules.toml"
    >>> exempt_user(path, 'Anna "the bot"', note="nightly backup"), exempt_user(path, "Anna")
    (True, True)
    >>> exempt_user(path, "Anna")
    False
    >>> print(path.read_text())
    # nightly backup
    [[rule]]
    kind = "Exempt"
    users = ["Anna \"the bot\""]
    <BLANKLINE>
    [[rule]]
    kind = "Exempt"
    users = ["Anna"]
    <BLANKLINE>
    """
    place = Path(path).resolve()
    comment = f"# {plain(shortened(note, _LONGEST_NOTE))}\n" if note else ""
    rule = comment + _rules_to_toml([Exempt([user])])
    try:
        with _alone_in(place.parent):
            if known_users(place, [user]):
                return False
            there = place.exists()
            before = place.read_bytes() if there else _rules_to_toml(begin_with).encode()
            _replace(place, _added(before, rule))
    except OSError as error:
        message = f"The rules in {str(path)!r} can't be written: {error.strerror}."
        raise OutputError(message, hint="Give a file in a folder of your own.") from error
    return True


def known_users(path: str | os.PathLike[str], users: Iterable[str]) -> set[str]:
    """Return which of some users the rules in a file exempt; none if there is no such file.

    Examples
    --------
    >>> known_users("no/such/rules.toml", ["Anna"])
    set()
    """
    asked = list(users)
    flags = exempted(_rules(Path(path)), pa.array(asked, pa.string())).to_pylist()
    return {user for user, flag in zip(asked, flags, strict=True) if flag}


def _rules(place: Path) -> tuple[Rule, ...]:
    try:
        content = place.read_bytes()
    except FileNotFoundError:
        return ()
    except OSError:
        return load_rules(place)  # which says what is wrong
    return () if _is_bare(content) else load_rules(place)


def _is_bare(content: bytes) -> bool:
    """Return whether there are only comments: no rules yet, and no mistake."""
    lines = (line.strip() for line in content.splitlines())
    return all(not line or line.startswith(b"#") for line in lines)


def _added(before: bytes, rule: str) -> bytes:
    """Return a file with one rule more, in the line ends that it has, a blank line before it."""
    end = "\r\n" if b"\r\n" in before else "\n"
    blank = "" if not before else end if before.endswith(b"\n") else 2 * end
    return before + (blank + rule.replace("\n", end)).encode()


def _replace(place: Path, content: bytes) -> None:
    """Write a file as a whole, once it is known to be readable; with the mode that it had."""
    hidden = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        with hidden.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if place.exists():
            hidden.chmod(place.stat().st_mode & 0o7777)
        _check(hidden, place)
        hidden.replace(place)
    finally:
        hidden.unlink(missing_ok=True)


def _check(hidden: Path, place: Path) -> None:
    try:
        _rules_from_toml(hidden.read_text(encoding="utf-8"), str(place))
    except ConfigurationError as error:
        message = f"No rule can be added to {str(place)!r}: {error.message}"
        raise ConfigurationError(message, hint=_ONE_LIST) from error


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Hold a folder: of two who add a rule at the same time, none loses the other's."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
