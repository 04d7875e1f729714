"""Formulas: parsed, then learned from a table, then applied to its columns to make X."""
