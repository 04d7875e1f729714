"""How a fit went: what the header of a summary says beside the estimate."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Reads:
    """How the estimate was reached.

    Args:
        reads: times that the rows were read.
        rows_per_second: rows read in all, for each second of the fit.
        correction: size of the last correction, in standard errors of the worst contrast.
        remainder: predicted distance from the optimum of these rows, in standard errors, root mean
            square over contrasts; about two standard deviations of the prediction.
        condition: condition number of H with its diagonal scaled to 1.
        drift: standard deviations by which gradients drift more than rows in random order would.
        path: stages of the fit, each with its distance from the estimate in standard errors.
    """

    reads: int
    rows_per_second: float
    correction: float
    remainder: float
    condition: float
    drift: float = 0.0
    path: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        path = tuple((str(label), float(distance)) for label, distance in self.path)
        object.__setattr__(self, "path", path)  # a list, where it was read from a file
