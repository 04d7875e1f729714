"""Coverage of intervals for rows in clusters: CR1, CR2, CR3 and the wild bootstrap.

    python benchmarks/panels_coverage.py --page benchmarks/panels_coverage.md

Every replication is a fit through the front door. CR2, CR3 and the wild bootstrap are then taken
from the sums by cluster that its result keeps, by the functions that a second fit would call; in
the first replication of every part fits with `cov_type="CR2"` and `"CR3"`, and `wild_test`, confirm
them to rounding. Columns and errors have the same correlation within clusters; latent errors of the
logit are logistic, so that the marginal model is right. Sizes of clusters are unequal,
proportional to exp(2 g / G), 20 rows on average.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import logit, ndtr, stdtrit

import masgrad as mg
from masgrad.fitting.results.wild.draws import Draws
from masgrad.fitting.results.wild.statistics import Linear, share_beyond, signed_statistics
from masgrad.fitting.uncertainty.clusters.adjusted import adjusted_meat
from masgrad.fitting.uncertainty.clusters.degrees import BellMcCaffrey
from masgrad.fitting.uncertainty.clusters.leverages import Leverages
from panels_hac import table as hac_table

CORRELATION, ROWS_EACH, SLOPE, DRAWS = 0.3, 20, 0.5, 999
PARTS = 20
"""Parts of a design's replications, each with its own seed."""

KINDS = ("CR1", "CR2", "CR3", "wild")


@dataclass(frozen=True)
class Design:
    """What is simulated.

    Args:
        name: of the design.
        G: number of clusters; of the second grouping as well, where there are two.
        replications: number of them.
    """

    name: str
    G: int
    replications: int


def sizes(G: int) -> np.ndarray:
    """Numbers of rows of the clusters, (G,)."""
    share = np.exp(2 * np.arange(1, G + 1) / G)
    return np.maximum(2, (ROWS_EACH * G * share / share.sum()).astype(int))


def correlated(rng: np.random.Generator, *groups: np.ndarray) -> np.ndarray:
    """Normal numbers of variance 1 with `CORRELATION` in every grouping, (N,)."""
    own = np.sqrt(1 - len(groups) * CORRELATION) * rng.standard_normal(len(groups[0]))
    for g in groups:
        own += np.sqrt(CORRELATION) * rng.standard_normal(g.max() + 1)[g]
    return own


def one_way(design: Design, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, y and the clusters."""
    g = np.repeat(np.arange(design.G), sizes(design.G))
    x = correlated(rng, g)
    if design.name == "one treated cluster":
        x = 1.0 * (g == rng.integers(design.G))
    u = correlated(rng, g)
    X = np.column_stack([np.ones(len(g)), x])
    if design.name == "logit":
        return X, (SLOPE * x + logit(ndtr(u)) > 0) * 1.0, g
    return X, SLOPE * x + u, g


def covered(design: Design, X: np.ndarray, y: np.ndarray, g: np.ndarray, check: bool) -> list[bool]:
    """Whether the intervals of each kind cover the slope, and whether a note names it."""
    model = mg.Logistic() if design.name == "logit" else mg.Linear()
    r = mg.fit(model, (X, y), clusters=g, cov_type="CR1", passes="converge")
    assert r.clusters is not None
    leverages, e = Leverages.of(r.clusters), r.theta - [0.0, SLOPE]
    assert leverages is not None
    J = r.coordinates.matrix
    B = J @ leverages.root @ leverages.root.T
    errors = {k: np.sqrt(np.diag(B @ adjusted_meat(leverages, k) @ B.T)) for k in ("CR2", "CR3")}
    df = BellMcCaffrey(leverages).of(J[[1]])[0]
    linear = Linear.of(leverages, J[[1]])
    drawn = np.abs(signed_statistics(linear.under(e[1:]), Draws.of(design.G, DRAWS, None, 0)))
    p = share_beyond(drawn, np.sqrt(linear.wald(e[1:])))
    if check:
        confirm(model, (X, y), g, errors, p)
    t = {"CR1": r.bse[1], "CR2": errors["CR2"][1], "CR3": errors["CR3"][1]}
    limit = {"CR1": design.G - 1, "CR2": df, "CR3": design.G - 1}
    inside = [abs(e[1]) <= stdtrit(limit[k], 0.975) * t[k] for k in t]
    named = any("theta[1]" in note and "most of the information" in note for note in r.notes)
    return [*inside, p > 0.05, named]


def confirm(model: mg.GLM, rows: tuple, g: np.ndarray, errors: dict, p: float) -> None:
    """Compare with fits of the other kinds through the front door."""
    for kind, error in errors.items():
        other = mg.fit(model, rows, clusters=g, cov_type=kind, passes="converge")
        np.testing.assert_allclose(other.bse, error, rtol=1e-7)
        assert other.wild_test("theta[1]", SLOPE, draws=DRAWS).pvalue == p


def two_way(design: Design, rng: np.random.Generator, check: bool) -> list[bool]:
    """The same of CR1 by two groupings, G x G cells of a row."""
    f, t = (k.ravel() for k in np.indices((design.G, design.G)))
    X = np.column_stack([np.ones(len(f)), correlated(rng, f, t)])
    y = SLOPE * X[:, 1] + correlated(rng, f, t)
    r = mg.fit(mg.Linear(), (X, y), clusters=[f, t])
    ends = r.conf_int()[1]
    return [ends[0] <= SLOPE <= ends[1]]


def part_of(design: Design, part: int) -> np.ndarray:
    """How often the slope was covered, over some replications, by kind."""
    rng, total = np.random.default_rng([design.G, len(design.name), part]), np.zeros(0)
    for k in range(design.replications // PARTS):
        if design.name == "two-way":
            found = two_way(design, rng, k == 0)
        else:
            found = covered(design, *one_way(design, rng), check=k == 0)
        total = np.array(found, float) + (total if total.size else 0.0)
    return total


DESIGNS = (
    *(Design("linear", G, 10_000) for G in (20, 50, 200)),
    *(Design("logit", G, 4_000) for G in (20, 50, 200)),
    Design("one treated cluster", 20, 4_000),
    *(Design("two-way", G, 4_000) for G in (20, 50)),
)


def shares(scale: float) -> Iterator[tuple[Design, np.ndarray]]:
    """Each design with its shares, by two processes."""
    with ProcessPoolExecutor(2) as pool:
        for design in DESIGNS:
            size = max(PARTS, int(design.replications * scale) // PARTS * PARTS)
            design = Design(design.name, design.G, size)
            parts = pool.map(part_of, [design] * PARTS, range(PARTS))
            yield design, sum(parts, np.zeros(())) / size


def line(design: Design, found: np.ndarray) -> str:
    """A row of the table."""
    cells = [f"{100 * share:.1f} %" for share in found[: len(KINDS)]]
    cells += ["-"] * (len(KINDS) - len(cells))
    note = f"{100 * found[-1]:.0f} %" if len(found) > len(KINDS) else "-"
    error = 100 * np.sqrt(0.05 * 0.95 / design.replications)
    runs = f"{design.replications:,}"
    return f"| {' | '.join([design.name, str(design.G), runs, *cells, note, f'{error:.2f}'])} |"


COLUMNS = ("design", "G", "replications", "CR1, t(G - 1)", "CR2, Bell-McCaffrey", "CR3, t(G - 1)")
COLUMNS += ("wild", "named", "Monte-Carlo error")
HEAD = f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}"


def rows_of_page(scale: float, say: Callable[[str], None]) -> list[str]:
    """The table, printed as it grows."""
    lines = HEAD.split("\n")
    say(HEAD)
    for design, found in shares(scale):
        lines.append(line(design, found))
        say(lines[-1])
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the replications")
    parser.add_argument("--page", type=Path, help="file to write, with what of it is above a rule")
    arguments = parser.parse_args()
    start = time.perf_counter()
    lines = rows_of_page(arguments.scale, lambda text: print(text, flush=True))
    lines += ["", "Rows in time order (`panels_hac.py`):", ""]
    lines += hac_table(max(100, int(4000 * arguments.scale)), 5)
    minutes = (time.perf_counter() - start) / 60
    print(*lines[-8:], f"{minutes:.1f} minutes", sep="\n")
    if arguments.page:
        above = arguments.page.read_text().partition("\n---\n")[0]
        text = "\n".join([above, "---", "", f"One run, {minutes:.0f} minutes:", "", *lines, ""])
        arguments.page.write_text(text)


if __name__ == "__main__":
    main()
