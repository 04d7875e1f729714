"""CSV files, and their rows that cannot be read."""
