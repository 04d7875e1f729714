"""Checkpoints: files from which a run or a fit that was killed goes on, bit for bit."""
