"""What rules find in a changelog that is already there: nothing is counted again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from kstoolkit.changelog.changelog import Changelog
from kstoolkit.errors import ConfigurationError
from kstoolkit.findings.rules import DEFAULT_RULES, Ceiling, as_rules, check_windows, windowed
from kstoolkit.findings.stories import find_in_windows
from kstoolkit.pipeline.batches import told_after
from kstoolkit.pipeline.runfolder import RunFolder
from kstoolkit.windows import as_window, length_label

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from kstoolkit.findings.finding import Findings
    from kstoolkit.findings.rules import Rule
    from kstoolkit.pipeline.run import Run
    from kstoolkit.pipeline.runfolder import Settings
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
        If the changelog lacks all or part of a rule's window: what ``min_count`` left out isn't 0.
    """
    where = Path(path if isinstance(path, str | os.PathLike) else path.folder.path)
    changelog, rules = Changelog.open(where), as_rules(rules)
    folder = RunFolder(changelog.path.parent)
    settings = folder.settings()
    counted = () if settings is None else settings.cascade.levels
    if settings is not None:
        check_counted(rules, folder, settings)
    kinds = {rule.window.size_ms: rule.window for rule in windowed(rules)}
    kinds |= {window.size_ms: window for window in counted}
    levels: dict[Window | Duration, pa.Table] = {
        kinds.get(each, as_window(length_label(each))): changelog.counters(each).to_table()
        for each in changelog.window_lengths_ms()
    }
    return find_in_windows(levels, rules)


def check_counted(rules: Sequence[Rule], folder: RunFolder, settings: Settings) -> None:
    """Raise a ConfigurationError unless a run kept all counts that the rules need."""
    check_windows(rules, settings.cascade.levels)
    least = dict(zip(settings.windows, settings.min_count, strict=False))
    earlier = told_after(folder, columns=("left_out",)).sums("left_out")
    for rule in windowed(rules):
        below, label = least.get(rule.window.label, 1), rule.window.label
        may = rule.count + 1 if isinstance(rule, Ceiling) and rule.by is None else 1
        if below > may or (below == 1 and earlier.get(label, 0)):
            which = f"those below {below}" if below > 1 else "some in an earlier run"
            message = f"The rule {rule.name!r} needs all counts of {label}, and min_count left "
            message += f"out {which}."
            hint = "What was found while it was counted is in its findings, which saw all of them."
            raise ConfigurationError(message, hint=hint)
