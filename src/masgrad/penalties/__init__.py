"""Penalties: their values, their proximal maps, and those in the V metric."""
