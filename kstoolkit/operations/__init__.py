"""What running takes: memory of Spark's processes, beside the formula."""
