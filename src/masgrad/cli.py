"""The command line. Heavy imports wait inside commands, so that `masgrad --help` is quick."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from masgrad.version import __version__

app = typer.Typer(
    help="Statistical inference by moment-adjusted stochastic gradients.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
EXPERIMENTS = ("logistic", "rotation")


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


@app.command(epilog="Example: masgrad paper logistic --out figures --seed 1")
def paper(
    experiment: Annotated[str, typer.Argument(help="Which experiment: logistic, or rotation.")],
    out: Annotated[Path, typer.Option(help="Directory for NAME.png.")] = Path("paper"),
    quick: Annotated[bool, typer.Option("--quick", help="Fewer steps.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the data and the chains.")] = 0,
) -> None:
    """Rerun an experiment of the paper: a figure and a table."""
    if experiment not in EXPERIMENTS:
        raise typer.BadParameter(f"{experiment!r} is not there; use one of {list(EXPERIMENTS)}")
    _cache_compilations()
    from masgrad.paper import report

    {"logistic": report.report_logistic, "rotation": report.report_rotation}[experiment](
        out, quick, seed
    )


def _cache_compilations() -> None:
    """Keep compiled programs between invocations; ours are too short for JAX's defaults."""
    import jax

    root = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    jax.config.update("jax_compilation_cache_dir", str(root / "masgrad" / "xla"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def main() -> None:
    """Entry point: a rejected input is a message on stderr and exit code 1, not a traceback."""
    from masgrad.errors import MasgradError

    try:
        app()
    except (MasgradError, OSError) as error:
        typer.echo(f"masgrad: {error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
