"""Rules in files: people write TOML, a run keeps JSON beside its results.

A rule is a table, its fields what the rule is given::

    [[rule]]
    kind = "Ceiling"
    window = "1 minute"
    count = 100
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import fields
from datetime import date
from hashlib import blake2b
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from kstoolkit.errors import ConfigurationError, guessed
from kstoolkit.findings.rules import Budget, Exempt, Longer, Rule
from kstoolkit.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_KINDS: dict[str, type[Rule]] = dict(sorted((kind.__name__, kind) for kind in get_args(Rule)))
_TABLES = ("rule", "alert")
_EXAMPLE = "A rule reads: [[rule]], kind = 'Ceiling', window = '1 minute', count = 100."


def load_rules(path: str | Path) -> tuple[Rule, ...]:
    """Return the rules of a TOML file, in its order; none if it has ``[[alert]]`` tables alone.

    Parameters
    ----------
    path
        A file of ``[[rule]]`` tables: ``kind`` is the rule's name, the rest its arguments.

    Raises
    ------
    ConfigurationError
        If the file is missing or no TOML, or a rule in it makes no sense.
    """
    return _rules(tables_of(path)["rule"], str(path))


def tables_of(path: str | Path) -> dict[str, list[dict[str, Any]]]:
    """Return what a file of rules holds, as it is written: a list each of ``rule``, ``alert``."""
    where = str(path)
    if Path(path).is_fifo():
        message = f"No rules can be read from {where}: it is a pipe, which gives them once."
        raise ConfigurationError(message, hint="Give the path of a TOML file.")
    try:
        text = Path(path).read_text(encoding="utf-8-sig")  # some editors mark it so
    except OSError as error:
        message = f"No rules can be read from {where}: {error.strerror}."
        raise ConfigurationError(message, hint="Give the path of a TOML file.") from error
    except UnicodeDecodeError as error:
        message = f"{where} is no UTF-8 from byte {error.start} on, and so no TOML."
        raise ConfigurationError(message, hint="Save it as UTF-8.") from error
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # of numbers and lists without an end, too
        message = f"{where} is no TOML: {error}."
        raise ConfigurationError(message, hint=_EXAMPLE) from error
    for name, tables in (document or {"rule": None}).items():
        if name not in _TABLES:
            raise _unknown(where, "table", name, list(_TABLES))
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            message = f"{where} has no [[{name}]] table."
            raise ConfigurationError(message, hint=_EXAMPLE)
    return {name: document.get(name, []) for name in _TABLES}


def _rules(tables: Iterable[Mapping[str, Any]], where: str) -> tuple[Rule, ...]:
    numbered = enumerate(tables, start=1)
    return tuple(_rule(table, f"{where}, rule {number}") for number, table in numbered)


def rules_to_json(rules: Iterable[Rule]) -> str:
    """Return rules as one line of JSON.

    >>> from kstoolkit.findings.rules import Ceiling
    >>> rules_to_json([Ceiling("1 minute", 100)])
    '[{"kind": "Ceiling", "window": "1 minute", "count": 100}]'
    """
    return json.dumps([_rule_table(rule) for rule in rules], ensure_ascii=False)


def rules_version(rules: Iterable[Rule]) -> str:
    """Return what rules are called as a whole: the same rules, the same eight digits.

    >>> from kstoolkit.findings.rules import Ceiling
    >>> rules_version([Ceiling("1 minute", 100)])
    '9546de18'
    """
    return blake2b(rules_to_json(rules).encode(), digest_size=4).hexdigest()


def rules_from_json(text: str) -> tuple[Rule, ...]:
    """Read what :func:`rules_to_json` wrote.

    >>> rules_from_json('[{"kind": "Unusual", "window": "1 hour"}]')[0].name
    'Unusual 1 hour, 5 false alarms a day'
    """
    return _rules(json.loads(text), "JSON")


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
    given: dict[str, Any] = {name: value for name, value in table.items() if name != "kind"}
    given |= {name: str(value) for name, value in given.items() if type(value) is date}
    parameters = signature(_KINDS[kind]).parameters
    for name in given:
        if name not in parameters:
            place = f"{where} ({kind})"
            raise _unknown(place, "field", name, ["kind", *parameters])
    missing = [name for name, p in parameters.items() if p.default is p.empty and name not in given]
    if missing:
        message = f"{where}: {kind} lacks {missing[0]!r}."
        raise ConfigurationError(message, hint=f"It takes: {', '.join(parameters)}.")
    for name in ("window", "duration"):
        if not isinstance(given.get(name, ""), str):
            message = f"{where}: {name} = {given[name]!r} is no text."
            raise ConfigurationError(message, hint=f"Write a length of time: {name} = '1 hour'.")
    try:
        return _KINDS[kind](**given)
    except ConfigurationError as error:
        message = f"{where}: {error.message}"
        raise ConfigurationError(message, hint=error.hint) from error


def _unknown(where: str, what: str, found: object, allowed: list[str]) -> ConfigurationError:
    guess = guessed(str(found), allowed, cutoff=0.5)
    shown = f"no {what}" if found is None else f"an unknown {what} {found!r}"
    message = f"{where} has {shown}."
    return ConfigurationError(message, hint=f"{guess}Allowed: {', '.join(allowed)}.")
