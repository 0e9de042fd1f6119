"""What counts as abnormal: rules as records, and what they need to be told.

What a rule can't be given raises :class:`~kstoolkit.errors.ConfigurationError`, which names the
field and its value. How rules stand in files is told in :mod:`~kstoolkit.findings.rulefiles`.

Examples
--------
>>> [rule.name for rule in (Ceiling("1 minute", 100), Unusual("1 hour", false_alarms_per_day=5))]
['Ceiling 100 per 1 minute', 'Unusual 1 hour, 5 false alarms a day']
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.errors import ConfigurationError
from kstoolkit.findings.lasting import Watch
from kstoolkit.findings.peers import kinds_of
from kstoolkit.formats.actions import checked
from kstoolkit.moments import moment_ms, moment_of, moment_text
from kstoolkit.units import format_duration, parse_duration
from kstoolkit.windows import Session, Window, as_window

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kstoolkit.moments import Moment
    from kstoolkit.units import Duration

_LARGEST = (1 << 63) - 1
_ALARMS_A_DAY = 5.0
_DIFFERENT, _FEWEST_ITEMS = "different ", 5


def _whole_match(pattern: str) -> str:
    return rf"\A(?:{pattern})\z"


def whole(field: str, value: Any, *, least: int) -> int:
    """Return a whole number that is at least so large, and that 64 bits hold."""
    if type(value) is not int or not least <= value <= _LARGEST:
        message = f"{field} = {value!r} is no whole number from {least} to {_LARGEST}."
        raise ConfigurationError(message, hint=f"Write for instance {field}={max(least, 100)}.")
    return value


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


def _by(given: str | Iterable[str] | None, window: Window) -> tuple[str, ...] | None:
    """Return the names of parts; none of them is all that a user does."""
    if given is None:
        return None
    if isinstance(window, Session) and not window.is_over_all:
        over_all = Session(window.gap_ms, window.longest_ms, by=[])
        message = f"Each action has a {window.label} of its own: there are no sums by= of them."
        raise ConfigurationError(message, hint=f"Write {over_all}.")
    if isinstance(given, str):
        return (given,)
    return names("by", given) if (given := tuple(given)) else ()


def _tumbling(window: Duration | Window, kind: str) -> Window:
    """Return windows of which each moment is in one."""
    given = as_window(window)
    if not given.is_tumbling:
        message = f"{kind} compares windows that follow each other, and {given.label} do not."
        raise ConfigurationError(message, hint="Give a length, as '1 hour'.")
    return given


def _put_learning(
    rule: Unusual | Drift | _Tumbling, budget: float | None, by: str | Iterable[str] | None
) -> None:
    """Put into a rule what all rules have that learn what is usual."""
    told = None if budget is None else positive("false_alarms_per_day", budget)
    object.__setattr__(rule, "false_alarms_per_day", told)
    object.__setattr__(rule, "by", _by(by, rule.window))


def _learning_in_words(rule: Unusual | Drift | _Tumbling, more: str = "") -> str:
    alarms = _ALARMS_A_DAY if rule.false_alarms_per_day is None else rule.false_alarms_per_day
    return f"{rule.window.label}, {more}{alarms:g} false alarms a day{_by_in_words(rule.by)}"


def _by_in_words(by: tuple[str, ...] | None) -> str:
    return "" if by is None else f" by {', '.join(by)}" if by else " in all"


def _regular(pattern: Any) -> str:
    """Return a regular expression of RE2, which any input matches in linear time."""
    hint = "Write a regular expression of RE2's syntax, such as 'bot-[0-9]+'."
    if not isinstance(pattern, str):
        message = f"pattern = {pattern!r} is no text."
        raise ConfigurationError(message, hint=hint)
    try:
        pc.match_substring_regex(pa.array([""]), pattern)  # or an error would name what is around
        pc.match_substring_regex(pa.array([""]), _whole_match(pattern))
    except pa.ArrowInvalid as error:
        message = f"The pattern {pattern!r} is no regular expression: {error}."
        raise ConfigurationError(message, hint=hint) from error
    return pattern


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
        Only these actions; all by default. Of several parts, ``by`` names the one meant.
    by
        Which part of an action, or parts, the count is of: the sum over all actions with the same
        values of these; ``[]`` is all that a user does. By default each action on its own.

    Examples
    --------
    >>> Ceiling("1 minute", 100, actions=["login"]).name
    'Ceiling 100 per 1 minute on login'
    >>> Ceiling("1 hour", 9000, by="region").name, Ceiling("1 hour", 9000, by=[]).name
    ('Ceiling 9000 per 1 hour by region', 'Ceiling 9000 per 1 hour in all')
    """

    window: Window
    count: int
    actions: tuple[str, ...] | None
    by: tuple[str, ...] | None

    def __init__(
        self,
        window: Duration | Window,
        count: int,
        actions: Iterable[str] | None = None,
        *,
        by: str | Iterable[str] | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "window", as_window(window))
        put(self, "count", whole("count", count, least=0))
        put(self, "actions", None if actions is None else names("actions", actions))
        put(self, "by", _by(by, self.window))

    @property
    def name(self) -> str:
        """The rule in a few words; part of a finding's key."""
        on = "" if self.actions is None else f" on {', '.join(self.actions)}"
        return f"Ceiling {self.count} per {self.window.label}{on}{_by_in_words(self.by)}"


@dataclass(frozen=True, slots=True, init=False)
class Unusual:
    """A count that is improbable for this user, given its own history and its peers.

    Parameters
    ----------
    window
        Length (``"1 hour"``) or window; one of those that are counted. Of sessions, only those
        that there were are its history: a pause is none.
    false_alarms_per_day
        How many findings a day you accept by mere chance: a count is a finding if its probability
        times the tests of a day (cells times windows a day) does not exceed this. By default a
        share of the :class:`Budget`, if there is one, else 5.
    min_count
        Counts below this are never unusual.
    by
        As of :class:`Ceiling`: what is usual is told of these sums, each user's and its peers'.
    group
        A regular expression (RE2 syntax) that tells kinds of users: what it matches in a name is
        the user's kind, as ``"^svc-"`` tells services from people. Peers are those of one kind;
        one of fewer than 30 users is judged by each one's own past.

    Examples
    --------
    >>> Unusual("1 day", false_alarms_per_day=0.5)
    Unusual(window=Window('1 day'), false_alarms_per_day=0.5, min_count=5, by=None, group=None)
    """

    window: Window
    false_alarms_per_day: float | None
    min_count: int
    by: tuple[str, ...] | None
    group: str | None

    def __init__(
        self,
        window: Duration | Window,
        false_alarms_per_day: float | None = None,
        min_count: int = 5,
        *,
        by: str | Iterable[str] | None = None,
        group: str | None = None,
    ) -> None:
        if group is not None:
            kinds_of(pa.array([""]), group)
        object.__setattr__(self, "window", as_window(window))
        object.__setattr__(self, "min_count", whole("min_count", min_count, least=1))
        object.__setattr__(self, "group", group)
        _put_learning(self, false_alarms_per_day, by)

    @property
    def name(self) -> str:
        """The rule in a few words; part of a finding's key."""
        kinds = "" if self.group is None else f" among kinds by {self.group}"
        return f"Unusual {_learning_in_words(self)}{kinds}"


@dataclass(frozen=True, slots=True, init=False)
class Drift:
    """A level that has risen, and lasts: more than a user's own past, window after window.

    No single window need stand out. Evidence is added up (a cumulative sum of log-likelihood
    ratios) until it is as improbable as the budget asks, and told once, with since when; not again
    before there was none between. A user's past is known after two days, in twelve windows or more.

    Parameters
    ----------
    window
        Length (``"1 hour"``) or window that is counted; no session, and no hop.
    factor
        How many times as much as usual it is about; lasting increases that are half as large, or
        larger, are found as well, only later.
    false_alarms_per_day, by
        As of :class:`Unusual`.

    Examples
    --------
    >>> Drift("1 hour").name
    'Drift 1 hour, 2 times, 5 false alarms a day'
    """

    window: Window
    factor: float
    false_alarms_per_day: float | None
    by: tuple[str, ...] | None

    def __init__(
        self,
        window: Duration | Window,
        factor: float = 2,
        false_alarms_per_day: float | None = None,
        *,
        by: str | Iterable[str] | None = None,
    ) -> None:
        object.__setattr__(self, "window", _tumbling(window, "Drift"))
        object.__setattr__(self, "factor", positive("factor", factor))
        if self.factor <= 1:
            message = f"factor = {factor!r} is no increase."
            raise ConfigurationError(message, hint="Write for instance factor=2.")
        _put_learning(self, false_alarms_per_day, by)

    @property
    def name(self) -> str:
        """The rule in a few words; part of a finding's key."""
        return f"Drift {_learning_in_words(self, f'{self.factor:g} times, ')}"


@dataclass(frozen=True, slots=True, init=False)
class _Tumbling:
    """What a rule is given that has a window, a budget and parts alone."""

    window: Window
    false_alarms_per_day: float | None
    by: tuple[str, ...] | None

    def __init__(
        self,
        window: Duration | Window,
        false_alarms_per_day: float | None = None,
        *,
        by: str | Iterable[str] | None = None,
    ) -> None:
        object.__setattr__(self, "window", _tumbling(window, type(self).__name__))
        _put_learning(self, false_alarms_per_day, by)

    @property
    def name(self) -> str:
        """The rule in a few words; part of a finding's key."""
        return f"{type(self).__name__} {_learning_in_words(self)}"


class TooEven(_Tumbling):
    """Counts that differ less from window to window than chance has them: no person is so even.

    Looked at are 24 windows at a time. It finds machines that no ceiling sees, as they never do
    much, and that have no past in which they did less. Below one in a window nothing can be told.
    The parameters and the errors are those of :class:`Drift`, but for the factor.

    Examples
    --------
    >>> TooEven("1 hour", 0.5).name
    'TooEven 1 hour, 0.5 false alarms a day'
    """

    __slots__ = ()


class Campaign(_Tumbling):
    """Many users who do one thing for the first time, compared with that action's own past.

    The finding is of no single user: each of them does little. Who is there has to be known first:
    windows of the first day teach nothing. The parameters and the errors are those of
    :class:`Drift`, but for the factor.

    Examples
    --------
    >>> Campaign("1 hour").name
    'Campaign 1 hour, 5 false alarms a day'
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True, init=False)
class Distinct:
    """How many different items a user touched: more than by its own past and its peers.

    Items are estimated, within some 6 %, from a sketch of 170 bytes at most for each user and open
    window. They are the values of a column of the source beside time, user and action; a null is
    none. Windows are judged once they are closed. Nothing is kept of items themselves, so that
    ``kst.find`` can't look for this afterwards.

    Parameters
    ----------
    item
        A column of the source, such as ``"ip"``; a plain name.
    window, false_alarms_per_day
        As of :class:`Drift`: no session, and no hop. Fewer than 5 items are never unusual.

    Examples
    --------
    >>> Distinct("ip", "1 hour", 0.5).name
    'Distinct ip 1 hour, 0.5 false alarms a day'
    """

    item: str
    window: Window
    false_alarms_per_day: float | None

    def __init__(
        self, item: str, window: Duration | Window, false_alarms_per_day: float | None = None
    ) -> None:
        told = false_alarms_per_day
        budget = None if told is None else positive("false_alarms_per_day", told)
        named: Any = item
        if not isinstance(named, str) or not re.fullmatch(r"[^\W\d]\w*", named):
            message = f"item = {item!r} is no plain name of a column."
            raise ConfigurationError(message, hint="Write for instance Distinct('ip', '1 hour').")
        object.__setattr__(self, "item", item)
        object.__setattr__(self, "window", _tumbling(window, "Distinct"))
        object.__setattr__(self, "false_alarms_per_day", budget)

    @property
    def by(self) -> tuple[str, ...]:
        """What stands for a part of actions where these counts are told apart from others."""
        return (f"{_DIFFERENT}{self.item}",)

    @property
    def min_count(self) -> int:
        """Fewer items are never unusual."""
        return _FEWEST_ITEMS

    @property
    def name(self) -> str:
        """The rule in a few words; part of a finding's key."""
        alarms = _ALARMS_A_DAY if self.false_alarms_per_day is None else self.false_alarms_per_day
        return f"Distinct {self.item} {self.window.label}, {alarms:g} false alarms a day"


def item_of(by: By) -> str | None:
    """Return of which items these are counts; ``None`` if they are of actions.

    >>> item_of(Distinct("ip", "1 hour").by), item_of(("region",)), item_of(None)
    ('ip', None, None)
    """
    name = by[0] if by else ""
    return name.removeprefix(_DIFFERENT) if name.startswith(_DIFFERENT) else None


@dataclass(frozen=True, slots=True)
class Budget:
    """How many false alarms a day you accept of all rules together.

    Rules that learn what is usual share it equally; none of them may have one of its own.

    Parameters
    ----------
    false_alarms_per_day
        Above 0.

    Examples
    --------
    >>> shared = of_parts([Budget(5), Unusual("1 hour"), Drift("1 hour")], ["action"])
    >>> [rule.name for rule in shared]
    ['Unusual 1 hour, 2.5 false alarms a day', 'Drift 1 hour, 2 times, 2.5 false alarms a day']
    """

    false_alarms_per_day: float

    def __post_init__(self) -> None:
        positive("false_alarms_per_day", self.false_alarms_per_day)

    @property
    def name(self) -> str:
        """The rule in a few words."""
        return f"Budget of {self.false_alarms_per_day:g} false alarms a day"


@dataclass(frozen=True, slots=True, init=False)
class Longer:
    """A limit to how long sessions last: a finding for each that is longer.

    Parameters
    ----------
    window
        Sessions, as a :class:`~kstoolkit.Session` or its label; one of those that are counted.
    duration
        How long one may last, from its first event to its last.

    Examples
    --------
    >>> Longer("session 30 minutes", "6 hours").name
    'Longer than 6 hours per session 30 minutes'
    """

    window: Window
    duration_ms: int
    by: tuple[str, ...] | None

    def __init__(self, window: str | Session, duration: Duration) -> None:
        sessions, duration_ms = as_window(window), parse_duration(duration)
        if not isinstance(sessions, Session):
            message = f"Windows of {sessions.label} all last as long as each other."
            hint = "Write Longer(Session('30 minutes'), '6 hours')."
            raise ConfigurationError(message, hint=hint)
        if duration_ms >= sessions.longest_ms:
            message = f"No {sessions.label} is longer than {format_duration(duration_ms)}: at "
            message += f"{format_duration(sessions.longest_ms)} the next one begins."
            raise ConfigurationError(message, hint="Give Session a longer longest=.")
        put = object.__setattr__
        put(self, "window", sessions)
        put(self, "duration_ms", duration_ms)
        put(self, "by", () if sessions.is_over_all else None)

    @property
    def name(self) -> str:
        """The rule in a few words; part of a finding's key."""
        return f"Longer than {format_duration(self.duration_ms)} per {self.window.label}"


@dataclass(frozen=True, slots=True, init=False)
class Exempt:
    r"""Users that no rule makes a finding of, and from which nothing is learnt of others.

    Parameters
    ----------
    users
        Their names; or instead
    pattern
        A regular expression (RE2 syntax, of linear time) that a whole name must match.
    until
        Windows that begin from then on are looked at again; by default none is.
    rules
        Only from rules whose names begin so, as ``["Unusual", "Ceiling 100"]``; by default from
        all. Where other rules look at the same counts, something is learnt from these users.
    why
        A note for whoever reads the rules.

    Examples
    --------
    >>> Exempt(pattern=r"monitoring-\d+").name
    'Exempt monitoring-\\d+'
    >>> Exempt(["Anna"], until="2026-12-01", rules=["Unusual"]).name
    'Exempt Anna from Unusual until 2026-12-01 00:00 UTC'
    """

    users: tuple[str, ...] | None
    pattern: str | None
    until: str | None
    rules: tuple[str, ...] | None
    why: str | None

    def __init__(
        self,
        users: Iterable[str] | None = None,
        pattern: str | None = None,
        *,
        until: Moment | None = None,
        rules: Iterable[str] | None = None,
        why: str | None = None,
    ) -> None:
        if (users is None) == (pattern is None):
            message = "Exempt takes either users or a pattern."
            hint = "Write Exempt(['Anna', 'Bob']) or Exempt(pattern='bot-.*')."
            raise ConfigurationError(message, hint=hint)
        put = object.__setattr__
        put(self, "users", None if users is None else names("users", users))
        put(self, "pattern", None if pattern is None else _regular(pattern))
        put(self, "until", None if until is None else moment_of(moment_ms(until)).isoformat())
        put(self, "rules", None if rules is None else names("rules", rules))
        put(self, "why", None if why is None else names("why", [why])[0])

    @property
    def name(self) -> str:
        """The rule in a few words."""
        rules = "" if self.rules is None else f" from {', '.join(self.rules)}"
        until = "" if self.until is None else f" until {moment_text(moment_ms(self.until))}"
        return f"Exempt {self.pattern or ', '.join(self.users or ())}{rules}{until}"

    @property
    def until_ms(self) -> int:
        """Windows that begin from then on are looked at, epoch ms UTC."""
        return _LARGEST if self.until is None else moment_ms(self.until)

    def is_from(self, rule: str) -> bool:
        """Whether it is from the rule of this name."""
        return self.rules is None or rule.startswith(self.rules)


Watching = Drift | TooEven | Campaign
"""What looks at more than one window, or one user."""

Comparing = Unusual | Distinct
"""What compares one count with its user's own past and with peers."""

Learning = Comparing | Watching
"""What learns what is usual."""

Looking = Ceiling | Longer | Learning
"""What looks at windows."""

Rule = Looking | Exempt | Budget

DEFAULT_RULES: tuple[Rule, ...] = (Unusual("1 hour", false_alarms_per_day=5),)
"""What is looked for unless you say otherwise."""

By = tuple[str, ...] | None
"""By which parts of an action a rule looks at counts; ``None`` is each action on its own."""


@dataclass(frozen=True, slots=True)
class RulesOn:
    """The rules that look at windows of one kind, by the same parts of an action.

    Beside those ``looking`` are those of who is exempt of rules.

    >>> rules_on([Ceiling("1 hour", 100), Unusual("1 hour")], "1 hour").floor
    5
    """

    looking: tuple[Looking, ...]
    exempts: tuple[Exempt, ...]

    @property
    def floor(self) -> int:
        """The smallest count that any of them could find."""
        return min(map(_floor, self.looking), default=_LARGEST)

    @property
    def limit(self) -> int | None:
        """The smallest one for those that compare with no history; ``None`` if all do."""
        limits = [_floor(rule) for rule in self.looking if not isinstance(rule, Learning)]
        return min(limits, default=None)

    @property
    def need_baseline(self) -> bool:
        """Whether any compares with what users did before."""
        return any(isinstance(rule, Learning) for rule in self.looking)

    @property
    def watch(self) -> Watch:
        """What baselines are to watch for them."""
        looking = self.looking
        return Watch(
            next((rule.factor for rule in looking if isinstance(rule, Drift)), None),
            evenness=any(isinstance(rule, TooEven) for rule in looking),
            newcomers=any(isinstance(rule, Campaign) for rule in looking),
            group=next((rule.group for rule in looking if isinstance(rule, Unusual)), None),
        )

    def unexempted(self, found: pa.Table) -> pa.Table:
        """Return findings, or candidates, without those of rules that users are exempt from."""
        for rule in self.exempts:
            if rule.rules is not None:
                named = [each for each in found["rule"].unique().to_pylist() if rule.is_from(each)]
                of_rule = pc.is_in(found["rule"], value_set=pa.array(named, pa.string()))
                everywhere = Exempt(rule.users, rule.pattern, until=rule.until)
                mine = exempted([everywhere], found["user"], found["window_start_ms"])
                found = found.filter(pc.invert(pc.and_(of_rule, mine)))
        return found


def rules_on(rules: Sequence[Rule], window: Duration | Window, by: By = None) -> RulesOn:
    """Return the rules that look at this window, by these parts of an action."""
    wanted = as_window(window)
    looking = (rule for rule in windowed(rules) if rule.window == wanted and rule.by == by)
    return RulesOn(tuple(looking), tuple(rule for rule in rules if isinstance(rule, Exempt)))


def windowed(rules: Iterable[Rule]) -> list[Looking]:
    """Return the rules that look at windows."""
    return [rule for rule in rules if not isinstance(rule, Exempt | Budget)]


def bys_on(rules: Iterable[Rule], window: Duration | Window) -> list[By]:
    """Return by which parts of an action rules look at this window, each once."""
    wanted = as_window(window)
    return list(dict.fromkeys(rule.by for rule in windowed(rules) if rule.window == wanted))


def of_parts(rules: Iterable[Rule], parts: Sequence[str]) -> tuple[Rule, ...]:
    """Return rules as they apply to actions of these parts: names in their order, shares given.

    It is a ConfigurationError if a rule names actions that have several parts, and chooses none of
    these; if there are two budgets; if two rules are alike, or but for their group.

    >>> of_parts([Ceiling("1 hour", 9, by=["op", "region"])], ["region", "op"])[0].by is None
    True
    """
    settled = tuple(_of_parts(rule, parts) for rule in shared(list(rules)))
    if twice := [rule.name for rule in windowed(settled) if settled.count(rule) > 1]:
        message = f"The rule {twice[0]!r} is there twice."
        raise ConfigurationError(message, hint="Leave one out.")
    drifts = [(rule.window, rule.by) for rule in settled if isinstance(rule, Drift)]
    if same := [window for window, by in drifts if drifts.count((window, by)) > 1]:
        message = f"Two rules Drift look at {same[0].label}."
        raise ConfigurationError(message, hint="Keep the one with the smaller factor.")
    unusual = [rule for rule in settled if isinstance(rule, Unusual)]
    alike = {(rule.window, rule.by): rule.group for rule in unusual}
    for rule in unusual:
        if rule.group != alike[rule.window, rule.by]:
            message = f"Two rules Unusual look at {rule.window.label}, each among other kinds."
            raise ConfigurationError(message, hint="Give both the same group.")
    return settled


def as_rules(given: Rule | Iterable[Any]) -> tuple[Rule, ...]:
    """Return rules, of which one may be given as it is; what is none is a ConfigurationError."""
    rules: tuple[Any, ...] = (given,) if isinstance(given, Rule | str) else tuple(given)
    if others := [each for each in rules if not isinstance(each, Rule)]:
        message = f"{others[0]!r} is no rule."
        hint = "Give rules, as [kst.Unusual('1 hour')], or kst.load_rules('rules.toml')."
        raise ConfigurationError(message, hint=hint)
    return rules


def shared(rules: list[Rule]) -> Iterator[Looking | Exempt]:
    """Yield the rules with what false alarms each may bring; a budget is parted among them."""
    budgets = [rule for rule in rules if isinstance(rule, Budget)]
    learning = [rule for rule in rules if isinstance(rule, Learning)]
    alarms = _ALARMS_A_DAY
    if budgets:
        own = [each for each in learning if each.false_alarms_per_day is not None]
        if own or len(budgets) > 1:
            message = f"Beside {budgets[0].name} there is {[*own, *budgets[1:]][0].name!r}."
            raise ConfigurationError(message, hint="Give one budget, and the rules none.")
        if not learning:
            message = f"No rule shares the {budgets[0].name}."
            raise ConfigurationError(message, hint="Add one that learns, as Unusual.")
        alarms = budgets[0].false_alarms_per_day / len(learning)
    for rule in rules:
        if isinstance(rule, Learning) and rule.false_alarms_per_day is None:
            yield replace(rule, false_alarms_per_day=alarms)
        elif not isinstance(rule, Budget):
            yield rule


def _of_parts(rule: Looking | Exempt, parts: Sequence[str]) -> Rule:
    if isinstance(rule, Exempt | Longer | Distinct):
        return rule
    given = None if rule.by is None else checked(parts, rule.by, what="by")
    by = None if given == tuple(parts) else given
    if isinstance(rule, Learning):
        return replace(rule, by=by)
    if rule.actions is not None and len(parts if by is None else by) != 1:
        message = f"The rule {rule.name!r} names actions, and no one part of which they are values."
        raise ConfigurationError(message, hint=f"Give by=, one of: {', '.join(parts)}.")
    return Ceiling(rule.window, rule.count, rule.actions, by=by)


def _floor(rule: Looking) -> int:
    if isinstance(rule, Longer):
        return 1
    if isinstance(rule, Watching):  # baselines see these themselves
        return _LARGEST
    return rule.count + 1 if isinstance(rule, Ceiling) else rule.min_count


def check_windows(rules: Iterable[Rule], counted: Iterable[Window]) -> None:
    """Raise a ConfigurationError unless each rule looks at a window that is counted."""
    windows = list(counted)
    for rule in windowed(rules):
        if rule.window not in windows:
            message = f"The rule {rule.name!r} looks at {rule.window.label}, which is not counted."
            labels = ", ".join(window.label for window in windows)
            raise ConfigurationError(message, hint=f"Counted are: {labels or 'none'}.")


def exempted(
    rules: Iterable[Rule],
    users: pa.Array | pa.ChunkedArray,
    starts_ms: pa.Array | pa.ChunkedArray | None = None,
    *,
    of: Iterable[Looking] = (),
) -> Any:
    """Return for each user whether it is exempt of all rules, as an Arrow array of booleans.

    With ``starts_ms``, windows' begins, only those exempt; with ``of``, only of these rules.
    """
    found, looking = pc.invert(pc.is_valid(users)), [rule.name for rule in of]
    for rule in rules:
        if not isinstance(rule, Exempt):
            continue
        if not (all(map(rule.is_from, looking)) if looking else rule.rules is None):
            continue
        if rule.pattern is not None:
            mine = pc.match_substring_regex(users, _whole_match(rule.pattern))
        else:
            mine = pc.is_in(users, value_set=pa.array(rule.users, pa.string()))
        if rule.until is not None and starts_ms is not None:
            mine = pc.and_(mine, pc.less(starts_ms, rule.until_ms))
        found = pc.or_(found, mine)
    return found
