"""A single read of rows that cannot be read again."""
