"""Encoders that are ONNX files, run by onnxruntime.

Every photograph is run on its own, by one thread; several threads take several photographs at a time. So a
vector cannot depend on its batch or on the number of threads, not in the last bit, and no time is lost: on a
CPU one photograph fills a core.

A file may hold a projector behind the encoder (`faceblind.deploy` writes such files). Its metadata then say whose
vectors went into the projector, and which projector it is; what comes out is marked like a table that was projected.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import EncoderError, FormatError, UsageError
from faceblind._onnxruntime import Session
from faceblind._processors import processors
from faceblind.data.meta import METADATA_KEY, Fingerprint, TableMeta
from faceblind.encoders.device import check_device_name
from faceblind.encoders.encoder import Encoder
from faceblind.encoders.images import decoding_steps
from faceblind.encoders.onnx_file import inspect_onnx
from faceblind.encoders.preprocess import Preprocessor, pool
from faceblind.encoders.spec import PreprocessSpec, canonical

_PROBE_SIZE = (224, 224)  # when neither spec nor network fixes the size
_MID_GRAY = 128
_TENSOR_TYPES = {"float32": "tensor(float)", "float16": "tensor(float16)", "uint8": "tensor(uint8)"}


class OnnxEncoder(Encoder):
    """An ONNX file with a preprocessing spec.

    Parameters
    ----------
    file
        The network.
    spec
        How to feed and read it.
    name
        Name for the fingerprint; ``"onnx:"`` and the file's stem when missing.
    threads
        Photographs run at a time; all cores this process may use when missing.
    precision, pooling
        What the fingerprint says of them, when the caller knows better than the file.
    weights_sha256
        Refuse a file with another hash.
    device
        ``"cpu"``, or ``"cuda"`` or ``"cuda:N"`` with onnxruntime-gpu.

    Raises
    ------
    EncoderError
        The file is missing, damaged or another one, or does not fit the spec, or the device is not there; found out
        here, by running a gray image, and not at the first photograph.
    """

    def __init__(
        self,
        file: str | Path,
        spec: PreprocessSpec,
        *,
        name: str | None = None,
        threads: int | None = None,
        precision: str | None = None,
        pooling: str | None = None,
        weights_sha256: str | None = None,
        device: str = "cpu",
    ) -> None:
        self._file = Path(file)
        self._spec = spec
        self._threads = _thread_count(threads)
        check_device_name(device)
        facts = inspect_onnx(self._file)
        if weights_sha256 not in {None, facts.sha256}:
            raise EncoderError(
                f"{self._file} is damaged or another version: its SHA-256 is {facts.sha256}, "
                f"{name} has {weights_sha256}"
            )
        self._session = Session(self._file, device=device, extra="images", purpose="running encoders")
        self._feed, input_shape = self._choose_input()
        self._fetch = str(self._choose("output", self._session.outputs, spec.output).name)
        self._prepare = Preprocessor(spec)
        self._pool: ThreadPoolExecutor | None = None
        self._dim = self._probe(input_shape)
        if spec.dim not in {None, self._dim}:
            raise self._unfit(f"it gives vectors of length {self._dim}, the spec says 'dim': {spec.dim}")
        self._fingerprint = Fingerprint(
            encoder=name or f"onnx:{self._file.stem}",
            weights_sha256=facts.sha256,
            dim=self._dim,
            pooling=pooling or self._describe_pooling(),
            preprocessing=canonical({"decode": decoding_steps(), **spec.pixel_steps()}),
            precision=precision or facts.precision,
            libraries=_libraries(self._session.version),
        )
        self._projector: str | None = None
        self._read_metadata()

    @property
    def fingerprint(self) -> Fingerprint:
        """Weights, preprocessing and pooling that the vectors come from."""
        return self._fingerprint

    @property
    def projector(self) -> str | None:
        """Digest of the projector that the file holds behind the encoder, if any."""
        return self._projector

    @property
    def dim(self) -> int:
        """Length of the vectors that the file gives."""
        return self._dim

    @property
    def file(self) -> Path:
        """The network."""
        return self._file

    @property
    def spec(self) -> PreprocessSpec:
        """How it is fed and read."""
        return self._spec

    def prepare(self, image: NDArray[np.uint8]) -> NDArray[Any]:
        """Resize, crop and scale one (H, W, 3) uint8 RGB image as the spec says."""
        return self._prepare(image)

    def run(self, prepared: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
        """Run the network on prepared images, each on its own; returns (b, d) float32."""
        if self._threads == 1 or len(prepared) == 1:
            rows = [self._run_one(array) for array in prepared]
        else:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="faceblind-encode")
            rows = list(self._pool.map(self._run_one, prepared))
        return np.concatenate(rows) if rows else np.empty((0, self._dim), dtype=np.float32)

    def _run_one(self, array: NDArray[Any]) -> NDArray[np.float32]:
        (output,) = self._session.run({self._feed: array[None]}, [self._fetch])
        try:
            return pool(output, self._spec)
        except EncoderError as error:
            raise EncoderError(f"{self._file}: {error}") from error

    def _read_metadata(self) -> None:
        """Take over the fingerprint that a file with a projector in it was made of; its input must be fed alike."""
        text = self._session.metadata.get(METADATA_KEY)
        if text is None:
            return
        try:
            meta = TableMeta.from_json(text)
        except FormatError as error:
            raise EncoderError(f"{self._file}: {error}; export it again") from error
        if meta.encoder is None or meta.projector is None:
            raise EncoderError(
                f"{self._file}: metadata {METADATA_KEY!r} is damaged: it must name an encoder and a projector; "
                "export it again"
            )
        fed, recorded = replace(meta.encoder, preprocessing=self._fingerprint.preprocessing), meta.encoder
        if fed.differs_from(recorded):
            raise self._unfit(
                f"its projector was made for another preprocessing ({'; '.join(fed.differs_from(recorded))})"
            )
        self._fingerprint, self._projector = recorded, meta.projector

    def _choose_input(self) -> tuple[str, list[Any]]:
        chosen = self._choose("input", self._session.inputs, self._spec.input)
        shape, dtype, layout = list(chosen.shape), self._spec.dtype, self._spec.layout
        if chosen.type != _TENSOR_TYPES[dtype]:
            raise self._unfit(f"input {chosen.name!r} is {chosen.type}; 'dtype': \"{dtype}\" does not fit")
        if len(shape) != 4 or _is_fixed(shape[0], other_than=1):
            raise self._unfit(
                f"input {chosen.name!r} has the shape {shape} and cannot take one image of four axes: "
                "export the network with a batch of 1 or of any size"
            )
        if _is_fixed(shape[1 if layout == "NCHW" else 3], other_than=3):
            raise self._unfit(f"input shape {shape} has no three channels in 'layout': \"{layout}\"")
        return chosen.name, shape

    def _choose(self, what: str, found: Sequence[Any], name: str | None) -> Any:
        names = [item.name for item in found]
        if name is None and len(found) == 1:
            return found[0]
        if name not in names:
            problem = f"it has {len(names)} {what}s" if name is None else f"it has no {what} {name!r}"
            raise self._unfit(f"{problem}; set '{what}' in the spec to one of {', '.join(names)}")
        return found[names.index(name)]

    def _probe(self, shape: list[Any]) -> int:
        """Run a gray image in the size that the network or the spec fixes; returns the length of a vector."""
        spec = self._spec
        height, width = shape[2:4] if spec.layout == "NCHW" else shape[1:3]
        size = spec.size if spec.crop or spec.resize == "squash" else None
        wrong = size is None or _is_fixed(height, other_than=size[0]) or _is_fixed(width, other_than=size[1])
        if wrong and (isinstance(height, int) or isinstance(width, int)):
            given = f"{size[1]}x{size[0]} pixels" if size else "photographs of any size"
            raise self._unfit(f"it takes images of {width}x{height} pixels, the spec feeds {given}")
        gray = np.full((*(size or spec.size or _PROBE_SIZE), 3), _MID_GRAY, dtype=np.uint8)
        return int(self._run_one(self._prepare(gray)).shape[1])

    def _unfit(self, what: str) -> EncoderError:
        return EncoderError(f"{self._file} and its spec do not fit: {what}")

    def _describe_pooling(self) -> str:
        spec = self._spec
        how = spec.pooling + (f" after {spec.prefix_tokens}" if spec.pooling == "patch mean" else "")
        return f"output {self._fetch!r}, {how}" + (", l2-normalised" if spec.normalise else "")


def _is_fixed(axis: Any, *, other_than: int) -> bool:
    return isinstance(axis, int) and axis != other_than  # axes of any size are strings or None


def _thread_count(threads: int | None) -> int:
    if threads is None:
        return processors()
    if threads < 1:
        raise UsageError(f"threads must be at least 1, got {threads}")
    return threads


def _libraries(onnxruntime: str) -> dict[str, str]:
    import PIL

    return {"numpy": np.__version__, "onnxruntime": onnxruntime, "pillow": PIL.__version__}
