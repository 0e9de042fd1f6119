"""Who hears how a comparison goes, and may cancel it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kstoolkit.rocksdb.lab.results import Moment
    from kstoolkit.rocksdb.lab.workloads import Workload


class Listener:
    """Hears how a comparison goes, and may cancel it; a method that is not overridden does nothing.

    They are called in the comparison's own thread, between two looks at the disk: each has to
    return at once, and what takes its time belongs elsewhere.

    Examples
    --------
    >>> from kstoolkit.rocksdb.lab.comparing import compare_profiles
    >>> from kstoolkit.rocksdb.lab.workloads import Workload
    >>> class Heard(Listener):
    ...     def begin(self, workload, profiles):
    ...         print(f"{workload.writes:,} writes under each of {profiles}")
    >>> workload = Workload(writes=1_000, keys=500)
    >>> found = compare_profiles(workload, ["spark"], progress=False, listener=Heard())
    1,000 writes under each of ['spark']
    """

    def begin(self, workload: Workload, profiles: Sequence[str]) -> None:
        """Learn what is written, and under which profiles, before the first one's trial.

        Parameters
        ----------
        workload
            With the number of its writes, also if it replays rows.
        profiles
            Their names, in the order of their trials.
        """

    def hear(self, moment: Moment) -> None:
        """Learn how a trial stands: four times a second, and at its end."""

    def is_cancelled(self) -> bool:
        """Return whether the comparison is to end now; asked some fifty times a second."""
        return False
