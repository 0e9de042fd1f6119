"""Trials that came to no end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.errors import KstoolkitError

if TYPE_CHECKING:
    from kstoolkit.rocksdb.lab.comparison import Comparison


class TrialFailed(KstoolkitError):  # noqa: N818 - like RunFailed
    """A trial that came to no end; ``found`` has those of the same comparison that did before."""

    found: Comparison | None = None


class TrialCancelled(TrialFailed):
    """A trial that was ended because the comparison's listener wished so."""
