"""Encoders that are TorchScript archives: a network in one file that torch runs without the code that made it."""

from __future__ import annotations

import warnings
from pathlib import Path

from faceblind._errors import EncoderError, brief
from faceblind._files import sha256_file
from faceblind.encoders.device import choose_device, import_torch
from faceblind.encoders.entry import OpenOptions
from faceblind.encoders.spec import PreprocessSpec
from faceblind.encoders.torch_encoder import TorchEncoder


def open_torchscript(
    path: Path, spec: PreprocessSpec, options: OpenOptions, *, name: str, pooling: str, how_to_get: str
) -> TorchEncoder:
    """Open a TorchScript file whose output is one vector per image.

    The archive holds tensors and a program in TorchScript's own small language; torch reads it without unpickling
    Python objects.

    Raises
    ------
    EncoderError
        No such file, not TorchScript, damaged, or its output is not one vector per image.
    """
    torch = import_torch(f"encoder {name!r}")
    device, dtype = choose_device(torch, options.device, options.precision)
    if not path.is_file():
        raise EncoderError(f"no such file of weights: {path}; {how_to_get}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # torch prefers another format; this is the release's
            module = torch.jit.load(str(path), map_location="cpu").eval()
        module = module.to(device, dtype)
    except (RuntimeError, ValueError, EOFError) as error:
        raise EncoderError(f"{path} is not a whole TorchScript file ({brief(error)}): {how_to_get}") from error
    return TorchEncoder(
        module,
        spec,
        name=name,
        weights_sha256=sha256_file(path),
        pooling=pooling,
        device=options.device,
        precision=options.precision,
        threads=options.threads,
    )
