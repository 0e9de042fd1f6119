"""The controls that choose among findings: rule, window, user, action, time, known or not."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ipywidgets import Checkbox, Combobox, Dropdown, Layout, NaiveDatetimePicker
from traitlets import TraitError

from kstoolkit.errors import ConfigurationError
from kstoolkit.findings.finding import Choice
from kstoolkit.markup import shortened
from kstoolkit.widgets.findinglabels import most_frequent, option_label, window_labels

if TYPE_CHECKING:
    from collections.abc import Callable

    from kstoolkit.findings.finding import Findings


LABELS = {"description_width": "84px"}
_MAY_BE_NONE = {"since", "until"}
_ALL = ""
"""The value that chooses all; None would be that nothing is chosen, which shows an empty list."""


class FindingFilters:
    """Controls and the choice that they make.

    Parameters
    ----------
    changed
        Called when a control has another value.

    Examples
    --------
    >>> filters = FindingFilters(lambda: None)
    >>> filters.set(user="Anna")
    >>> filters.choice()
    Choice(rule=None, window=None, user='Anna', action='', since_ms=None, until_ms=None)
    """

    def __init__(self, changed: Callable[[], object]) -> None:
        self._changed, self._offering = changed, False
        self.rule = _dropdown("Rule", "all rules")
        self.window = _dropdown("Window", "all windows")
        self.user = _name("User")
        self.action = _name("Action")
        self.since = NaiveDatetimePicker(description="From (UTC)", style=LABELS)
        self.until = NaiveDatetimePicker(description="Until (UTC)", style=LABELS)
        self.known = Checkbox(description="Show known", indent=False, layout=Layout(width="auto"))
        self.controls: dict[str, Any] = {
            "rule": self.rule,
            "window": self.window,
            "user": self.user,
            "action": self.action,
            "since": self.since,
            "until": self.until,
            "known": self.known,
        }
        for control in self.controls.values():
            control.observe(self._tell, "value")

    def choice(self) -> Choice:
        """Return what is chosen."""
        return Choice(
            rule=self.rule.value or None,
            window=self.window.value or None,
            user=self.user.value,
            action=self.action.value,
            since_ms=_moment_ms(self.since.value),
            until_ms=_moment_ms(self.until.value),
        )

    def set(self, **values: Any) -> None:
        """Give controls values; moments are UTC.

        Raises
        ------
        ConfigurationError
            If there is no such filter, or no such value of it.
        """
        for name, value in values.items():
            if name not in self.controls:
                message = f"There is no filter {name!r}."
                raise ConfigurationError(message, hint=f"Filters: {', '.join(self.controls)}.")
            if isinstance(value, str) and not _is_text(value):
                message = (
                    f"The {name} {shortened(repr(value), 60)} is no text: it has half a letter."
                )
                raise ConfigurationError(message, hint="No name has it in UTF-8; leave it out.")
            chosen = _ALL if value is None and name not in _MAY_BE_NONE else value
            is_aware = isinstance(value, datetime) and value.tzinfo is not None
            try:
                self.controls[name].value = (
                    value.astimezone(UTC).replace(tzinfo=None) if is_aware else chosen
                )
            except TraitError as error:
                message = f"No finding has the {name} {shortened(repr(value), 60)}."
                raise ConfigurationError(message, hint="None chooses all.") from error

    def offer(self, findings: Findings) -> None:
        """Offer what the findings have; what is chosen stays so, if it is still there."""
        self._offering = True
        _offer(self.rule, sorted(set(findings.table["rule"].to_pylist())))
        _offer(self.window, window_labels(findings))
        self.user.options = most_frequent(findings, "user")
        self.action.options = most_frequent(findings, "action")
        self._offering = False

    def _tell(self, _: object) -> None:
        if not self._offering:
            self._changed()


def _is_text(given: str) -> bool:
    """Return whether a name can be so: one with half a pair of surrogates can't be written."""
    try:
        given.encode()
    except UnicodeEncodeError:
        return False
    return True


def _dropdown(label: str, everything: str) -> Dropdown:
    return Dropdown(options=[(everything, _ALL)], value=_ALL, description=label, style=LABELS)


def _offer(control: Dropdown, values: list[str]) -> None:
    before, everything = control.value, control.options[0]
    control.options = [everything, *((option_label(value), value) for value in values)]
    control.value = before if before in values else _ALL


def _name(label: str) -> Combobox:
    return Combobox(
        description=label,
        placeholder="all; a name or part of it",
        continuous_update=False,
        style=LABELS,
    )


def _moment_ms(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.replace(tzinfo=UTC).timestamp() * 1000)
