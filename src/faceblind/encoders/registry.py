"""The encoders faceblind knows by name, and how to open one; each family's module lists its own."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from faceblind._errors import EncoderError
from faceblind.data.meta import Fingerprint
from faceblind.encoders import face_models, hub_models, sscd_models
from faceblind.encoders.encoder import Encoder
from faceblind.encoders.entry import EncoderInfo, Entry, OpenOptions
from faceblind.encoders.hub_models import HUB_PREFIX, open_any_checkpoint
from faceblind.encoders.onnx_encoder import OnnxEncoder
from faceblind.encoders.spec import PreprocessSpec

_FILE_PREFIX = "onnx:"
_SPEC_PART = "?spec="

_ANY_FILE = EncoderInfo(
    name="onnx:FILE",
    dim=None,
    licence="that of your file",
    how_to_get="an exported encoder model.onnx and its preprocessing in model.json beside it, "
    "or onnx:model.onnx?spec=OTHER.json",
    family="Your own",
)


def encoders() -> tuple[EncoderInfo, ...]:
    """List the encoders that `open_encoder` knows."""
    return (*(entry.info for entry in _entries().values()), hub_models.ANY_CHECKPOINT, _ANY_FILE)


def open_encoder(
    name: str,
    *,
    threads: int | None = None,
    device: str = "cpu",
    precision: str = "float32",
    weights: str | Path | None = None,
    detector: str | None = None,
    face: str | None = None,
) -> Encoder:
    """Open an encoder by name.

    Parameters
    ----------
    name
        One that `encoders` lists, e.g. ``"clip-vit-b32-openai"``; ``"hf:OWNER/NAME"`` or ``"hf:FOLDER"`` for another
        checkpoint of the same architectures; ``"onnx:FILE"`` for an exported encoder with its `PreprocessSpec` in a
        JSON file of the same name (``model.onnx``, ``model.json``) or in the one named by
        ``"onnx:FILE?spec=SPEC.json"``.
    threads
        Threads of the encoder on the CPU; all cores this process may use when missing.
    device
        ``"cpu"``, ``"cuda"`` or ``"cuda:N"``.
    precision
        Arithmetic of encoders that torch runs: ``"float32"``, ``"bfloat16"`` or, on a GPU, ``"float16"``. Vectors of
        different precision have different fingerprints.
    weights
        Your file or folder of weights, in place of where they are found otherwise.
    detector, face
        Of face recognition encoders: what finds faces, and which of several faces counts (`OpenOptions`).

    Raises
    ------
    EncoderError
        No such encoder, its weights are not to be had, they are not what the name promises, or the device is not
        there; says what to do.
    MissingExtraError
        A package that the encoder needs is not installed.
    UsageError
        An option has no such value, or this encoder does not have it.
    """
    options = OpenOptions(
        threads=threads,
        device=device,
        precision=precision,
        weights=None if weights is None else Path(weights).expanduser().absolute(),
        detector=detector,
        face=face,
    )
    known = _entries()
    if name in known:
        encoder = known[name].open(options)
    elif name.startswith(HUB_PREFIX):
        encoder = open_any_checkpoint(name, options)
    elif name.startswith(_FILE_PREFIX):
        encoder = _open_file(name, options)
    else:
        raise EncoderError(f"no encoder {name!r}; {_did_you_mean(name)}")
    encoder._recipe = (reopen, (_from_anywhere(name), vars(options), encoder.fingerprint))  # noqa: SLF001 (the registry's own mark)
    return encoder


def reopen(name: str, options: Mapping[str, Any], fingerprint: Fingerprint) -> Encoder:
    """Open an encoder again, in another process perhaps.

    Raises
    ------
    EncoderError
        It cannot be opened here, or its weights or preprocessing are not the same here.
    """
    made = open_encoder(name, **options)
    differing = made.fingerprint.differs_from(fingerprint)
    if differing:
        raise EncoderError(
            f"encoder {name!r} is not the same here as where it was first opened ({'; '.join(differing)}): "
            "give every process the same weights"
        )
    return made


def _entries() -> dict[str, Entry]:
    return {entry.info.name: entry for entry in (*sscd_models.ENTRIES, *hub_models.ENTRIES, *face_models.ENTRIES)}


def _open_file(name: str, options: OpenOptions) -> OnnxEncoder:
    options.allow(name, "threads", "device")
    file, spec = _parse_file(name)
    if not file.is_file():
        raise EncoderError(f"no such encoder file: {file}")
    return OnnxEncoder(file, PreprocessSpec.load(spec), threads=options.threads, device=options.device)


def _parse_file(name: str) -> tuple[Path, Path]:
    file_text, _, spec_text = name.removeprefix(_FILE_PREFIX).partition(_SPEC_PART)
    if not file_text or (_SPEC_PART in name and not spec_text):
        raise EncoderError(f"{name!r} names no file; write onnx:model.onnx or onnx:model.onnx?spec=spec.json")
    file = Path(file_text)
    return file, Path(spec_text) if spec_text else file.with_suffix(".json")


def _from_anywhere(name: str) -> str:
    """Rewrite paths in a name so that they hold in a process with another working folder."""
    if name.startswith(_FILE_PREFIX):
        file, spec = (path.absolute() for path in _parse_file(name))
        return f"{_FILE_PREFIX}{file}{_SPEC_PART}{spec}"
    if name.startswith(HUB_PREFIX):
        folder = Path(name.removeprefix(HUB_PREFIX)).expanduser()
        return f"{HUB_PREFIX}{folder.absolute()}" if folder.exists() else name
    return name


def _did_you_mean(name: str) -> str:
    if name.lower().endswith(".onnx"):
        return f"for a file write {_FILE_PREFIX}{name}"
    asked = name.lower().replace("_", "-")
    of_repository = {info.repository.lower(): info.name for info in encoders() if info.repository is not None}
    if name.lower() in of_repository:
        return f"did you mean {of_repository[name.lower()]!r}?"
    if "/" in name:
        return f"for a checkpoint on the hub or in a folder write {HUB_PREFIX}{name}"
    known = [info.name for info in encoders()]
    close = [each for each in known if asked and each.startswith(asked)]
    close = close or difflib.get_close_matches(asked, known, n=1)
    if close:
        return f"did you mean {' or '.join(repr(each) for each in close)}?"
    return "`faceblind encoders` lists those there are"
