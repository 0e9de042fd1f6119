r"""Offset log: what a micro-batch was about to read, and the settings that its state is bound to.

::

    v1\n{batchWatermarkMs, batchTimestampMs, conf: {…}}\n<offset of a source>\n…

A source that had nothing to say is ``-``. In v2 the sources have names; its lines are kept as they
are (``org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqLog``).
"""

from __future__ import annotations

from dataclasses import dataclass

from kstoolkit.errors import FormatError
from kstoolkit.formats.spark.jsontext import integer, object_of, texts, versioned_lines

_STATE_STORE = "spark.sql.streaming.stateStore"
_OFFSET_LOG = "offset log"


@dataclass(frozen=True, slots=True)
class OffsetLogEntry:
    """What the offset log says of one micro-batch.

    Parameters
    ----------
    version
        Of the file.
    watermark_ms, timestamp_ms
        The watermark and the clock that the batch ran with, epoch ms UTC.
    conf
        Settings that cannot change while the checkpoint lives.
    sources
        The offsets of the sources, as they wrote them; None of a source that had none.
    """

    version: int
    watermark_ms: int
    timestamp_ms: int
    conf: dict[str, str]
    sources: tuple[str | None, ...]

    @property
    def provider(self) -> str:
        """The class that keeps the state; Spark's first if the log doesn't say."""
        default = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
        return self.conf.get(f"{_STATE_STORE}.providerClass", default)

    @property
    def is_rocksdb(self) -> bool:
        """Whether the state lies in RocksDB."""
        return "RocksDB" in self.provider

    @property
    def merge_delimiter(self) -> bytes:
        r"""What RocksDB puts between values that are appended to each other.

        Examples
        --------
        >>> read_offset_log(b'v1\n{"batchWatermarkMs":0,"batchTimestampMs":0}').merge_delimiter
        b','
        """
        version = self.conf.get(f"{_STATE_STORE}.rocksdb.mergeOperatorVersion", "1")
        return b"," if version == "1" else b""

    @property
    def has_row_checksums(self) -> bool:
        """Whether each row carries a checksum."""
        return self.conf.get(f"{_STATE_STORE}.rowChecksum.enabled", "false").lower() == "true"

    @property
    def row_format(self) -> str:
        """How rows are written: ``"unsaferow"``, or ``"avro"``, which is not read here."""
        return self.conf.get(f"{_STATE_STORE}.encodingFormat", "unsaferow").lower()


def read_offset_log(raw: bytes) -> OffsetLogEntry:
    r"""Return what an offset log says.

    Raises
    ------
    FormatError
        If it is none, or is of a version that is not known.

    Examples
    --------
    >>> found = read_offset_log(b'v1\n{"batchWatermarkMs":5,"batchTimestampMs":9,"conf":{}}\n-')
    >>> found.watermark_ms, found.sources
    (5, (None,))
    """
    version, lines = versioned_lines(raw, _OFFSET_LOG, range(1, 3))
    if not lines:
        message = "An offset log that ends after its version."
        raise FormatError(message, hint="It was not written to its end.")
    found = object_of(lines[0] or "{}", "the metadata of an offset log")
    return OffsetLogEntry(
        version,
        integer(found, "batchWatermarkMs", _OFFSET_LOG, 0),
        integer(found, "batchTimestampMs", _OFFSET_LOG, 0),
        texts(found, "conf", _OFFSET_LOG),
        tuple(None if line == "-" else line for line in lines[1:] if line),
    )
