"""A stateful operator in a checkpoint: its stores, its partitions, and the columns of their rows.

::

    state/<operator>/_metadata/metadata           or _metadata/v2/<batch>
    state/<operator>/_stateSchema/<store>/<file>  or <partition 0>/[<store>/]_metadata/schema
    state/<operator>/<partition>/[<store>/]       the files of the state
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kstoolkit.errors import InputError
from kstoolkit.formats.spark.logs import read_operator_metadata, read_schema_file
from kstoolkit.rocksdb.faults import MissingFileError
from kstoolkit.stores.spark.checkpoint import numbers_in
from kstoolkit.stores.spark.readfile import read_with

if TYPE_CHECKING:
    from pathlib import Path

    from kstoolkit.formats.spark.logs import FamilySchema, OperatorMetadata
    from kstoolkit.stores.spark.checkpoint import Checkpoint


DEFAULT_STORE = "default"
"""The store of operators that have only one: it has no folder of its own."""


@dataclass(frozen=True, slots=True)
class OperatorFolder:
    """An operator of a checkpoint, by its number.

    Parameters
    ----------
    checkpoint
        Whose it is.
    number
        Which it is.
    """

    checkpoint: Checkpoint
    number: int

    @property
    def path(self) -> Path:
        """Its folder."""
        return self.checkpoint.path / "state" / str(self.number)

    def partitions(self) -> list[int]:
        """Return its partitions: the folders, as its metadata keeps the number it began with."""
        return numbers_in(self.path)

    def metadata(self, batch: int) -> OperatorMetadata:
        """Return what the operator said of itself up to a batch.

        Raises
        ------
        MissingFileError
            If there is none, as of a checkpoint of an older Spark.
        FormatError
            If the file is damaged, or of a version that is not known.
        """
        written = numbers_in(self.path / "_metadata" / "v2")
        latest = max((each for each in written if each <= batch), default=None)
        folder = self.path / "_metadata"
        path = folder / "metadata" if latest is None else folder / "v2" / str(latest)
        try:
            return read_with(path, read_operator_metadata)
        except MissingFileError as error:
            hint = (
                "Spark before 4.0 wrote none, and its state is not read; or was it removed, or not "
                "copied with the rest?"
            )
            raise MissingFileError(error.message, hint=hint) from error

    def folder(self, partition: int, store: str) -> Path:
        """Return where the state of a partition lies, for one store."""
        folder = self.path / str(partition)
        return folder if store == DEFAULT_STORE else folder / store

    def schemas(self, store: str, batch: int) -> list[FamilySchema]:
        """Return the schemas of a store as of a batch, one a column family.

        Raises
        ------
        InputError
            If the operator has no such store.
        FormatError
            If the schema file is missing, damaged, or of a version that is not known.
        """
        known = {each.name: each for each in self.metadata(batch).stores}
        if store not in known:
            message = f"The operator {self.path} has no store {store!r}."
            raise InputError(message, hint=f"It has: {', '.join(known) or 'none'}.")
        paths = known[store].schema_paths
        path = self.folder(0, store) / "_metadata" / "schema"
        if paths:  # written where the query ran: of the path, only the name is still right
            path = self.path / "_stateSchema" / store / paths[-1].rpartition("/")[2]
        return read_with(path, read_schema_file)

    def unique_id(self, partition: int, store: str, batch: int) -> str | None:
        """Return the id in the names of a store's files after a batch; None if they have none."""
        names = [each.name for each in self.metadata(batch).stores]
        if store not in names:
            return None
        commit = self.checkpoint.commit_log(batch)
        return commit.unique_id(self.number, partition, names.index(store))
