"""Sums over the rows of each cluster: records of them, and how rows are added to them."""
