"""Where memory goes: the formula, term by term, and what was measured beside it."""
