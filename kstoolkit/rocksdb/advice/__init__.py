"""Rules that turn measured symptoms into options to change, with effect, cost and source."""
