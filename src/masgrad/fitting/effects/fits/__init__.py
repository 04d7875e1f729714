"""Fits with effects: from the formula's bar to a result."""
