"""Covariances of rows that depend on each other within clusters."""
