"""Results on disk: JSON with a checksum, written whole or not at all.

Arrays are base64 of little-endian float64: what is loaded is what was saved, to the last bit.
No code is stored: a loss of the user's own is given again to `load`.
"""

import base64
import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from masgrad.data.formula.terms import Terms
from masgrad.errors import InputError
from masgrad.fitting.diagnose import Diagnostics
from masgrad.fitting.frame import Frame
from masgrad.fitting.quadratic import Quadratic
from masgrad.fitting.reads import Reads
from masgrad.fitting.replacing import replaced
from masgrad.fitting.result import Result
from masgrad.fitting.selection import PenaltyPath
from masgrad.models.families import make_family
from masgrad.models.glm import GLM
from masgrad.models.mixture import GaussianMixture
from masgrad.models.model import Model
from masgrad.models.network import ReluNetwork
from masgrad.models.trace import TraceRegression
from masgrad.version import __version__

FORMAT = "masgrad result 2"


def save(result: Result, path: str | Path) -> None:
    """Write a result to exactly this path."""
    body = _to_json(result)
    text = json.dumps({"format": FORMAT, "sha256": _digest(body), "result": body}, indent=1)
    with replaced(Path(path)) as file:
        file.write(text.encode())


def load(path: str | Path, model: Model | None = None) -> Result:
    """A result from a file that `Result.save` wrote.

    Args:
        path: the file.
        model: needed for `update` and `predict` where the loss was a `CustomLoss`.
    """
    text = Path(path).read_text()
    try:
        outer = json.loads(text)
        body = outer["result"]
        known = outer["format"] == FORMAT
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not a saved result: {error}") from None
    if not known:
        raise InputError(f"{path} has the format {outer['format']!r}; {FORMAT!r} is needed")
    if _digest(body) != outer.get("sha256"):
        raise InputError(f"{path} is damaged: its checksum does not match; save the result again")
    return _from_json(body, model)


def _digest(body: dict) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _to_json(r: Result) -> dict[str, Any]:
    return {
        "version": __version__,
        "kind": r.kind,
        "model": _model_to_json(r.model),
        "names": list(r.names),
        "terms": None if r.terms is None else r.terms.to_json(),
        "nobs": r.nobs,
        "params": [float(t) if np.isfinite(t) else None for t in r.theta],
        "bse": [float(s) if np.isfinite(s) else None for s in np.asarray(r.bse)],
        "cov_type": r.cov_type,
        "target": r.target,
        "df": r.df,
        "notes": list(r.notes),
        "how": asdict(r.how),
        "shifted": r.shifted,
        "diagnostics": r.diagnostics.to_json(),
        "penalized": None if r.penalized is None else _pack(r.penalized),
        "path": None if r.path is None else _fields(r.path),
        "theta": _pack(r.theta),
        "cov": _pack(r.cov),
        "free": _pack(r.free),
        "loose": r.loose.tolist(),
        "frame": _fields(r.frame),
        "local": _fields(r.local),
    }


def _from_json(body: dict[str, Any], model: Model | None) -> Result:
    return Result(
        model=model or _model_from_json(body["model"]),
        theta=_unpack(body["theta"]),
        cov=_unpack(body["cov"]),
        nobs=body["nobs"],
        names=tuple(body["names"]),
        cov_type=body["cov_type"],
        how=Reads(**body["how"]),
        shifted=body["shifted"],
        diagnostics=Diagnostics.from_json(body["diagnostics"]),
        penalized=None if body["penalized"] is None else _unpack(body["penalized"]),
        path=None if body.get("path") is None else _path(_values(body["path"])),
        frame=Frame(**_values(body["frame"])),
        local=Quadratic(**_values(body["local"])),
        free=_unpack(body["free"]),
        loose=np.array(body["loose"], bool),
        terms=None if body["terms"] is None else Terms.from_json(body["terms"]),
        df=body["df"],
        kind=body["kind"],
        target=body["target"],
        notes=tuple(body["notes"]),
    )


def _path(values: dict[str, Any]) -> PenaltyPath:
    return PenaltyPath(**{**values, "names": tuple(values["names"])})


def _fields(record: Any) -> dict[str, Any]:
    return {
        k: _pack(v) if isinstance(v, np.ndarray) else v
        for k, v in vars(record).items()
        if k != "spectrum"
    }


def _values(fields: dict[str, Any]) -> dict[str, Any]:
    return {k: _unpack(v) if isinstance(v, dict) else v for k, v in fields.items()}


def _pack(a: np.ndarray) -> dict[str, Any]:
    data = np.ascontiguousarray(a, "<f8").tobytes()
    return {"shape": list(a.shape), "float64": base64.b64encode(data).decode()}


def _unpack(packed: dict[str, Any]) -> np.ndarray:
    data = np.frombuffer(base64.b64decode(packed["float64"]), "<f8")
    return data.astype(np.float64).reshape(packed["shape"])


def _model_to_json(model: Model | None) -> dict[str, Any] | None:
    match model:
        case TraceRegression():
            return {"name": "TraceRegression", "rows": model.height, "cols": model.width}
        case GLM():
            family = model.family
            said = {"family": family.name, "link": family.link, "parameter": family.parameter}
            return {"name": "GLM", **said}
        case GaussianMixture():
            sigma = float(model.sigma)
            return {"name": "GaussianMixture", "components": model.components, "sigma": sigma}
        case ReluNetwork():
            return {"name": "ReluNetwork", "inputs": model.inputs, "hidden": model.hidden}
    return None


def _model_from_json(spec: dict[str, Any] | None) -> Model | None:
    if spec is None:
        return None
    spec = dict(spec)
    if spec["name"] == "GLM":
        return GLM(make_family(spec["family"], spec["link"], spec["parameter"]))
    kinds = {c.__name__: c for c in (TraceRegression, GaussianMixture, ReluNetwork)}
    return kinds[spec.pop("name")](**spec)
