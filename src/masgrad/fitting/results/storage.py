"""Results on disk: JSON with a checksum, written whole or not at all.

Arrays are base64 of little-endian float64: what is loaded is what was saved, to the last bit.
No code is stored: a loss of the user's own is given again to `load`.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from masgrad.data.left_out import Omitted
from masgrad.errors import InputError, MasgradError, printable
from masgrad.files import replaced
from masgrad.fitting.fitted import NO_TARGET, PENALISED_OPTIMUM, FitInfo, Fitted
from masgrad.fitting.objective.coordinates import Coordinates
from masgrad.fitting.objective.local_model import SPECTRA, LocalModel
from masgrad.fitting.objective.third_order import ThirdOrder
from masgrad.fitting.options import TOLERANCE
from masgrad.fitting.penalised.path import PenaltyPath
from masgrad.fitting.results.consistency import check_given_model, consistent
from masgrad.fitting.results.estimates import coefficients
from masgrad.fitting.results.saved.arrays import pack, unpack
from masgrad.fitting.results.saved.clusters import clusters_from_json, clusters_to_json
from masgrad.fitting.results.saved.merged import merged_from_json, merged_to_json
from masgrad.fitting.results.saved.serial import serial_from_json, serial_to_json
from masgrad.fitting.status import LARGEST_REMAINDER, Status
from masgrad.fitting.uncertainty.diagnostics import Diagnostics
from masgrad.models.glm import GLM, make_family
from masgrad.models.model import Model
from masgrad.models.trace import TraceRegression
from masgrad.version import __version__

if TYPE_CHECKING:
    from masgrad.data.formula.terms import Terms

FORMAT, OLD_FORMAT = "masgrad result 3", "masgrad result 2"

RENAMED = {
    "how": "fit_info",
    "frame": "coordinates",
    "local": "local_model",
    "free": "null_directions",
    "loose": "not_identified",
    "shifted": "has_offset",
    "far": "transforms_rows",
    "peak": "max_weighted_x",
}
"""Fields of files in the old format, and their names now."""


def save(fitted: Fitted, path: str | Path, **parts: dict[str, Any]) -> None:
    """Write a result to exactly this path, with parts of its own if it has any."""
    body = _to_json(fitted) | parts
    text = json.dumps({"format": FORMAT, "sha256": _digest(body), "result": body}, indent=1)
    with replaced(Path(path)) as file:
        file.write(text.encode())


Complete = Callable[[Fitted, dict[str, Any]], Fitted]
"""Adds the parts that belong to a kind of result alone."""


def read(
    path: str | Path,
    model: Model | None = None,
    complete: Complete = lambda record, body: record,
) -> Fitted:
    """The record in a file that `save` wrote; `model` is given again if it was a `CustomLoss`."""
    if Path(path).is_dir():
        raise InputError(f"{path} is a folder; the file of a saved result is needed")
    if not Path(path).exists():
        raise FileNotFoundError(f"{path}: no such file; result.save(path) writes one")
    text = Path(path).read_bytes()
    try:
        outer = json.loads(text)
        body, format = outer["result"], outer["format"]
    except (KeyError, TypeError):
        raise InputError(f"{path} is not a saved result: it has no result in it") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a saved result: it is no text") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not a saved result: {error}") from None
    if format not in (FORMAT, OLD_FORMAT):
        raise InputError(
            f"{path} has the format {format!r}; {FORMAT!r} or {OLD_FORMAT!r} is needed"
        )
    if _digest(body) != outer.get("sha256"):
        raise InputError(f"{path} is damaged: its checksum does not match; save the result again")
    try:
        body = _renamed(body) if format == OLD_FORMAT else body
        record = check_given_model(consistent(_from_json(body, model)))
        return complete(record, body)
    except MasgradError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise InputError(
            f"{path} is no result that this version of masgrad can read ({error}); save it again"
        ) from None


def _renamed(body: dict[str, Any]) -> dict[str, Any]:
    """A body in the old format, with the names of the new one and a status."""
    new = {RENAMED.get(k, k): v for k, v in body.items()}
    for part in ("coordinates", "local_model"):
        new[part] = {RENAMED.get(k, k): v for k, v in new[part].items()}
    return new | {"status": _old_status(new).name}


def _old_status(body: dict[str, Any]) -> Status:
    """The status of a result that was saved before there were any, as far as it can be told."""
    remainder, regression = (
        body["fit_info"]["remainder"],
        (body["model"] or {}).get("name") == "GLM",
    )
    by_target = {NO_TARGET: Status.PENALISED_ONLY, PENALISED_OPTIMUM: Status.PENALISED_TARGET}
    if body["target"] in by_target:
        return by_target[body["target"]]
    if np.isnan(unpack(body["local_model"]["constants"])).any():
        return Status.INTERRUPTED
    if any(body["not_identified"]):
        pairs = zip(body["params"], body["not_identified"], strict=True)
        empty = all(estimate is None for estimate, out in pairs if out)
        return Status.SEPARATED if regression and not empty else Status.NOT_IDENTIFIED
    if not unpack(body["cov"]).any():
        return Status.PERFECT_FIT
    if remainder > LARGEST_REMAINDER:
        return Status.READS_USED_UP
    kinks = any(note.startswith("Penalty ") for note in body["notes"])
    if kinks:
        return Status.ONE_STEP if remainder > TOLERANCE else Status.CONVERGED
    return Status.APPROXIMATE if remainder > 10 * TOLERANCE else Status.CONVERGED


def _digest(body: dict) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _to_json(r: Fitted) -> dict[str, Any]:
    return {
        "version": __version__,
        "kind": r.kind,
        "status": r.status.name,
        "model": _model_to_json(r.model),
        "names": list(r.names),
        "terms": None if r.terms is None else r.terms.to_json(),
        "nobs": r.nobs,
        "params": [float(t) if np.isfinite(t) else None for t in r.theta],
        "bse": [float(s) if np.isfinite(s) else None for s in coefficients(r).se],
        "cov_type": r.cov_type,
        "target": r.target,
        "df": pack(r.df) if isinstance(r.df, np.ndarray) else r.df,
        "notes": list(r.notes),
        "fit_info": asdict(r.fit_info),
        "has_offset": r.has_offset,
        "diagnostics": r.diagnostics.to_json(),
        "penalized": None if r.penalized is None else pack(r.penalized),
        "path": None if r.path is None else _fields(r.path),
        "theta": pack(r.theta),
        "cov": pack(r.cov),
        "cov_phi": None if r.cov_phi is None else pack(r.cov_phi),
        "null_directions": pack(r.null_directions),
        "not_identified": r.not_identified.tolist(),
        "recession": pack(r.recession),
        "separated": r.separated.tolist(),
        "clusters": clusters_to_json(r.clusters),
        "serial": serial_to_json(r.serial),
        "weights_type": r.weights_type,
        "omitted": asdict(r.omitted),
        "merged": merged_to_json(r.merged),
        "coordinates": _fields(r.coordinates),
        "local_model": _fields(r.local_model),
    }


def _from_json(body: dict[str, Any], model: Model | None) -> Fitted:
    return Fitted(
        model=model or _model_from_json(body["model"]),
        theta=unpack(body["theta"]),
        cov=unpack(body["cov"]),
        cov_phi=None if body.get("cov_phi") is None else unpack(body["cov_phi"]),
        nobs=body["nobs"],
        names=tuple(body["names"]),
        cov_type=body["cov_type"],
        fit_info=_fit_info(body["fit_info"]),
        has_offset=body["has_offset"],
        diagnostics=_diagnostics(body["diagnostics"]),
        penalized=None if body["penalized"] is None else unpack(body["penalized"]),
        path=None if body.get("path") is None else _path(_values(body["path"])),
        coordinates=Coordinates(**_values(body["coordinates"])),
        local_model=_local_model(body["local_model"]),
        null_directions=unpack(body["null_directions"]),
        not_identified=np.array(body["not_identified"], bool),
        recession=unpack(body["recession"]) if "recession" in body else np.empty((0, 0)),
        separated=np.array(body.get("separated", []), bool),
        clusters=clusters_from_json(body.get("clusters")),
        serial=serial_from_json(body.get("serial")),
        weights_type=body.get("weights_type", "frequency"),
        omitted=Omitted(**body.get("omitted", {})),
        merged=merged_from_json(body.get("merged")),
        status=Status[body["status"]],
        terms=_terms(body["terms"]),
        df=unpack(body["df"]) if isinstance(body["df"], dict) else body["df"],
        kind=body["kind"],
        target=body["target"],
        notes=tuple(body["notes"]),
    )


def _terms(body: dict[str, Any] | None) -> "Terms | None":
    if body is None:
        return None
    from masgrad.data.formula.terms import Terms

    return Terms.from_json(body)


def _fit_info(values: dict[str, Any]) -> FitInfo:
    path = tuple((str(stage), float(distance)) for stage, distance in values["path"])
    numbers = {name: float(value) for name, value in values.items() if name != "path"}
    counts = {name: int(values.get(name, 0)) for name in ("reads", "gradient_reads")}
    return FitInfo(**{**numbers, **counts, "path": path})


def _diagnostics(saved: list[dict[str, Any]]) -> Diagnostics:
    texts = ("name", "sentence")
    return Diagnostics.from_json({**d, **{k: printable(d[k]) for k in texts}} for d in saved)


def _local_model(fields: dict[str, Any]) -> LocalModel:
    third = fields.get("third")
    known = {k: v for k, v in fields.items() if k != "third"}
    return LocalModel(**_values(known), third=third and ThirdOrder(**_values(third)))


def _path(values: dict[str, Any]) -> PenaltyPath:
    return PenaltyPath(**{**values, "names": tuple(values["names"])})


def _fields(record: Any) -> dict[str, Any]:
    return {k: _plain(v) for k, v in vars(record).items() if k not in SPECTRA}


def _plain(value: Any) -> Any:
    """A field as JSON has it."""
    if isinstance(value, ThirdOrder):
        return _fields(value)
    if isinstance(value, np.ndarray):
        return pack(value)
    return value.item() if isinstance(value, np.generic) else value


def _values(fields: dict[str, Any]) -> dict[str, Any]:
    return {k: unpack(v) if isinstance(v, dict) else v for k, v in fields.items()}


def _model_to_json(model: Model | None) -> dict[str, Any] | None:
    match model:
        case TraceRegression():
            return {"name": "TraceRegression", "rows": model.height, "cols": model.width}
        case GLM():
            family = model.family
            said = {"family": family.name, "link": family.link, "parameter": family.parameter}
            return {"name": "GLM", **said}
    from masgrad.models.mixture import GaussianMixture  # these bring JAX
    from masgrad.models.network import ReluNetwork

    match model:
        case GaussianMixture():
            sizes = {"components": model.components, "sigma": float(model.sigma)}
            return {"name": "GaussianMixture", **sizes, "weights": model.weights}
        case ReluNetwork():
            sizes = {"inputs": model.inputs, "hidden": model.hidden}
            return {"name": "ReluNetwork", **sizes, "constant": model.constant}
    return None


def _model_from_json(spec: dict[str, Any] | None) -> Model | None:
    if spec is None:
        return None
    spec = dict(spec)
    if spec["name"] == "GLM":
        return GLM(make_family(spec["family"], spec["link"], spec["parameter"]))
    from masgrad.models.mixture import GaussianMixture
    from masgrad.models.network import ReluNetwork

    kinds = {c.__name__: c for c in (TraceRegression, GaussianMixture, ReluNetwork)}
    return kinds[spec.pop("name")](**spec)
