"""What the detector networks have in common: the photograph on a canvas, and the faces back in its pixels."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import DataError, EncoderError, ImageError, MissingExtraError, UsageError
from faceblind._onnx_graph import Graph, read_graph, without_sizes
from faceblind._onnxruntime import Session
from faceblind.faces.boxes import suppress
from faceblind.faces.detect import Face

MAX_SIDE = 640
"""Photographs are shrunk so that no side is longer, the size these networks were trained at; never enlarged."""

_MULTIPLE = 32
_SMALLEST = 16
_AGAIN = 3  # a face that fills the frame is larger than any these networks learnt: look again at a third of the size


@dataclass(frozen=True, eq=False)
class Candidates:
    """What a network says before overlapping boxes are removed, in pixels of its canvas."""

    boxes: NDArray[np.float64]
    """(n, 4): left, top, right, bottom."""
    scores: NDArray[np.float64]
    """(n,)."""
    points: NDArray[np.float64]
    """(n, 5, 2)."""


class NetworkDetector(ABC):
    """A detector that is an ONNX file; sub-classes know how to feed and read theirs.

    The photograph is put at the top left of a black canvas whose sides are multiples of 32. Where no face is found, it is
    looked at again at a third of its size.

    Parameters
    ----------
    file
        The network.
    threshold
        Least score of a face, above 0 and below 1.
    overlap
        Intersection over union above which two boxes are one face.
    max_side
        Longest side, in pixels, that the network sees.
    sha256
        Refuse a file with another hash.

    Raises
    ------
    EncoderError
        The file is missing, damaged or another one, or is not of this kind; found out here by running it once.
    MissingExtraError
        onnxruntime is not installed.
    UsageError
        A number out of range.
    """

    name: str

    def __init__(
        self,
        file: str | Path,
        *,
        threshold: float = 0.5,
        overlap: float = 0.4,
        max_side: int = MAX_SIDE,
        sha256: str | None = None,
    ) -> None:
        for what, value in (("threshold", threshold), ("overlap", overlap)):
            if not 0 < value < 1:
                raise UsageError(f"{what} must lie between 0 and 1, got {value}")
        if max_side < _MULTIPLE:
            raise UsageError(f"max_side must be at least {_MULTIPLE} pixels, got {max_side}")
        self._file, self._threshold, self._overlap = Path(file), threshold, overlap
        data = self._read()
        self._sha256 = hashlib.sha256(data).hexdigest()
        if sha256 not in {None, self._sha256}:
            raise EncoderError(
                f"{file} is damaged or another version: its SHA-256 is {self._sha256}, {self.name} has {sha256}"
            )
        try:
            graph = read_graph(data)
            freed = without_sizes(data) if self.any_size else data
        except ValueError as error:
            raise EncoderError(f"{file} is not a whole ONNX file ({error}): download it again") from error
        if len(graph.inputs) != 1 or len(graph.inputs[0].shape) != 4 or graph.inputs[0].shape[1] not in {3, None}:
            raise self.unfit("it must have one input of the shape (1, 3, height, width)")
        if not self.any_size and graph.inputs[0].shape[0] not in {1, None}:
            raise self.unfit(f"it takes {graph.inputs[0].shape[0]} photographs at a time, not one")
        self._feed = graph.inputs[0].name
        self._canvas = self._fixed_canvas(graph)
        self._max_side = max_side if self._canvas is None else max(self._canvas)
        self._session = Session(self._file, data=freed, extra="faces", purpose="finding faces")
        self._candidates(np.zeros((*(self._canvas or (2 * _MULTIPLE, 2 * _MULTIPLE)), 3), dtype=np.uint8))

    any_size = False
    """Whether the network takes every size although its file may say otherwise."""

    @abstractmethod
    def feed(self, canvas: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Turn an RGB canvas (h, w, 3) into the network's (1, 3, h, w)."""

    @abstractmethod
    def read(self, outputs: list[NDArray[np.float32]], shape: tuple[int, int]) -> Candidates:
        """Read the network's outputs for a canvas of a (height, width); raises `EncoderError` if they are not such."""

    def detect(self, image: NDArray[np.uint8]) -> list[Face]:
        """Find the faces of a (H, W, 3) uint8 RGB photograph, the best score first.

        Raises
        ------
        DataError
            The array is not such.
        ImageError
            It is too small to hold a face, or so narrow that nothing is left of it.
        """
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
            raise DataError(f"an image must be (height, width, 3) uint8, got {image.dtype} of shape {image.shape}")
        if min(image.shape[:2]) < _SMALLEST:
            raise ImageError(f"{image.shape[1]}x{image.shape[0]} pixels is too small to look for faces")
        found, scale = self._look(image, self._max_side)
        if not found.scores.size:
            found, scale = self._look(image, max(_MULTIPLE, min(self._max_side, max(image.shape[:2])) // _AGAIN))
        keep = suppress(found.boxes, found.scores, overlap=self._overlap)
        # From pixel centres on the canvas, where the networks' authors take their numbers to be, to the photograph's.
        boxes = (found.boxes[keep].reshape(-1, 2, 2) + 0.5) / scale - 0.5
        points = (found.points[keep] + 0.5) / scale - 0.5
        return [
            Face(box=(float(box[0, 0]), float(box[0, 1]), float(box[1, 0]), float(box[1, 1])), score=float(s), points=p)
            for box, s, p in zip(boxes, found.scores[keep], points, strict=True)
        ]

    def facts(self) -> dict[str, Any]:
        """Return what decides the faces, as JSON types."""
        return {
            "canvas": None if self._canvas is None else list(self._canvas),
            "max_side": self._max_side,
            "none_found": f"again at 1/{_AGAIN}",
            "name": self.name,
            "overlap": self._overlap,
            "sha256": self._sha256,
            "threshold": self._threshold,
        }

    def unfit(self, what: str) -> EncoderError:
        """Return the error for a file that is not of this kind."""
        return EncoderError(f"{self._file} is no {self.name} network: {what}")

    def _read(self) -> bytes:
        try:
            return self._file.read_bytes()
        except OSError as error:
            raise EncoderError(f"cannot read the detector file {self._file}: {error.strerror}") from error

    def _fixed_canvas(self, graph: Graph) -> tuple[int, int] | None:
        height, width = graph.inputs[0].shape[2:]
        if self.any_size or height is None or width is None:
            return None
        return height, width

    def _candidates(self, canvas: NDArray[np.uint8]) -> Candidates:
        outputs = self._session.run({self._feed: self.feed(canvas)})
        found = self.read(outputs, (canvas.shape[0], canvas.shape[1]))
        keep = found.scores >= self._threshold
        keep &= np.isfinite(found.boxes).all(axis=1) & np.isfinite(found.points).all(axis=(1, 2))
        return Candidates(found.boxes[keep], found.scores[keep], found.points[keep])

    def _look(self, image: NDArray[np.uint8], side: int) -> tuple[Candidates, NDArray[np.float64]]:
        canvas, scale = self._on_canvas(image, side)
        return self._candidates(canvas), scale

    def _on_canvas(self, image: NDArray[np.uint8], side: int) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
        """Return the canvas, and how much smaller it shows the photograph (x, y): no side longer than `side`."""
        height, width = image.shape[:2]
        room = (side, side) if self._canvas is None else (min(side, self._canvas[0]), min(side, self._canvas[1]))
        scale = min(1.0, room[0] / height, room[1] / width)
        small = image
        if scale < 1.0:
            try:
                from PIL import Image
            except ImportError as error:
                raise MissingExtraError("pillow", "faces", "finding faces") from error
            size = (max(1, round(width * scale)), max(1, round(height * scale)))
            small = np.asarray(Image.fromarray(image).resize(size, Image.Resampling.BILINEAR))
        shape = self._canvas or tuple(-(-side // _MULTIPLE) * _MULTIPLE for side in small.shape[:2])
        canvas = np.zeros((*shape, 3), dtype=np.uint8)
        canvas[: small.shape[0], : small.shape[1]] = small
        return canvas, np.array([small.shape[1] / width, small.shape[0] / height])
