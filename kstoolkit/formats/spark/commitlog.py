r"""Commit log: that a micro-batch is done, and which files of its state are the committed ones.

::

    v1\n{nextBatchWatermarkMs}
    v2\n{nextBatchWatermarkMs, stateUniqueIds}

The ids are, by operator, of each partition that of each store. With
unique ids, files of state carry one in their name: ``7_<id>.zip``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kstoolkit.errors import FormatError
from kstoolkit.formats.spark.jsontext import integer, member, object_of, versioned_lines

_COMMIT_LOG = "commit log"


@dataclass(frozen=True, slots=True)
class CommitLogEntry:
    """What the commit log says of one micro-batch.

    Parameters
    ----------
    version
        Of the file.
    next_watermark_ms
        The watermark of the batch after it, epoch ms UTC.
    unique_ids
        By operator: of each partition, the id of each store, in the order of the operator's
        metadata. Empty where files of state have no ids.
    """

    version: int
    next_watermark_ms: int
    unique_ids: dict[int, tuple[tuple[str, ...], ...]] = field(default_factory=dict)

    def unique_id(self, operator: int, partition: int, store: int = 0) -> str | None:
        """Return the id in the names of a store's files; None if they have none.

        Parameters
        ----------
        operator, partition
            Their numbers.
        store
            The position of the store in the operator's metadata.

        Examples
        --------
        >>> CommitLogEntry(2, 0, {0: (("a1",), ("b2",))}).unique_id(0, 1)
        'b2'
        """
        partitions = self.unique_ids.get(operator, ())
        stores = partitions[partition] if partition < len(partitions) else ()
        return stores[store] if store < len(stores) else None


def read_commit_log(raw: bytes) -> CommitLogEntry:
    r"""Return what a commit log says.

    Raises
    ------
    FormatError
        If it is none, or is of a version that is not known.

    Examples
    --------
    >>> read_commit_log(b'v1\n{"nextBatchWatermarkMs":7}').next_watermark_ms
    7
    """
    version, lines = versioned_lines(raw, _COMMIT_LOG, range(1, 3))
    found = object_of("\n".join(lines), f"a {_COMMIT_LOG}")
    ids = member(found, "stateUniqueIds", _COMMIT_LOG)
    return CommitLogEntry(
        version,
        integer(found, "nextBatchWatermarkMs", _COMMIT_LOG, 0),
        {_operator(name): _ids(partitions) for name, partitions in ids.items()},
    )


def _operator(name: str) -> int:
    if not (name.isascii() and name.isdigit() and len(name) < 10):  # noqa: PLR2004 - as int() takes
        message = f"A {_COMMIT_LOG} names an operator {name[:40]!r}, which is no number."
        raise FormatError(message, hint="The file is damaged.")
    return int(name)


def _ids(partitions: Any) -> tuple[tuple[str, ...], ...]:
    listed = partitions if isinstance(partitions, list) else [partitions]
    if not all(_is_texts(stores) for stores in listed):
        message = f"The stateUniqueIds of a {_COMMIT_LOG} are no lists of texts."
        raise FormatError(message, hint="The file is damaged.")
    return tuple(tuple(stores) for stores in listed)


def _is_texts(found: Any) -> bool:
    return isinstance(found, list) and all(isinstance(each, str) for each in found)
