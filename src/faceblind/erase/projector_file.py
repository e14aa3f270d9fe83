"""Projector files: safetensors with a JSON header and a digest over everything; never a pickle, never d x d."""

from __future__ import annotations

import json
from pathlib import Path

from faceblind._errors import ProjectorError
from faceblind._files import write_bytes
from faceblind.data.meta import METADATA_KEY, Fingerprint
from faceblind.erase.projector import FORMAT, Projector, digest_of
from faceblind.erase.rank import RankChoice


def write_projector(projector: Projector, path: str | Path) -> None:
    """Write a projector atomically; the same projector gives the same bytes."""
    from safetensors.numpy import save

    text = json.dumps({**projector.header(), "digest": projector.digest}, sort_keys=True)
    write_bytes(path, save(projector.tensors(), metadata={METADATA_KEY: text}))


def read_projector(path: str | Path) -> Projector:
    """Read a projector file.

    Raises
    ------
    ProjectorError
        The file is missing, truncated, altered or not a projector; the message says which.
    """
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    if not path.is_file():
        raise ProjectorError(f"no projector file at {path}")
    try:
        with safe_open(path, framework="numpy") as stream:
            text = (stream.metadata() or {}).get(METADATA_KEY)
            if text is None:  # before anything large is read
                raise ProjectorError(f"{path} is a safetensors file but not a faceblind projector")
            tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError) as error:
        raise ProjectorError(f"{path} cannot be read, is truncated or not a safetensors file: {error}") from error
    try:
        header = dict(json.loads(text))
        digest = header.pop("digest")
        if header["format"] != FORMAT:
            raise ProjectorError(f"{path} has format {header['format']!r}, this version reads {FORMAT!r}")
        if digest != digest_of(tensors, header):
            raise ProjectorError(f"{path} was altered or damaged: its digest does not match its content")
        encoder = header["encoder"]
        loaded = Projector.of(
            tensors["basis"],
            method=header["method"],
            choice=RankChoice.from_dict(header["choice"]),
            spectrum=tensors["spectrum"],
            encoder=Fingerprint.from_dict(encoder) if encoder else None,
            synthetic=header["synthetic"],
            compact_check=tensors["compact_check"],
            lift=tensors.get("lift"),
            mean=tensors.get("mean"),
            settings=dict(header.get("settings", {})),
            **header["fit"],
        )
        said = header.get("form", "orthogonal")
        if said != loaded.form:
            raise ProjectorError(
                f"{path} says that its map is {said}, but its tensors are those of an {loaded.form} one"
            )
        loaded.check_complement(tensors["compact_check"], path)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        if isinstance(error, ProjectorError):
            raise
        raise ProjectorError(f"{path} has a damaged header: {error!r}") from error
    return loaded
