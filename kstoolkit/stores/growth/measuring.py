"""Measure why a store does not shrink: one pass over its rows, and a look at its files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

import numpy as np

from kstoolkit.errors import ConfigurationError
from kstoolkit.formats.serdes import serde_of
from kstoolkit.records import Records
from kstoolkit.replica.records import moment_ms
from kstoolkit.stores.growth.ages import ages_of, why_no_ages
from kstoolkit.stores.growth.deletions import StoreFiles, deletions_of
from kstoolkit.stores.growth.fieldtally import FieldTally
from kstoolkit.stores.growth.growth import Growth
from kstoolkit.stores.growth.horizon import horizon_of
from kstoolkit.stores.growth.past import expired_of, segments_of, versions_of
from kstoolkit.stores.growth.tallies import SegmentTally, Tallies, tallied
from kstoolkit.stores.growth.uses import fields_of, keys_of, num_windows, prefixes_of, windows_of
from kstoolkit.stores.rows.asking import Asked
from kstoolkit.units import parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from kstoolkit.formats.serdes import Serde
    from kstoolkit.replica.records import Moment
    from kstoolkit.rocksdb.store import Store
    from kstoolkit.stores.discovery.foundstore import FoundSegment, FoundStore
    from kstoolkit.stores.growth.checkpointuse import CheckpointUse
    from kstoolkit.stores.growth.keyfields import KeyFields
    from kstoolkit.stores.growth.records import Horizon
    from kstoolkit.stores.rows.rowview import RowSource
    from kstoolkit.units import Duration


_NOT_FOUND = "only the rows were handed over, not where the store lies"
_NO_WINDOWS = "its rows have no windows, or sessions in their place"
_NO_ROWS = "there are no rows"
_TOO_MANY = "there are more keys than are kept in mind"


class HasSource(Protocol):
    """A store whose rows can be read, and who knows how to read its keys."""

    @property
    def source(self) -> RowSource:
        """Where its rows lie."""
        ...

    @property
    def key_serde(self) -> Serde:
        """How its keys are read."""
        ...


def measured_growth(
    store: HasSource | RowSource,
    *,
    found: FoundStore | None = None,
    opened: Iterable[Store] = (),
    retention: Duration | None = None,
    now: Moment | None = None,
    watermark: Moment | None = None,
    checkpoint: CheckpointUse | None = None,
    prefix_bytes: int | None = None,
    key_serde: str | Serde | Callable[[bytes], Any] | None = None,
    fields: KeyFields | None = None,
    top: int = 10,
) -> Growth:
    """Return who takes a store's room, what is past its time, and why the store does not shrink.

    All rows are read once, in memory that does not grow with them.

    Parameters
    ----------
    store
        The store, or where its rows lie.
    found
        What was found of it: its kind, its segments, its size.
    opened
        Its RocksDBs: one, or one a segment, each looked at before the next is asked for. They tell
        of deletions.
    retention
        How long it keeps rows; None infers it from the segments of a Kafka Streams store.
    now
        The moment to count back from; None is stream time, as far as the store shows it: that of
        its newest row.
    watermark
        Spark's watermark: rows at or before it are counted.
    checkpoint
        What a checkpoint of Spark's keeps of it; it tells the watermark, too.
    prefix_bytes
        How long the prefixes of keys are that rows are summed up by; None takes the greatest
        length of which there are few.
    key_serde
        How to read keys; None: as the store is told to, or as the keys look.
    fields
        Which fields of the keys of Spark's state to sum up by; None: by whole keys.
    top
        How many keys, prefixes and windows to name.

    Raises
    ------
    ConfigurationError
        If ``top`` or ``prefix_bytes`` is below 1, or if a duration, a moment or a serde is none.

    Examples
    --------
    >>> from kstoolkit.formats.columns import ByteColumn
    >>> from kstoolkit.formats.columns import RowColumns
    >>> class Listed:
    ...     name = "counts"
    ...     def read(self, asked):
    ...         keys = ByteColumn.of([b"anna", b"bo"])
    ...         yield RowColumns.whole(keys, ByteColumn.of([b"1" * 90, b"2"]))
    >>> measured = measured_growth(Listed())
    >>> measured.keys[0].key, measured.keys[0].data_bytes, measured.num_keys
    ('anna', 94, 2)
    """
    _check(top=top, prefix_bytes=prefix_bytes)
    source = cast("RowSource", getattr(store, "source", store))
    serde = getattr(store, "key_serde", None) if key_serde is None else serde_of(key_serde)
    segments: Records[FoundSegment] = Records((), "segments") if found is None else found.segments
    watermark_ms, now_ms = (None if at is None else moment_ms(at) for at in (watermark, now))
    retention_ms = None if retention is None else parse_duration(retention)
    cut_ms = watermark_ms if checkpoint is None else checkpoint.cut_ms
    tallies = tallied(source.read(Asked()), _no_rows_yet(found, cut_ms, prefix_bytes, fields))
    horizon = horizon_of(tallies, retention_ms=retention_ms, now_ms=now_ms, checkpoint=checkpoint)
    files = [StoreFiles.of(each) for each in opened]
    uses = segments_of(tallies, horizon, segments, {each.path: each for each in files})
    return Growth(
        store=source.name,
        engine=tallies.engine,
        kind=tallies.kind,
        clock=None if tallies.clock is None else str(tallies.clock),
        horizon=horizon,
        expired=expired_of(tallies, horizon, uses, checkpoint),
        deletions=deletions_of(files, tallies.num_on_disk),
        versions=versions_of(tallies),
        segments=uses,
        windows=windows_of(tallies, horizon, top),
        prefixes=prefixes_of(tallies, top),
        keys=keys_of(tallies, top, serde),
        ages=ages_of(tallies, horizon, checkpoint),
        by=() if fields is None else fields.by,
        fields=fields_of(tallies, top),
        checkpoint=checkpoint,
        # Asked once the rows were read: only then some of it shows to be damaged.
        left_out=tuple(map(str, getattr(store, "left_out", ()))),
        **_sums(tallies),
        size_bytes=None if found is None else found.size_bytes,
        disk_bytes=None if found is None else found.disk_bytes,
        unknown=_unknown(tallies, found) | _no_ages(tallies, horizon, checkpoint),
    )


def _no_rows_yet(
    found: FoundStore | None,
    watermark_ms: int | None,
    prefix_bytes: int | None,
    fields: KeyFields | None,
) -> Tallies:
    starts_ms = [] if found is None else [each.start_ms for each in found.segments]
    return Tallies(
        None if found is None else found.engine,
        None if found is None else found.kind,
        SegmentTally(np.array(starts_ms, dtype=np.int64)),
        watermark_ms=watermark_ms,
        prefix_bytes=prefix_bytes,
        fields=None if fields is None else FieldTally(fields),
    )


def _sums(tallies: Tallies) -> dict[str, Any]:
    return {
        "num_rows": tallies.num_rows,
        "data_bytes": tallies.data_bytes,
        "num_untimed_rows": tallies.num_untimed,
        "num_undecoded_rows": tallies.num_torn,
        "num_keys": tallies.keys.num_keys,
        "num_prefixes": tallies.prefixes.num_keys,
        "num_windows": num_windows(tallies),
        "num_without_fields": 0 if tallies.fields is None else tallies.fields.num_without,
    }


def _no_ages(
    tallies: Tallies, horizon: Horizon, checkpoint: CheckpointUse | None
) -> dict[str, str]:
    why = why_no_ages(tallies, horizon, checkpoint)
    return {} if why is None else {"ages": why}


def _check(**given: int | None) -> None:
    for name, value in given.items():
        if value is not None and value < 1:
            message = f"{name}={value}: it has to be at least 1."
            raise ConfigurationError(message, hint="Leave it out for a value that fits most.")


def _unknown(tallies: Tallies, found: FoundStore | None) -> dict[str, str]:
    unknown = {} if tallies.keys.num_keys is not None else {"num_keys": _TOO_MANY}
    unknown |= {} if tallies.prefixes.num_keys is not None else {"num_prefixes": _TOO_MANY}
    if num_windows(tallies) is None:
        unknown["num_windows"] = _NO_WINDOWS if tallies.clock else _NO_ROWS
    return unknown | (
        dict.fromkeys(("size_bytes", "disk_bytes"), _NOT_FOUND) if found is None else {}
    )
