"""Parts of a result in a file."""
