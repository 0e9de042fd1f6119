"""The changelog: latest counts as a folder of Parquet files, written, read and folded. No Spark."""
