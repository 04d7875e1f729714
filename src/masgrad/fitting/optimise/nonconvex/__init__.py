"""Minima of losses that need not be convex, on rows in memory."""
