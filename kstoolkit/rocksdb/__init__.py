"""The store as RocksDB sees it: opened without touching it, measured, explained. No Spark."""
