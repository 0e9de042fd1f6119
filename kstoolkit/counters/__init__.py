"""How many: counts as columns, collapsed, folded and handed from level to level. No Spark here."""
