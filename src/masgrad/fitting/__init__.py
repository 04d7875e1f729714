"""Estimates with confidence intervals, in one or two reads of the data."""
