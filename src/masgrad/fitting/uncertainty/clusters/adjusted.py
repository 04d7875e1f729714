"""CR2 and CR3: scores of clusters, made larger by what each cluster has drawn to itself.

    CR2   s_g -> C (I - E_g)^-1/2 L's_g               (Bell & McCaffrey 2002)
    CR3   s_g -> C (I - E_g)^-1   L's_g               times (G - 1) / G

with E_g = L'H_gL, H = C C' and H^-1 = L L' (`leverages.py`). For least squares the first is
X_g'(I - P_gg)^-1/2 u_g with P_gg the cluster's block of the hat matrix: unbiased for independent
errors of equal variance, or of variances 1 / weight. The second is the jackknife:
H^-1 C (I - E_g)^-1 L's_g is by how much the estimate moves without the cluster, up to its sign,
exactly for least squares and by one Newton step for other losses; squares are about the estimate of
all rows, not about the mean, as in `CV3` of MacKinnon, Nielsen & Webb (2023). Single rows as
clusters give HC2, and HC3 times (G - 1) / G. Neither has another small-sample factor, whatever
`small_sample` is.

Beside fixed effects that are nested in clusters, H_g is of rows less their effects. Leaving a
cluster out leaves its effects out, so that CR3 is the same as with dummies, and so is CR2: P_gg
has, besides, the projection on the cluster's own dummies, of eigenvalue 1 and orthogonal to
residuals and rows.
"""

import numpy as np

from masgrad.fitting.uncertainty.clusters.leverages import Leverages

POWERS = {"CR2": -0.5, "CR3": -1.0}


def adjusted_scores(of: Leverages, kind: str) -> np.ndarray:
    """The scores of CR2 or CR3, (G, p)."""
    scores, power = of.scores, POWERS[kind]
    for part in of.each():
        along = np.einsum("grs,gr->gs", part.vectors, scores[part.chosen])
        along *= part.left(power)
        scores[part.chosen] = np.einsum("grs,gs->gr", part.vectors, along)
    return scores @ of.factor.T


def adjusted_meat(of: Leverages, kind: str) -> np.ndarray:
    """The meat of CR2 or CR3, (p, p)."""
    scores, G = adjusted_scores(of, kind), of.sums.count
    factor = (G - 1) / G if kind == "CR3" else 1.0
    return factor * (scores.T @ scores)


def lost_without(of: Leverages, A: np.ndarray) -> np.ndarray:
    """Which combinations A phi (k, p) are lost if some cluster is left out, (k,)."""
    C = A @ of.root
    size = np.linalg.norm(C, axis=1)
    found = np.zeros(len(A), bool)
    for part in of.each():
        for lost, V in zip(part.lost, part.vectors, strict=True):
            if lost.any():
                found |= np.linalg.norm(C @ V[:, lost], axis=1) > 1e-6 * size
    return found
