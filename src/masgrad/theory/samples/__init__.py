"""Distances between samples, and how they fall with n."""
