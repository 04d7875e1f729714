"""`resume`: `run(..., start_from=trace)` by another name, for a trace at hand."""

from typing import Any, Literal

from masgrad.chains.run import run
from masgrad.chains.trace import Summary, Trace
from masgrad.covariance.least_squares import LeastSquaresMoments
from masgrad.data.simulate import Simulator
from masgrad.kernels.kernel import Kernel
from masgrad.models.model import Model
from masgrad.types import Rows


def resume(
    trace: Trace | Summary,
    kernel: Kernel,
    model: Model,
    data: Rows | Simulator | LeastSquaresMoments,
    steps: int = 100,
    *,
    engine: Literal["local", "dask"] | None = None,
    client: Any = None,
    scheduler: str | None = None,
    progress: bool | None = None,
) -> Trace | Summary:
    """Continue a run by `steps` steps: 100 steps and 100 more are 200, to the last digit.

    Batches, schedule and memory (AdaGrad's history, a running covariance) go on where they were;
    batch size, chains, seed, thinning and what is kept are those of the run. It serves a run that
    was interrupted, too.

    Args:
        trace: what `mg.run` or `mg.resume` returned; it may have been pickled meanwhile.
        kernel: that of the run, or another with the same memory, such as one with a smaller step.
        model: the loss.
        data: the rows, or others of the same kind.
        steps: number of further updates.
        engine: with `client` and `scheduler`: where to run, as for `mg.run`; it may change.
        client: a `distributed.Client`.
        scheduler: the address of a Dask scheduler.
        progress: a bar after two seconds; None shows it on a terminal.

    Returns:
        The whole run, from theta0 on: `mg.run(..., start_from=trace)`.

    Example:
        >>> import numpy as np, masgrad as mg
        >>> z, model = np.random.default_rng(0).normal(size=50), mg.GaussianMixture(1, 1.0)
        >>> trace = mg.run(mg.adagrad(0.1), model, z, [2.0], steps=10, chains=5)
        >>> mg.resume(trace, mg.adagrad(0.1), model, z, steps=20)
        Trace of 5 chains, 31 records to step 30
    """
    where: dict[str, Any] = {"engine": engine, "client": client, "scheduler": scheduler}
    return run(kernel, model, data, steps=steps, start_from=trace, **where, progress=progress)
