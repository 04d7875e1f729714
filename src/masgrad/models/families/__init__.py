"""Families of responses with their links: losses of one row as functions of its predictor."""
