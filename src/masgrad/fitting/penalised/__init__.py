"""Fits with a penalty: the penalised optimum, paths of them, and intervals without the penalty."""
