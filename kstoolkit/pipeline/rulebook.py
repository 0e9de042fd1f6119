"""By which rules batches are judged: a run's rules and marks, read again as it goes on.

::

    rules.toml · marks.toml ── another text? ── is it valid, and of what is counted?
                                                  │ yes: the query starts anew with it
                                                  └ no: one warning; what was in force stays

A batch is judged by one set of rules. A live run looks before each: if it finds others in the
files, the batch is counted by a query that has them. ``rules.jsonl`` in the run's folder has a line
for each that was in force: its version, which its findings tell too, since when, and the rules.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kstoolkit.changelog.changelog import replace_text
from kstoolkit.errors import ConfigurationError, KstoolkitError, OutputError, UserError
from kstoolkit.findings.marks import load_marks
from kstoolkit.findings.rulefiles import rules_to_json, rules_version
from kstoolkit.findings.rules import Distinct, check_windows, of_parts
from kstoolkit.records import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from kstoolkit.findings.rules import Exempt, Rule
    from kstoolkit.kafka.cluster import Log
    from kstoolkit.pipeline.runfolder import RunFolder
    from kstoolkit.windows import Window


class JudgedAnew(KstoolkitError):  # noqa: N818 - it is none: it ends a query
    """What a query ends with whose rules are others by now: started again, it judges by them."""


@dataclass(slots=True)
class _Followed:
    """A file that people change, and what it came to when it last made sense."""

    path: Path | None
    read: Callable[[], tuple[Any, ...]]
    came_to: tuple[Any, ...] = field(init=False)
    _text: object = field(init=False)

    def __post_init__(self) -> None:
        self._text, self.came_to = self._read_text(), self.read()

    def look(self, tell: Log) -> bool:
        """Read it again if its text is another; return whether it comes to something else."""
        before, self._text = self._text, self._read_text()
        if self._text == before:
            return False
        try:
            now = self.read()
        except UserError as error:
            tell(f"{error.message} {error.hint or ''}".rstrip() + " What was in force goes on.")
            return False
        is_other, self.came_to = now != self.came_to, now
        return is_other

    def _read_text(self) -> object:
        try:
            # Of a pipe, nothing may ever come.
            return self.path and (self.path.is_fifo() or self.path.read_bytes())
        except OSError as error:  # whoever reads it says so
            return error.errno


class Rulebook:
    """The rules in force, and who is exempt of them as known.

    ``read`` returns the rules by now, from their ``path`` if they are in a file. ``windows`` and
    ``parts`` of actions are what is counted; so are items of the rules that a run starts with.
    """

    def __init__(
        self,
        folder: RunFolder,
        read: Callable[[], tuple[Rule, ...]],
        path: Path | None,
        windows: Sequence[Window],
        parts: Sequence[str],
    ) -> None:
        self._folder, self._windows, self._parts = folder, windows, parts
        self._rules = _Followed(path, read)
        self._marks = _Followed(folder.marks, self._read_marks)
        self._rules.read = lambda: self._checked(read())

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules, but for who is known."""
        return self._rules.came_to

    @property
    def known(self) -> tuple[Exempt, ...]:
        """Who is known, by the run's marks."""
        return self._marks.came_to

    @property
    def version(self) -> str:
        """What the rules in force are called."""
        return rules_version(self.rules)

    def check(self, batch: int, tell: Log) -> None:
        """Raise if a batch is to be judged by others than before; ``tell`` hears what is wrong."""
        is_new = self._rules.look(tell)
        if is_new:
            rules = counted(len(self.rules), "rules")
            tell(f"The rules have changed: from batch {batch} on {rules}, version {self.version}.")
        if self._marks.look(tell) or is_new:
            message = f"Batch {batch} is judged by other rules."
            raise JudgedAnew(message)

    def note(self) -> None:
        """Write down which rules are in force from now on, if they were others before."""
        path = self._folder.path / "rules.jsonl"
        try:
            text = path.read_text(encoding="utf-8") if path.exists() else ""
            # Not splitlines: names may hold what that takes for the end of a line.
            lines = [line for line in text.split("\n") if line]
            if lines and json.loads(lines[-1])["version"] == self.version:
                return
            told = {"version": self.version, "since_ms": time.time_ns() // 1_000_000}
            told |= {"rules": json.loads(rules_to_json(self.rules))}
            replace_text(path, "\n".join([*lines, json.dumps(told, ensure_ascii=False), ""]))
        except (OSError, ValueError, TypeError, KeyError) as error:
            why = getattr(error, "strerror", None) or f"its last line is damaged ({error})"
            message = f"The rules in force can't be noted in {path}: {why}."
            hint = "Mend it, move it away or make room there, and run again: nothing is lost."
            raise OutputError(message, hint=hint) from error

    def _read_marks(self) -> tuple[Exempt, ...]:
        known = load_marks(self._folder.marks).exempts()
        of_parts((*self.rules, *known), self._parts)
        return known

    def _checked(self, rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
        """Return rules that are read while a run counts: it has what it began with, and no more."""
        check_windows(rules, self._windows)
        of_parts((*rules, *self.known), self._parts)
        items = {(rule.item, rule.window) for rule in self.rules if isinstance(rule, Distinct)}
        for rule in rules:
            if isinstance(rule, Distinct) and (rule.item, rule.window) not in items:
                message = f"The rule {rule.name!r} looks at items that are not counted."
                raise ConfigurationError(message, hint="Start the run anew for that.")
        return rules
