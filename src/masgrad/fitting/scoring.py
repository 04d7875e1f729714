"""Fisher scoring: steps by the expected curvature, where the observed one may be negative."""

from dataclasses import replace

from masgrad.fitting.problem import Problem
from masgrad.models.glm import GLM


def scoring(problem: Problem) -> Problem:
    """The problem with expected curvatures; itself, where its own are never negative."""
    if not isinstance(problem.model, GLM) or problem.model.family.convex:
        return problem
    return replace(problem, model=problem.model.scoring())
