"""One set of options for every engine: named, compared, read in and written out."""
