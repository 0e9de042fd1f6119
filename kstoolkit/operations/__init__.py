"""How running stands, and what it takes: lag, resets, metrics, memory, look-ups."""
