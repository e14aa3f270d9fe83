"""What the registry knows of an encoder: what to tell about it and how to open it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

from faceblind._errors import UsageError
from faceblind.encoders.encoder import Encoder


@dataclass(frozen=True, kw_only=True)
class EncoderInfo:
    """An encoder that `open_encoder` can open."""

    name: str
    dim: int | None
    """Length of a vector; None when the file decides."""
    licence: str
    how_to_get: str
    """What to install or to have."""
    family: str = "Others"
    """Heading under which encoders of one origin are listed."""
    repository: str | None = None
    """Where the weights are on the model hub."""


@dataclass(frozen=True, kw_only=True)
class OpenOptions:
    """How an encoder is to be opened."""

    threads: int | None = None
    """Threads of the encoder on the CPU; all cores this process may use when missing."""
    device: str = "cpu"
    """``"cpu"``, ``"cuda"`` or ``"cuda:N"``."""
    precision: str = "float32"
    """Arithmetic of the network: ``"float32"``, ``"bfloat16"`` or ``"float16"``."""
    weights: Path | None = None
    """A file or folder that the user has, in place of where weights are found otherwise."""
    detector: str | None = None
    """Of face recognition: what finds the faces (`faceblind.faces.detectors.open_detector`), or ``"aligned"`` for
    photographs that are aligned chips already; the encoder's own way when missing."""
    face: str | None = None
    """Of face recognition: which of several faces (`faceblind.faces.detect.Choice`); ``"central"`` when missing."""

    def allow(self, name: str, *options: str) -> None:
        """Raise `UsageError` when an option is given that encoder `name` cannot follow; it only has `options`."""
        for option in fields(self):
            value = getattr(self, option.name)
            if option.name not in options and value != option.default:
                raise UsageError(f"encoder {name!r} takes no {option.name} (got {value}): leave it out")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A known encoder."""

    info: EncoderInfo
    open: Callable[[OpenOptions], Encoder]
    """Raises `EncoderError` or `MissingExtraError`, saying what to do."""
