"""Losses for one observation, with what the engine needs of them: gradients and their sums."""
