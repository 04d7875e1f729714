"""Estimates with confidence intervals. The sub-packages follow the flow of a fit:

objective -> identification -> optimise -> uncertainty -> penalised -> results
"""
