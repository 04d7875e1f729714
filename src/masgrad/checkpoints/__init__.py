"""Checkpoints: files from which a run or a fit that was killed goes on, bit for bit."""

SECONDS = 60.0
"""Seconds between saves unless told."""
