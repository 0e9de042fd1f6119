"""What lies on disk: tables, MANIFEST, OPTIONS and keys, read without touching them."""
