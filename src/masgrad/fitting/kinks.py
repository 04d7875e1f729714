"""Losses with kinks."""

from masgrad.fitting.problem import Problem
from masgrad.fitting.quadratic import Quadratic


def smooth_or_kernel(problem, local, rows):
    return local, []
