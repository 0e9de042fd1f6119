"""The counters at work on Spark: feeds, operator, sink, and the run that they make."""
