"""`fit`, `glm` and `penalty_path`: estimates with intervals, without a step size to choose; and
`load`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from masgrad.checks import check_count
from masgrad.errors import InputError, InputTypeError
from masgrad.fitting.fit import fit_source
from masgrad.fitting.fitted import Fitted, with_omitted
from masgrad.fitting.journal.journal import Journal
from masgrad.fitting.journal.opening import journal_of, kept
from masgrad.fitting.keywords import check_keywords, options_of, takes_keywords
from masgrad.fitting.merging.at import source_at, sums_at
from masgrad.fitting.options import KEYWORDS, Options
from masgrad.fitting.penalised.fit import fit_penalised, penalty_path_of
from masgrad.fitting.penalised.path import POINTS, PenaltyPath
from masgrad.fitting.results import storage
from masgrad.fitting.results.result import Result
from masgrad.fitting.sources import as_source
from masgrad.fitting.spread.engine import engine_for, engine_of, read_by_workers
from masgrad.fitting.task import Task, refuse_effects
from masgrad.models.glm import GLM
from masgrad.models.model import Model, check_model
from masgrad.penalties.penalty import Penalty
from masgrad.stores.path import located
from masgrad.types import float64

if TYPE_CHECKING:
    from masgrad.fitting.levels.result import LevelsResult

POSITIONAL = ("passes", "penalty", "weights")
OTHERS = tuple(name for name in KEYWORDS if name not in POSITIONAL)
PATH_KEYWORDS = (
    *("offset", "exposure", "formula", "memory", "block_size", "threads", "engine", "client"),
    *("scheduler", "seed", "progress", "storage_options", "checkpoint", "every", "resume"),
)


@takes_keywords(*OTHERS, documented=POSITIONAL)
@float64
def fit(
    model: Model,
    data: Any,
    passes: int | str = "auto",
    penalty: Penalty | None = None,
    weights: Any = None,
    **keywords: Any,
) -> "Result | LevelsResult":
    """Minimise the mean loss over the data, with confidence intervals for theta*.

    Args:
        model: the loss: `Linear()`, `Logistic()`, `Poisson()`, `CustomLoss(fn, dim)`, ...
        data: (X, y) as arrays, memory maps or a data frame and a column; for other losses an array
            or a pytree; an iterator of such blocks, which is read once; a `Stream`; with a formula
            a data frame, or Parquet, Arrow and CSV files (a path, a glob, or a list; of this
            machine or a store, "s3://bucket/part-*.parquet"). A `CustomLoss` takes tables and files
            without a formula: a row is a dictionary of columns.
        keywords:

    Example:
        >>> import numpy as np, masgrad as mg
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(2000, 2))
        >>> r = mg.fit(mg.Poisson(), (X, rng.poisson(np.exp(X @ [0.2, 0.4]))))
        >>> r.params.round(1), r.conf_int().round(2)
        (array([0.2, 0.4]), array([[0.16, 0.25],
               [0.38, 0.46]]))
    """
    check_model(model)
    given = {"passes": passes, "penalty": penalty, "weights": weights}
    options = options_of("fit", given | keywords)
    journal = journal_of("fit", model, data, options, engine=engine_for(options, data))
    with engine_of(options, data) as (here, client), kept(journal):
        return _fit(_task(model, data, here, client, journal))


def _fit(task: Task) -> "Result | LevelsResult":
    if task.options.at is not None:
        return Result.of(with_omitted(sums_at(task), task.left_out))
    if task.terms is not None and task.terms.effects:
        from masgrad.fitting.effects.fits.fit import fit_effects  # for some fits alone
        from masgrad.fitting.effects.results.result import EffectsResult

        return EffectsResult.of(with_omitted(fit_effects(task), task.left_out))
    if task.terms is not None and task.terms.large:
        from masgrad.fitting.levels.fit import fit_levels  # for a few fits alone
        from masgrad.fitting.levels.result import LevelsResult

        return LevelsResult.of(with_omitted(fit_levels(task), task.left_out))
    fitted = fit_source(task) if task.options.penalty is None else fit_penalised(task)
    return Result.of(with_omitted(fitted, task.left_out))


@takes_keywords(*PATH_KEYWORDS)
@float64
def penalty_path(
    model: Model,
    data: Any,
    penalty: Penalty,
    weights: Any = None,
    *,
    count: int = POINTS,
    **keywords: Any,
) -> PenaltyPath:
    """Penalised estimates from the largest lam, at which all are 0, down to the penalty's own.

    Args:
        model: the loss.
        data: as in `fit`, except iterators.
        penalty: with a number, where the path ends; with "cv", "bic" or "aic" it ends once the
            criterion has risen for a while, and `lam` is the one chosen.
        weights: as in `fit`.
        count: number of points, a constant factor apart.
        keywords:

    Example:
        >>> import numpy as np, masgrad as mg
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(500, 5))
        >>> y = X @ [2.0, 1.0, 0.0, 0.0, 0.0] + rng.normal(size=500)
        >>> path = mg.penalty_path(mg.Linear(), (X, y), mg.L1(0.2), count=4)
        >>> path.lams.round(2), path.df
        (array([2.03, 0.94, 0.43, 0.2 ]), array([0, 2, 2, 2]))
    """
    if penalty is None:
        raise InputTypeError("penalty=None; a penalty is needed, such as mg.L1('cv')")
    check_model(model)
    known = ("penalty", "weights", "count", *PATH_KEYWORDS)
    options = options_of("penalty_path", {"penalty": penalty, "weights": weights} | keywords, known)
    count = check_count("count", count, 2)
    call = {"count": count, "engine": engine_for(options, data)}
    journal = journal_of("penalty_path", model, data, options, **call)
    with engine_of(options, data) as (here, client), kept(journal):
        return _path(_task(model, data, here, client, journal), count)


def _path(task: Task, count: int) -> PenaltyPath:
    refuse_effects(task.terms, "a path of penalised fits")
    if task.terms is not None and task.terms.large:
        large = task.terms.large[0]
        raise InputError(
            f"{large.name} has {len(large.levels):,} levels, too many for a fit with a penalty; "
            "group them"
        )
    return penalty_path_of(task, count)


def _task(model: Any, data: Any, options: Options, client: Any, journal: Journal) -> Task:
    """What a call asks for, checked; with a client its workers read the rows."""
    family = model.family if isinstance(model, GLM) else None
    if options.exposure is not None and family is not None and family.link != "log":
        raise InputError(
            f"exposure is for the log link, and this is the {family.link} link; give offset="
        )
    formula, memory, block = options.formula, options.memory, options.block_size
    left_out, data = options.left_out, located(data, options.storage_options)
    carried = {**options.roles, "groups": options.groups, "left_out": left_out}
    carried |= {"client": client, "remember": journal.remember}
    if options.at is not None:
        source, terms = source_at(model, data, options, client, journal.remember)
    else:
        source, terms = as_source(model, data, formula, memory, block, **carried)
    journal.follow(source, left_out)
    if client is not None:
        source = read_by_workers(source, left_out, data, journal)
    return Task(model, source, terms, options, left_out=left_out, journal=journal)


@takes_keywords(*(name for name in KEYWORDS if name != "formula"))
@float64
def glm(
    formula: str, data: Any, family: Any = "gaussian", link: str | None = None, **keywords: Any
) -> "Result | LevelsResult":
    """A generalised linear model of a table, by formula.

    Args:
        formula: such as "y ~ a + C(g) + log(b) + a:b"; an intercept is there unless removed by
            "- 1". Columns of text are categories. After a bar stand fixed effects, of any number of
            levels: "y ~ a | firm + year", "y ~ a | firm^year".
        data: a table (pandas, polars, pyarrow), or Parquet, Arrow and CSV files: a path, glob,
            directory or a list, of this machine or a store, "s3://bucket/part-*.parquet".
        family: "gaussian", "binomial", "poisson", "gamma", "inverse_gaussian", "tweedie(1.5)" or
            "negative_binomial(1.0)"; or a model such as `Tweedie(1.5)`.
        link: "probit", "cloglog", ...; by default the canonical one (log for the last two).
        keywords:

    Example:
        >>> import numpy as np, pandas as pd, masgrad as mg
        >>> rng = np.random.default_rng(0)
        >>> table = pd.DataFrame({"a": rng.normal(size=500), "b": rng.normal(size=500)})
        >>> table["y"] = 1 + 2 * table.a + rng.normal(size=500)
        >>> mg.glm("y ~ a + b", table).params.round(1).to_dict()
        {'Intercept': 1.0, 'a': 2.0, 'b': -0.0}
    """
    if not isinstance(formula, str):
        raise InputTypeError(f"formula={formula!r:.60}; a text such as 'y ~ a + b' is needed")
    known = ("family", "link", *(name for name in KEYWORDS if name != "formula"))
    check_keywords("glm", keywords, known)
    return fit(_model(family, link), data, formula=formula, **keywords)


def _model(family: Any, link: str | None) -> GLM:
    if isinstance(family, GLM):
        return family if link is None else GLM(family.family, link)
    if callable(family):
        raise InputTypeError(f"family={family!r:.60}; a name is needed, or mg.Tweedie(1.5)")
    return GLM(family, link)


def load(path: str | Path, model: Model | None = None) -> Result:
    """A result from a file that `Result.save` wrote.

    Args:
        path: the file.
        model: needed for `update` and `predict` if the loss was a `CustomLoss`.
    """
    fitted = storage.read(path, model, _complete)
    if type(fitted) is Fitted:
        return Result.of(fitted)
    from masgrad.fitting.effects.results.result import EffectsResult  # for some results alone

    return EffectsResult.of(fitted)


def _complete(record: Fitted, body: dict[str, Any]) -> Fitted:
    """The record with its fixed effects, if it has any."""
    if "effects" not in body:
        return record
    from masgrad.fitting.effects.results.storage import with_effects  # for some results alone

    return with_effects(record, body["effects"])
