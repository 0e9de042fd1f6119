"""What a run counts under names: its findings by rule, and the names that there can be."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from kstoolkit.changelog.changelog import BatchFolders
from kstoolkit.events.event import REASONS
from kstoolkit.findings.rules import Exempt, rules_from_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kstoolkit.pipeline.runfolder import RunFolder


class FindingTally:
    """Counts a run's findings by rule, look after look, reading just what is new.

    Parameters
    ----------
    folder
        The run's.

    Examples
    --------
    >>> from pathlib import Path
    >>> from kstoolkit.pipeline.runfolder import RunFolder
    >>> FindingTally(RunFolder(Path("no/run"))).look()
    {}
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._known: set[tuple[int, int]] = set()
        self._found: Counter[str] = Counter()

    def look(self) -> dict[str, int]:
        """Return how often each rule's findings were reported by now, 0 of a rule without any.

        A finding whose count grows is reported again, and counts again.
        """
        if not self._folder.is_there():  # what comes into its place is another run
            self._known.clear()
            self._found.clear()
        for batch in BatchFolders(self._folder.path / "findings").marked():
            key = (batch.epoch, batch.number)
            if key in self._known:
                continue
            try:
                found = _by_rule(batch.files(".parquet"))
            except FileNotFoundError:  # Spark repeats it just now
                continue
            self._known.add(key)
            self._found.update(found)
        settings = self._folder.settings()
        rules = () if settings is None else rules_from_json(settings.rules)
        names = [rule.name for rule in rules if not isinstance(rule, Exempt)]
        return dict.fromkeys(names, 0) | dict(self._found)


def with_all_reasons(dead_letters: dict[str, int]) -> dict[str, int]:
    """Return dead letters by reason, 0 of a reason without any.

    Examples
    --------
    >>> with_all_reasons({"no_user": 2})["no_time"]
    0
    """
    return dict.fromkeys(REASONS, 0) | dead_letters


def _by_rule(paths: Sequence[Path]) -> Counter[str]:
    found: Counter[str] = Counter()
    for path in paths:
        rules = pq.read_table(path, columns=["rule"], partitioning=None)["rule"]
        for each in rules.combine_chunks().value_counts().to_pylist():
            found[each["values"]] += each["counts"]
    return found
