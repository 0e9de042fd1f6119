"""Records of a changelog, folded to the latest of each key, with rows to be asked for.

They lie in a scratch RocksDB, in the form that :mod:`kstoolkit.formats.streams.changelogrecords`
draws: memory holds a memtable and thousands of rows, however many records.
"""

from __future__ import annotations

import weakref
from contextlib import ExitStack
from functools import cached_property
from itertools import chain, islice, pairwise
from typing import TYPE_CHECKING, Any

from rocksdict import WriteBatch

from kstoolkit.formats.columns import ByteColumn
from kstoolkit.formats.streams.changelogrecords import (
    OPEN_END,
    TIME_BYTES,
    plain_kind,
    recognise_records,
    restored_values,
    split_records,
    version_keys,
)
from kstoolkit.formats.streams.kinds import Kind, kinds_named
from kstoolkit.formats.streams.recognising import MOST_ROWS, Recognised
from kstoolkit.records import Closing
from kstoolkit.rocksdb.faults import StoreClosedError, translated
from kstoolkit.rocksdb.files.damage import rows_of
from kstoolkit.rocksdb.files.shadow import new_scratch_folder, new_scratch_rocksdb
from kstoolkit.stores.rows.readable import HasRows
from kstoolkit.stores.rows.rows import bounded, row_batches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from os import PathLike

    from kstoolkit.formats.columns import RowColumns
    from kstoolkit.formats.streams.values import RecordHeaders
    from kstoolkit.stores.rows.asking import Asked
    from kstoolkit.stores.rows.readable import ReadAs

_MEMTABLE_BYTES = 32 << 20
_KEY_FIRST = {Kind.KEY_VALUE, Kind.WINDOW, Kind.SESSION}


class ReadOnce(Closing, HasRows):
    """Rows that were read into a scratch folder, which is removed when this is closed."""

    name: str
    _close: weakref.finalize[..., Any]

    def close(self) -> None:
        """Close it, and remove what was made; a second time does nothing."""
        self._close()

    def _check_open(self) -> None:
        if not self._close.alive:
            message = f"What was read of {self.name} is closed."
            raise StoreClosedError(message, hint="Read it again.")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class FoldedRecords(ReadOnce):
    """The latest of each key of a changelog's records, as the rows of the store that wrote them.

    Of a versioned store, all versions told are rows. ``with`` closes it, and removes what was made.

    Parameters
    ----------
    name, scratch
        What to call it, and where to make the scratch folder.
    read_as
        How to read it: without a kind, it is recognised from the records. Versions are told apart
        only if the kind says so; one that there isn't is a ConfigurationError.

    Examples
    --------
    >>> from kstoolkit.stores.rows.readable import ReadAs
    >>> with FoldedRecords("counts", ReadAs(value_serde="string")) as folded:
    ...     folded.take_in([b"anna", b"bo"], [b"2", b"1"], [5, 6], [None, None])
    ...     folded.take_in([b"anna", b"bo"], [b"3", None], [7, 8], [None, None])
    ...     print(*folded.rows(), sep="; ")
    'anna' at 1970-01-01 00:00:00.007: '3'
    """

    def __init__(
        self, name: str, read_as: ReadAs, *, scratch: str | PathLike[str] | None = None
    ) -> None:
        self.name, self.read_as = name, read_as
        told = None if read_as.kind is None else plain_kind(kinds_named(read_as.kind)[0])
        self._told, self._has_versions = told, told is Kind.VERSIONED
        with ExitStack() as opening:
            place = new_scratch_folder(scratch)
            opening.callback(place.remove)
            self._place = place.path
            with translated(place.path):
                self._kept = new_scratch_rocksdb(place.path / "records", _MEMTABLE_BYTES)
            opening.callback(self._kept.close)
            self._close = weakref.finalize(self, opening.pop_all().close)

    def take_in(
        self,
        keys: Sequence[bytes],
        values: Sequence[bytes | None],
        timestamps_ms: Sequence[int],
        headers: Sequence[RecordHeaders],
    ) -> None:
        """Take in more records, those of a key in their order; a value that is None removes it."""
        self._check_open()
        lies_at = version_keys(keys, timestamps_ms).to_pylist() if self._has_versions else keys
        latest = dict(zip(lies_at, range(len(keys)), strict=True))
        chosen = list(latest.values())
        restored = restored_values(
            [values[at] for at in chosen],
            [timestamps_ms[at] for at in chosen],
            [headers[at] for at in chosen],
        )
        batch = WriteBatch(raw_mode=True)
        for key, value in zip(latest, restored.to_pylist(), strict=True):
            if value is None and not self._has_versions:
                batch.delete(key)
            else:  # a version that has no value ends another
                batch.put(key, value or b"")
        with translated(self._place):
            self._kept.write(batch)

    @cached_property
    def recognised(self) -> Recognised:
        """What kind of store wrote the records, how sure that is, and why."""
        if self._told is not None:
            return Recognised(self._told, 1.0, ("it was said so",))
        nothing = ByteColumn.of([])
        first = islice(self.pairs(), MOST_ROWS)
        return recognise_records(*next(row_batches(first), (nothing, nothing)))

    @property
    def kind(self) -> str:
        """What kind of store it is, as it was told or recognised."""
        return str(self.recognised.kind)

    @property
    def source(self) -> FoldedRecords:
        """Where the rows lie: here."""
        return self

    def read(self, asked: Asked) -> Iterator[RowColumns]:
        """Yield rows in parts of some thousands: at least those that are asked for."""
        kind = self.recognised.kind
        prefix = (asked.key or asked.prefix or b"") if kind in _KEY_FIRST else b""
        for keys, values in row_batches(self.pairs(prefix)):
            size_ms = self.read_as.window_size_ms
            yield from bounded(split_records(kind, keys, values, window_size_ms=size_ms))

    def pairs(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield keys and values as they are kept; of versions, those that have a value.

        If this is closed, also before the last of them, it is a StoreClosedError.
        """
        self._check_open()
        rows = rows_of(self._kept, prefix=prefix)
        with translated(self._place):
            for pair in _with_ends(rows) if self._has_versions else rows:
                yield pair
                self._check_open()

    def estimated_rows(self) -> int | None:
        """Return about how many rows there are, by RocksDB's estimate."""
        self._check_open()
        return self._kept.property_int_value("rocksdb.estimate-num-keys")


def _with_ends(rows: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    """Yield versions that have a value with their ends: when the next one of the key begins."""
    for (key, value), (after, _) in pairwise(chain(rows, [(b"", b"")])):
        if value:
            ends = after[:-TIME_BYTES] == key[:-TIME_BYTES]
            yield key, (after[-TIME_BYTES:] if ends else OPEN_END) + value
