"""Penalised optima: on rows in memory, and over reads."""
