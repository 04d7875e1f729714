"""Rows that a user gives, checked: of regressions, and of any other loss."""
