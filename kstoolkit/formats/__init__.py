"""Bytes and their meaning: each module is one format, and takes and gives bytes, never files."""
