"""Counts in RocksDB: restored from a changelog, followed, asked by user and window. No Spark."""
