"""Errors of rows that depend on their neighbours in time: Newey-West and Driscoll-Kraay."""
