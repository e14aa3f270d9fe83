"""A projector as JSON: the matrices, the formula in words, and vectors to try an implementation on, for any language.

Numbers are written so that float64 reads them back bit by bit. The layout has a JSON Schema
(``schema/matrix-1.schema.json``, name ``faceblind.matrix/1``) and is kept stable.
"""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind._files import write_text
from faceblind.deploy.export.check import Check, compare
from faceblind.deploy.export.describe import described
from faceblind.deploy.export.steps import TOO_SHORT, gone_ratio
from faceblind.erase import Projector

MATRIX_FORMAT = "faceblind.matrix/1"
_TOLERANCE = 1e-5


def to_json(projector: Projector, *, compact: bool = False, renormalise: bool = True) -> dict[str, Any]:
    """Describe a projector in JSON types: matrices, formula, and checks.

    Returns
    -------
    dict
        ``arrays``: of the full form ``basis`` (d, r) and, where they differ or exist, ``lift`` (d, r) and ``mean`` (d,);
        of the compact form ``matrix`` (d, d - r) and of affine maps ``offset`` (d - r + 1,). Matrices are lists of
        rows. ``formula``: what to compute, step by step. ``checks``: inputs with the outputs they must give, within
        ``tolerance`` times the length of the input.
    """
    arrays = _arrays(projector, compact=compact)
    ratio = gone_ratio(projector)
    inputs = _inputs(projector)
    outputs = evaluate(arrays, inputs, ratio=ratio, affine=projector.mean is not None, renormalise=renormalise)
    compare(projector, inputs, outputs, compact=compact, renormalise=renormalise, what="the JSON's formula")
    return {
        "format": MATRIX_FORMAT,
        **described(projector, compact=compact, renormalise=renormalise),
        "formula": _words(arrays, projector.mean is not None, ratio, renormalise),
        "gone_ratio": ratio,
        "too_short": TOO_SHORT,
        "arrays": {name: array.tolist() for name, array in arrays.items()},
        "tolerance": _TOLERANCE,
        "checks": [
            {"input": given.astype(np.float64).tolist(), "output": wanted.tolist()}
            for given, wanted in zip(inputs, outputs, strict=True)
        ],
    }


def save_json(projector: Projector, path: str | Path, *, compact: bool = False, renormalise: bool = True) -> Check:
    """Write `to_json` to a file; what the file says was evaluated and compared with `Projector.apply` before.

    Raises
    ------
    ProjectorError
        The self-check failed.
    OutputError
        The place cannot be written.
    """
    text = json.dumps(to_json(projector, compact=compact, renormalise=renormalise), allow_nan=False) + "\n"
    read = json.loads(text)
    found = evaluate(
        {name: np.array(values) for name, values in read["arrays"].items()},
        np.array([check["input"] for check in read["checks"]]),
        ratio=read["gone_ratio"],
        affine=projector.mean is not None,
        renormalise=renormalise,
    )
    rows = _inputs(projector)
    check = compare(projector, rows, found, compact=compact, renormalise=renormalise, what="the JSON file")
    write_text(path, text)
    return check


def matrix_schema() -> dict[str, Any]:
    """Return the JSON Schema of the file."""
    text = files("faceblind.deploy.export").joinpath("schema/matrix-1.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def evaluate(
    arrays: dict[str, NDArray[np.float64]],
    rows: NDArray[Any],
    *,
    ratio: float,
    affine: bool,
    renormalise: bool,
) -> NDArray[np.float64]:
    """Compute in float64 what the formula of the file says, for (n, d) rows."""
    x = rows.astype(np.float64)
    length = np.linalg.norm(x, axis=1)
    lost = length == 0
    if affine:
        x = np.divide(x, length[:, None], out=np.zeros_like(x), where=~lost[:, None])
        length = np.where(lost, 0.0, 1.0)
    if "matrix" in arrays:
        y = x @ arrays["matrix"]
        if "offset" in arrays:
            y = np.hstack([y, np.zeros((len(y), 1))]) + arrays["offset"]
    else:
        basis = arrays["basis"]
        y = x - (x - arrays.get("mean", 0.0)) @ basis @ arrays.get("lift", basis).T
    left = np.linalg.norm(y, axis=1)
    gone = lost | (left <= TOO_SHORT) | (left < ratio * length)
    y[gone] = 0
    if renormalise:
        y = np.divide(y, left[:, None], out=y, where=~gone[:, None])
    return y


def _arrays(projector: Projector, *, compact: bool) -> dict[str, NDArray[np.float64]]:
    pair = projector.pair
    if compact:
        found = {"matrix": pair.compact_map}
        return found if pair.mean is None else found | {"offset": pair.compact_offset}
    optional = {"lift": pair.lift, "mean": pair.mean}
    return {"basis": pair.basis} | {name: array for name, array in optional.items() if array is not None}


def _inputs(projector: Projector) -> NDArray[np.float32]:
    """Two rows of other lengths, zeros, and a row that is erased whole (by a linear map)."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((2, projector.dim)) / np.sqrt(projector.dim)
    rows[1] *= 100
    erased = projector.basis[:, 0] if projector.lift is None else projector.lift[:, 0]
    return np.vstack([rows, np.zeros(projector.dim), erased]).astype(np.float32)


def _words(arrays: dict[str, Any], affine: bool, ratio: float, renormalise: bool) -> list[str]:
    """Say what to compute."""
    steps = ["Take a vector x of `dim` numbers and its length |x|; compute in float64 or float32."]
    if affine:
        steps.append("If |x| is 0, the result is zeros. Otherwise divide x by |x|; from here on |x| is 1.")
    else:
        steps.append("If |x| is 0, the result is zeros.")
    if "matrix" in arrays:
        product = "y[j] = sum over i of x[i] * matrix[i][j]"
        tail = "; append a zero to y and add offset" if "offset" in arrays else ""
        steps.append(product + tail + ".")
    else:
        read = "(x[i] - mean[i])" if "mean" in arrays else "x[i]"
        lift = "lift" if "lift" in arrays else "basis"
        steps.append(f"c[k] = sum over i of {read} * basis[i][k]; y[i] = x[i] - sum over k of {lift}[i][k] * c[k].")
    steps.append(f"If |y| <= too_short or |y| < gone_ratio * |x| ({ratio:.1e}), nothing but rounding is left: zeros.")
    steps.append("Divide y by its length." if renormalise else "The result is y, not scaled.")
    return steps
