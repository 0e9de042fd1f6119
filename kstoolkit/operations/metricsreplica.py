"""A replica's figures for Prometheus: how far its restore is, and how far it is behind then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstoolkit.operations.metricsrecord import counter, gauge
from kstoolkit.operations.metricsrestore import RestoreProgress

if TYPE_CHECKING:
    from kstoolkit.operations.metricsrecord import Metric
    from kstoolkit.replica.records import Lag


_NOT_YET = "nothing follows the changelog yet"


class ReplicaCollector:
    """Holds what it was last told of one replica: who follows is not asked from beside.

    Attributes
    ----------
    restores
        A listener for :meth:`kstoolkit.WindowStore.restore` and
        :meth:`kstoolkit.WindowStore.follow`.

    Examples
    --------
    >>> from kstoolkit.replica.records import Lag
    >>> collector = ReplicaCollector()
    >>> collector.tell(Lag(5, 0.5), followed=40)
    >>> {each.name: each.samples[0][1] for each in collector.metrics() if each.samples}
    {'kstoolkit_replica_lag_records': 5, 'kstoolkit_replica_lag_seconds': 0.5, \
'kstoolkit_replica_followed_records': 40}
    """

    def __init__(self) -> None:
        self.restores = RestoreProgress()
        self._lag: Lag | None = None
        self._followed = 0

    def tell(self, lag: Lag, followed: int) -> None:
        """Take in how far the replica is behind, and how many records were followed so far."""
        self._lag, self._followed = lag, followed

    def metrics(self) -> list[Metric]:
        """Return the figures by now."""
        lag = self._lag
        why = _NOT_YET if lag is None else lag.unknown.get("seconds", "not told")
        return [
            *self.restores.metrics(),
            gauge(
                "replica_lag_records",
                "Records of the changelog that are still to be read.",
                None if lag is None else lag.records,
                _NOT_YET,
            ),
            gauge(
                "replica_lag_seconds",
                "How much older the newest batch held is than the changelog's newest.",
                None if lag is None else lag.seconds,
                why,
            ),
            counter(
                "replica_followed_records",
                "Records of the changelog that were read since it is followed.",
                self._followed,
            ),
        ]
