"""Whether there is enough to estimate from: rows, weights, and responses that vary."""

from masgrad.data.arrays import count_rows
from masgrad.data.source import Source
from masgrad.errors import IdentificationError, InputError
from masgrad.fitting.identification.checks import no_positive_response
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import BadBlock, Objective, response_range
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.sources import Sample
from masgrad.fitting.task import Task
from masgrad.models.glm import GLM
from masgrad.models.model import Model
from masgrad.types import Rows


def check_sample(model: Model, sample: Sample) -> None:
    """Responses of a complete sample: admitted by the family, and with something to estimate."""
    if sample.complete and isinstance(model, GLM):
        low, high = response_range(sample.rows)
        if not (low >= model.family.lowest and high <= model.family.highest):
            raise BadBlock(sample.rows)
        check_responses(model, (low, high))


def check_responses(model: Model, seen: tuple[float, float]) -> None:
    """Refuse responses that leave the family nothing to estimate; `seen` is their range."""
    if not isinstance(model, GLM):
        return
    (low, high), family = seen, model.family
    if family.name == "bernoulli" and low == high:
        raise InputError(f"every response is {low:g}: with a single class there is nothing to fit")
    if family.lowest == 0 and high == 0:
        raise InputError("every response is 0: the rates have no estimate but 0")


def check_count(objective: Objective, source: Source, sample: Sample) -> None:
    """Refuse as many parameters as rows, unless there is a penalty."""
    p = objective.model.dim(sample.rows)
    known = count_rows(sample.rows) if sample.complete else source.count
    earlier = 0 if objective.prior is None else objective.prior.rows
    if known is not None and known + earlier <= p and objective.ridge.matrix is None:
        total = f"{known + earlier} row{'s' * (known + earlier != 1)}"
        raise IdentificationError(
            f"{total} cannot estimate {p} parameters with intervals; more rows than parameters are "
            "needed"
        )


def check_weight(objective: Objective, local: LocalModel) -> None:
    """Refuse weights that sum to no more than the number of parameters."""
    few = local.count <= len(local.point) < local.rows and objective.ridge.matrix is None
    if few and not objective.squared:
        raise IdentificationError(
            f"weights sum to {local.count:g}, and there are {len(local.point)} parameters: weights "
            "are frequencies, the number of rows that each row stands for; multiply them"
        )


def check_means(task: Task, objective: Objective, reader: Reader, sample: Sample) -> None:
    """Refuse responses that are never positive if means must be: they would fall to 0 for ever.

    If that is so for the pilot rows, other rows are looked at until one is positive.
    """
    family, constant = objective.family, objective.coordinates.constant
    if family is None or family.name != "gaussian" or family.link == "identity":
        return
    if constant is None or objective.prior is not None or not (sample.rows[1] <= 0).all():
        return
    if sample.complete or (task.source.rereadable and reader.holds(_never_positive)):
        raise no_positive_response(task.terms and task.terms.response, family)


def _never_positive(rows: Rows) -> bool:
    return bool((rows[1] <= 0).all())
