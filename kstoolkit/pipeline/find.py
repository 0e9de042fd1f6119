"""What rules find in a changelog that is already there: nothing is counted again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from kstoolkit.changelog.changelog import Changelog
from kstoolkit.errors import ConfigurationError
from kstoolkit.findings.rules import DEFAULT_RULES, Ceiling, as_rules, windowed
from kstoolkit.findings.stories import find_in_windows
from kstoolkit.pipeline.runfolder import RunFolder
from kstoolkit.windows import as_window, length_label

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from kstoolkit.findings.finding import Findings
    from kstoolkit.findings.rules import Rule
    from kstoolkit.pipeline.run import Run
    from kstoolkit.units import Duration
    from kstoolkit.windows import Window


def find(
    path: str | os.PathLike[str] | Run, rules: Rule | Sequence[Rule] = DEFAULT_RULES
) -> Findings:
    """Return what the rules find in a changelog, each story once.

    Parameters
    ----------
    path
        A changelog folder, the run folder that it lies in, or the run.
    rules
        What to look for: a rule, or several.

    Raises
    ------
    InputError
        If there is no changelog.
    ConfigurationError
        If a rule looks at a window that the changelog has not, or has in part: what ``min_count``
        left out is no zero.
    """
    where = Path(path if isinstance(path, str | os.PathLike) else path.folder.path)
    changelog, rules = Changelog.open(where), as_rules(rules)
    settings = RunFolder(where).settings()
    counted = () if settings is None else settings.cascade.levels
    if settings is not None:
        for window, least in zip(counted, settings.cascade.min_count, strict=True):
            _check_whole(rules, window, least)
    kinds = {rule.window.size_ms: rule.window for rule in windowed(rules)}
    kinds |= {window.size_ms: window for window in counted}
    levels: dict[Window | Duration, pa.Table] = {
        kinds.get(each, as_window(length_label(each))): changelog.counters(each).to_table()
        for each in changelog.window_lengths_ms()
    }
    return find_in_windows(levels, rules)


def _check_whole(rules: Sequence[Rule], window: Window, least: int) -> None:
    """Raise if a rule needs counts of a window that were left out, being below the least."""
    for rule in windowed(rules):
        if rule.window != window or least <= 1:
            continue
        is_above = isinstance(rule, Ceiling) and rule.by is None and rule.count + 1 >= least
        if not is_above:
            message = f"The rule {rule.name!r} needs all counts of {window.label}, and min_count "
            message += f"left out those below {least}."
            hint = "What was found while it was counted is in its findings, which saw all of them."
            raise ConfigurationError(message, hint=hint)
