"""A changelog topic, or one partition of it, read from where it begins to where it ends now."""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from tqdm import tqdm

from kstoolkit.errors import ConfigurationError, FormatError
from kstoolkit.formats.countblock import BlockKey
from kstoolkit.formats.keys import decode_topic_keys, is_block_key
from kstoolkit.kafka.reading import read_records
from kstoolkit.units import format_count

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from kstoolkit.events.topics import Address
    from kstoolkit.kafka.cluster import Cluster, Reach
    from kstoolkit.kafka.reading import Records


_AT_ONCE, _LOOKED_AT = 50_000, 1_000  # records
_LONGEST_MS = 10 * 366 * 86_400_000  # that a window of a run's is believed to be


def are_counts(records: Records) -> bool:
    """Return whether some records are of a run's counts: their keys are like no others."""
    keys = records.keys[:_LOOKED_AT]
    is_block = is_block_key(keys)
    try:
        blocks = [BlockKey.decode(keys[at]) for at in np.flatnonzero(is_block)]
        decode_topic_keys([keys[at] for at in np.flatnonzero(~is_block)])
    except FormatError:
        return False
    return bool(keys) and all(each.size_ms <= _LONGEST_MS for each in blocks)


@dataclass(frozen=True, slots=True)
class Reading:
    """A topic, or one partition of it, from where it begins to where it ends now.

    Parameters
    ----------
    cluster, address
        Where it is.
    partition
        Which one; None: all.
    reach
        The offsets of each that is read.
    shown
        Whether to show on stderr how many records are read by now.
    """

    cluster: Cluster
    address: Address
    partition: int | None
    reach: Mapping[int, Reach]
    shown: bool

    @classmethod
    def of(
        cls, cluster: Cluster, address: Address, partition: int | None, *, shown: bool
    ) -> Reading:
        """Look where a topic, or a partition of it, begins and ends now.

        Raises
        ------
        InputError
            If there is no such topic.
        ConfigurationError
            If it has no such partition.
        KafkaError
            If no broker answers.
        """
        partitions = cluster.partitions(address.topic)
        if partition is not None and partition not in partitions:
            message = f"{address} has no partition {partition}."
            hint = f"It has {format_count(len(partitions))}, from 0 on."
            raise ConfigurationError(message, hint=hint)
        chosen = partitions if partition is None else [partition]
        reach = cluster.reach(address.topic, chosen)
        return cls(cluster, address, partition, reach, shown)

    @property
    def name(self) -> str:
        """What to call it."""
        return f"{self.address}{'' if self.partition is None else f', {self.partition}'}"

    def parts(self) -> Generator[Records]:
        """Yield the records, many at a time."""
        begin = {each: at.first for each, at in self.reach.items()}
        end = {each: at.end for each, at in self.reach.items()}
        total = sum(end.values()) - sum(begin.values())
        with tqdm(
            total=total, unit=" records", unit_scale=True, disable=not self.shown, file=sys.stderr
        ) as told:
            records = read_records(self.cluster, self.address.topic, begin, end, _AT_ONCE)
            with closing(records):
                for each in records:
                    told.update(len(each))
                    yield each
