"""Observations: tables of rows in memory, and simulators that make fresh ones."""
