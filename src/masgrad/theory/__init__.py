"""Numbers from the theorems, and the distances they are about."""

from masgrad.theory.distances import Closeness, closeness, kolmogorov_smirnov, wasserstein2

__all__ = ["Closeness", "closeness", "kolmogorov_smirnov", "wasserstein2"]
