"""A store row by row, as its application put it in: read, decoded, filtered, written out."""
