"""What Spark keeps of a stateful query: its rows, and the files of a checkpoint, from bytes."""
