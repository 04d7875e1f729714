"""Fits whose rows are read by the workers of a cluster."""
