"""Observations: rows in memory, tables of any size seen through formulas, and simulators.

Imports go one way: arrays, regression, source -> tables -> formula -> table_rows -> table_source.
"""
