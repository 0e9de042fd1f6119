"""Two stores side by side: which rows only one of them has, and which differ."""
