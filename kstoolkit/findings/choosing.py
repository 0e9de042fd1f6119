"""Some of many findings: by rule, window, user, action and time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from kstoolkit.findings.finding import Findings

if TYPE_CHECKING:
    from collections.abc import Collection


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which findings are wanted; what is not given chooses all.

    Parameters
    ----------
    rule, window
        The rule's name, and the window's label.
    user, action
        The whole name; or, if none has that name, a part of it in upper or lower case.
    since_ms, until_ms
        Windows that lie at least partly between these moments, epoch ms UTC.

    Examples
    --------
    >>> from kstoolkit.findings.finding import FINDINGS_SCHEMA
    >>> Choice(user="anna").of(Findings(FINDINGS_SCHEMA.empty_table()))
    Findings(none)
    """

    rule: str | None = None
    window: str | None = None
    user: str = ""
    action: str = ""
    since_ms: int | None = None
    until_ms: int | None = None

    def of(self, findings: Findings, *, without_users: Collection[str] = ()) -> Findings:
        """Return those that are wanted, in their order.

        Parameters
        ----------
        findings
            Of which.
        without_users
            Users whose findings are not wanted.
        """
        table = findings.table
        for name, wanted in (("rule", self.rule), ("window", self.window)):
            if wanted is not None:
                table = table.filter(pc.equal(table[name], wanted))
        for name, text in (("user", self.user), ("action", self.action)):
            if text:
                table = table.filter(_named(table[name], text))
        if self.since_ms is not None:
            end = pc.add(table["window_start_ms"], table["window_ms"])
            table = table.filter(pc.greater(end, self.since_ms))
        if self.until_ms is not None:
            table = table.filter(pc.less(table["window_start_ms"], self.until_ms))
        if without_users:
            known = pa.array(list(without_users), pa.string())
            table = table.filter(pc.invert(pc.is_in(table["user"], value_set=known)))
        return Findings(table)


def _named(names: pa.ChunkedArray, text: str) -> Any:
    """Return which of the names are this text; if none is, which hold it."""
    same = pc.equal(names, text)
    return same if pc.any(same).as_py() else pc.match_substring(names, text, ignore_case=True)
