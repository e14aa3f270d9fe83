"""A projector put behind an encoder inside one ONNX file, so that the raw embedding never leaves the graph.

Whoever holds the file can still open it and take the projector out again: it protects the users of the encoder's output,
and logs, caches and databases behind it, from raw vectors, not the network from its owner.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import EncoderError, ProjectorError, UsageError
from faceblind._files import atomic_path, writable_folder
from faceblind._onnxruntime import Session
from faceblind.data.meta import Fingerprint
from faceblind.deploy.export.check import Check, compare
from faceblind.deploy.export.onnx import OUTPUT, need_onnx, sign
from faceblind.deploy.export.onnx_graph import free_name, free_prefix, keep_only, opset_of
from faceblind.deploy.export.onnx_nodes import Nodes, add_erasing, add_pooling
from faceblind.deploy.export.spec_file import spec_of_fused
from faceblind.deploy.export.steps import Steps
from faceblind.encoders import OnnxEncoder, encoders, open_encoder
from faceblind.erase import Projector

LARGEST_FILE = 1_900_000_000
"""Bytes of weights above which they go into a file of their own: a protobuf message ends at 2 GiB."""
ROUNDING = 1e-3
"""How far fused vectors may be off: onnxruntime may compute a longer graph in another order, which int8 rounds differently."""
MIN_COSINE = 0.99999
_FILE_PREFIX = "onnx:"
_SAME = 0.999


@dataclass(frozen=True, kw_only=True)
class Fused:
    """What `fuse_onnx` wrote."""

    path: Path
    files: tuple[Path, ...]
    """All files written: the network, its preprocessing spec and, of very large networks, the weights."""
    dim: int
    dropped: tuple[str, ...]
    """Outputs of the encoder that the fused file no longer has, the raw embedding first."""
    kept: tuple[str, ...]
    check: Check
    cautions: tuple[str, ...]


def fuse_onnx(
    encoder: str | Path,
    projector: Projector,
    *,
    output: str | Path,
    compact: bool = False,
    renormalise: bool = True,
    keep_outputs: Collection[str] = (),
    force: bool = False,
) -> Fused:
    """Write an encoder with the projector behind it: ``OUTPUT.onnx`` and its spec ``OUTPUT.json``.

    The file is an encoder like any other: ``faceblind embed --encoder onnx:OUTPUT.onnx`` makes tables that say which
    projector they went through. Pooling and scaling that the encoder's spec asks for become part of the graph. The raw
    embedding and all other outputs (tokens, hidden states, logits, from which identity could be read) are dropped.

    Parameters
    ----------
    encoder
        A name of `faceblind.encoders` whose weights are an ONNX file, or such a file, as ``open_encoder`` takes it.
    output
        File to write, ending in ``.onnx``.
    compact, renormalise
        As for `Projector.apply`.
    keep_outputs
        Other outputs to keep. Nothing is erased from them.
    force
        Go on although the projector was made for another encoder.

    Raises
    ------
    EncoderError
        The projector was made for another encoder; the encoder is not an ONNX file, lacks such an output, or is of an
        opset too old to add to.
    ProjectorError
        Dimensions differ, the encoder went through a projector already, or the self-check on images failed.
    UsageError
        `output` does not end in ``.onnx``, is the encoder itself, or an output to keep has the raw embedding.
    MissingExtraError
        onnx, onnxruntime or Pillow is not installed.
    """
    need_onnx("fusing a projector into an ONNX file")
    target = Path(output)
    if target.suffix != ".onnx":
        raise UsageError(f"a fused encoder is an ONNX file: {target} must end in .onnx")
    opened = _open(encoder)
    if target.exists() and target.samefile(opened.file):
        raise UsageError(f"{target} is the encoder itself: name another file")
    fingerprint = opened.fingerprint
    cautions = [said for said in [projector.check_encoder(fingerprint, force=force)] if said]
    if opened.projector is not None:
        raise ProjectorError(f"{opened.file} went through projector {opened.projector[:12]} already: fuse the original")
    if fingerprint.dim != projector.dim:
        raise ProjectorError(
            f"the projector is for vectors of {projector.dim} features, {opened.file} gives {fingerprint.dim}"
        )
    model, dropped, clean = _merged(opened, projector, compact, renormalise, tuple(keep_outputs), fingerprint)
    weights = {item.name for item in model.graph.initializer}
    feed = opened.spec.input or next(item.name for item in model.graph.input if item.name not in weights)
    dim = Steps.of(projector, compact=compact, renormalise=renormalise).output_dim
    writable_folder(target.parent)
    with TemporaryDirectory(dir=target.parent, prefix=f".{target.stem}.") as folder:
        made = Path(folder) / target.name
        names = _write(model, made)
        spec = spec_of_fused(opened.spec, output=clean, dim=dim)
        made.with_suffix(".json").write_text(json.dumps(spec, indent=1) + "\n", encoding="utf-8")
        check = _check(opened, made, projector, feed, tuple(keep_outputs), compact, renormalise)
        written = []
        for name in (*names, f"{target.stem}.json", target.name):  # the network last: it needs the others
            with atomic_path(target.with_name(name)) as temporary:
                (Path(folder) / name).rename(temporary)
            written.append(target.with_name(name))
    cautions += _licence(str(encoder))
    if keep_outputs:
        cautions.append(f"nothing is erased from the outputs that were kept: {', '.join(keep_outputs)}")
    return Fused(
        path=target,
        files=tuple(reversed(written)),
        dim=dim,
        dropped=dropped,
        kept=tuple(keep_outputs),
        check=check,
        cautions=tuple(cautions),
    )


def _open(encoder: str | Path) -> OnnxEncoder:
    name = str(encoder)
    if isinstance(encoder, Path):
        name = f"{_FILE_PREFIX}{encoder}"
    opened = open_encoder(name, threads=1)
    if not isinstance(opened, OnnxEncoder):
        raise EncoderError(
            f"encoder {name!r} is not an ONNX file alone, so there is no graph to put a projector behind; "
            "behind torch modules, use faceblind.deploy.behind"
        )
    return opened


def _licence(name: str) -> list[str]:
    """Remind of the terms of weights that somebody else published: the fused file is a copy of them."""
    return [
        f"the file holds a copy of the weights of {name!r} ({info.licence}): keep it to yourself unless that lets you pass it on"
        for info in encoders()
        if info.name == name
    ]


def _merged(
    opened: OnnxEncoder,
    projector: Projector,
    compact: bool,
    renormalise: bool,
    keep: tuple[str, ...],
    fingerprint: Fingerprint,
) -> tuple[Any, tuple[str, ...], str]:
    """Return the fused model, the outputs dropped (the raw one first), and the name of the clean one."""
    import onnx
    from onnx import TensorProto, helper

    model = onnx.load(str(opened.file))  # with the weights, wherever they lie
    graph = model.graph
    outputs = {item.name: item for item in graph.output}
    raw = opened.spec.output or next(iter(outputs))
    for name in keep:
        if name not in outputs:
            raise EncoderError(f"{opened.file} has no output {name!r}; it has {', '.join(outputs)}")
        if name == raw:
            raise UsageError(f"output {raw!r} is the raw embedding: it cannot be kept beside the clean one")
    nodes = Nodes(opset_of(model, opened.file), prefix=free_prefix(graph))
    clean = free_name(graph, OUTPUT)
    axes = len(outputs[raw].type.tensor_type.shape.dim) or _axes_of(opened)
    batch = next(iter(outputs[raw].type.tensor_type.shape.dim), None)
    steps = Steps.of(projector, compact=compact, renormalise=renormalise)
    add_erasing(nodes, steps, add_pooling(nodes, opened.spec, raw, axes), clean)
    size = None if batch is None else batch.dim_value if batch.HasField("dim_value") else batch.dim_param or None
    kept = [outputs[name] for name in keep]
    info = helper.make_tensor_value_info(clean, TensorProto.FLOAT, (size, steps.output_dim))
    del graph.output[:]
    graph.output.extend([info, *kept])
    graph.node.extend(nodes.nodes)
    graph.initializer.extend(nodes.constants)
    keep_only(graph, {clean, *keep})
    sign(model, projector, compact=compact, renormalise=renormalise, encoder=fingerprint)
    dropped = (raw, *(name for name in outputs if name not in {raw, *keep}))
    return model, dropped, clean


def _axes_of(opened: OnnxEncoder) -> int:
    """Axes of an output whose shape is not in the file, as its pooling implies."""
    if opened.spec.pooling == "mean":
        raise EncoderError(
            f"{opened.file} does not say what shape its output has, so 'mean' could be over tokens or over a map: "
            "run onnx.shape_inference on the file first"
        )
    return 2 if opened.spec.pooling == "as output" else 3


def _write(model: Any, path: Path) -> tuple[str, ...]:
    """Write a model, of very large ones the weights beside it; returns the names of further files."""
    import onnx

    weight_bytes = sum(len(tensor.raw_data) for tensor in model.graph.initializer)
    if weight_bytes <= LARGEST_FILE:
        path.write_bytes(model.SerializeToString(deterministic=True))
        further: tuple[str, ...] = ()
    else:
        further = (f"{path.name}.data",)
        onnx.save_model(model, str(path), save_as_external_data=True, location=further[0])
    onnx.checker.check_model(str(path))
    return further


def _check(
    opened: OnnxEncoder,
    made: Path,
    projector: Projector,
    feed: str,
    keep: tuple[str, ...],
    compact: bool,
    renormalise: bool,
) -> Check:
    """Run both files on images and compare the fused one with the encoder and then `Projector.apply`."""
    images = _images(opened)
    vectors = opened.embed(images)
    fused = open_encoder(f"{_FILE_PREFIX}{made}", threads=1)
    if fused.projector != projector.digest:
        raise ProjectorError(
            "the fused file does not say which projector is in it: please report this; nothing written"
        )
    check = compare(
        projector,
        vectors,
        fused.embed(images),
        compact=compact,
        renormalise=renormalise,
        what="the fused file",
        rounding=ROUNDING,
    )
    if check.min_cosine < MIN_COSINE:
        raise ProjectorError(
            f"the fused file gives vectors of cosine {check.min_cosine:.6f} to those of encoder and projector on its own "
            "images; nothing written"
        )
    if keep:
        session = Session(made, extra="onnx", purpose="checking an ONNX export")
        _, *others = session.run({feed: opened.prepare(images[0])[None]})
        for name, found in zip(keep, others, strict=True):
            if _is_same(found, vectors[0]):
                raise UsageError(f"output {name!r} holds the raw embedding: it cannot be kept")
    return check


def _is_same(found: NDArray[Any], vector: NDArray[np.float32]) -> bool:
    flat = np.asarray(found, np.float64).ravel()
    if flat.size != vector.size:
        return False
    return bool(abs(flat @ vector) > _SAME * np.linalg.norm(flat) * np.linalg.norm(vector))


def _images(opened: OnnxEncoder, count: int = 4) -> list[NDArray[np.uint8]]:
    """Smooth and noisy images, large enough for any crop, and the same every time."""
    rng = np.random.default_rng(0)
    height, width = opened.spec.size or (224, 224)
    images = []
    for i in range(count):
        coarse = rng.integers(0, 256, (8, 8, 3))
        rows, columns = (np.arange(side + 32 * (i % 2)) * 8 // (side + 32 * (i % 2)) for side in (height, width))
        noise = rng.integers(-60, 61, (rows.size, columns.size, 3))
        images.append(np.clip(coarse[rows][:, columns] + noise, 0, 255).astype(np.uint8))
    return images
