"""What happened: where events come from, what makes a record bad, and simulated ones."""
