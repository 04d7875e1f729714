"""Stationary points of the mean loss: found from many starts, told apart, and compared."""
