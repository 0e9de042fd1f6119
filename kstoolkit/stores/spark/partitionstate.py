"""One partition of a store at one version, opened through a scratch folder."""

from __future__ import annotations

import shutil
import weakref
from contextlib import ExitStack
from typing import TYPE_CHECKING

from rocksdict import AccessType, Options, Rdict

from kstoolkit.rocksdb.faults import DamagedStoreError, StoreClosedError, translated
from kstoolkit.rocksdb.files.damage import Losses, View, mended_families, readable_rows
from kstoolkit.rocksdb.files.shadow import new_scratch_folder
from kstoolkit.stores.rows.leftout import say_damage
from kstoolkit.stores.spark.overlay import Overlay
from kstoolkit.stores.spark.statefiles import StateFiles
from kstoolkit.stores.spark.unpacking import unpack

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike
    from pathlib import Path

    from kstoolkit.formats.spark.rows import Wrapping
    from kstoolkit.stores.spark.statefiles import Chain


class PartitionState:
    """The rows of one partition as they lie on disk, at one version.

    Parameters
    ----------
    folder
        Where the files of the state lie.
    version, unique_id
        Which version, and the id in the names of its files.
    wrapping
        How values are written.
    scratch
        Where to make the scratch folder; None is where temporary files go.

    Raises
    ------
    FormatError
        If a file is missing or damaged: also later, at a row that can't be read.
    StoreResourceError
        If there is no room for the scratch folder.
    """

    def __init__(
        self,
        folder: Path,
        version: int,
        unique_id: str | None,
        wrapping: Wrapping,
        *,
        scratch: str | PathLike[str] | None = None,
    ) -> None:
        self.folder = folder
        self.families: dict[str, int] = {}
        self._base: View | None = None
        self._losses = Losses()
        self._said = ""
        self._overlay: Overlay | None = None
        chain = StateFiles.of(folder).chain(version, unique_id)
        with ExitStack() as opening:
            place = new_scratch_folder(scratch)
            opening.callback(place.remove)
            with translated(folder):
                self._open(chain, place.path, wrapping, opening)
            self._close = weakref.finalize(self, opening.pop_all().close)

    def rows(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield keys and values in the order of keys, those that begin with ``prefix``.

        Raises
        ------
        StoreClosedError
            If this is closed, also before the last row.
        DamagedStoreError
            At a row that can't be read, and can't be passed over.

        Warns
        -----
        LeftOutWarning
            If rows of the snapshot were passed over.
        """
        with translated(self.folder):
            found = self._in_snapshot(prefix)
            for row in found if self._overlay is None else self._overlay.over(found, prefix):
                self._check_open()
                yield row
        self._say_damage()

    def close(self) -> None:
        """Close it, and remove the scratch folder; a second time does nothing."""
        self._close()

    def _open(self, chain: Chain, place: Path, wrapping: Wrapping, opening: ExitStack) -> None:
        replayed = chain.changes
        if chain.snapshot is not None and chain.snapshot.suffix == ".zip":
            home = place / "snapshot"
            home.mkdir()
            self._base = self._snapshot(chain.snapshot, home, wrapping.delimiter)
            opening.callback(self._base.families["default"].close)
            opening.callback(self._base.close)
            self._say_damage()
        elif chain.snapshot is not None:
            replayed = (chain.snapshot, *replayed)
        if replayed:
            self._overlay = Overlay(place / "changes", wrapping)
            opening.callback(self._overlay.close)
            for each in replayed:
                self._overlay.replay(each)

    def _snapshot(self, path: Path, home: Path, delimiter: bytes) -> View:
        """Return a snapshot, unpacked into an empty folder; of a damaged one, what is left."""
        try:
            self.families = unpack(path, home, delimiter).families
            return View({"default": _opened(home, self.folder)}, home, self.folder)
        except DamagedStoreError as error:
            shutil.rmtree(home)
            home.mkdir()
            self.families = unpack(path, home, delimiter, partly=True).families
            families, self._losses = mended_families(home, self.folder, error)
            return View(families, home, self.folder)

    def _in_snapshot(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        if self._base is None:
            return iter(())
        return readable_rows(self._base, "default", self._losses, prefix=prefix)

    def _say_damage(self) -> None:
        """Warn of what is lost of the snapshot; once, unless more has come to light."""
        damage, said = self._losses.text or "", self._said
        if damage != said:
            self._said = damage
            say_damage(self.folder, damage.removeprefix(f"{said}; "))

    def _check_open(self) -> None:
        if not self._close.alive:
            message = f"The state in {self.folder} is closed."
            raise StoreClosedError(message, hint="Open it again.")


def _opened(home: Path, folder: Path) -> Rdict:
    options = Options(raw_mode=True)
    options.create_if_missing(False)  # noqa: FBT003 - rocksdict takes no name
    with translated(folder):
        return Rdict(str(home), options, access_type=AccessType.read_only(False))  # noqa: FBT003 - as above
