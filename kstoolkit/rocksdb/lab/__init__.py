"""The compaction lab: the same rows under several profiles, and what each of them costs."""
