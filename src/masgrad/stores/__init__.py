"""Files at object stores and other places that fsspec knows: named, listed, opened and read."""
