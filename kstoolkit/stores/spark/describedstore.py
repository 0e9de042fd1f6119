"""What a checkpoint says of a store at one version, without a look at its rows."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kstoolkit.formats.spark.logs import FamilySchema, OperatorMetadata
    from kstoolkit.formats.spark.rows import Family
    from kstoolkit.stores.spark.stateversion import StateVersion


class DescribedStore:
    """A store, or all stores of an operator, at one version.

    Parameters
    ----------
    at
        What the checkpoint holds of it at that version.
    """

    def __init__(self, at: StateVersion) -> None:
        self._at = at
        self.place, self.path = at.place, at.place.path

    @property
    def name(self) -> str:
        """What it is called: ``"default"`` if the operator has no other store."""
        return self._at.name

    @property
    def version(self) -> int:
        """Which version of the state it is."""
        return self._at.number

    @property
    def batch(self) -> int:
        """The micro-batch that left the state as it is here."""
        return self._at.number - 1

    @property
    def partitions(self) -> list[int]:
        """The partitions that are read."""
        return self.place.partitions

    @cached_property
    def versions(self) -> list[int]:
        """The versions that can be read, the oldest first."""
        return self.place.versions()

    @property
    def operator(self) -> OperatorMetadata:
        """What the operator says of itself."""
        return self._at.operator

    @property
    def schema(self) -> list[FamilySchema]:
        """The columns of keys and values, of each column family."""
        return self._at.schema

    @property
    def families(self) -> dict[str, Family]:
        """The column families by name; ``"default"`` alone in a store without others."""
        return self._at.families

    @property
    def kind(self) -> str:
        """What a person calls it, such as ``"windowed aggregation"``."""
        return self._at.kind

    @property
    def watermark_ms(self) -> int:
        """The watermark that the batch ran with, epoch ms UTC."""
        return self._at.log.watermark_ms
