"""The command line. Heavy imports wait inside commands, so that `masgrad --help` is quick."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from masgrad.errors import MasgradError, printable
from masgrad.fitting.options import KEYWORDS
from masgrad.interrupts import heard, postponed
from masgrad.stores.path import as_storage_options, located
from masgrad.stores.secrets import options_in_words
from masgrad.version import __version__

app = typer.Typer(
    help="Statistical inference by moment-adjusted stochastic gradients.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
EXPERIMENTS = ("linear", "logistic", "mixture", "network", "proximal", "all")
INTERRUPTED = 130
"""Exit code after Ctrl-C, by the convention of shells."""
STUDIES = ("rotation", "rates", "laws")


def _probability(ctx: typer.Context, value: float | None) -> float | None:
    """Check a confidence level before any work is done."""
    del ctx
    if value is not None and not 0 < value < 1:
        raise typer.BadParameter(f"{value}; a probability between 0 and 1 is needed, such as 0.95")
    return value


@contextmanager
def _of_options() -> Iterator[None]:
    """Inside, a rejected value is that of an option: exit code 2."""
    try:
        yield
    except MasgradError as error:
        raise typer.BadParameter(str(error)) from None


def _default(keyword: str) -> Any:
    """The default of a keyword of `fit`."""
    return KEYWORDS[keyword].default


def _meaning(keyword: str, *names: str, **settings: Any) -> Any:
    """An option that is a keyword of `fit`, with its meaning as help."""
    words = KEYWORDS[keyword].metadata["meaning"].replace("`", "")
    return typer.Option(*names, help=words[0].upper() + words[1:], **settings)


def _files(otherwise: str = "") -> Any:
    """The argument for files."""
    return typer.Argument(help=f"Parquet, Arrow or CSV files, globs or a directory{otherwise}.")


Level = Annotated[
    float, typer.Option(callback=_probability, help="Confidence level of the intervals.")
]
Saved = Annotated[
    Path, typer.Argument(metavar="RESULT", help="A result saved by `masgrad fit --save`.")
]
Connection = Annotated[
    list[str] | None,
    typer.Option(
        "--storage-option",
        metavar="NAME=VALUE",
        help="Option of the connection to a store, for files such as s3://bucket/a.parquet: "
        "anon=true; several by repeating it. Keys are better given by the environment.",
    ),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", help="No progress bar and no notes; warnings stay.")
]


def _version(show: bool) -> None:
    if show:
        typer.echo(f"masgrad {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Statistical inference by moment-adjusted stochastic gradients."""


@app.command(
    epilog="Examples: masgrad paper logistic --out figures --seed 1; "
    "masgrad paper all --quick; masgrad paper linear --seeds 20"
)
def paper(
    *,
    experiment: Annotated[
        str,
        typer.Argument(
            help=f"An experiment of the paper, or all: {', '.join(EXPERIMENTS)}. Studies of single "
            f"results: {', '.join(STUDIES)}."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Directory for NAME.png and NAME.json.")] = Path(
        "paper"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="Fewer chains and starts.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the data and the chains.")] = 0,
    seeds: Annotated[
        int, typer.Option(min=0, help="Number of further seeds to run, to report the spread.")
    ] = 0,
) -> None:
    """Rerun an experiment of the paper: a figure, every number, and each claim with a verdict."""
    if experiment not in EXPERIMENTS + STUDIES:
        known = ", ".join(EXPERIMENTS + STUDIES)
        raise typer.BadParameter(f"{experiment!r} is not an experiment; there are {known}")
    if seeds and experiment in STUDIES:
        raise typer.BadParameter(f"--seeds is for {', '.join(EXPERIMENTS)}")
    _cache_compilations()
    with postponed():
        from masgrad.paper.report import commands as report
        from masgrad.paper.studies import commands as studies

    if experiment == "all":
        report.report_all(out, quick, seed, seeds)
    elif experiment in STUDIES:
        getattr(studies, f"{experiment}_study")(out, quick, seed)
    else:
        report.report(experiment, out, quick, seed, seeds)


@app.command(
    epilog="Examples: masgrad fit 'part-*.parquet' --formula 'y ~ a + b' --family binomial "
    "--save r.json; masgrad fit (a bundled example)"
)
def fit(
    *,
    data: Annotated[list[str] | None, _files("; a bundled example if none")] = None,
    formula: Annotated[str | None, typer.Option(help="Such as 'y ~ a + C(g) + log(b)'.")] = None,
    family: Annotated[
        str | None,
        typer.Option(
            help="gaussian (the default), binomial, poisson, gamma, inverse_gaussian, "
            "'tweedie(1.5)', 'negative_binomial(1.0)'."
        ),
    ] = None,
    link: Annotated[
        str | None, typer.Option(help="Such as probit, cloglog, log; by default the family's.")
    ] = None,
    weights: Annotated[str | None, typer.Option(help="Column of frequencies.")] = None,
    offset: Annotated[
        str | None, typer.Option(help="Column added to the linear predictor.")
    ] = None,
    exposure: Annotated[
        str | None, typer.Option(help="Column whose logarithm is added to the linear predictor.")
    ] = None,
    level: Level = 0.95,
    passes: Annotated[str, _meaning("passes")] = _default("passes"),
    l1: Annotated[
        str | None,
        typer.Option(
            help="Penalty lam |theta|_1: a number, or cv, bic, aic to choose it. Estimates and "
            "intervals are unpenalised; the penalised estimates are listed below them."
        ),
    ] = None,
    l2: Annotated[
        float | None, typer.Option(help="Penalty lam |theta|^2 / 2; with --l1 an elastic net.")
    ] = None,
    cov_type: Annotated[str, _meaning("cov_type")] = _default("cov_type"),
    clusters: Annotated[
        list[str] | None,
        typer.Option(
            help="Column whose rows may depend on each other, such as firm; several by repeating "
            "the option, combinations as 'firm^year'."
        ),
    ] = None,
    small_sample: Annotated[str, _meaning("small_sample")] = _default("small_sample"),
    time: Annotated[str | None, _meaning("time")] = None,
    unit: Annotated[str | None, _meaning("unit")] = None,
    lags: Annotated[int | None, _meaning("lags", min=0)] = None,
    time_gaps: Annotated[str, _meaning("time_gaps")] = _default("time_gaps"),
    weights_type: Annotated[str, _meaning("weights_type")] = _default("weights_type"),
    missing: Annotated[str, _meaning("missing")] = _default("missing"),
    on_bad_rows: Annotated[str, _meaning("on_bad_rows")] = _default("on_bad_rows"),
    method: Annotated[str, _meaning("method")] = _default("method"),
    memory: Annotated[str, _meaning("memory")] = _default("memory"),
    engine: Annotated[str | None, _meaning("engine")] = None,
    scheduler: Annotated[str | None, _meaning("scheduler")] = None,
    checkpoint: Annotated[Path | None, _meaning("checkpoint")] = None,
    every: Annotated[float, _meaning("every", min=0)] = _default("every"),
    resume: Annotated[bool, _meaning("resume", "--resume")] = False,
    seed: Annotated[int, _meaning("seed", min=0)] = _default("seed"),
    save: Annotated[Path | None, typer.Option(help="Write the result to this JSON file.")] = None,
    at: Annotated[
        Path | None,
        typer.Option(
            metavar="RESULT",
            help="Take the sums of the rows at this saved result, to be merged, and fit nothing.",
        ),
    ] = None,
    connection: Connection = None,
    quiet: Quiet = False,
) -> None:
    """Estimates with confidence intervals, in one or two reads of the data.

    Ctrl-C prints the result for the rows read so far and exits with 130. It is saved too, but takes
    no other file's place: with --save r.json beside an older r.json as r.interrupted.json. With
    --checkpoint the fit is saved on its way, and the same command with --resume goes on from there.
    """
    if data and formula is None:
        raise typer.BadParameter("files need --formula, such as 'y ~ a + b'")
    with postponed():
        from masgrad.fitting.commands import fit_files, fit_keywords

    reads = int(passes) if re.fullmatch("-?[0-9]{1,9}", passes) else passes
    named = {"weights": weights, "offset": offset, "exposure": exposure}
    named |= {"clusters": clusters or None, "time": time, "unit": unit, "lags": lags}
    named |= {"engine": engine, "scheduler": scheduler, "checkpoint": checkpoint}
    given: dict[str, Any] = {k: v for k, v in named.items() if v is not None}
    given |= {"passes": reads, "cov_type": cov_type, "method": method, "memory": memory}
    given |= {"small_sample": small_sample, "time_gaps": time_gaps, "weights_type": weights_type}
    given |= {"missing": missing, "on_bad_rows": on_bad_rows, "every": every, "resume": resume}
    with _of_options():
        given |= {"storage_options": options_in_words(connection)}
        usual = "gaussian" if data else "poisson"  # the bundled example counts
        keywords = fit_keywords(family or usual, link, l1, l2, seed=seed, **given)
    done = fit_files(data or [], formula, save=save, level=level, quiet=quiet, at=at, **keywords)
    if not done:
        raise typer.Exit(INTERRUPTED)


@app.command(
    epilog="Examples: masgrad show r.json; masgrad show r.json --level 0.9 --html r.html "
    "--plot r.png"
)
def show(
    *,
    result: Saved,
    level: Level = 0.95,
    html: Annotated[Path | None, typer.Option(help="Also write an HTML page to this file.")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Also draw the coefficients: .png, .pdf or .svg.")
    ] = None,
) -> None:
    """Print a saved result."""
    with postponed():
        from masgrad.fitting.commands import check_picture, show_result

    with _of_options():
        check_picture(plot)
    show_result(result, level, html, plot)


@app.command(
    epilog="Examples: masgrad merge north.json south.json west.json --out all.json; "
    "masgrad fit west.parquet --formula 'y ~ a + C(g)' --at all.json --save west-2.json"
)
def merge(
    *,
    results: Annotated[
        list[Path],
        typer.Argument(metavar="RESULT...", help="Results of different rows, by fit --save."),
    ],
    out: Annotated[Path | None, typer.Option(help="Write the result to this JSON file.")] = None,
    level: Level = 0.95,
    repeated: Annotated[
        str, typer.Option(help="error, or keep: shards of the same sums are of different rows.")
    ] = "error",
) -> None:
    """One estimate for the rows of several saved results, from their aggregates alone.

    Where the remainder says that it matters, take the sums of every shard at the merged result
    (masgrad fit --at), and merge those.
    """
    with postponed():
        from masgrad.fitting.commands import merge_files

    merge_files(results, out, level, repeated)


@app.command(
    epilog="Examples: masgrad predict r.json 'new-*.parquet' --out means.parquet; "
    "masgrad predict r.json new.csv --interval 0.95 | head"
)
def predict(
    *,
    result: Saved,
    data: Annotated[list[str], _files()],
    out: Annotated[
        Path | None,
        typer.Option(help="A .csv or .parquet file; by default CSV on standard output."),
    ] = None,
    interval: Annotated[
        float | None,
        typer.Option(
            callback=_probability,
            help="Also write se, lower, upper: confidence intervals of this level.",
        ),
    ] = None,
    which: Annotated[str, typer.Option(help="mean, or linear: the linear predictor.")] = "mean",
    connection: Connection = None,
    quiet: Quiet = False,
) -> None:
    """The mean response for every row, in the order of the rows.

    Files are read in the order given, those of a glob or a directory sorted.
    """
    with postponed():
        from masgrad.fitting.commands import check_predictions, predict_files

    with _of_options():
        check_predictions(out, which)
        options = options_in_words(connection)
    asked: dict[str, Any] = {"interval": interval, "which": which, "storage_options": options}
    predict_files(result, data, out, quiet=quiet, **asked)


@app.command(
    epilog="Examples: masgrad plan survey.csv --response y --model logistic --epsilon 0.01; "
    "masgrad plan --alpha 0.5 --gamma 2 --gap 1 --dim 4 --v-max 1.5 --epsilon 0.1"
)
def plan(
    *,
    data: Annotated[list[str] | None, _files("; without any, give the constants")] = None,
    response: Annotated[str | None, typer.Option(help="The column y of the files.")] = None,
    model: Annotated[str, typer.Option(help="linear, logistic or poisson.")] = "linear",
    columns: Annotated[
        str | None, typer.Option(help="Columns of X, separated by commas; by default all others.")
    ] = None,
    intercept: Annotated[bool, typer.Option(help="Add a constant column.")] = True,
    radius: Annotated[
        float | None,
        typer.Option(help="Use a ball of this radius around the optimum as the region."),
    ] = None,
    ridge: Annotated[float, typer.Option(help="Ridge added to the gradient's covariance.")] = 0.0,
    epsilon: Annotated[float | None, typer.Option(help="Required accuracy.")] = None,
    delta: Annotated[
        float | None,
        typer.Option(help="Required closeness to the diffusion; adds a non-convex plan."),
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(
            help="Rows to draw at most, instead of --epsilon; by default those of the file."
        ),
    ] = None,
    half_width: Annotated[
        float | None,
        typer.Option(help="Also report the rows needed for intervals of this half-width."),
    ] = None,
    level: Annotated[float, typer.Option(help="Confidence level of those intervals.")] = 0.95,
    alpha: Annotated[float | None, typer.Option(help="Without a file: alpha.")] = None,
    gamma: Annotated[float | None, typer.Option(help="Without a file: gamma.")] = None,
    gap: Annotated[float | None, typer.Option(help="Without a file: L(start) - min L.")] = None,
    dim: Annotated[int | None, typer.Option(help="Without a file: number of parameters.")] = None,
    v_max: Annotated[float | None, typer.Option(help="Without a file: max ||V||.")] = None,
    connection: Connection = None,
) -> None:
    """The steps and rows that the theorems require: T, n, eta and beta as a table."""
    constants = {"alpha": alpha, "gamma": gamma, "gap": gap, "dim": dim, "v_max": v_max}
    if data and response is None:
        raise typer.BadParameter("a file needs --response, the name of its column y")
    if data and any(c is not None for c in constants.values()):
        raise typer.BadParameter("give a file, or --alpha, --gamma, ... without one")
    with postponed():
        from masgrad.planner import Constants, Design, Goals, plan_constants, plan_files

    goals = Goals(epsilon, delta, rows, half_width, level)
    if not data or response is None:
        plan_constants(Constants.given(constants), goals)
        return
    _cache_compilations()
    wanted = [c.strip() for c in columns.split(",")] if columns else None
    with _of_options():
        options = as_storage_options(options_in_words(connection))
    design = Design(located(data, options), response, wanted, intercept)
    plan_files(design, model, goals, radius=radius, ridge=ridge)


def _cache_compilations() -> None:
    """Keep compiled programs between invocations; ours are too short for JAX's defaults."""
    import jax

    root = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    jax.config.update("jax_compilation_cache_dir", str(root / "masgrad" / "xla"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def main() -> None:
    """Entry point: a rejected input is a message on stderr and exit code 1, not a traceback."""
    _open_streams()
    try:
        with heard():
            try:
                app()
            finally:
                sys.stdout.flush()
    except KeyboardInterrupt:  # before the command has begun
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # such as `masgrad predict ... | head`
        sys.exit(1)
    except (MasgradError, OSError) as error:
        with suppress(OSError):
            typer.echo(printable(f"masgrad: {error}", "\n"), err=True)
        sys.exit(1)
    finally:
        _discard_unwritten()


def _open_streams() -> None:
    """Let closed standard streams lead nowhere, and escape characters that an encoding lacks.

    Otherwise the next file that is opened would have the number of a closed stream, and what is
    printed would go into it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, this one
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # pyright: ignore


def _discard_unwritten() -> None:
    """Empty streams that cannot be written to: Python would try again at its end, and complain."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


if __name__ == "__main__":
    main()
