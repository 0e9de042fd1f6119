"""A store in a checkpoint at one version: what the checkpoint says of it, and its state, opened."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from kstoolkit.errors import FormatError
from kstoolkit.formats.spark.rows import layout_of
from kstoolkit.stores.spark.kinds import kind_of
from kstoolkit.stores.spark.partitionstate import PartitionState

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path

    from kstoolkit.formats.spark.logs import FamilySchema, OffsetLogEntry, OperatorMetadata
    from kstoolkit.formats.spark.rows import Family, StoreLayout
    from kstoolkit.stores.spark.operatorfolder import OperatorFolder


_SETTING = "spark.sql.streaming.stateStore.encodingFormat"


class StoreVersion:
    """A store after a batch.

    Parameters
    ----------
    operator_folder
        The operator that keeps it.
    store
        Its name.
    number
        Which version: that of batch 6 is 7.

    Raises
    ------
    FormatError
        By what asks for a file that is missing, damaged, or newer than what is known.
    """

    def __init__(self, operator_folder: OperatorFolder, store: str, number: int) -> None:
        self.folder, self.store, self.number = operator_folder, store, number

    @property
    def batch(self) -> int:
        """The micro-batch that left it."""
        return self.number - 1

    @cached_property
    def log(self) -> OffsetLogEntry:
        """What was noted before the batch ran."""
        return self.folder.checkpoint.offset_log(self.batch)

    @cached_property
    def operator(self) -> OperatorMetadata:
        """What the operator says of itself."""
        return self.folder.metadata(self.batch)

    @cached_property
    def schema(self) -> list[FamilySchema]:
        """The columns of keys and values, of each column family."""
        return self.folder.schemas(self.store, self.batch)

    @property
    def kind(self) -> str:
        """What a person calls the store."""
        return kind_of(self.operator, self.store, self.schema)

    @cached_property
    def families(self) -> dict[str, Family]:
        """The column families by name.

        Their numbers are their places in the schema: on disk each partition has its own. There is
        none in a store without families.
        """
        numbers = {each.name: n for n, each in enumerate(self.schema) if each.encoder is not None}
        return {each.name: each for each in self.layout(numbers).families}

    def layout(self, numbers: dict[str, int]) -> StoreLayout:
        """Return how rows are taken apart, given the numbers of the families on disk."""
        if self.log.row_format != "unsaferow":
            raise _not_read(self.folder.checkpoint.path, self.log.row_format)
        return layout_of(self.schema, self.operator, self.store, self.log, numbers)

    def opened(self, partition: int, scratch: str | PathLike[str] | None) -> PartitionState:
        """Return the state of a partition, to be closed."""
        return PartitionState(
            self.folder.folder(partition, self.store),
            self.number,
            self.unique_id(partition),
            self.layout({}).wrapping,
            scratch=scratch,
        )

    def unique_id(self, partition: int) -> str | None:
        """Return the id in the names of a partition's files; None if they have none."""
        return self.folder.unique_id(partition, self.store, self.batch)


def _not_read(checkpoint: Path, row_format: str) -> FormatError:
    message = (
        f"The rows of state in {checkpoint} are written as {row_format!r}: its query ran with "
        f"{_SETTING}={row_format}, which kstoolkit does not read."
    )
    hint = f"New queries: leave {_SETTING} at unsaferow, its default."
    return FormatError(message, hint=hint)
