"""Checkpoints of fits: a journal of what their reads have given."""
