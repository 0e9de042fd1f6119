"""What counts as abnormal: rules as records, and what they need to be told.

Examples
--------
>>> [rule.name for rule in (Ceiling("1 minute", 100), Unusual("1 hour", false_alarms_per_day=5))]
['Ceiling 100 per 1 minute', 'Unusual 1 hour, 5 false alarms a day']
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.errors import ConfigurationError
from kstoolkit.findings.fields import names, positive, regular, whole, whole_match
from kstoolkit.windows import Window, as_window

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kstoolkit.units import Duration


@dataclass(frozen=True, slots=True, init=False)
class Ceiling:
    """An absolute limit: a finding for each user that does one action more often in a window.

    Parameters
    ----------
    window
        Length (``"1 minute"``) or window; one of those that are counted.
    count
        The highest count that is still in order.
    actions
        Only these actions; all by default.

    Raises
    ------
    ConfigurationError
        If the count is no whole number from 0 on, or ``actions`` is empty or no list of names.

    Examples
    --------
    >>> Ceiling("1 minute", 100, actions=["login"]).name
    'Ceiling 100 per 1 minute on login'
    """

    window: Window
    count: int
    actions: tuple[str, ...] | None

    def __init__(
        self, window: Duration | Window, count: int, actions: Iterable[str] | None = None
    ) -> None:
        put = object.__setattr__
        put(self, "window", as_window(window))
        put(self, "count", whole("count", count, least=0))
        put(self, "actions", None if actions is None else names("actions", actions))

    @property
    def name(self) -> str:
        """The rule in a few words; part of a finding's key."""
        on = "" if self.actions is None else f" on {', '.join(self.actions)}"
        return f"Ceiling {self.count} per {self.window.label}{on}"


@dataclass(frozen=True, slots=True, init=False)
class Unusual:
    """A count that is improbable for this user, given its own history and its peers.

    Parameters
    ----------
    window
        Length (``"1 hour"``) or window; one of those that are counted.
    false_alarms_per_day
        How many findings a day you accept by mere chance: a count is a finding if its probability
        times the tests of a day (cells times windows a day) does not exceed this.
    min_count
        Counts below this are never unusual.

    Raises
    ------
    ConfigurationError
        If the budget is not positive, or ``min_count`` is no whole number from 1 on.

    Examples
    --------
    >>> Unusual("1 day", false_alarms_per_day=0.5)
    Unusual(window=Window('1 day'), false_alarms_per_day=0.5, min_count=5)
    """

    window: Window
    false_alarms_per_day: float
    min_count: int

    def __init__(
        self, window: Duration | Window, false_alarms_per_day: float = 5, min_count: int = 5
    ) -> None:
        put = object.__setattr__
        put(self, "window", as_window(window))
        put(self, "false_alarms_per_day", positive("false_alarms_per_day", false_alarms_per_day))
        put(self, "min_count", whole("min_count", min_count, least=1))

    @property
    def name(self) -> str:
        """The rule in a few words; part of a finding's key."""
        return f"Unusual {self.window.label}, {self.false_alarms_per_day:g} false alarms a day"


@dataclass(frozen=True, slots=True, init=False)
class Exempt:
    r"""Users that no rule makes a finding of.

    Parameters
    ----------
    users
        Their names.
    pattern
        A regular expression (RE2 syntax, which any input matches in linear time) that a whole name
        must match.

    Raises
    ------
    ConfigurationError
        If both or none are given, or the pattern is not valid.

    Examples
    --------
    >>> Exempt(pattern=r"monitoring-\d+").name
    'Exempt monitoring-\\d+'
    """

    users: tuple[str, ...] | None
    pattern: str | None

    def __init__(self, users: Iterable[str] | None = None, pattern: str | None = None) -> None:
        if (users is None) == (pattern is None):
            message = "Exempt takes either users or a pattern."
            raise ConfigurationError(
                message, hint="Write Exempt(['Anna', 'Bob']) or Exempt(pattern='bot-.*')."
            )
        object.__setattr__(self, "users", None if users is None else names("users", users))
        object.__setattr__(self, "pattern", None if pattern is None else regular(pattern))

    @property
    def name(self) -> str:
        """The rule in a few words."""
        return f"Exempt {self.pattern or ', '.join(self.users or ())}"


Rule = Ceiling | Unusual | Exempt

DEFAULT_RULES: tuple[Rule, ...] = (Unusual("1 hour", false_alarms_per_day=5),)
"""What is looked for unless you say otherwise."""


def rules_on(rules: Iterable[Rule], window: Duration | Window) -> list[Ceiling | Unusual]:
    """Return the rules that look at this window."""
    wanted = as_window(window)
    looking = [rule for rule in rules if not isinstance(rule, Exempt)]
    return [rule for rule in looking if rule.window == wanted]


def material_floor(rules: Iterable[Rule], window: Duration | Window) -> int | None:
    """Return the smallest count that a rule on this window could find; ``None``: it has no rule.

    Examples
    --------
    >>> material_floor([Ceiling("1 hour", 100), Unusual("1 hour")], "1 hour")
    5
    """
    floors = [
        rule.count + 1 if isinstance(rule, Ceiling) else rule.min_count
        for rule in rules_on(rules, window)
    ]
    return min(floors, default=None)


def needs_baseline(rules: Iterable[Rule], window: Duration | Window) -> bool:
    """Return whether a rule on this window compares with what users did before."""
    return any(isinstance(rule, Unusual) for rule in rules_on(rules, window))


def check_windows(rules: Iterable[Rule], counted: Iterable[Window]) -> None:
    """Raise unless each rule looks at a window that is counted.

    Raises
    ------
    ConfigurationError
        Naming the rule and the windows that there are.
    """
    windows = list(counted)
    for rule in rules:
        if not isinstance(rule, Exempt) and rule.window not in windows:
            message = f"The rule {rule.name!r} looks at {rule.window.label}, which is not counted."
            labels = ", ".join(window.label for window in windows)
            raise ConfigurationError(message, hint=f"Counted are: {labels or 'none'}.")


def exempted(rules: Iterable[Rule], users: pa.Array | pa.ChunkedArray) -> Any:
    """Return for each user whether some rule exempts it, as an Arrow array of booleans."""
    found = pc.invert(pc.is_valid(users))
    for rule in rules:
        if isinstance(rule, Exempt) and rule.pattern is not None:
            found = pc.or_(found, pc.match_substring_regex(users, whole_match(rule.pattern)))
        elif isinstance(rule, Exempt):
            found = pc.or_(found, pc.is_in(users, value_set=pa.array(rule.users, pa.string())))
    return found
