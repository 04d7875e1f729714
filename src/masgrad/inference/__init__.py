"""Distributions of estimates, and what each is about: the iterate, the ERM, or theta*."""
