"""The objective function over rows: coordinates, sums over blocks, reads of the data."""
