"""State of Spark's streaming queries, read from the files of a checkpoint; Spark is not needed."""
