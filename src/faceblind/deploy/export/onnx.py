"""A projector as an ONNX graph of its own: (batch, d) vectors in, clean vectors out."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import MissingExtraError, UsageError
from faceblind._files import write_bytes
from faceblind._onnxruntime import Session
from faceblind.data.meta import METADATA_KEY, Fingerprint
from faceblind.deploy.export.check import Check, check_rows
from faceblind.deploy.export.describe import described, meta_of
from faceblind.deploy.export.onnx_nodes import Nodes, add_erasing
from faceblind.deploy.export.steps import Steps
from faceblind.erase import Projector

if TYPE_CHECKING:
    from onnx import ModelProto

OPSET, IR_VERSION = 17, 8
"""Old enough for every onnxruntime from 1.12 on."""
INPUT, OUTPUT = "embedding", "clean_embedding"


def to_onnx(
    projector: Projector, *, compact: bool = False, renormalise: bool = True, input_dtype: str = "float32"
) -> ModelProto:
    """Build the graph of a projector: input ``embedding`` (batch, d), output ``clean_embedding`` float32.

    It equals `Projector.apply` to float32 rounding, zero rows and rows with nothing left included, with one
    difference: rows with NaN or infinity give NaN, where `apply` refuses them.

    Parameters
    ----------
    compact, renormalise
        As for `Projector.apply`.
    input_dtype : {"float32", "float16"}
        Number type of the input; all arithmetic is in float32.

    Returns
    -------
    onnx.ModelProto
        Its metadata has the provenance of what comes out under the key ``faceblind``, as tables do.

    Raises
    ------
    UsageError
        Another number type.
    MissingExtraError
        onnx is not installed.
    """
    need_onnx("exporting to ONNX")
    from onnx import TensorProto, checker, helper

    types = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16}
    if input_dtype not in types:
        raise UsageError(f"input_dtype is one of {', '.join(types)}, got {input_dtype!r}")
    steps = Steps.of(projector, compact=compact, renormalise=renormalise)
    nodes = Nodes(OPSET, prefix="faceblind/")
    rows = INPUT if input_dtype == "float32" else nodes.to_float32(INPUT)
    add_erasing(nodes, steps, rows, OUTPUT)
    graph = helper.make_graph(
        nodes.nodes,
        "faceblind",
        [helper.make_tensor_value_info(INPUT, types[input_dtype], ("batch", steps.dim))],
        [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ("batch", steps.output_dim))],
        nodes.constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    sign(model, projector, compact=compact, renormalise=renormalise)
    checker.check_model(model, full_check=True)
    return model


def save_onnx(
    projector: Projector,
    path: str | Path,
    *,
    compact: bool = False,
    renormalise: bool = True,
    input_dtype: str = "float32",
) -> Check:
    """Write the graph of `to_onnx`; onnxruntime has run it and agreed with `Projector.apply` before it gets its name.

    Raises
    ------
    ProjectorError
        The self-check failed.
    UsageError
        As `to_onnx`.
    MissingExtraError
        onnx or onnxruntime is not installed.
    OutputError
        The place cannot be written.
    """
    model = to_onnx(projector, compact=compact, renormalise=renormalise, input_dtype=input_dtype)
    data: bytes = model.SerializeToString(deterministic=True)
    session = Session(Path(path), data=data, extra="onnx", purpose="checking an ONNX export")

    def run(rows: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray(session.run({INPUT: rows.astype(input_dtype)})[0])

    check = check_rows(
        projector,
        run,
        compact=compact,
        renormalise=renormalise,
        what="the ONNX graph",
        as_read=lambda rows: rows.astype(input_dtype).astype(np.float32),
    )
    write_bytes(path, data)
    return check


def sign(
    model: Any, projector: Projector, *, compact: bool, renormalise: bool, encoder: Fingerprint | None = None
) -> None:
    """Put who made the graph and the provenance of its vectors into a model's metadata."""
    try:
        model.producer_version = version("faceblind")
    except PackageNotFoundError:
        model.producer_version = "unknown"
    model.producer_name = "faceblind"
    said = described(projector, compact=compact, renormalise=renormalise)
    form = "compact" if compact else "full"
    model.doc_string = (
        f"Clean vectors of {said['output_dim']} columns ({form} form{', unit length' if renormalise else ''}) by "
        f"projector {projector.digest} ({projector.method}, rank {projector.rank}). Rows with nothing left are zeros."
    )
    others = [item for item in model.metadata_props if item.key != METADATA_KEY]
    del model.metadata_props[:]
    model.metadata_props.extend(others)
    model.metadata_props.add(key=METADATA_KEY, value=meta_of(projector, encoder).to_json())


def need_onnx(purpose: str) -> None:
    """Raise `MissingExtraError` unless onnx is installed."""
    if find_spec("onnx") is None:
        raise MissingExtraError("onnx", "onnx", purpose)
