"""The counters at work on Spark: feeds, operator, sink, run, and what reads a changelog back."""
