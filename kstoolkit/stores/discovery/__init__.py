"""Which stores lie under a folder, whose they are, and what their places say of them."""
