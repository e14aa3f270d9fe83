"""A projector as a torch module, alone or behind an encoder, and as a TorchScript file."""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError, MissingExtraError
from faceblind._files import write_bytes
from faceblind.deploy.export.check import Check, check_rows
from faceblind.deploy.export.describe import described
from faceblind.deploy.export.steps import Steps
from faceblind.erase import Projector

if TYPE_CHECKING:
    from torch import Tensor, nn

    from faceblind.deploy.export.torch_module import Behind, ErasedVectors

EXTRA_FILE = "faceblind.json"
"""Name of the record inside a TorchScript file: ``torch.jit.load(path, _extra_files={"faceblind.json": ""})``."""


def to_torch(projector: Projector, *, compact: bool = False, renormalise: bool = True) -> ErasedVectors:
    """Return the projector as a `torch.nn.Module` of (..., d) vectors.

    The result equals `Projector.apply` to float32 rounding, zero rows and rows with nothing left included, with one
    difference: rows with NaN or infinity give NaN, where `apply` refuses them.

    Parameters
    ----------
    compact, renormalise
        As for `Projector.apply`.

    Raises
    ------
    MissingExtraError
        torch is not installed.
    """
    _need_torch()
    from faceblind.deploy.export.torch_module import ErasedVectors

    encoder = None if projector.encoder is None else projector.encoder.to_dict()
    steps = Steps.of(projector, compact=compact, renormalise=renormalise)
    return ErasedVectors(steps, digest=projector.digest, encoder=json.dumps(encoder, sort_keys=True)).eval()


def behind(
    encoder: nn.Module,
    projector: Projector,
    *,
    compact: bool = False,
    renormalise: bool = True,
    select: Callable[[Any], Tensor] | None = None,
) -> Behind:
    """Put the projector behind an encoder, so that callers get clean vectors only.

    Whether the encoder is the one that the projector was made for cannot be seen from a module: compare fingerprints.

    Parameters
    ----------
    encoder : torch.nn.Module
        Its output must be (b, d) vectors, or `select` must take them out of it.
    select : callable, optional
        Takes the vectors out of the encoder's output, e.g. ``lambda out: out.pooler_output``.

    Raises
    ------
    MissingExtraError
        torch is not installed.
    DataError
        When it runs: the encoder's output is not (b, d).
    """
    _need_torch()
    from torch import nn

    from faceblind.deploy.export.torch_module import Behind

    if not isinstance(encoder, nn.Module):
        raise DataError(f"an encoder to put a projector behind is a torch.nn.Module, got {type(encoder).__name__}")
    return Behind(encoder, to_torch(projector, compact=compact, renormalise=renormalise), select)


def save_torchscript(
    projector: Projector, path: str | Path, *, compact: bool = False, renormalise: bool = True
) -> Check:
    """Write the projector as TorchScript, for libtorch or Python without faceblind.

    The file holds a record (`EXTRA_FILE`) with the projector's digest and the encoder it is for. It was loaded and
    compared with `Projector.apply` before it gets its name.

    Raises
    ------
    MissingExtraError
        torch is not installed.
    ProjectorError
        The self-check failed.
    OutputError
        The place cannot be written.
    """
    _need_torch()
    import torch

    module = to_torch(projector, compact=compact, renormalise=renormalise)
    record = described(projector, compact=compact, renormalise=renormalise)
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # torch announces that scripting will not be developed further; files and libtorch go on to work.
        warnings.filterwarnings("ignore", message=r".*torch\.jit\.", category=DeprecationWarning)
        torch.jit.save(torch.jit.script(module), buffer, _extra_files={EXTRA_FILE: json.dumps(record, sort_keys=True)})
        data = buffer.getvalue()
        loaded: Any = torch.jit.load(io.BytesIO(data))  # type: ignore[no-untyped-call]

    def run(rows: NDArray[np.float32]) -> NDArray[np.float32]:
        with torch.inference_mode():
            return np.asarray(loaded(torch.from_numpy(rows)).numpy())

    check = check_rows(projector, run, compact=compact, renormalise=renormalise, what="the TorchScript module")
    write_bytes(path, data)
    return check


def _need_torch() -> None:
    if find_spec("torch") is None:
        raise MissingExtraError("torch", "torch", "exporting to torch")
