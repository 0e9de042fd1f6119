"""What the writer said: LOG files read into flushes, compactions, stalls and statistics."""
