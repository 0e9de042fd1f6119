"""What an option's named values are called: here, in OPTIONS files, in Java and in rocksdict."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spelling:
    """One named value, as each engine writes it.

    Parameters
    ----------
    in_options
        In RocksDB's OPTIONS files.
    in_java
        The constant of RocksJava, with its class.
    in_rocksdict
        The static method of the class in rocksdict; None if it has none.
    in_spark
        In Spark's configuration; None if Spark has no word for it.
    """

    in_options: str
    in_java: str
    in_rocksdict: str | None = None
    in_spark: str | None = None


_COMPRESSION = {
    "none": Spelling("kNoCompression", "CompressionType.NO_COMPRESSION", "none", "none"),
    "snappy": Spelling(
        "kSnappyCompression", "CompressionType.SNAPPY_COMPRESSION", "snappy", "snappy"
    ),
    "zlib": Spelling("kZlibCompression", "CompressionType.ZLIB_COMPRESSION", "zlib", "z"),
    "bzip2": Spelling("kBZip2Compression", "CompressionType.BZLIB2_COMPRESSION", "bz2", "bzip2"),
    "lz4": Spelling("kLZ4Compression", "CompressionType.LZ4_COMPRESSION", "lz4", "lz4"),
    "lz4hc": Spelling("kLZ4HCCompression", "CompressionType.LZ4HC_COMPRESSION", "lz4hc", "lz4hc"),
    "zstd": Spelling("kZSTD", "CompressionType.ZSTD_COMPRESSION", "zstd", "zstd"),
}

CHOICES: dict[str, dict[str, Spelling]] = {
    "compression": _COMPRESSION,
    "compression_per_level": _COMPRESSION,
    "bottommost_compression": {
        "same": Spelling("kDisableCompressionOption", "CompressionType.DISABLE_COMPRESSION_OPTION"),
        **_COMPRESSION,
    },
    "compaction_style": {
        "level": Spelling("kCompactionStyleLevel", "CompactionStyle.LEVEL", "level"),
        "universal": Spelling(
            "kCompactionStyleUniversal", "CompactionStyle.UNIVERSAL", "universal"
        ),
        "fifo": Spelling("kCompactionStyleFIFO", "CompactionStyle.FIFO", "fifo"),
    },
    "compaction_pri": {
        "by_compensated_size": Spelling(
            "kByCompensatedSize", "CompactionPriority.ByCompensatedSize"
        ),
        "oldest_largest_seq_first": Spelling(
            "kOldestLargestSeqFirst", "CompactionPriority.OldestLargestSeqFirst"
        ),
        "oldest_smallest_seq_first": Spelling(
            "kOldestSmallestSeqFirst", "CompactionPriority.OldestSmallestSeqFirst"
        ),
        "min_overlapping_ratio": Spelling(
            "kMinOverlappingRatio", "CompactionPriority.MinOverlappingRatio"
        ),
        "round_robin": Spelling("kRoundRobin", "CompactionPriority.RoundRobin"),
    },
    "index_type": {
        "binary_search": Spelling("kBinarySearch", "IndexType.kBinarySearch", "binary_search"),
        "hash_search": Spelling("kHashSearch", "IndexType.kHashSearch", "hash_search"),
        "two_level_search": Spelling(
            "kTwoLevelIndexSearch", "IndexType.kTwoLevelIndexSearch", "two_level_index_search"
        ),
    },
    "data_block_index_type": {
        "binary_search": Spelling(
            "kDataBlockBinarySearch", "DataBlockIndexType.kDataBlockBinarySearch", "binary_search"
        ),
        "binary_and_hash": Spelling(
            "kDataBlockBinaryAndHash",
            "DataBlockIndexType.kDataBlockBinaryAndHash",
            "binary_and_hash",
        ),
    },
    "checksum": {
        "none": Spelling("kNoChecksum", "ChecksumType.kNoChecksum", "no_checksum"),
        "crc32c": Spelling("kCRC32c", "ChecksumType.kCRC32c", "crc32c"),
        "xxhash": Spelling("kxxHash", "ChecksumType.kxxHash", "xxhash"),
        "xxhash64": Spelling("kxxHash64", "ChecksumType.kxxHash64", "xxhash64"),
        "xxh3": Spelling("kXXH3", "ChecksumType.kXXH3", "xxh3"),
    },
    "info_log_level": {
        level.lower(): Spelling(f"{level}_LEVEL", f"InfoLogLevel.{level}_LEVEL")
        for level in ("DEBUG", "INFO", "WARN", "ERROR", "FATAL", "HEADER")
    },
}
"""For each option with named values: our word for each, and everybody else's."""


def word_of(option: str, in_options: str) -> str | None:
    """Return our word for a value as an OPTIONS file writes it; None if there is none.

    Examples
    --------
    >>> word_of("compaction_style", "kCompactionStyleUniversal")
    'universal'
    """
    spellings = CHOICES[option].items()
    return next((word for word, each in spellings if each.in_options == in_options), None)
