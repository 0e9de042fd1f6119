"""Self-contained HTML reports: a run's, or of anything that people look at."""
