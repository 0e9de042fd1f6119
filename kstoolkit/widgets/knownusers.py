"""The controls that mark users as known: a file of rules, and the button that adds to it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ipywidgets import Button, Layout, Text

from kstoolkit.findings.rules import exempt_user, known_users
from kstoolkit.markup import plain, shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kstoolkit.findings.finding import Finding
    from kstoolkit.findings.rules import Rule


_LONGEST_NAME = 60
_WIDE = {"width": "auto", "min_width": "320px", "flex": "1 1 320px", "max_width": "640px"}


class KnownUsers:
    """Users that a file of rules exempts, and a button to exempt another one.

    Parameters
    ----------
    path
        The file, which need not be there.
    begin_with
        The rules that a new file begins with.
    changed
        Called when another file is given.
    pressed
        Called when the button is pressed.

    Examples
    --------
    >>> known = KnownUsers("no/rules.toml", (), lambda: None, lambda: None)
    >>> known.among(["Anna"])
    set()
    """

    def __init__(
        self,
        path: str | Path,
        begin_with: Iterable[Rule],
        changed: Callable[[], object],
        pressed: Callable[[], object],
    ) -> None:
        self._begin_with = tuple(begin_with)
        self.path = Text(
            value=str(path),
            description="Rules file",
            continuous_update=False,
            layout=Layout(**_WIDE),
            style={"description_width": "84px"},
        )
        self.button = Button(
            description="Mark user as known",
            tooltip="Add a rule to the file that exempts this user",
            layout=Layout(width="auto"),
        )
        self.path.observe(lambda _: changed(), "value")
        self.button.on_click(lambda _: pressed())

    def among(self, users: Iterable[str]) -> set[str]:
        """Return which of some users the file exempts.

        Raises
        ------
        ConfigurationError
            If it can't be read, or holds something else than rules.
        """
        return known_users(self._place(), users)

    def add(self, finding: Finding) -> str:
        """Exempt a finding's user, and return what that means.

        Raises
        ------
        KstoolkitError
            If the file can't take a rule; it stays as it was.
        """
        note = f"known since {datetime.now(UTC):%Y-%m-%d}: {finding.sentence}"
        fresh = exempt_user(self._place(), finding.user, note=note, begin_with=self._begin_with)
        who = plain(shortened(finding.user, _LONGEST_NAME))
        if not fresh:
            return f"{who} was known already: {self.path.value} exempts that user."
        return (
            f"{who} is known now: {self.path.value} exempts that user. A run with these rules "
            f"tells nothing of them; to undo it, take the rule out of the file again."
        )

    def _place(self) -> Path:
        return Path(self.path.value).expanduser()
