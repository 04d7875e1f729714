"""Rows with effects: which are kept, sums over them, and the same rows less their effects."""
