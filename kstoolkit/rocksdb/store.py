"""A store that is open for looking in: its column families, rows, files and options.

What is shown is the store as it was when it was opened. Rows that the process which writes it still
holds in memory alone, without a WAL, are on no disk, and so not in here.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Self, Unpack

from kstoolkit.rocksdb.advice.advising import advice_on, gather
from kstoolkit.rocksdb.advice.measuredstore import MeasuredStore
from kstoolkit.rocksdb.faults import NoStoreError, translated
from kstoolkit.rocksdb.files.families import Families
from kstoolkit.rocksdb.files.keystats import key_stats_of
from kstoolkit.rocksdb.files.levels import levels_of
from kstoolkit.rocksdb.files.optionsections import read_options
from kstoolkit.rocksdb.files.reader import Reader
from kstoolkit.rocksdb.files.ssts import ssts_of
from kstoolkit.rocksdb.files.summary import summary_of
from kstoolkit.rocksdb.profiles.profile import Profile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rocksdict import Rdict

    from kstoolkit.errors import FormatError
    from kstoolkit.records import Records
    from kstoolkit.rocksdb.advice.advice import AdviceList
    from kstoolkit.rocksdb.advice.circumstances import Circumstances
    from kstoolkit.rocksdb.files.keystats import KeyStats
    from kstoolkit.rocksdb.files.levels import Level
    from kstoolkit.rocksdb.files.losses import Losses
    from kstoolkit.rocksdb.files.optionsections import OptionsSection
    from kstoolkit.rocksdb.files.shadow import Shadow
    from kstoolkit.rocksdb.files.ssts import Sst
    from kstoolkit.rocksdb.files.summary import Footprint, Summary


_NAMED = 5  # column families in its representation


class Store(MeasuredStore):
    """A store, open for looking in; made by :func:`kstoolkit.open_store`, closed by ``with``.

    Parameters
    ----------
    path
        The store's folder, as the user knows it; an attribute too.
    shadow
        The scratch folder through which it is read; removed when the store is closed.
    families
        The column families, opened from there; the first one is the database itself.
    footprint
        What the folder took when it was opened.
    losses
        What was lost of it so far; None: what can't be read is raised.

    Raises
    ------
    StoreClosedError
        By all that asks the store, if it is closed.
    ColumnFamilyError
        By all that takes a column family, if there is none of that name.
    """

    def __init__(
        self,
        path: Path,
        *,
        shadow: Shadow,
        families: dict[str, Rdict],
        footprint: Footprint,
        losses: Losses | None = None,
    ) -> None:
        super().__init__(path, Families(path, families))
        self._shadow = shadow
        self._footprint = footprint
        self._reader = Reader(path, self._families, shadow.path, losses)

    @property
    def damage(self) -> str | None:
        """What of it is lost as far as it was read, in one line; None: nothing that is known."""
        return self._reader.damage

    @property
    def column_families(self) -> tuple[str, ...]:
        """The names of the column families, ``default`` first; empty once it is closed."""
        return self._families.names

    @cached_property
    def main_family(self) -> str:
        """The column family with the most entries in files; the first one, if none has any.

        Some engines leave ``default`` empty and keep their rows in another.
        """
        entries: Counter[str] = Counter()
        for each in self.ssts():
            entries[each.column_family] += each.num_entries
        return max(self.column_families, key=lambda name: entries[name])

    def summary(self, cf: str | None = None) -> Summary:
        """Return the store, or a column family, at a glance; the folder's sizes are all of it."""
        families = self._families.chosen(cf)
        files = self.ssts(cf)
        with translated(self.path):
            return summary_of(
                self.path,
                families,
                ssts=files,
                num_unlisted_ssts=len(self._footprint.ssts - {each.name for each in self._ssts}),
                options=self._options,
                footprint=self._footprint,
                copied_bytes=self._shadow.copied_bytes,
                damage=self.damage,
            )

    def levels(self, cf: str | None = None) -> Records[Level]:
        """Return the levels that have files, of all column families or one."""
        return levels_of(self.ssts(cf))

    def ssts(self, cf: str | None = None) -> Records[Sst]:
        """Return the SST files, of all column families or one, by level and key."""
        chosen = self._families.chosen(cf)
        kept = [each for each in self._ssts if each.column_family in chosen]
        return type(self._ssts)(kept, self._ssts.kind)

    def options(self) -> Records[OptionsSection]:
        """Return the options that the store was last opened with, section by section.

        Raises
        ------
        NoStoreError
            If the folder has no OPTIONS file.
        FormatError
            If it has one that is none.
        """
        self._families.check_open()
        if self._options is None:
            message = f"The store {self.path} has no OPTIONS file."
            raise NoStoreError(message, hint="RocksDB writes one at each open; was it removed?")
        return self._options

    def key_stats(
        self, sample: int = 10_000, *, cf: str | None = None, prefix_bytes: int = 4, top: int = 10
    ) -> KeyStats:
        """Return how large keys and values are, which prefixes are hot, how much is deleted.

        Parameters
        ----------
        sample, cf
            How many rows to read at most, and of which column family; None: the main one.
        prefix_bytes, top
            How long the prefixes are, and how many of the hottest to name.

        Raises
        ------
        DamagedStoreError
            At a row that can't be read.
        """
        name = cf or self.main_family
        handle = self._families.chosen(name)[name]
        with translated(self.path):
            return key_stats_of(
                name, handle, self.ssts(name), sample=sample, prefix_bytes=prefix_bytes, top=top
            )

    def get(self, key: bytes, *, cf: str | None = None) -> bytes | None:
        """Return the value of a key, or None if it has none, of the main column family or one.

        Raises
        ------
        DamagedStoreError
            If it lies where the store can't be read.
        """
        return self._reader.value(cf or self.main_family, key)

    def iter_rows(
        self,
        *,
        cf: str | None = None,
        prefix: bytes = b"",
        start: bytes | None = None,
        reverse: bool = False,
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield keys and values in the order of the keys, however many there are.

        Parameters
        ----------
        cf
            The column family; None is the main one: see :attr:`main_family`.
        prefix
            Only keys that begin so.
        start
            Begin at this key, or at the next one there is: after it, or before it if ``reverse``.
        reverse
            From the last key to the first.

        Raises
        ------
        StoreClosedError
            If the store is closed, also before the last row.
        DamagedStoreError
            At a row that can't be read, instead of an end that looks like the last row; of a store
            that was opened with ``partly``, only if ``reverse``: else such rows are passed over.
        """
        name = cf or self.main_family
        return self._reader.rows(name, prefix=prefix, start=start, reverse=reverse)

    def profile(self, cf: str | None = None) -> Profile | None:
        """Return what the main column family or one was last opened with; None if nothing tells."""
        name = cf or self.main_family
        self._families.chosen(name)
        if self._options is None:
            return None
        found = Profile.from_options(self._shadow.path, column_family=name)
        return found.changed(name=self.path.name)

    def advice(self, **circumstances: Unpack[Circumstances]) -> AdviceList:
        """Return what the store's figures advise, and which rules lack figures to judge by.

        What the folder doesn't tell may be given, such as ``bound_bytes=1 << 30``: see
        :class:`~kstoolkit.rocksdb.advice.circumstances.Circumstances`.

        Raises
        ------
        ConfigurationError
            If something is given that makes no sense.
        """
        return advice_on(gather(self, circumstances))

    def close(self) -> None:
        """Close the store, and remove what was made to read it; a second time does nothing."""
        self._reader.close()
        self._families.close()
        self._shadow.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        names = self.column_families
        told = ", ".join(names) if len(names) <= _NAMED else f"{len(names)} column families"
        return f"{type(self).__name__}({str(self.path)!r}, {told or 'closed'})"

    def pass_over(self, error: FormatError) -> None:
        """Count what could not be read among the damage, so that it is said."""
        self._reader.pass_over(error)

    @cached_property
    def _ssts(self) -> Records[Sst]:
        with translated(self.path):
            return ssts_of(self._shadow.path, self._families.chosen())

    @cached_property
    def _options(self) -> Records[OptionsSection] | None:
        with suppress(NoStoreError):
            return read_options(self._shadow.path)
        return None
